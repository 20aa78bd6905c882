"""The one call of the language model that training and rollout share.

Positions and masks are always given: transformers' own rule for clips differs from the families' reference rule.

Shape letters: B rows, T query tokens, K key tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from mmrl.models.families import FAMILIES


@dataclass(frozen=True, slots=True)
class DecoderInputs:
    """Tokens to run, on any device.

    mask_B1TK: True where a query may see a key; None: plain causal (or, for one query, everything).
    encoder_outputs: vision features in the order of the placeholder ids, see `mmrl.models.encode.gather_features`.
    cache: keys and values of earlier tokens, extended in place.
    """

    ids_BT: torch.Tensor
    positions_3BT: torch.Tensor
    mask_B1TK: torch.Tensor | None = None
    encoder_outputs: dict[str, Any] | None = None
    cache: Any = None
    keep_cache: bool = False


def run_decoder(model: Any, inputs: DecoderInputs) -> Any:
    """Embed, put the vision features in place, run all layers: `.last_hidden_state` (B, T, D), `.past_key_values`."""
    device = model.lm_head.weight.device
    positions_3BT = inputs.positions_3BT.to(device)
    axes = FAMILIES[model.config.model_type].position_axes
    return model.model(
        input_ids=inputs.ids_BT.to(device),
        position_ids=positions_3BT if axes == 3 else positions_3BT[0],
        attention_mask=_attention_mask(model, inputs.mask_B1TK),
        mm_encoder_outputs=inputs.encoder_outputs,
        past_key_values=inputs.cache,
        use_cache=inputs.keep_cache,
    )


def _attention_mask(model: Any, mask_B1TK: torch.Tensor | None) -> torch.Tensor | None:
    """The mask as the attention implementation reads it: boolean for SDPA, added to the scores by eager."""
    if mask_B1TK is None:
        return None
    weight = model.lm_head.weight
    mask_B1TK = mask_B1TK.to(weight.device)
    if model.config._attn_implementation == "sdpa":
        return mask_B1TK
    scores = torch.zeros(mask_B1TK.shape, dtype=weight.dtype, device=weight.device)
    return scores.masked_fill(~mask_B1TK, torch.finfo(weight.dtype).min)
