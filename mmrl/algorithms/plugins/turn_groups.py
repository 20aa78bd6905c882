"""Agent- and turn-wise groups (PettingLLMs' AT-GRPO): only answers of the same agent at the same turn are compared.

    group = (environment, role, turn);  then the option `advantage` (grpo, dr_grpo, rloo) within it

Each is a part of weight 0, a number (`column_value` of a column of the row, or one that a reward reads in the
completion). environment None: the completions of one prompt, as always; a name: all rows with that number, of whatever
prompt. A row without a role or turn is compared with those that have none either.

Source: abstract and layout of pettingllms-ai/PettingLLMs@a054fb1. One environment, planner at turn 0 with rewards
[1, 0], coder at turn 0 with [.5, .5]: [.7071, -.7071] and [0, 0]; as one group it would be [1.2247, -1.2247, 0, 0].

Shape letters: N completions, C completion tokens.
"""

from dataclasses import replace
from typing import Any, Literal

import torch

from mmrl.algorithms.advantages import dr_grpo, grpo, rloo
from mmrl.algorithms.parts import part
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL: dict[str, Any] = {"role": None, "turn": None}
ESTIMATORS = {"grpo": grpo, "dr_grpo": dr_grpo, "rloo": rloo}


class Plugin:
    """environment, role, turn: names of the parts, or None. advantage: the estimator within a group."""

    def __init__(
        self,
        *,
        environment: str | None = None,
        role: str | None = "role",
        turn: str | None = "turn",
        advantage: Literal["grpo", "dr_grpo", "rloo"] = "grpo",
    ) -> None:
        self._keys = {"environment": environment, "role": role, "turn": turn}
        self._estimator = ESTIMATORS[advantage]

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        named = {option: name for option, name in self._keys.items() if name is not None}
        keys = [part(batch, name, option=f"turn_groups' option {option!r}") for option, name in named.items()]
        if "environment" not in named:
            keys.append(batch.gid_N.double())
        group_N = torch.stack(keys, 1).nan_to_num(nan=torch.inf).unique(dim=0, return_inverse=True)[1]
        return self._estimator(rewards_N, replace(batch, gid_N=group_N), settings)
