"""By what packed rows attend, and how transformers' models are made to do it.

    way     mask in memory                     where                       what it computes
    parts   none (windows: 256 x T a time)     CPU                         pairs that see each other (tree_attention.py)
    flex    128 x 128 blocks, as indices       GPU (and slowly on a CPU)   blocks in which some pair sees each other
    sdpa    T x T booleans for every row       anywhere                    all pairs
    auto    parts on a CPU, flex on a GPU

Models keep transformers' `sdpa` attention; under that name transformers' own function is wrapped by one that also
reads the first two kinds of mask. Both travel as BlockMask, which every model hands to its layers as it is. Rows that
are plain causal have no mask in any way.

Shape letters: B rows, T tokens of a row, N = B * T, H heads, D width of a head.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import torch
from torch.nn.attention.flex_attention import BlockMask

from mmrl.algorithms.batch import Attention
from mmrl.algorithms.tree import Forest
from mmrl.errors import ConfigError
from mmrl.models.tree_attention import TreePlan, Window, tree_attention


class TreeMask(BlockMask):
    """A TreePlan in the place of a mask."""

    def __init__(self, plan: TreePlan) -> None:
        self.plan = plan

    @property
    def shape(self) -> tuple[int, ...]:
        forest = self.plan.forest
        return forest.rows, 1, forest.length, forest.length


def attention_way(attention: Attention, model: Any, device: torch.device) -> Literal["parts", "flex", "sdpa"]:
    """The way that `auto` stands for. `sdpa` for a model of transformers' eager attention, which reads dense masks.

    Raises ConfigError for a way that the device has not, where gradients are wanted.
    """
    text = model.config.get_text_config()
    if text._attn_implementation != "sdpa" or getattr(text, "attention_dropout", 0.0):
        return "sdpa"
    own = "parts" if device.type == "cpu" else "flex"
    if attention == "auto":
        return own
    if attention not in (own, "sdpa") and torch.is_grad_enabled():
        reason = "parts are for CPUs" if attention == "parts" else "FlexAttention has no backward pass on a CPU"
        raise ConfigError(f"train.attention is {attention}, but {reason}; use auto, {own} or sdpa")
    return attention


def mask_of(
    forest: Forest, way: Literal["parts", "flex"], *, device: torch.device, window: Window | None = None
) -> BlockMask:
    """What a layer that attends in this way is given as its mask."""
    read_block_masks()
    if way == "parts":
        return TreeMask(TreePlan(forest, window))
    from mmrl.models.flex_mask import block_mask

    return block_mask(forest, window, device=device)


@functools.cache
def read_block_masks() -> None:
    """Wrap transformers' `sdpa` attention, once a process. What it is given plain tensors for, it does as before."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
        if isinstance(attention_mask, TreeMask):
            scale = options.get("scaling")
            return tree_attention(query, key, value, plan=attention_mask.plan, scale=scale), None
        if isinstance(attention_mask, BlockMask):
            from transformers.integrations.flex_attention import flex_attention_forward

            return flex_attention_forward(module, query, key, value, attention_mask, **options)
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)

    AttentionInterface.register("sdpa", attend)
