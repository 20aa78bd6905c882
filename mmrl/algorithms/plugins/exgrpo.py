"""ExGRPO: a success from an earlier visit takes one of the places of a group, with the log-probs it was drawn with.

    kept      right answers of groups with k of n right, 0 < k < n; the question's bucket is k
    retired   a question whose group was all right: its answers are dropped
    replayed  of a step's questions that have answers, up to `fraction` of all, drawn without replacement by
              exp(-(k - n / 2)^2 / 2); each answer is the kept one of the highest mean log-prob, and takes the place of
              one fresh answer by chance
    begins    once `start` of a step's answers were right
    loss      replayed rows -A f(ratio), f(x) = x / (x + shape), never clipped; fresh rows the clipped loss, with
              `clip_fresh` False -A ratio
    A         as configured; in the source r - mean (`dr_grpo`, `seq-mean-token-sum-norm`)

f stays below 1, and its gradient is .1 x / (x + .1)^2: .0826 at x = 1, at most .25. A question is replayed when the
loader brings it again; the source draws questions from the buckets themselves, and takes the answer of lowest entropy
under the present policy, for which the recorded log-probs stand here (both derived). `keep_per_prompt` bounds the
memory: 12 bytes a token of JSON and more, kept and saved as they are.

fraction .5, start .35, shape .1, 8 answers. Source: ElliottYan/LUFFY@01f4ae0 (ExGRPO/), read in code; clip_fresh is
False in its run script. Buckets 1..7 of 8: [.0044, .054, .242, .3991, .242, .054, .0044]; f(.1) = .5, f(1) = .9091.

Shape letters: N completions, C completion tokens.
"""

import math
import random
from typing import Any

import torch

from mmrl.algorithms.losses import LossInput, TokenStats, ppo_clip
from mmrl.algorithms.parts import drawn_order, rows_of_groups
from mmrl.algorithms.recorded import Recorded, record, with_recorded
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import PositiveFloat, PositiveInt, Probability

NEUTRAL: dict[str, Any] = {"fraction": 0.0}
NEEDS = ("old",)


class Plugin:
    """fraction: most of the questions that get a replayed answer. threshold: the least reward of a right one."""

    def __init__(
        self,
        *,
        fraction: Probability = 0.5,
        start: Probability = 0.35,
        shape: PositiveFloat = 0.1,
        clip_fresh: bool = True,
        keep_per_prompt: PositiveInt = 4,
        threshold: float = 0.5,
        seed: int = 0,
    ) -> None:
        self._fraction, self._start, self._shape, self._clip = fraction, start, shape, clip_fresh
        self._kept_per_prompt, self._threshold, self._seed = keep_per_prompt, threshold, seed
        self._kept: dict[str, list[Recorded]] = {}
        self._bucket: dict[str, float] = {}  # k - n / 2
        self._begun = False

    def replay(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[RolloutBatch, torch.Tensor]:
        if not self._begun or not self._fraction:
            return batch, rewards_N
        places: dict[str, int] = {}
        for row in drawn_order(batch):
            if batch.prompt_id[row] in self._kept:
                places.setdefault(batch.prompt_id[row], row)
        most = int(self._fraction * len(batch.gid_N.unique()))
        chosen = self._drawn(sorted(places), most, step=batch.step)
        recorded = [(places[name], max(self._kept[name], key=lambda item: item.mean_logprob)) for name in chosen]
        return with_recorded(batch, rewards_N, [row for row, _ in recorded], recorded)

    def policy_loss(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        loss_NC, stats = ppo_clip(inputs)
        ratio_NC = inputs.log_ratio_NC.exp()
        if not self._clip:
            loss_NC, stats = -inputs.advantage_NC * ratio_NC, {}
        kinds = inputs.batch.kind or ("fresh",) * len(inputs.batch)
        is_replay_N1 = torch.tensor([kind == "replay" for kind in kinds])[:, None]
        shaped_NC = -inputs.advantage_NC * ratio_NC / (ratio_NC + self._shape)
        replayed_NC = is_replay_N1.expand_as(loss_NC)
        return torch.where(replayed_NC, shaped_NC, loss_NC), {**stats, "replayed": replayed_NC}

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        unscored = rewards_N.isnan().tolist()
        kinds = batch.kind or ("fresh",) * len(batch)
        counted = [row for row in range(len(batch)) if kinds[row] != "replay" and not unscored[row]]
        for rows in rows_of_groups(batch, counted).values():
            if rows and self._fraction:
                self._take(batch, rewards_N, rows)
        right = int((rewards_N[counted] >= self._threshold).sum())
        self._begun |= bool(counted) and right / len(counted) >= self._start
        metrics["exgrpo/kept"] = float(len(self._kept))

    def state_dict(self) -> dict[str, Any]:
        kept = {name: [item.state() for item in items] for name, items in self._kept.items()}
        return {"kept": kept, "bucket": dict(self._bucket), "begun": self._begun}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._kept = {name: [Recorded.of(item) for item in items] for name, items in state["kept"].items()}
        self._bucket, self._begun = dict(state["bucket"]), state["begun"]

    def _take(self, batch: RolloutBatch, rewards_N: torch.Tensor, rows: list[int]) -> None:
        """Keep the right answers of a mixed group; forget those of a group that was all right."""
        name = batch.prompt_id[rows[0]]
        right = [row for row in rows if rewards_N[row] >= self._threshold]
        if len(right) == len(rows):
            self._kept.pop(name, None)
            self._bucket.pop(name, None)
        elif right:
            new = [record(batch, row, float(rewards_N[row])) for row in right]
            items = [*self._kept.get(name, []), *(item for item in new if item not in self._kept.get(name, []))]
            self._kept[name] = sorted(items, key=lambda item: -item.mean_logprob)[: self._kept_per_prompt]
            self._bucket[name] = len(right) - len(rows) / 2

    def _drawn(self, names: list[str], most: int, *, step: int) -> list[str]:
        """Up to `most` names without replacement: those of the largest u ** (1 / weight), u uniform."""
        random_ = random.Random(f"{self._seed}/{step}")
        key = {name: math.log(1 - random_.random()) / _weight(self._bucket[name]) for name in names}
        return sorted(names, key=lambda name: -key[name])[:most]


def _weight(bucket: float) -> float:
    return math.exp(-(bucket**2) / 2)
