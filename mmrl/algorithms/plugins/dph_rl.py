"""DPH-RL: what the first policy solved already is kept by a divergence that covers its mass, the rest is explored.

    a prompt whose first group was all right: its completions and their log-probs under the policy then are recorded;
    from then on they are trained on in place of new ones, without policy term, by coef * f(u)
    u = policy / recorded, on the recorded tokens
    forward  f = u - log u - 1                        KL(recorded || policy), its k3 form with the roles swapped
    js       f = u log u - (u + 1) log((u + 1) / 2)
    alpha    f = ((1 - a) u + a - u^(1 - a)) / (a (1 - a)), a = .2
    every other prompt: the policy loss as configured, without KL

No reference model is held: the recorded log-probs are enough. f(1) = 0 and f >= 0. In the source the recording is a
separate pass with the first policy; `frozen_steps` is that: for so many steps nothing is learned. With 0, a prompt is
judged by the policy that first meets it (derived). A recorded prompt is answered once only, to save time.

coef .01 (.01 to .05 forward, .05 to .2 js); 8 completions, clip_high .28. Source: seamoke/DPH-RL@139a9b2, read in code.
u = .5: forward .1931, js .0849, alpha .1603; u = 2: .3069, .1699, .3681.

Shape letters: N completions, C completion tokens.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from mmrl.algorithms.losses import MAX_LOG_RATIO, LossInput, TokenStats
from mmrl.algorithms.parts import rows_of_groups
from mmrl.algorithms.recorded import Recorded, record, with_recorded
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, NonNegativeInt

NEUTRAL: dict[str, Any] = {"coef": 0.0}

Kind = Literal["forward", "js", "alpha"]


class Plugin:
    """coef: weight of the divergence. alpha: a. threshold: the least reward of a right answer."""

    def __init__(
        self,
        *,
        coef: NonNegativeFloat = 0.01,
        divergence: Kind = "forward",
        alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2,
        frozen_steps: NonNegativeInt = 0,
        threshold: float = 0.5,
    ) -> None:
        self._coef, self._alpha = coef, alpha
        self._kind: Kind = divergence
        self._frozen, self._threshold = frozen_steps, threshold
        self._solved: dict[str, list[Recorded]] = {}
        self._met: set[str] = set()

    def budget(self, prompt_ids: Sequence[str], group_size: int) -> torch.Tensor:
        return torch.tensor([1 if name in self._solved else group_size for name in prompt_ids], dtype=torch.int64)

    def replay(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[RolloutBatch, torch.Tensor]:
        names = [name for name in batch.prompt_id if name in self._solved]
        rows = [row for row, name in enumerate(batch.prompt_id) if name in self._solved]
        first = {int(batch.gid_N[row]): row for row in reversed(rows)}
        recorded = [(row, item) for row in first.values() for item in self._solved[batch.prompt_id[row]]]
        return with_recorded(batch, rewards_N, rows, recorded) if names else (batch, rewards_N)

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        if self._coef and batch.step < self._frozen:
            return torch.zeros_like(advantage_NC)
        return (~_is_replay(batch))[:, None].to(advantage_NC.dtype).expand_as(advantage_NC)

    def regulariser(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        batch = inputs.batch
        log_ratio_NC = (inputs.policy_NC - batch.rollout_NC.detach()).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        value_NC = _divergence(log_ratio_NC, self._kind, self._alpha)
        is_anchor_NC = _is_replay(batch)[:, None] & batch.mask_NC
        value_NC = torch.where(is_anchor_NC, value_NC, 0.0)
        return self._coef * value_NC, {"dph_rl": value_NC}

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        metrics["dph_rl/solved"] = float(len(self._solved))
        if not self._coef:
            return
        for rows in rows_of_groups(batch).values():
            name = batch.prompt_id[rows[0]]
            if name not in self._met and all(rewards_N[row] >= self._threshold for row in rows):
                self._solved[name] = [record(batch, row, float(rewards_N[row])) for row in rows]
            self._met.add(name)

    def state_dict(self) -> dict[str, Any]:
        solved = {name: [item.state() for item in items] for name, items in self._solved.items()}
        return {"solved": solved, "met": sorted(self._met)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._solved = {name: [Recorded.of(item) for item in items] for name, items in state["solved"].items()}
        self._met = set(state["met"])


def _is_replay(batch: RolloutBatch) -> torch.Tensor:
    return torch.tensor([kind == "replay" for kind in batch.kind or ("fresh",) * len(batch)])


def _divergence(log_u: torch.Tensor, kind: Kind, a: float) -> torch.Tensor:
    """f(u), with f(1) = 0 and f >= 0."""
    u = log_u.exp()
    if kind == "forward":
        return u - log_u - 1
    if kind == "js":
        return u * log_u - (u + 1) * ((u + 1) / 2).log()
    return ((1 - a) * u + a - u ** (1 - a)) / (a * (1 - a))
