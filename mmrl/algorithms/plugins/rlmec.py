"""RLMEC: a wrong completion is taught where a minimal edit would mend it, and left alone elsewhere.

    e_t in 0..1: how much the edit changes token t, the column `edits` (1: deleted or replaced, 0: kept)
    w_t = e_t + rest * (1 - e_t)   on completions whose advantage is below 0 and that have the column, else 1

The weight multiplies the policy term, not the count of tokens. A token that the edit does not name counts as kept. The
source's reward model writes the edit and gives token rewards by the probability of each token under it; here these are
the column, and the form as a weight is derived.

rest .1, a guess. Source: Chen et al. 2024 (2401.06081), abstract. rest 1 is GRPO. Edit [0, 1, 0]: weights
[.1, 1, .1]; e = .5: .55; right completions: 1.

Shape letters: N completions, C completion tokens.
"""

from typing import Any

import torch

from mmrl.algorithms.parts import on_tokens_of
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Probability

NEUTRAL: dict[str, Any] = {"rest": 1.0}


class Plugin:
    """edits: name of the column. rest: weight of what the edit keeps."""

    def __init__(self, *, edits: str = "edits", rest: Probability = 0.1) -> None:
        self._edits, self._rest = edits, rest

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        edit_NC, _ = on_tokens_of(batch, self._edits, option="rlmec's option 'edits'")
        has_edit_N1 = (~edit_NC.isnan()).any(1, keepdim=True)
        edit_NC = edit_NC.nan_to_num(nan=0.0).clamp(0.0, 1.0)
        weight_NC = edit_NC + self._rest * (1 - edit_NC)
        return torch.where((advantage_NC < 0) & has_edit_N1, weight_NC.to(advantage_NC.dtype), 1.0)
