"""Bytes of activations: what the backward pass needs, and what stands beside it for a moment. Pure arithmetic.

Counted in transformers 5.19's layers, tensor by tensor, with SDPA attention that keeps q, k, v, its output and one
number a head (mmrl.models.attention). One value has s bytes (4 in float32, 2 in bfloat16). For each position, a layer
that is trained keeps, with the letters of LayerShape,

    RMS norm       input, normalised, output       12 D in float32, 8 D in bfloat16 (its input there in float32)
    layer norm     input, output                   2 D s
    attention      q, k, v, output                 (2 Q + 2 K) s + 4 heads;   fused: v keeps the whole of q, k, v
    gated MLP      gate, its SiLU, up, product     4 I s                      plain: 2 I s;   quick GELU: 3 I s

Where the layer's weights are frozen but a gradient passes, inputs of linear maps are not kept.

Worked: D = Q = 512, K = 256, I = 1536, 8 heads, float32: norms 2 x (12 x 512 + 4), attention (1024 + 512) x 4 + 32, MLP
4 x 1536 x 4, together 43,048 bytes; six such layers on 512 tokens keep 132.2 MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mmrl.plan.shapes import LayerShape, ModelShape, TextShape, VisionShape

State = Literal["trained", "adapted", "passed", "idle"]
"""Of a part: its weights are trained, or adapters beside them; a gradient only passes through it; none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassShape:
    """One micro-batch. tokens: padding included. loss_tokens: that a loss is taken of. positions: of the vision tower.
    media_tokens: what they become.
    """

    tokens: int
    loss_tokens: int
    positions: int = 0
    media_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSettings:
    """value_bytes: s. checkpointing: model.gradient_checkpointing. chunk: train.logprob_chunk. rank: of LoRA adapters,
    0 without. head_trained: the output head has a gradient. text_layers: layers of the language model that keep
    activations; None: all.
    """

    value_bytes: int
    checkpointing: bool
    chunk: int
    text: State = "trained"
    tower: State = "trained"
    projector: State = "trained"
    head_trained: bool = True
    text_layers: int | None = None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes of one micro-batch.

    text, vision, head: kept for the backward pass by each. passing: what stands beside all of it at the highest point.
    tower: what is left when the backward pass comes to the tower, last: when it comes to the first layer of all.
    forward: highest point of a pass without gradient (old and reference log-probs, the prompts of a rollout).
    """

    text: int
    vision: int
    head: int
    passing: int
    tower: int
    last: int
    forward: int

    @property
    def peak(self) -> int:
        return self.text + self.vision + self.head + self.passing


def layer_bytes(layer: LayerShape, value_bytes: int, state: State, rank: int = 0) -> int:
    """What one layer keeps for one position; see the module."""
    if state == "idle":
        return 0
    s, is_trained = value_bytes, state == "trained"
    keeps_inputs = state in ("trained", "adapted")
    total = 2 * _norm(layer.norm, layer.hidden, s, trained=is_trained, read=keeps_inputs)
    if layer.post_norms:
        total += 2 * _norm("rms", layer.hidden, s, trained=is_trained, read=False)
    if layer.qk_norm:
        total += _norm("rms", layer.query + layer.keyvalue, s, trained=is_trained, read=False)
    total += _attention(layer, s, is_read=keeps_inputs)
    kept = {"gated": 4, "plain": 2, "quick": 3}[layer.mlp] - (not keeps_inputs)
    total += kept * layer.inner * s
    if layer.layer_scale and is_trained:
        total += 2 * layer.hidden * s
    if state == "adapted":
        total += 7 * rank * s
    return total


def _norm(kind: str, width: int, s: int, *, trained: bool, read: bool) -> int:
    """read: its output is kept by a linear map."""
    if kind == "layer":
        return width * s * (1 + read) + 8
    return width * (4 + s * trained + s * read) + 4


def _attention(layer: LayerShape, s: int, *, is_read: bool) -> int:
    values = 3 * layer.hidden if layer.fused_qkv else layer.keyvalue
    copied = layer.query if layer.split and is_read else 0
    return (2 * layer.query + layer.keyvalue + values + copied) * s + 4 * layer.heads


def activations(shape: ModelShape, micro: PassShape, settings: PassSettings) -> Activations | None:
    """None where the language model, or a tower that is needed, is of unknown layers.

    The highest point of a step is one of: the output head's backward pass, when everything is kept and one chunk of
    logits stands three times; the backward pass of the first layer gone through; and that of the tower's.
    """
    text, vision = shape.text, shape.vision
    if text is None or (vision is None and micro.positions):
        return None
    kept_text = _text_kept(text, micro, settings)
    kept_vision = 0 if vision is None else _vision_kept(vision, micro, settings)
    head = micro.loss_tokens * text.layer.hidden * settings.value_bytes
    kept = kept_text + kept_vision + head
    text_passing = _layer_passing(text.layer, micro.tokens, settings, settings.text)
    tower, last = kept_vision, text_passing
    if vision is not None and settings.tower != "idle":
        last = _layer_passing(vision.layer, micro.positions, settings, settings.tower)
        tower += last
    peak = max(kept + _head_passing(text, micro, settings), kept + text_passing, tower)
    forward = _forward_peak(text, vision, micro, settings)
    return Activations(kept_text, kept_vision, head, peak - kept, tower, last, forward)


def _text_kept(text: TextShape, micro: PassShape, settings: PassSettings) -> int:
    """Of the language model: with checkpointing each layer's input alone; rotations and the last norm besides."""
    layer, s = text.layer, settings.value_bytes
    count = text.layers if settings.text_layers is None else settings.text_layers
    if settings.text == "idle":
        count = 0
    each = layer.hidden * s if settings.checkpointing else layer_bytes(layer, s, settings.text, settings.rank)
    last = _norm(layer.norm, layer.hidden, s, trained=settings.text == "trained", read=False)
    return micro.tokens * (count * each + 2 * layer.head_width * s + last)


