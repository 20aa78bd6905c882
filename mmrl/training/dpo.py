"""Preference stage: raise the chosen reply of each pair over the rejected one, relative to the stage's first policy.

Shape letters: P pairs, N sequences (2 p the chosen reply of pair p, 2 p + 1 the rejected one), C completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mmrl.algorithms.batch import Row
from mmrl.algorithms.preference import PAIR_LOSSES
from mmrl.config.schema import StageSection
from mmrl.config.stage_sections import DpoSection
from mmrl.data.loader import Loader
from mmrl.data.preference import preference_pair
from mmrl.data.prepare import Prepared
from mmrl.models.packing import group_rows, separate_rows
from mmrl.training import distributed
from mmrl.training.feature_gap import feature_gap
from mmrl.training.prompts import next_prompts, rank_share
from mmrl.training.reference import open_reference
from mmrl.training.runtime import Runtime
from mmrl.training.step import Grids, logprob_pass, optimizer_step


class DpoStage:
    """One optimizer step on the mean loss of `prompts_per_step` pairs, and the cross-entropy of what was chosen."""

    def __init__(self, run: Runtime, section: StageSection, loader: Loader) -> None:
        self.run, self.section, self.loader = run, section, loader
        self.settings = run.logprob_settings(temperature=1.0)
        self.reference = None if section.dpo.reference_free else open_reference(run, section)

    def step(self, number: int) -> dict[str, float]:
        del number  # the loader knows where it is; nothing here depends on the step
        prepared = next_prompts(self.run, self.section, self.loader, count=rank_share(self.section.prompts_per_step))
        replies = distributed.together(lambda: [ids for item in prepared for ids in self._reply_ids(item)])
        rows, shape = self._rows(prepared, replies), (len(replies), max(map(len, replies)))
        gap = feature_gap(self.run, rows, self.settings, shape=shape)
        ref_NC = policy_NC = torch.zeros(shape)
        with self.run.watch.time("logprobs"):
            if self.reference is not None:
                ref_NC, _ = logprob_pass(self.reference, rows, settings=self.settings, shape=shape)
            if distributed.any_rank(len(rows) > len(prepared)):
                policy_NC, _ = logprob_pass(self.run.trainer, rows, settings=self.settings, shape=shape)
        pairs = self._pairs(replies, policy_NC, ref_NC)
        with self.run.watch.time("update"):
            how = {"settings": self.settings, "num_tokens": shape[1]}
            stats = optimizer_step(self.run.trainer, rows, pairs.loss, **how)
        self.run.updated()
        [tokens] = distributed.sum_over_ranks([sum(map(len, replies))])
        return {**stats, **gap, "tokens": tokens}

    def state_dict(self) -> dict[str, Any]:
        return {"loader": self.loader.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state["loader"])

    def _reply_ids(self, item: Prepared) -> list[list[int]]:
        """Token ids of the chosen and the rejected reply, each with the end token."""
        processor = self.run.processor
        return [[*processor.encode_text(text), processor.eos_ids[0]] for text in preference_pair(item.sample)]

    def _rows(self, prepared: Sequence[Prepared], replies: Sequence[list[int]]) -> list[Row]:
        """Packed rows: a pair shares its prompt, media included, where configuration and family allow."""
        train, rows = self.run.config.train, []
        shares = train.shared_prefix and self.run.processor.family.shares_prefix
        for p, item in enumerate(prepared):
            pair, numbers = replies[2 * p : 2 * p + 2], [2 * p, 2 * p + 1]
            if shares:
                rows += group_rows(item.prompt, pair, numbers, max_tokens=train.micro_batch_tokens)
            else:
                rows += separate_rows(item.prompt, pair, numbers)
        return rows

    def _pairs(self, replies: Sequence[list[int]], policy_NC: torch.Tensor, ref_NC: torch.Tensor) -> Pairs:
        length_N = torch.tensor([float(len(ids)) for ids in replies])
        count, tokens = distributed.sum_over_ranks([len(replies) / 2, float(length_N[::2].sum())])
        return Pairs(self.section.dpo, policy_NC.sum(-1), ref_NC.sum(-1), length_N, count, tokens)


@dataclass(frozen=True)
class Pairs:
    """The pairs of a step on this rank, and their part of the loss.

    policy_N: log-probs of the replies before the step, used for a reply whose partner lies in another micro-batch;
    ref_N: those of the reference. num_pairs, chosen_tokens: of all ranks together.
    """

    dpo: DpoSection
    policy_N: torch.Tensor
    ref_N: torch.Tensor
    length_N: torch.Tensor
    num_pairs: float
    chosen_tokens: float

    def loss(
        self, policy_NC: torch.Tensor, sequences: torch.Tensor, extra: Grids
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """What a micro-batch with these sequences adds to the loss, and to the metrics.

        A pair that is cut in two adds its value where its chosen reply is, and to each reply's gradient where that is.
        """
        del extra
        dpo, here_N = self.dpo, torch.zeros(len(self.policy_N), dtype=torch.bool)
        here_N[sequences] = True
        sums_N = self.policy_N.index_put((sequences,), policy_NC.sum(-1))
        ratio_N = (sums_N - self.ref_N) / (self.length_N if dpo.mean_logprobs else 1.0)
        has_chosen_P, has_any_P = here_N[::2], here_N[::2] | here_N[1::2]
        chosen_P, rejected_P = ratio_N[::2], ratio_N[1::2]
        loss_P = PAIR_LOSSES[dpo.loss](chosen_P - rejected_P, beta=dpo.beta)
        loss_P = torch.where(has_chosen_P, loss_P, loss_P - loss_P.detach())[has_any_P]
        nll = -sums_N[::2][has_chosen_P].sum() / self.chosen_tokens
        columns = {
            "dpo/margin": chosen_P - rejected_P,
            "dpo/accuracy": (chosen_P > rejected_P).float(),
            "dpo/chosen": chosen_P,
            "dpo/rejected": rejected_P,
        }
        stats = {key: float(v.detach()[has_chosen_P].sum()) / self.num_pairs for key, v in columns.items()}
        pair_loss = loss_P.sum() / self.num_pairs
        stats |= {"loss/pairs": float(pair_loss.detach()), "loss/sft": float(nll.detach())}
        return pair_loss + dpo.sft_weight * nll, stats
