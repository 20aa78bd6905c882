"""Which gradient the importance weights give, over all completions of a small policy: sums, no sampling.

A policy over four tokens, the last of which ends a completion, has 40 completions of up to three tokens. Each passes
the product's loss with the probability q of being sampled, so what comes out is the expected gradient. q is the policy
after top_p = 0.8, or an older policy. p is the policy, S the completions that q can draw:

    mask or truncate, sequence, no bound touched   gradient of sum over S of p(y) (r(y) - baseline)
    mask, sequence                                 the same over the completions whose p / q is within the bounds
    truncate, sequence                             sum over S of min(p, cap q) (r - baseline) grad log p
    token                                          gradient of the expected value of one token of p after and before
                                                   tokens of q, summed over positions; for one token the first line
"""

import functools
import itertools

import pytest
import torch
from makers.batches import make_batch

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.rollout.sampling import transform_logits
from mmrl.rollout.types import Sampling

VOCABULARY, END, LONGEST = 4, 3, 3
TOP_P = Sampling(top_p=0.8)
BASELINE = 0.4
NO_BANS = torch.tensor([], dtype=torch.long)


def completions(longest: int = LONGEST) -> list[tuple[int, ...]]:
    free = [c for n in range(longest + 1) for c in itertools.product(range(END), repeat=n)]
    return [(*c, END) if len(c) < longest else c for c in free]


PREFIXES = [c for n in range(LONGEST) for c in itertools.product(range(END), repeat=n)]


