"""Widths and depths of a model, read from its configuration: all that activations and caches are computed from.

`read_shapes` knows the layers of the families in mmrl/models. Of another layer it says so, and nothing is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Mlp = Literal["gated", "plain", "quick"]
Norm = Literal["rms", "layer"]

TEXT_MODELS: Mapping[str, Mapping[str, Any]] = {
    "qwen2": {},
    "qwen2_vl_text": {},
    "qwen2_5_vl_text": {},
    "qwen3": {"qk_norm": True},
    "qwen3_vl_text": {"qk_norm": True},
    "llama": {},
    "gemma3_text": {"qk_norm": True, "post_norms": True},
}
"""`model_type` of a language model -> what its layer has beside norm, attention, norm and gated MLP."""

VISION_MODELS: Mapping[str, Mapping[str, Any]] = {
    "qwen2_vl_vision": {"norm": "layer", "mlp": "quick", "fused_qkv": True, "split": True},
    "qwen2_vl": {"norm": "layer", "mlp": "quick", "fused_qkv": True, "split": True},
    "qwen2_5_vl_vision": {"norm": "rms", "mlp": "gated", "fused_qkv": True, "split": True},
    "qwen2_5_vl": {"norm": "rms", "mlp": "gated", "fused_qkv": True, "split": True},
    "qwen3_vl_vision": {"norm": "layer", "mlp": "plain", "fused_qkv": True, "split": True},
    "qwen3_vl": {"norm": "layer", "mlp": "plain", "fused_qkv": True, "split": True},
    "siglip_vision_model": {"norm": "layer", "mlp": "plain"},
    "idefics3_vision": {"norm": "layer", "mlp": "plain"},
    "smolvlm_vision": {"norm": "layer", "mlp": "plain"},
    "internvl_vision": {"norm": "layer", "mlp": "plain", "layer_scale": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """One transformer layer. Widths: hidden D, query Q (heads x head width), keyvalue K, inner I of the MLP.

    qk_norm: queries and keys are normalised. post_norms: so are the outputs of attention and MLP. fused_qkv: queries,
    keys and values come from one linear map. split: attention runs over parts whose outputs are put together.
    layer_scale: outputs are scaled before they are added.
    """

    hidden: int
    query: int
    keyvalue: int
    inner: int
    heads: int
    norm: Norm = "rms"
    mlp: Mlp = "gated"
    qk_norm: bool = False
    post_norms: bool = False
    fused_qkv: bool = False
    split: bool = False
    layer_scale: bool = False

    @property
    def head_width(self) -> int:
        return self.query // self.heads


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShape:
    layer: LayerShape
    layers: int
    vocabulary: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionShape:
    """merged: positions that become one token. values: numbers of a position's pixels. merger: width of what the
    projector reads of one token, output: of what it gives. levels: outputs per token, with deepstack.
    positions_per_tile: of a tile, where the family sees tiles; None: a position is a cell of the grid.
    """

    layer: LayerShape
    layers: int
    values: int
    merged: int
    merger: int
    output: int
    levels: int = 1
    positions_per_tile: int | None = None


@dataclass(frozen=True, slots=True)
class ModelShape:
    """unknown: part -> why nothing is computed of it."""

    text: TextShape | None
    vision: VisionShape | None
    unknown: Mapping[str, str]


def read_shapes(config: Any) -> ModelShape:
    """Of a transformers configuration object. What it does not know is in `unknown` by name."""
    unknown: dict[str, str] = {}
    text = _of_part(_text_shape, config.get_text_config(), TEXT_MODELS, "language model", unknown)
    vision = _of_part(_vision_shape, getattr(config, "vision_config", None), VISION_MODELS, "vision tower", unknown)
    return ModelShape(text, vision, unknown)


def _of_part(read: Any, part: Any, known: Mapping[str, Any], name: str, unknown: dict[str, str]) -> Any:
    kind = str(getattr(part, "model_type", None))
    if kind in known:
        try:
            return read(part, known[kind])
        except AttributeError as error:
            unknown[name] = f"its configuration lacks a value ({error})"
            return None
    unknown[name] = f"layers of {kind!r} are not known; known: {', '.join(known)}"
    return None


def _text_shape(text: Any, more: Mapping[str, Any]) -> TextShape:
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    layer = LayerShape(
        hidden=text.hidden_size,
        query=width * text.num_attention_heads,
        keyvalue=width * (getattr(text, "num_key_value_heads", None) or text.num_attention_heads),
        inner=text.intermediate_size,
        heads=text.num_attention_heads,
        **more,
    )
    return TextShape(layer=layer, layers=text.num_hidden_layers, vocabulary=text.vocab_size)


def _vision_shape(vision: Any, more: Mapping[str, Any]) -> VisionShape:
    is_qwen = hasattr(vision, "spatial_merge_size")
    width = getattr(vision, "embed_dim", None) if is_qwen else None  # Qwen2-VL's hidden_size is that of its output
    hidden = width or vision.hidden_size
    heads = getattr(vision, "num_heads", None) or vision.num_attention_heads
    inner = int(hidden * vision.mlp_ratio) if hasattr(vision, "mlp_ratio") else vision.intermediate_size
    layer = LayerShape(hidden=hidden, query=hidden, keyvalue=hidden, inner=inner, heads=heads, **more)
    depth = getattr(vision, "depth", None) or vision.num_hidden_layers
    patch = vision.patch_size if isinstance(vision.patch_size, int) else vision.patch_size[0]
    if not is_qwen:
        side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
        extra = vision.model_type == "internvl_vision"  # its class token
        count = (side // patch) ** 2 + extra
        return VisionShape(
            layer=layer, layers=depth, values=3 * patch**2, merged=1, merger=hidden, output=hidden,
            positions_per_tile=count,
        )  # fmt: skip
    merged = vision.spatial_merge_size**2
    return VisionShape(
        layer=layer,
        layers=depth,
        values=3 * vision.temporal_patch_size * patch**2,
        merged=merged,
        merger=hidden * merged,
        output=getattr(vision, "out_hidden_size", None) or vision.hidden_size,
        levels=1 + len(getattr(vision, "deepstack_visual_indexes", None) or ()),
    )