def _vision_kept(vision: VisionShape, micro: PassShape, settings: PassSettings) -> int:
    """Of tower and projector, with the pixels in float32 that the tower's first map keeps."""
    s, layer = settings.value_bytes, vision.layer
    if not micro.positions:
        return 0
    pixels = micro.positions * vision.values * 4
    features = micro.media_tokens * vision.output * s * vision.levels
    if settings.tower == "idle":
        merger = micro.positions * layer.hidden * s if settings.projector != "idle" else 0
        held = micro.positions * layer.hidden * s * vision.layers if settings.checkpointing else 0
        return features + merger * 2 + (pixels + held if settings.checkpointing else 0)
    each = layer.hidden * s if settings.checkpointing else layer_bytes(layer, s, settings.tower, settings.rank)
    per_token = 2 * vision.merger * s * vision.levels
    merger = micro.media_tokens * per_token + micro.positions * _norm(
        layer.norm, layer.hidden, s, trained=True, read=True
    )
    return pixels + micro.positions * (vision.layers * each + 2 * layer.head_width * 4) + merger + features


def _layer_passing(layer: LayerShape, positions: int, settings: PassSettings, state: State) -> int:
    """Beside what is kept, while a layer goes backward: its own activations, computed anew, and two gradients."""
    if state == "idle":
        return 0
    gradients = positions * (layer.inner + layer.hidden) * settings.value_bytes
    anew = positions * layer_bytes(layer, settings.value_bytes, state, settings.rank) if settings.checkpointing else 0
    return anew + gradients


def _head_passing(text: TextShape, micro: PassShape, settings: PassSettings) -> int:
    """One chunk's logits three times in float32 (scaled, log-probs, gradient), and those of the model's own type; or
    one of them beside the head's gradient before it is added up, whichever is more.
    """
    s = settings.value_bytes
    count = min(settings.chunk, micro.loss_tokens) * text.vocabulary
    logits = count * (12 + (2 * s if s < 4 else 0))
    weight = text.vocabulary * text.layer.hidden * s if settings.head_trained else 0
    return max(logits, count * s + weight)


def _forward_peak(text: TextShape, vision: VisionShape | None, micro: PassShape, settings: PassSettings) -> int:
    """A pass without gradient: the widest moment of a layer, three tensors of the MLP (two where it is not gated)."""
    s = settings.value_bytes
    layer = text.layer
    widest = micro.tokens * _widest(layer, s, residuals=4)
    if vision is not None and micro.positions:
        tower = micro.positions * (vision.values * 4 + _widest(vision.layer, s, residuals=3))
        widest = max(widest + micro.media_tokens * vision.output * s * vision.levels, tower)
    logits = min(settings.chunk, micro.loss_tokens) * text.vocabulary * 4
    return max(widest, micro.tokens * layer.hidden * s * 2 + logits)


def _widest(layer: LayerShape, s: int, *, residuals: int) -> int:
    inner = 3 if layer.mlp == "gated" else 2
    return (inner * layer.inner + residuals * layer.hidden + 2 * layer.head_width) * s