def table(seed: int, *, scale: float = 0.8) -> torch.Tensor:
    """Logits of the next token after each prefix."""
    return scale * torch.randn(
        len(PREFIXES), VOCABULARY, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def reward(completion: tuple[int, ...]) -> float:
    return (sum((i + 2) * token for i, token in enumerate(completion)) % 7) / 6


def grid(logprobs_TV: torch.Tensor, rows: list[tuple[int, ...]]) -> torch.Tensor:
    """Log-probs (N, C) of completions, by the log-probs after each prefix; 0 off the tokens."""
    width = max(map(len, rows))
    zero = logprobs_TV.new_zeros(())
    cells = [
        [logprobs_TV[PREFIXES.index(row[:t]), row[t]] if t < len(row) else zero for t in range(width)] for row in rows
    ]
    return torch.stack([torch.stack(line) for line in cells])


class Toy:
    """theta: logits of the policy. sampled_TV: log-probs of the sampler. rows: all completions it can draw."""

    def __init__(self, sampled_TV: torch.Tensor, *, longest: int = LONGEST) -> None:
        self.theta = table(10).requires_grad_()
        self.sampled_TV = sampled_TV.double()
        everything = completions(longest)
        possible_N = grid(self.sampled_TV.exp(), everything).masked_fill(~mask_of(everything), 1).prod(1) > 0
        self.rows = [row for row, possible in zip(everything, possible_N.tolist(), strict=True) if possible]
        self.mask_NC = mask_of(self.rows)
        self.rollout_NC = grid(self.sampled_TV, self.rows)
        self.q_N = self.rollout_NC.sum(1).exp()
        self.advantage_N = torch.tensor([reward(row) - BASELINE for row in self.rows], dtype=torch.float64)

    @property
    def policy_NC(self) -> torch.Tensor:
        return grid(self.theta.log_softmax(-1), self.rows)

    @property
    def ratio_N(self) -> torch.Tensor:
        return (self.policy_NC.sum(1).detach() - self.rollout_NC.sum(1)).exp()

    def gradient(self, value: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(value, self.theta)[0]

    def exact(self, kept_N: torch.Tensor | bool = True) -> torch.Tensor:
        """Gradient of the expected advantage over the completions that the sampler can draw and that are kept."""
        return self.gradient((self.policy_NC.sum(1).exp() * self.advantage_N * kept_N).sum())

    def learned(self, kind: str, level: str = "token", **bounds: float) -> torch.Tensor:
        """The expected gradient that an optimizer step on policy would follow."""
        keys = {"level": level, **bounds}
        section = AlgorithmSection(
            aggregation="seq-mean-token-sum",
            rollout_correction=kind,  # type: ignore[arg-type]
            **{f"rollout_correction_{key}": value for key, value in keys.items()},  # type: ignore[arg-type]
        )
        algorithm = build_algorithm(section, max_new_tokens=LONGEST)
        advantage_NC = self.advantage_N[:, None] * self.mask_NC
        weight_NC = (self.q_N * len(self.rows))[:, None] * self.mask_NC
        batch = self.batch()
        loss, _ = algorithm.loss(self.policy_NC, batch, advantage_NC, weight_NC, denom=algorithm.denominator(batch))
        return self.gradient(-loss)

    def batch(self) -> RolloutBatch:
        lengths = [len(row) for row in self.rows]
        return make_batch(lengths, gid=range(len(lengths)), rollout_NC=self.rollout_NC, old_NC=None)  # type: ignore


def mask_of(rows: list[tuple[int, ...]]) -> torch.Tensor:
    lengths = torch.tensor([len(row) for row in rows])
    return torch.arange(int(lengths.max())) < lengths[:, None]


def nucleus(longest: int = LONGEST) -> Toy:
    return Toy(transform_logits(table(10), TOP_P, NO_BANS), longest=longest)


def older(scale: float = 0.5) -> Toy:
    """The sampler has earlier weights, and draws every completion."""
    return Toy((table(10) + table(11, scale=scale)).log_softmax(-1))


def distance(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Relative error of a gradient."""
    return ((found - exact).norm() / exact.norm()).item()


def test_the_toy_is_a_distribution_and_the_nucleus_a_part_of_it():
    toy, full = nucleus(), older()
    assert (len(full.rows), toy.q_N.sum().item()) == (40, pytest.approx(1.0, abs=1e-6))
    assert full.q_N.sum().item() == pytest.approx(1.0)
    assert len(toy.rows) == 17
    assert toy.policy_NC.sum(1).exp().sum().item() == pytest.approx(0.7074, abs=5e-5)


@pytest.mark.parametrize("kind", ["truncate", "mask"])
def test_top_p_with_sequence_weights_has_the_exact_policy_gradient(kind):
    """A token's p / q is the mass of its nucleus, at most 1: no bound is touched."""
    toy = nucleus()
    assert distance(toy.learned(kind, "sequence", cap=1.0001), toy.exact()) < 1e-6
    assert 0.5 < toy.ratio_N.min() < toy.ratio_N.max() < 1


def test_top_p_without_weights_is_biased():
    toy = nucleus()
    assert distance(toy.learned("none"), toy.exact()) == pytest.approx(0.4194, abs=5e-5)


@pytest.mark.parametrize("kind", ["truncate", "mask"])
def test_token_weights_are_exact_for_one_token(kind):
    toy = nucleus(longest=1)
    assert distance(toy.learned(kind, "token"), toy.exact()) < 1e-6
    assert distance(toy.learned("none"), toy.exact()) == pytest.approx(0.1190, abs=5e-5)


@pytest.mark.parametrize("level", ["token", "geometric"])
def test_token_weights_give_the_gradient_of_one_token_at_a_time(level):
    """For each position the token before and after it are drawn by q, the token itself by p: what is left of the bias
    of longer completions is that of the sampler's visits and values.
    """
    toy = nucleus()
    others_NC = (toy.rollout_NC.sum(1, keepdim=True) - toy.rollout_NC).exp()
    one_by_one = toy.gradient((others_NC * toy.policy_NC.exp() * toy.mask_NC * toy.advantage_N[:, None]).sum())
    assert distance(toy.learned("mask", level), one_by_one) < 1e-6
    assert distance(toy.learned("mask", level), toy.exact()) == pytest.approx(0.2627, abs=5e-5)


def test_an_older_policy_with_sequence_weights_within_the_cap_has_the_exact_gradient():
    toy = older()
    for kind in ("truncate", "mask"):
        assert distance(toy.learned(kind, "sequence", cap=100.0), toy.exact()) < 1e-9
    assert distance(toy.learned("none"), toy.exact()) == pytest.approx(0.6823, abs=5e-5)


def test_masked_sequences_have_the_exact_gradient_of_those_that_are_kept():
    toy = older()
    kept_N = (toy.ratio_N >= 0.5) & (toy.ratio_N <= 2.0)
    assert 0 < kept_N.sum() < len(toy.rows)
    assert distance(toy.learned("mask", "sequence", low=0.5), toy.exact(kept_N)) < 1e-9


def test_truncated_sequences_count_with_cap_times_their_probability():
    toy = older()
    probability_N = torch.minimum(toy.policy_NC.sum(1).exp(), 2.0 * toy.q_N).detach()
    expected = toy.gradient((probability_N * toy.advantage_N * toy.policy_NC.sum(1)).sum())
    learned = toy.learned("truncate", "sequence")
    assert distance(learned, expected) < 1e-9
    assert distance(learned, toy.exact()) == pytest.approx(0.2148, abs=5e-5)


@functools.cache
def pairs_of_rloo(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Expected gradient over all groups of two by leave-one-out advantages, and the exact one of the baseline E_q r."""
    toy = nucleus()
    count = len(toy.rows)
    pairs = torch.cartesian_prod(torch.arange(count), torch.arange(count)).flatten()
    rewards_N = torch.tensor([reward(toy.rows[i]) for i in pairs.tolist()])
    section = AlgorithmSection(
        advantage="rloo",
        aggregation="seq-mean-token-sum",
        rollout_correction=kind,  # type: ignore[arg-type]
        rollout_correction_level="sequence",
    )
    algorithm = build_algorithm(section, max_new_tokens=LONGEST)
    lengths = [len(toy.rows[i]) for i in pairs.tolist()]
    gid = [i // 2 for i in range(len(pairs))]
    batch = make_batch(lengths, gid=gid, rollout_NC=toy.rollout_NC[pairs], old_NC=None)
    advantage_NC = algorithm.advantage(rewards_N, batch)
    both_N = (toy.q_N[pairs].reshape(-1, 2).prod(1) * count**2).repeat_interleave(2)
    weight_NC = both_N[:, None] * batch.mask_NC
    denom = algorithm.denominator(batch)
    loss, _ = algorithm.loss(toy.policy_NC[pairs], batch, advantage_NC, weight_NC, denom=denom)
    rewards_S = torch.tensor([reward(row) for row in toy.rows], dtype=torch.float64)
    toy.advantage_N = rewards_S - (toy.q_N * rewards_S).sum()
    return toy.gradient(-loss), toy.exact()


@pytest.mark.parametrize("kind", ["truncate", "mask"])
def test_a_leave_one_out_baseline_keeps_the_gradient_exact(kind):
    """Its mean is the sampler's mean reward: a completion outside of the nucleus counts as one of that reward."""
    learned, exact = pairs_of_rloo(kind)
    assert distance(learned, exact) < 1e-5
    assert distance(pairs_of_rloo("none")[0], exact) == pytest.approx(0.4188, abs=5e-5)
