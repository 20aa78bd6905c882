"""The distribution a token is drawn from, and the draw: pure functions of logits and numbers.

Shape letters: B sequences, V vocabulary, A alternatives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from mmrl.rollout.types import Sampling


def transform_logits(logits_BV: torch.Tensor, sampling: Sampling, banned_V: torch.Tensor) -> torch.Tensor:
    """Log-probs (B, V), float32, of the distribution that is sampled; -inf for tokens that cannot be drawn.

    In this order: banned ids out, divide by the temperature, top-k, top-p, min-p, and what is left sums to 1.

        top_k   the k most likely tokens (ties with the k-th stay); 0: off
        top_p   the fewest most likely tokens whose probability reaches top_p; 1: off
        min_p   tokens with at least min_p times the probability of the most likely one; 0: off

    Greedy sampling uses the bans alone: the log-probs are those of the model at temperature 1.

    Probabilities (0.5, 0.3, 0.15, 0.05): top_k = 2 gives (0.625, 0.375, 0, 0), so does top_p = 0.6 and min_p = 0.4.
    """
    logits_BV = logits_BV.float().index_fill(-1, banned_V, -torch.inf)
    if sampling.greedy:
        return logits_BV.log_softmax(-1)
    if sampling.temperature != 1.0:
        logits_BV = logits_BV.div_(sampling.temperature)  # in place: index_fill made a tensor of its own
    if 0 < sampling.top_k < logits_BV.shape[-1]:
        kth_B1 = logits_BV.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < kth_B1, -torch.inf)
    if sampling.top_p < 1.0:
        logits_BV = _keep_top_p(logits_BV, sampling.top_p)
    logprobs_BV = logits_BV.log_softmax(-1)
    if sampling.min_p > 0.0:
        floor_B1 = logprobs_BV.amax(-1, keepdim=True) + float(np.log(sampling.min_p))
        logprobs_BV = logprobs_BV.masked_fill(logprobs_BV < floor_B1, -torch.inf).log_softmax(-1)
    return logprobs_BV


def draw(logprobs_BV: torch.Tensor, uniform_B: torch.Tensor) -> torch.Tensor:
    """One token per sequence by inverting the cumulative distribution at uniform_B in [0, 1).

    One number decides a token, so a sequence's own random numbers make its result independent of its neighbours.
    Sums are float64: a cumulative sum over 150,000 terms in float32 is off in the third digit of a rare token.

    Probabilities (0.5, 0.3, 0.2): u = 0.49 draws token 0, u = 0.5 token 1, u = 0.8 token 2.
    """
    cumulative_BV = logprobs_BV.exp().cumsum(-1, dtype=torch.float64)
    threshold_B1 = uniform_B.to(cumulative_BV)[:, None] * cumulative_BV[:, -1:]
    return torch.searchsorted(cumulative_BV, threshold_B1, right=True)[:, 0]


def uniforms(seed: int, *, completion: int, count: int) -> np.ndarray:
    """The first `count` random numbers of one completion: a function of (seed, completion) and of nothing else."""
    return np.random.default_rng((seed, completion)).random(count)


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed that depends on every part and on nothing else, the same on every machine."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def entropy(logprobs_BV: torch.Tensor) -> torch.Tensor:
    """- sum p log p in nats, (B,); tokens of probability 0 count nothing."""
    return -(logprobs_BV.exp() * logprobs_BV.clamp_min(torch.finfo(torch.float32).min)).sum(-1)


def top_alternatives(logprobs_BV: torch.Tensor, count: int) -> list[tuple[tuple[int, float], ...]]:
    """The `count` most likely (id, log-prob) of every sequence, most likely first; fewer where fewer can be drawn."""
    values_BA, ids_BA = logprobs_BV.topk(min(count, logprobs_BV.shape[-1]), dim=-1)
    rows = zip(ids_BA.tolist(), values_BA.tolist(), strict=True)
    return [tuple((i, v) for i, v in zip(ids, values, strict=True) if v > -torch.inf) for ids, values in rows]


def banned_tensor(banned_ids: Sequence[int], device: torch.device) -> torch.Tensor:
    """Banned ids as `transform_logits` takes them."""
    return torch.tensor(banned_ids, dtype=torch.long, device=device)


def _keep_top_p(logits_BV: torch.Tensor, top_p: float) -> torch.Tensor:
    """-inf for every token whose more likely tokens reach top_p already; the most likely one always stays."""
    sorted_BV, order_BV = logits_BV.sort(dim=-1, descending=True, stable=True)
    probabilities_BV = sorted_BV.softmax(-1)
    before_BV = probabilities_BV.cumsum(-1) - probabilities_BV
    drop_BV = before_BV >= top_p
    drop_BV[:, 0] = False
    return logits_BV.masked_fill(drop_BV.gather(-1, order_BV.argsort(-1)), -torch.inf)
