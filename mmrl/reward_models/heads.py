"""What is trained: small heads on vectors of frozen encoders.

Shapes: B clips, F frames, I intervals (F - 1), D values of a picture's vector, E of a text's, H hidden, M members.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import nn

from mmrl.reward_models.config import RewardModelConfig


class _Head(nn.Module):
    """What every head knows of its inputs. text_width: 0 where it is given no text."""

    def __init__(self, picture_width: int, text_width: int) -> None:
        super().__init__()
        self.picture_width, self.text_width = picture_width, text_width


class ProgressHead(_Head):
    """ReWiND's: text and frames through a transformer, progress 0 to 1 at every frame.

    A frame sees the text, the first frame, which is marked as such, and itself: what its target depends on. Seeing all
    frames before it, as in ReWiND, or with places, a head counts them instead of looking.
    """

    def __init__(self, *, picture_width: int, text_width: int, config: RewardModelConfig) -> None:
        super().__init__(picture_width, text_width)
        hidden = config.head.hidden
        self.frame_in = _inlet(picture_width, hidden)
        self.text_in = _inlet(text_width, hidden) if text_width else None
        self.no_text_H = nn.Parameter(torch.zeros(hidden))
        self.first_H = nn.Parameter(torch.zeros(hidden))
        self.layers = _transformer(config)
        self.out = nn.Linear(hidden, 1)

    def forward(self, frames_BFD: torch.Tensor, text_BE: torch.Tensor | None) -> torch.Tensor:
        """(B, F): progress at each frame since the first one."""
        hidden_BFH = self.frame_in(frames_BFD)
        hidden_BFH = torch.cat([hidden_BFH[:, :1] + self.first_H, hidden_BFH[:, 1:]], dim=1)
        text_BH = self.no_text_H.expand(len(hidden_BFH), -1)
        if self.text_in is not None:
            assert text_BE is not None
            text_BH = self.text_in(text_BE)
        sequence = torch.cat([text_BH[:, None], hidden_BFH], dim=1)
        hidden_from = ~torch.eye(sequence.shape[1], dtype=torch.bool, device=sequence.device)
        hidden_from[1:, :2] = False  # text and first frame
        return torch.sigmoid(self.out(self.layers(sequence, mask=hidden_from)[:, 1:])).squeeze(-1)


class TriStateHead(_Head):
    """ARM's: a window of frames through a transformer; a state of every interval, and completion at the last frame."""

    def __init__(self, *, picture_width: int, text_width: int, config: RewardModelConfig) -> None:
        super().__init__(picture_width, text_width)
        hidden = config.head.hidden
        self.frame_in = _inlet(picture_width, hidden)
        self.text_in = _inlet(text_width, hidden) if text_width else None
        self.places_FH = nn.Parameter(torch.randn(config.window, hidden) * 0.02)
        self.layers = _transformer(config)
        self.interval = nn.Linear(2 * hidden, 3)
        self.completion = nn.Linear(hidden, 1)

    def forward(self, frames_BFD: torch.Tensor, text_BE: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, I, 3) of the states -1, 0, +1, and (B,) of completion."""
        hidden_BFH = self.frame_in(frames_BFD) + self.places_FH
        if self.text_in is not None:
            assert text_BE is not None
            hidden_BFH = hidden_BFH + self.text_in(text_BE)[:, None]
        hidden_BFH = self.layers(hidden_BFH)
        pairs = torch.cat([hidden_BFH[:, :-1], hidden_BFH[:, 1:]], dim=-1)
        return self.interval(pairs), self.completion(hidden_BFH[:, -1]).squeeze(-1)


class PreferenceHead(_Head):
    """RL-VLM-F's: several small networks, each a reward of a picture between -1 and 1."""

    def __init__(self, *, picture_width: int, text_width: int, config: RewardModelConfig) -> None:
        super().__init__(picture_width, text_width)
        self.members = nn.ModuleList(
            _network(picture_width + text_width, config.head.hidden, config.depth) for _ in range(config.head.members)
        )

    def forward(self, frames_BFD: torch.Tensor, text_BE: torch.Tensor | None) -> torch.Tensor:
        """(M, B, F): the reward of every frame by every member."""
        inputs = frames_BFD
        if text_BE is not None:
            inputs = torch.cat([frames_BFD, text_BE[:, None].expand(-1, frames_BFD.shape[1], -1)], dim=-1)
        return torch.stack([torch.tanh(member(inputs)).squeeze(-1) for member in self.members])


Head = ProgressHead | TriStateHead | PreferenceHead
_HEADS = {"progress": ProgressHead, "tri_state": TriStateHead, "preference": PreferenceHead}


def make_head(config: RewardModelConfig, *, picture_width: int, text_width: int) -> Head:
    """A head of the configured kind with first weights drawn from torch's generator."""
    return _HEADS[config.kind](picture_width=picture_width, text_width=text_width, config=config)


class _Scaled(nn.Module):
    """Unit vectors at a mean square of 1, which layers expect."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return vectors * math.sqrt(vectors.shape[-1])


def _inlet(width: int, hidden: int) -> nn.Module:
    return nn.Sequential(_Scaled(), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden))


def _transformer(config: RewardModelConfig) -> nn.TransformerEncoder:
    head = config.head
    layer = nn.TransformerEncoderLayer(
        head.hidden, head.heads, 4 * head.hidden, head.dropout, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, config.depth, nn.LayerNorm(head.hidden), enable_nested_tensor=False)


def _network(width: int, hidden: int, depth: int) -> nn.Module:
    widths = [width, *[hidden] * depth]
    layers = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.LeakyReLU())]
    return nn.Sequential(_Scaled(), *layers, nn.Linear(hidden, 1))
