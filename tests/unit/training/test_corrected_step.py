"""The optimizer step of a real model on top_p = 0.8 samples follows the exact policy gradient.

A tiny VLM that may say four tokens answers a picture with two of them. All answers that the nucleus allows pass the
step, each weighted with its probability; one SGD step of rate 1 then moves every weight by the expected gradient.
"""

import copy
import itertools

import pytest
import torch
from makers.batches import make_batch
from makers.vlm import tiny_vlm

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.config.schema import AlgorithmSection, ModelSection, TrainSection
from mmrl.models.logprobs import LogprobModule
from mmrl.models.packing import group_rows, pack
from mmrl.rollout.sampling import transform_logits
from mmrl.rollout.types import Sampling
from mmrl.training import distributed
from mmrl.training.step import LogprobSettings, optimizer_step, scatter
from mmrl.training.zero import build_engine, engine_config

TOKENS = (65, 70, 80, 90)
ANSWERS = list(itertools.product(TOKENS, repeat=2))
BASELINE = 0.4


@pytest.fixture(scope="module")
def vlm():
    return tiny_vlm("qwen2_5_vl")


@pytest.fixture(scope="module")
def prompt(vlm):
    return vlm.prompt([5], vlm.image(1), [7, 8])


@pytest.fixture(scope="module")
def settings(vlm):
    banned = tuple(set(range(vlm.model.config.text_config.vocab_size)) - {*TOKENS})
    return LogprobSettings(vlm.processor, temperature=0.3, banned_ids=banned, chunk=64, micro_batch_tokens=40)


def rows_of(prompt, answers, settings):
    return group_rows(prompt, answers, list(range(len(answers))), max_tokens=settings.micro_batch_tokens)


def policy_of(model, prompt, answers, settings) -> torch.Tensor:
    """Log-probs (N, 2) of answers, with gradient."""
    [row] = group_rows(prompt, answers, list(range(len(answers))), max_tokens=10**6)
    micro = pack([row], settings.processor)
    grid_NC, sequences = scatter(settings.run(LogprobModule(model), micro).logprobs_L, micro, num_tokens=2)
    assert sequences.tolist() == list(range(len(answers)))
    return grid_NC


def nucleus(policy_NC: torch.Tensor) -> tuple[list[int], torch.Tensor]:
    """Which of ANSWERS top_p = 0.8 can draw, and the sampler's log-probs (N, 2) of these."""
    bans, top_p, count = torch.tensor([], dtype=torch.long), Sampling(top_p=0.8), len(TOKENS)
    first_V = transform_logits(policy_NC[::count, 0][None], top_p, bans)[0]
    second_VV = transform_logits(policy_NC[:, 1].reshape(count, count), top_p, bans)
    sampler_NC = torch.stack([first_V.repeat_interleave(count), second_VV.flatten()], 1)
    kept = sampler_NC.isfinite().all(1).nonzero().flatten()
    return kept.tolist(), sampler_NC[kept]


def step(vlm, prompt, settings, *, kind: str) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """How far one optimizer step moves each weight, and its statistics."""
    with torch.no_grad():
        kept, sampler_NC = nucleus(policy_of(vlm.model, prompt, ANSWERS, settings))
    answers = [ANSWERS[i] for i in kept]
    section = AlgorithmSection(
        aggregation="seq-mean-token-sum",
        rollout_correction=kind,  # type: ignore[arg-type]
        rollout_correction_level="sequence",
    )
    algorithm = build_algorithm(section, max_new_tokens=2)
    batch = make_batch([2] * len(answers), gid=range(len(answers)), rollout_NC=sampler_NC, old_NC=None)  # type: ignore
    advantage_NC = advantages(kept)[:, None] * batch.mask_NC
    weight_NC = (sampler_NC.sum(1).exp() * len(answers))[:, None] * batch.mask_NC
    denom = algorithm.denominator(batch)

    def loss(policy_NC, sequences, extra):
        return algorithm.loss(
            policy_NC, batch.select(sequences), advantage_NC[sequences], weight_NC[sequences], denom=denom
        )

    distributed.start_processes()
    model = copy.deepcopy(vlm.model).train()
    train = TrainSection(max_grad_norm=1e9)
    config = engine_config(model_section=ModelSection(path="tiny", dtype="float32"), train=train)
    engine = build_engine(model, torch.optim.SGD(model.parameters(), lr=1.0), config)
    stats = optimizer_step(engine, rows_of(prompt, answers, settings), loss, settings=settings, num_tokens=2)
    before = dict(vlm.model.named_parameters())
    moved = {name: (new - before[name]).detach() for name, new in model.named_parameters()}
    return moved, algorithm.step_metrics(stats)


def advantages(answers: list[int]) -> torch.Tensor:
    return torch.tensor([(7 * i % 5) / 4 - BASELINE for i in answers])


@pytest.fixture(scope="module")
def exact(vlm, prompt, settings) -> dict[str, torch.Tensor]:
    """Gradient of the expected reward over the baseline of the policy's answers within the nucleus."""
    model = copy.deepcopy(vlm.model)
    policy_NC = policy_of(model, prompt, ANSWERS, settings)
    kept, _ = nucleus(policy_NC.detach())
    (policy_NC[kept].sum(1).exp() * advantages(kept)).sum().backward()
    return {n: p.grad if p.grad is not None else torch.zeros_like(p) for n, p in model.named_parameters()}


def distance(found: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> float:
    """Relative error over all weights together."""
    off = sum(((found[name] - gradient) ** 2).sum() for name, gradient in exact.items())
    return float((off / sum((gradient**2).sum() for gradient in exact.values())).sqrt())


@pytest.mark.parametrize("kind", ["truncate", "mask"])
def test_a_corrected_step_moves_every_weight_by_the_exact_gradient(vlm, prompt, settings, exact, kind):  # fault 63
    moved, stats = step(vlm, prompt, settings, kind=kind)
    assert distance(moved, exact) < 1e-4
    assert stats["policy/correction_outside"] == 0
    assert 0.5 < stats["policy/correction_weight"] < 1
    assert stats["policy/rollout_kl"] > 0


def test_a_step_without_the_weights_does_not(vlm, prompt, settings, exact):
    moved, stats = step(vlm, prompt, settings, kind="none")
    assert distance(moved, exact) == pytest.approx(0.3516, abs=5e-4)
    assert "policy/correction_weight" not in stats
