"""Encoder models of the libraries that hold them: open_clip, timm, transformers. Local weights only.

Shapes: N pictures or texts, D values of a vector, T tokens, C channels, H height, W width.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from mmrl.config.encoder_section import EncoderSection
from mmrl.errors import ConfigError, did_you_mean, one_line
from mmrl.models.hub import without_progress_bars
from mmrl.scoring.encoders import EncoderModel, Reads

_BOTH: frozenset[Reads] = frozenset(("pictures", "texts"))
_WINDOW = 254
"""Tokens of one window of a sentence encoder beside its two marks: sentence encoders were trained on 256."""


def load_model(section: EncoderSection) -> EncoderModel:
    """The model of a section whose weights are there. ConfigError for weights that do not fit, and for no device."""
    _check_device(section.device)
    if section.image_size is not None and section.kind != "timm":
        raise ConfigError(f"image_size is of kind 'timm'; one of kind {section.kind!r} knows its own; remove it")
    with _as_config_error(section), without_progress_bars():
        return _LOADERS[section.kind](section)


def _pretrained(section: EncoderSection, *, unused: str | None = None) -> Any:
    """The model of a folder of transformers, whose weights must be complete: the library would draw what is missing.

    unused: beginning of the names of weights that are not used here, and may be missing.
    """
    from transformers import AutoModel

    model, report = AutoModel.from_pretrained(section.weights, local_files_only=True, output_loading_info=True)
    missing = sorted(name for name in report["missing_keys"] if unused is None or not name.startswith(unused))
    if missing:
        raise ConfigError(
            f"{section.weights} lacks {len(missing)} weights of the model in its config.json (the first: "
            f"{missing[0]}); copy the files of one model"
        )
    return model


def _check_device(name: str) -> None:
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = one_line(str(error).partition("\n")[0])
        raise ConfigError(f"device {name!r} cannot be used: {reason}; use cpu, or a device this machine has") from error


@contextmanager
def _as_config_error(section: EncoderSection):
    """What a library says about a folder or file that it cannot load; the user's weights are at fault."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, ImportError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = one_line(f"{type(error).__name__}: {error}")[:300]
        raise ConfigError(f"{section.weights} cannot be loaded as {section.kind!r}: {reason}") from error


