"""SPEC-RL: a prompt's completions of its last visit are drafts; the policy of today keeps their beginnings.

    token t of a draft is kept where u <= min(1, lenience p_t / q_t), u uniform; the draft is cut at the first other one
    the token at the cut    from max(p - min(q, lenience p), 0), normalised; `official`: from p
    the rest                sampled by the engine, from p

p is the present policy, q the one that the draft was drawn from. With lenience of at most 1 completions so made have
exactly the distribution of p: what is kept, min(q, p), and the residual sum to p. Above 1 more is kept than p has
there, and the residual is max(p - q, 0); 0 keeps nothing. `official` is the source's form: biased at any lenience. A
draft that is kept whole costs no new token; what is trained on has the log-probs of the present policy either way.

Completions of one visit have the right distribution, those of several are not independent: a prompt whose group had
equal rewards taught nothing, and where other prompts do not move its policy either, the same completions come again for
ever. With `redraw_equal` such groups leave no drafts. What is kept is then what was mixed, so that mixed groups are met
more often than the policy makes them, as with dynamic sampling: no longer exact over several visits.

The residual needs q beside the drafted token. Of each place the 8 most likely tokens are remembered if q is at least
`floor`; a drafted token that is not among them is never kept, which leaves the distribution exact: its residual is p.
A remembered completion takes 9 bytes per token and 8 per remembered alternative, as JSON a third more. Exact
with `rollout.steps_ahead` 0 and without top-k, top-p and min-p: both passes are the trainer's.

lenience e^.5. Source: ShopeeLLM/Spec-RL@97da99e, read in code (which also has the same random numbers in every step);
the residual and the remembered alternatives are this project's.

lenience e^.5, p / q = .5, .8, 1: kept with .8244, 1, 1; lenience 1: .5, .8, 1. q = (.5, .5), p = (.7, .3), lenience 1:
(.7, .3), `official` (.64, .36).

Shape letters: R drafts, C tokens, V vocabulary.
"""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.parts import rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, Probability
from mmrl.training.distributed import gather_objects, sum_over_ranks

