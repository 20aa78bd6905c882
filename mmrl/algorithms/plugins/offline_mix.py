"""Offline-online mixing (LUFFY): a recorded answer of another policy joins its prompt's group, and is scored with it.

    recorded   the column `answer`: text, which gets the end token, or token ids; `logprobs`: those of the policy that
               wrote it, one a token; without that column its log-probs count as 0, so that the ratio is the policy
               itself
    joins      a group whose row has one, all or only groups without a right answer (`only_unsolved`), by the chance
               `share`; the group has a row more, and its reward counts in the group's mean whatever the correction is
    correction of its policy term, A its advantage, x = policy / recorded:
      none        as if it were sampled now: x = policy / policy before the update, clipped
      importance  -A x, never clipped
      shaped      -A f(x), f(x) = x / (x + shape), never clipped
      sft         no policy term; coef * (-log policy)
    left out   longer than `rollout.max_new_tokens` with its end token (overlong), ids that do not end in one
    (unfinished)

f'(x) x = shape x / (x + shape)^2: at x = .01, .1, 1 f is .0909, .5, .9091 and the gradient .0826, .25, .0826 for shape
.1, so rare tokens of the recorded answer are learned too. One success among seven failures: r - mean = .875 and -.125.

share 1, shape .1, correction shaped. Source: ElliottYan/LUFFY@01f4ae0, the shaping and mixed groups read in code (with
its on-policy rows unclipped, here clipped); `none` and `sft` are variants of its paper's comparisons; only_unsolved is
derived. share 0 is GRPO.

Shape letters: N completions, C completion tokens.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch

from mmrl.algorithms.losses import LossInput, TokenStats, ppo_clip
from mmrl.algorithms.parts import joined, outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, PositiveFloat, Probability
from mmrl.data.sample import Sample
from mmrl.errors import DataError, type_words
from mmrl.training.distributed import sum_over_ranks

NEUTRAL: dict[str, Any] = {"share": 0.0}
NEEDS = ("old",)
OFFLINE = "offline_mix.offline"  # 1 on recorded rows
_LEFT_OUT = ("overlong", "unfinished")


class Plugin:
    """answer, logprobs: columns; None: none is recorded. threshold: the least reward of a right answer."""

    def __init__(
        self,
        *,
        answer: str = "demonstration",
        logprobs: str | None = None,
        correction: Literal["none", "importance", "shaped", "sft"] = "shaped",
        share: Probability = 1.0,
        only_unsolved: bool = False,
        shape: PositiveFloat = 0.1,
        coef: NonNegativeFloat = 1.0,
        threshold: float = 0.5,
        seed: int = 0,
    ) -> None:
        self._answer, self._logprobs, self._correction = answer, logprobs, correction
        self._share, self._only_unsolved, self._threshold = share, only_unsolved, threshold
        self._shape, self._coef, self._seed = shape, coef, seed
        self._left_out: Counter[str] = Counter()

    def second_round(self, batch: RolloutBatch, generate: Callable[..., RolloutBatch]) -> RolloutBatch:
        chosen = self._chosen(batch, generate)
        if not chosen:
            return batch
        rows = generate(list(chosen), n=1, prefix_ids=[(ids,) for ids, _ in chosen.values()])
        rollout_NC = torch.zeros_like(rows.rollout_NC)
        for row, (_, logprobs) in enumerate(chosen.values()):
            rollout_NC[row, : len(logprobs)] = torch.tensor(logprobs, dtype=rollout_NC.dtype)
        if self._correction in ("importance", "shaped"):
            rows = replace(rows, kind=("replay",) * len(rows), rollout_NC=rollout_NC)
        batch = replace(batch, meta={**batch.meta, OFFLINE: torch.zeros(len(batch), dtype=torch.float64)})
        return joined(batch, replace(rows, meta={**rows.meta, OFFLINE: torch.ones(len(rows), dtype=torch.float64)}))

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        if self._correction != "sft":
            return torch.ones_like(advantage_NC)
        return (~_offline(batch))[:, None].to(advantage_NC.dtype).expand_as(advantage_NC)

    def policy_loss(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        loss_NC, stats = ppo_clip(inputs)
        if not self._share or self._correction not in ("importance", "shaped"):
            return loss_NC, stats
        ratio_NC = inputs.log_ratio_NC.exp()
        worth_NC = ratio_NC / (ratio_NC + self._shape) if self._correction == "shaped" else ratio_NC
        is_offline_NC = _offline(inputs.batch)[:, None].expand_as(loss_NC)
        offline_ratio_NC = torch.where(is_offline_NC, ratio_NC, 0.0)
        stats = {**stats, "offline": is_offline_NC, "offline_ratio": offline_ratio_NC}
        return torch.where(is_offline_NC, -inputs.advantage_NC * worth_NC, loss_NC), stats

    def regulariser(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        if not self._share or self._correction != "sft":
            return torch.zeros_like(inputs.policy_NC), {}
        loss_NC = torch.where(_offline(inputs.batch)[:, None] & inputs.mask_NC, -inputs.policy_NC, 0.0)
        return self._coef * loss_NC, {"offline_sft": loss_NC}

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        """Rows, mean reward and length per source, and recorded answers that were left out, over all processes."""
        is_offline_N, known_N = _offline(batch), ~rewards_N.isnan()
        for name, source_N in (("offline", is_offline_N), ("fresh", ~is_offline_N)):
            of_N = source_N & known_N
            sums = [source_N.sum().item(), of_N.sum().item(), rewards_N[of_N].sum().item()]
            rows, scored, reward = sum_over_ranks([*map(float, sums)])
            [tokens] = sum_over_ranks([float(batch.length_N[source_N].sum())])
            metrics[f"offline_mix/{name}/rows"] = rows
            if scored:
                metrics[f"offline_mix/{name}/reward"] = reward / scored
            if rows:
                metrics[f"offline_mix/{name}/length"] = tokens / rows
        counts = sum_over_ranks([float(self._left_out[reason]) for reason in _LEFT_OUT])
        metrics |= {f"offline_mix/{reason}": count for reason, count in zip(_LEFT_OUT, counts, strict=True)}
        self._left_out.clear()

    def _chosen(self, batch: RolloutBatch, generate: Any) -> dict[int, tuple[tuple[int, ...], list[float]]]:
        """Recorded ids and log-probs by the gid of the group that they join."""
        if not self._share:
            return {}
        made = torch.tensor([kind == "recycled" for kind in batch.kind or ("fresh",) * len(batch)], dtype=torch.bool)
        solved = set(batch.gid_N[outcome(batch) >= self._threshold].tolist()) if self._only_unsolved else set()
        found = {}
        for gid in batch.gid_N[~made].unique().tolist():
            sample = generate.sample(gid)
            chance = random.Random(f"{self._seed}/{batch.step}/{sample.prompt_id}").random()
            if gid in solved or chance >= self._share or sample.columns.get(self._answer) is None:
                continue
            if (ids := self._ids(sample, generate)) is not None:
                found[gid] = (ids, self._recorded_logprobs(sample, len(ids)))
        return found

    def _ids(self, sample: Sample, generate: Any) -> tuple[int, ...] | None:
        """The recorded tokens; None where they cannot be a completion, which is counted."""
        written = sample.columns[self._answer]
        if isinstance(written, str):
            ids = generate.encode(written, ends=True)
        elif isinstance(written, list | tuple) and written and all(type(token) is int for token in written):
            ids = list(written)
        else:
            what = f"column {self._answer!r} (offline_mix's `answer`) is {type_words(written)}"
            raise DataError(f"{sample.where}: {what}; a recorded answer is text or a list of token ids")
        reason = "overlong" if len(ids) > generate.most_tokens else "unfinished" if not generate.ends(ids) else None
        if reason is not None:
            self._left_out[reason] += 1
            return None
        return tuple(ids)

    def _recorded_logprobs(self, sample: Sample, count: int) -> list[float]:
        if self._logprobs is None:
            return [0.0] * count
        values = sample.columns.get(self._logprobs)
        if not isinstance(values, list | tuple) or len(values) != count or not all(_is_logprob(v) for v in values):
            what = f"column {self._logprobs!r} (offline_mix's `logprobs`) must hold a log-prob for each of the {count}"
            remedy = f"tokens of {self._answer!r}, its end token among them; record ids to be sure of their number"
            raise DataError(f"{sample.where}: {what} {remedy}")
        return [float(value) for value in values]


def _is_logprob(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value <= 0


def _offline(batch: RolloutBatch) -> torch.Tensor:
    """(N,) bool. Rows that a later hook joined have NaN in the column."""
    return batch.meta[OFFLINE] == 1 if OFFLINE in batch.meta else torch.zeros(len(batch), dtype=torch.bool)