class _Base:
    """Weights on their device, and what every kind shares."""

    reads: frozenset[Reads]

    def __init__(self, model: Any, section: EncoderSection) -> None:
        self.dtype = getattr(torch, section.dtype)
        self.device = section.device
        self.net = model.to(device=section.device, dtype=self.dtype).eval().requires_grad_(False)

    def pictures(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        raise ConfigError("this encoder reads no pictures")

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        raise ConfigError("this encoder reads no texts")

    def is_too_long(self, text: str) -> bool:
        return False

    def layers(self, pictures: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        raise ConfigError("only an encoder of kind 'timm' shows its layers; use one for `measure: layers`")

    def to_device(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.to(device=self.device, dtype=self.dtype)


class OpenClipModel(_Base):
    """A CLIP or SigLIP of open_clip, with its own transform and tokenizer."""

    reads = _BOTH

    def __init__(self, section: EncoderSection) -> None:
        import open_clip

        path = Path(section.weights)
        name = f"local-dir:{path}" if path.is_dir() else section.model
        if not path.is_dir() and section.model not in open_clip.list_models():
            hint = did_you_mean(section.model, open_clip.list_models())
            raise ConfigError(f"model {section.model!r} is no architecture of open_clip{hint}")
        weights = None if path.is_dir() else str(path)
        loaded: Any = open_clip.create_model_from_pretrained(name, pretrained=weights)
        self._transform: Any = loaded[1]
        self._tokenizer: Any = open_clip.get_tokenizer(name)
        super().__init__(loaded[0], section)

    def pictures(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        pixels = torch.stack([self._transform(Image.fromarray(picture)) for picture in pictures])
        with torch.inference_mode():
            return _numbers(self.net.encode_image(self.to_device(pixels)))

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        with torch.inference_mode():
            return _numbers(self.net.encode_text(self._tokenizer(list(texts)).to(self.device)))

    def is_too_long(self, text: str) -> bool:
        inner = getattr(self._tokenizer, "tokenizer", None)  # a tokenizer of transformers, with its special tokens
        count = len(inner(text)["input_ids"]) if inner is not None else len(self._tokenizer.encode(text)) + 2
        return count > self._tokenizer.context_length


class TimmModel(_Base):
    """An image model of timm without its classifier: DINOv2 and any other."""

    reads: frozenset[Reads] = frozenset(("pictures",))

    def __init__(self, section: EncoderSection) -> None:
        import timm
        from timm.data import create_transform, resolve_model_data_config

        if not timm.is_model(section.model):
            hint = did_you_mean(section.model, timm.list_models())
            raise ConfigError(f"model {section.model!r} is no architecture of timm{hint}")
        model = timm.create_model(section.model, pretrained=False, num_classes=0)
        _load_timm(model, section)
        size = section.image_size
        if size is not None:
            _see_pictures_at(model, size, section)
        seen = resolve_model_data_config(model, args={"img_size": size})
        self._transform: Any = create_transform(**seen, is_training=False)
        super().__init__(model, section)

    def pictures(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        with torch.inference_mode():
            return _numbers(self.net(self._pixels(pictures)))

    def layers(self, pictures: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        with torch.inference_mode():
            stages = self.net.forward_intermediates(self._pixels(pictures), intermediates_only=True)
        return [[_numbers(stage[n]) for stage in stages] for n in range(len(pictures))]

    def _pixels(self, pictures: Sequence[np.ndarray]) -> torch.Tensor:
        return self.to_device(torch.stack([self._transform(Image.fromarray(picture)) for picture in pictures]))


def _see_pictures_at(model: Any, size: int, section: EncoderSection) -> None:
    """Fit a vision transformer's places to squares of a size; a convolutional network takes any."""
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", (1, 1))
    if any(size % side for side in patch):
        raise ConfigError(f"image_size {size} is no multiple of {patch[0]}, the patch of {section.model!r}")
    if hasattr(model, "set_input_size"):
        model.set_input_size(img_size=(size, size))


def _load_timm(model: torch.nn.Module, section: EncoderSection) -> None:
    """All weights from a file, a classifier's left aside. ConfigError for a file that lacks some or has others."""
    from timm.models import load_state_dict

    found = load_state_dict(section.weights, use_ema=False, weights_only=True)
    rename = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if rename is not None:
        found = rename(found, model)
    classifier = getattr(model, "pretrained_cfg", {}).get("classifier") or ()
    heads = tuple(f"{name}." for name in ((classifier,) if isinstance(classifier, str) else classifier))
    result = model.load_state_dict({k: v for k, v in found.items() if not k.startswith(heads or ("\0",))}, strict=False)
    if result.missing_keys or result.unexpected_keys:
        wrong = (result.missing_keys or result.unexpected_keys)[0]
        fact = f"lacks {len(result.missing_keys)} weights and has {len(result.unexpected_keys)} others"
        raise ConfigError(
            f"{section.weights} {fact} than {section.model!r} (the first: {wrong}); name its architecture"
        )


class TransformersModel(_Base):
    """A folder of transformers: CLIP or SigLIP (pictures and texts), or an image model (DINOv2: its first token)."""

    def __init__(self, section: EncoderSection) -> None:
        from transformers import AutoImageProcessor, AutoProcessor

        model = _pretrained(section)
        both = hasattr(model, "get_text_features")
        self.reads = _BOTH if both else frozenset(("pictures",))
        kind = AutoProcessor if both else AutoImageProcessor
        self._processor: Any = kind.from_pretrained(section.weights, local_files_only=True)
        self._most_tokens = model.config.text_config.max_position_embeddings if both else 0
        self._is_siglip = model.config.model_type.startswith("siglip")
        super().__init__(model, section)

    def pictures(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        images = [Image.fromarray(picture) for picture in pictures]
        inputs = self._processor(images=images, return_tensors="pt").to(self.device)
        inputs["pixel_values"] = self.to_device(inputs["pixel_values"])
        with torch.inference_mode():
            if "texts" in self.reads:
                return _numbers(_pooled(self.net.get_image_features(**inputs)))
            return _numbers(_pooled(self.net(**inputs)))

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        # SigLIP was trained on texts padded to the full length, the padding seen; for CLIP it changes nothing.
        inputs = self._processor(
            text=list(texts),
            padding="max_length",
            truncation=True,
            max_length=self._most_tokens,
            return_tensors="pt",
        )
        if self._is_siglip:
            inputs.pop("attention_mask", None)
        with torch.inference_mode():
            return _numbers(_pooled(self.net.get_text_features(**inputs.to(self.device))))

    def is_too_long(self, text: str) -> bool:
        return len(self._processor.tokenizer(text)["input_ids"]) > self._most_tokens


def _pooled(output: Any) -> torch.Tensor:
    """One vector a row, from whatever form the library returns."""
    if isinstance(output, torch.Tensor):
        return output
    pooled = getattr(output, "pooler_output", None)
    return output.last_hidden_state[:, 0] if pooled is None else pooled


class SentenceModel(_Base):
    """A text encoder by the mean of its last layer's tokens, as sentence-transformers' MiniLM and MPNet are read.

    A text above the window is read in several windows, and all its tokens enter the mean: nothing is cut.
    """

    reads: frozenset[Reads] = frozenset(("texts",))

    def __init__(self, section: EncoderSection) -> None:
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(section.weights, local_files_only=True)
        self._batch = section.batch_size
        model = _pretrained(section, unused="pooler.")
        self._window = min(_WINDOW, model.config.max_position_embeddings - 4)
        super().__init__(model, section)

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        windows = [(n, window) for n, text in enumerate(texts) for window in self._windows(text)]
        sums: dict[int, torch.Tensor] = {}
        counts: dict[int, float] = {}
        for start in range(0, len(windows), self._batch):
            part = windows[start : start + self._batch]
            for (n, window), summed in zip(part, self._sums([w for _, w in part]), strict=True):
                sums[n] = sums.get(n, torch.zeros_like(summed)) + summed
                counts[n] = counts.get(n, 0.0) + len(window)
        return np.stack([_numbers(sums[n] / counts[n]) for n in range(len(texts))])

    def _windows(self, text: str) -> list[list[int]]:
        ids = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        parts = [ids[start : start + self._window] for start in range(0, len(ids), self._window)] or [[]]
        tokens = self._tokenizer
        starts = [t for t in (tokens.cls_token_id,) if t is not None]
        ends = [t for t in (tokens.sep_token_id,) if t is not None]
        return [[*starts, *part, *ends] for part in parts]

    def _sums(self, windows: Sequence[list[int]]) -> torch.Tensor:
        """(N, D): per window the sum of its tokens' vectors."""
        width = max(len(window) for window in windows)
        ids_NT = torch.zeros((len(windows), width), dtype=torch.long)
        mask_NT = torch.zeros_like(ids_NT)
        for n, window in enumerate(windows):
            ids_NT[n, : len(window)] = torch.tensor(window)
            mask_NT[n, : len(window)] = 1
        with torch.inference_mode():
            hidden_NTD = self.net(
                input_ids=ids_NT.to(self.device), attention_mask=mask_NT.to(self.device)
            ).last_hidden_state
        return (hidden_NTD.float() * mask_NT.to(self.device)[..., None]).sum(dim=1).cpu()


def _numbers(values: torch.Tensor) -> np.ndarray:
    return values.float().cpu().numpy()


_LOADERS: dict[str, Callable[[EncoderSection], EncoderModel]] = {
    "open_clip": OpenClipModel,
    "timm": TimmModel,
    "transformers": TransformersModel,
    "sentence": SentenceModel,
}