NEUTRAL: dict[str, Any] = {"lenience": 0.0}
TOP = "top:8"
NEEDS = ("old", TOP)
SOURCE = math.exp(0.5)


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """A completion as it was trained on: ids and log-probs, and the likely tokens of each place, one after the other.

    count_C: how many of these belong to each place.
    """

    ids_C: np.ndarray
    logprobs_C: np.ndarray
    count_C: np.ndarray
    likely: np.ndarray
    likely_logprobs: np.ndarray

    def known(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The likely tokens of a place and their log-probs."""
        end = int(self.count_C[: place + 1].sum())
        part = slice(end - int(self.count_C[place]), end)
        return self.likely[part], self.likely_logprobs[part]

    def drafted(self) -> np.ndarray:
        """(C,) float64: log q of each token, inf where it is not among the likely ones of its place."""
        place = np.repeat(np.arange(len(self.ids_C)), self.count_C)
        is_drafted = self.likely == self.ids_C[place]
        values_C = np.full(len(self.ids_C), np.inf)
        values_C[place[is_drafted]] = self.likely_logprobs[is_drafted]
        return values_C

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.ids_C, self.logprobs_C, self.count_C, self.likely, self.likely_logprobs)

    def state(self) -> list[str]:
        return [base64.b64encode(array.tobytes()).decode() for array in self.arrays]

    @classmethod
    def of(cls, state: Sequence[str]) -> "_Draft":
        kinds = ("<i4", "<f4", "<u1", "<i4", "<f4")
        return cls(*(np.frombuffer(base64.b64decode(s), dtype=k) for s, k in zip(state, kinds, strict=True)))


class Plugin:
    """floor: the least probability of an alternative that is remembered."""

    def __init__(
        self,
        *,
        lenience: NonNegativeFloat = SOURCE,
        official: bool = False,
        floor: Probability = 0.01,
        redraw_equal: bool = False,
    ) -> None:
        self._lenience, self._official, self._floor = lenience, official, floor
        self._redraw_equal = redraw_equal
        self._kept: dict[str, list[_Draft]] = {}
        self._counts = [0.0, 0.0, 0.0, 0.0]  # tokens kept, tokens drafted, drafts kept whole, drafts

    def prefixes(self, drawn: Any, n_P: Sequence[int]) -> list[list[tuple[int, ...]]]:
        if not self._lenience:
            return []
        found: list[list[tuple[int, ...]]] = [[()] * n for n in n_P]
        names = drawn.prompt_ids
        places = [(p, c) for p, n in enumerate(n_P) for c in range(min(n, len(self._kept.get(names[p], ()))))]
        drafts = [self._kept[names[p]][c] for p, c in places]
        ids_of = [draft.ids_C[: drawn.most_tokens].tolist() for draft in drafts]
        chance = [np.random.default_rng((drawn.seed_of(p, "spec_rl"), c)) for p, c in places]
        policy_RC = drawn.logprobs([p for p, _ in places], ids_of).double().numpy()
        cuts = []
        for draft, ids, policy_C, random in zip(drafts, ids_of, policy_RC, chance, strict=True):
            before_C = (draft.logprobs_C.astype(np.float64) if self._official else draft.drafted())[: len(ids)]
            cuts.append(_accepted(policy_C[: len(ids)] - before_C, random.random(len(ids)), self._lenience))
        kept = [tuple(ids[:cut]) for ids, cut in zip(ids_of, cuts, strict=True)]
        is_cut = [cut < len(ids) for ids, cut in zip(ids_of, cuts, strict=True)]
        if not self._official:
            kept = self._with_residual(drawn, places, kept, is_cut, drafts, chance)
        for (p, c), prefix in zip(places, kept, strict=True):
            found[p][c] = prefix
        counts = (sum(cuts), sum(map(len, ids_of)), is_cut.count(False), len(drafts))
        self._counts = [before + new for before, new in zip(self._counts, counts, strict=True)]
        return found

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        kept, drafted, whole, drafts = sum_over_ranks(self._counts)
        metrics["spec_rl/saved_tokens"] = kept
        metrics["spec_rl/kept_share"] = kept / max(drafted, 1)
        metrics["spec_rl/whole_share"] = whole / max(drafts, 1)
        self._counts = [0.0, 0.0, 0.0, 0.0]
        kinds = batch.kind or ("fresh",) * len(batch)
        equal_N = group_stats(rewards_N, batch.gid_N).constant_N
        new: dict[str, list[tuple[np.ndarray, ...]]] = {}
        for rows in rows_of_groups(batch).values() if self._lenience else ():
            fresh = [row for row in rows if kinds[row] == "fresh"]
            if fresh:
                forgotten = self._redraw_equal and bool(equal_N[fresh[0]])
                drafts = [] if forgotten else [self._draft(batch, row).arrays for row in fresh]
                new[batch.prompt_id[fresh[0]]] = drafts
        # A prompt may come to another process next time. Processes cannot exchange classes of plug-in files.
        for of_rank in gather_objects(new):
            self._kept.update({name: [_Draft(*arrays) for arrays in drafts] for name, drafts in of_rank.items()})

    def state_dict(self) -> dict[str, Any]:
        return {"kept": {name: [draft.state() for draft in drafts] for name, drafts in self._kept.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._kept = {name: [_Draft.of(draft) for draft in drafts] for name, drafts in state["kept"].items()}

    def _with_residual(
        self,
        drawn: Any,
        places: Sequence[tuple[int, int]],
        kept: list[tuple[int, ...]],
        is_cut: Sequence[bool],
        drafts: Sequence[_Draft],
        chance: Sequence[np.random.Generator],
    ) -> list[tuple[int, ...]]:
        """What is kept, with the token at each cut."""
        rows = [row for row, cut in enumerate(is_cut) if cut]
        next_RV = drawn.next_logprobs([places[row][0] for row in rows], [kept[row] for row in rows])
        longer = list(kept)
        for row, policy_V in zip(rows, next_RV, strict=True):
            known, before = drafts[row].known(len(kept[row]))
            token = _residual_token(policy_V, known, before, chance[row].random(), self._lenience)
            longer[row] = kept[row] if token is None else (*kept[row], token)
        return longer

    def _draft(self, batch: RolloutBatch, row: int) -> _Draft:
        assert batch.old_NC is not None, "NEEDS contains old"
        mask_C, top_CK = batch.mask_NC[row], batch.meta[TOP][row][batch.mask_NC[row]].detach()
        likely_CA, logprobs_CA = top_CK.chunk(2, dim=1)
        is_kept_CA = logprobs_CA >= math.log(self._floor) if self._floor else torch.isfinite(logprobs_CA)
        return _Draft(
            batch.ids_NC[row][mask_C].numpy().astype("<i4"),
            batch.old_NC[row][mask_C].detach().numpy().astype("<f4"),
            is_kept_CA.sum(1).numpy().astype("<u1"),
            likely_CA[is_kept_CA].numpy().astype("<i4"),
            logprobs_CA[is_kept_CA].numpy().astype("<f4"),
        )


def _accepted(log_ratio_C: np.ndarray, uniform_C: np.ndarray, lenience: float) -> int:
    """How many first tokens are kept."""
    with np.errstate(over="ignore"):
        rejected_C = uniform_C > np.minimum(1.0, lenience * np.exp(log_ratio_C))
    return int(rejected_C.argmax()) if rejected_C.any() else len(rejected_C)


def _residual_token(
    policy_V: torch.Tensor, known: np.ndarray, before: np.ndarray, uniform: float, lenience: float
) -> int | None:
    """A token from max(p - min(q, lenience p), 0), q 0 off the known tokens; None where nothing is left of p."""
    left_V = policy_V.double().exp().numpy()
    p = left_V[known]
    left_V[known] = np.maximum(p - np.minimum(np.exp(before.astype(np.float64)), lenience * p), 0.0)
    cumulative_V = left_V.cumsum()
    if cumulative_V[-1] < 1e-9:
        return None
    return int(np.searchsorted(cumulative_V, uniform * cumulative_V[-1], side="right"))
