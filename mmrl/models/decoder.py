"""The one call of the language model that training and rollout share.

Positions and masks are always given: transformers' own rule for clips differs from the families' reference rule.

Shape letters: B rows, T query tokens, K key tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from mmrl.algorithms.batch import Attention
from mmrl.algorithms.tree import Forest
from mmrl.models.attention import attention_way, mask_of
from mmrl.models.families import FAMILIES
from mmrl.models.tree_attention import Window


@dataclass(frozen=True, slots=True)
class DecoderInputs:
    """Tokens to run, on any device.

    mask_B1TK: True where a query may see a key; None: plain causal. forest: in its place, who sees whom in packed
        rows; attention: by what then.
    encoder_outputs: vision features in the order of the placeholder ids, see `mmrl.models.encode.gather_features`.
    recorder: gets the keys and values of each layer, by the `update` of transformers' caches.
    """

    ids_BT: torch.Tensor
    positions_3BT: torch.Tensor
    mask_B1TK: torch.Tensor | None = None
    encoder_outputs: dict[str, Any] | None = None
    recorder: Any = None
    forest: Forest | None = None
    attention: Attention = "auto"


def run_decoder(model: Any, inputs: DecoderInputs) -> Any:
    """Embed, put the vision features in place, run all layers: `.last_hidden_state` (B, T, D)."""
    device = model.lm_head.weight.device
    positions_3BT = inputs.positions_3BT.to(device)
    family = FAMILIES[model.config.model_type]
    return model.model(
        input_ids=inputs.ids_BT.to(device),
        position_ids=positions_3BT if family.position_axes == 3 else positions_3BT[0],
        attention_mask=_masks(model, inputs, windowed=family.attention == "window"),
        mm_encoder_outputs=inputs.encoder_outputs,
        past_key_values=inputs.recorder,
        use_cache=False,
    )


def decoder_of(model: Any) -> Any:
    """The language model without its head."""
    return getattr(model.model, "language_model", None) or model.model.text_model


def _masks(model: Any, inputs: DecoderInputs, *, windowed: bool) -> Any:
    """What the model takes as its mask: one for all layers, or one for each kind of layer."""
    device, forest, mask = model.lm_head.weight.device, inputs.forest, inputs.mask_B1TK
    if forest is not None and forest.is_causal and not windowed:
        return None
    if forest is not None:
        way = attention_way(inputs.attention, model, device)
        if way != "sdpa" and not windowed:
            return mask_of(forest, way, device=device)
        if way != "sdpa":
            windows = _windows(model, inputs, forest)
            return {name: mask_of(forest, way, device=device, window=one) for name, one in windows.items()}
        mask = forest.dense_mask()
    if windowed:
        masks = _windowed_masks(model, replace(inputs, mask_B1TK=mask))
        return {name: _as_read(model, one) for name, one in masks.items()}
    return None if mask is None else _as_read(model, mask.to(device))


def _windows(model: Any, inputs: DecoderInputs, forest: Forest) -> dict[str, Window]:
    """By kind of layer, for families of attention `window`: what `_windowed_masks` says, without masks."""
    positions_N = inputs.positions_3BT[0].flatten().cpu()
    is_picture_N = inputs.ids_BT.flatten().cpu() == model.config.image_token_id
    segment_N = forest.segment_N
    begins_N = is_picture_N.clone()
    begins_N[1:] &= ~is_picture_N[:-1] | (segment_N[1:] != segment_N[:-1])
    pictures_N = begins_N.long().cumsum(0) * is_picture_N
    sizes = {"full_attention": None, "sliding_attention": model.config.get_text_config().sliding_window}
    return {name: Window(positions_N, pictures_N, size) for name, size in sizes.items()}


def _as_read(model: Any, mask_B1TK: torch.Tensor) -> torch.Tensor:
    """The mask as the attention implementation reads it: boolean for SDPA, added to the scores by eager."""
    if model.config._attn_implementation == "sdpa":
        return mask_B1TK
    weight = model.lm_head.weight
    scores = torch.zeros(mask_B1TK.shape, dtype=weight.dtype, device=weight.device)
    return scores.masked_fill(~mask_B1TK, torch.finfo(weight.dtype).min)


def _windowed_masks(model: Any, inputs: DecoderInputs) -> dict[str, torch.Tensor]:
    """Masks (B, 1, T, K) by kind of layer, for families of attention `window`.

    Distances are those of positions: completions that share a prompt all follow it at once.
    """
    device = model.lm_head.weight.device
    ids_BT, position_BT = inputs.ids_BT.to(device), inputs.positions_3BT[0].to(device)
    length = ids_BT.shape[1]
    mask_BTT = torch.ones(length, length, dtype=torch.bool, device=device).tril()[None]
    if inputs.mask_B1TK is not None:
        mask_BTT = inputs.mask_B1TK[:, 0].to(device)
    mask_BTT = mask_BTT | _same_picture(ids_BT == model.config.image_token_id)
    window = model.config.get_text_config().sliding_window
    near_BTT = position_BT[:, None] > position_BT[:, :, None] - window
    return {"full_attention": mask_BTT[:, None], "sliding_attention": (mask_BTT & near_BTT)[:, None]}


def _same_picture(is_picture_BT: torch.Tensor) -> torch.Tensor:
    """(B, T, T): both tokens are of one unbroken run of picture tokens."""
    before_BT = torch.nn.functional.pad(is_picture_BT, (1, 0))[:, :-1]
    number_BT = (is_picture_BT & ~before_BT).long().cumsum(-1)
    same_BTT = number_BT[:, :, None] == number_BT[:, None]
    return same_BTT & is_picture_BT[:, :, None] & is_picture_BT[:, None]
