"""Refilled rows, shared prompts and prefixes run in one pass change nothing, in any family."""

import dataclasses

import pytest
import torch
from makers.tiled_prompts import prompts_of
from makers.tiny_models import TILE_KINDS
from makers.vlm import FAMILIES, answers, mixed_prompts, tiny_vlm

from mmrl.rollout.hf_cache import KvBuffers
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.hf_slots import Schedule
from mmrl.rollout.types import Completion, Request, Sampling

TOLERANCE = 1e-5
every_family = pytest.mark.parametrize("family", [*FAMILIES, *TILE_KINDS])


def requests_of(family: str, *, n: int = 4, max_new_tokens: int = 9, **changes) -> list[Request]:
    """Some completions end early: at this temperature every token is about as likely."""
    vlm = tiny_vlm(family)
    prompts = mixed_prompts(vlm) if family in FAMILIES else prompts_of(family)
    sampling = Sampling(max_new_tokens=max_new_tokens, temperature=3.0, top_k=40)
    return [Request(str(i), p, n, sampling, seed=10 + i, **changes) for i, p in enumerate(prompts)]


def engine_of(family: str, **options) -> HfEngine:
    vlm = tiny_vlm(family)
    return HfEngine(vlm.model, vlm.processor, **options)


def check_equal(found: Completion, expected: Completion) -> None:
    assert found.ids == expected.ids
    assert found.finish_reason == expected.finish_reason
    assert found.behavior_logprobs == pytest.approx(expected.behavior_logprobs, abs=TOLERANCE)
    assert found.entropy == pytest.approx(expected.entropy, abs=TOLERANCE)
    assert len(found.alternatives) == len(expected.alternatives)
    for row, other in zip(found.alternatives, expected.alternatives, strict=True):
        assert [v for _, v in row] == pytest.approx([v for _, v in other], abs=TOLERANCE)


@every_family
def test_rows_that_are_refilled_give_what_each_completion_gives_alone(family: str):
    kinds = [Sampling(greedy=True, max_new_tokens=5), Sampling(temperature=2.0, top_p=0.9, max_new_tokens=12), None]
    requests = requests_of(family)
    requests = [dataclasses.replace(r, sampling=kinds[i % 3] or r.sampling) for i, r in enumerate(requests)]
    widest = max(len(r.prompt.prompt_ids_T) for r in requests)
    cap = 2 * (widest + 12)
    assert len(Schedule(requests, max_batch_tokens=cap).refill()) < 4
    for group in answers(engine_of(family, max_batch_tokens=cap), requests):
        [alone] = engine_of(family).generate([group.request])
        for found, expected in zip(group.completions, alone.completions, strict=True):
            check_equal(found, expected)


@every_family
def test_forcing_what_was_sampled_changes_nothing(family: str):
    """Prefixes of every length, up to the whole completion, in one pass: what follows, and what is said of each forced
    token, is what sampling step by step gave.
    """
    requests = requests_of(family, want_entropy=True, top_alternatives=3)
    requests = [dataclasses.replace(r, sampling=dataclasses.replace(r.sampling, top_k=0)) for r in requests]
    for free in answers(engine_of(family), requests):
        cuts = (0, 1, 6, 99)
        prefixes = tuple(c.ids[:cut] for c, cut in zip(free.completions, cuts, strict=True))
        [forced] = engine_of(family).generate([dataclasses.replace(free.request, prefix_ids=prefixes)])
        for found, expected, prefix in zip(forced.completions, free.completions, prefixes, strict=True):
            assert found.num_forced == len(prefix)
            check_equal(found, expected)


def test_prefixes_are_run_in_one_pass_and_whole_drafts_need_no_step():
    vlm = tiny_vlm("qwen2_5_vl")
    requests = requests_of("qwen2_5_vl")
    groups = answers(engine_of("qwen2_5_vl"), requests)
    forced = [
        dataclasses.replace(g.request, prefix_ids=tuple(completion.ids for completion in g.completions)) for g in groups
    ]
    shapes = []
    hook = vlm.model.model.language_model.register_forward_hook(
        lambda m, args, kwargs, out: shapes.append(tuple(kwargs["inputs_embeds"].shape[:2])), with_kwargs=True
    )
    again = answers(engine_of("qwen2_5_vl"), forced)
    hook.remove()

    widest = max(len(r.prompt.prompt_ids_T) for r in requests)
    assert shapes == [(5, widest), (1, sum(len(c.ids) for g in groups for c in g.completions))]
    assert [c.ids for g in again for c in g.completions] == [c.ids for g in groups for c in g.completions]


def test_a_prompt_is_run_once_though_its_completions_begin_at_different_times():
    vlm = tiny_vlm("qwen2_5_vl")
    requests = requests_of("qwen2_5_vl", n=6)
    prompts = []
    hook = vlm.model.model.register_forward_hook(
        lambda m, args, kwargs, out: prompts.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    widest = max(len(r.prompt.prompt_ids_T) for r in requests)
    answers(engine_of("qwen2_5_vl", max_batch_tokens=widest + 4 * 9), requests)
    hook.remove()

    assert sum(prompts) == len(requests)
    assert len(prompts) > 1


def test_what_is_held_never_exceeds_the_cap(monkeypatch: pytest.MonkeyPatch):
    """Tokens for which there are keys and values, counted in the buffers themselves."""
    held = []
    record = KvBuffers.record

    def counted(self: KvBuffers, index: int, *rest) -> None:
        record(self, index, *rest)
        layer = self.layer(index)
        held.append(sum(b.shape[1] * b.shape[3] for b in (layer.prompts_2PJTD, layer.rows_2RJSD)))

    monkeypatch.setattr(KvBuffers, "record", counted)
    requests = requests_of("qwen2_5_vl")
    cap = max(len(r.prompt.prompt_ids_T) for r in requests) + 3 * 9
    answers(engine_of("qwen2_5_vl", max_batch_tokens=cap), requests)

    assert cap // 2 < max(held) <= cap


def test_memory_that_was_never_written_does_not_matter(monkeypatch: pytest.MonkeyPatch):
    """New buffers hold NaN; rows of one batch have prompts and completions of different lengths."""
    expected = answers(engine_of("qwen2_5_vl"), requests_of("qwen2_5_vl"))
    new_empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *size: new_empty(self, *size).fill_(torch.nan))
    cap = 3 * (max(len(r.prompt.prompt_ids_T) for r in requests_of("qwen2_5_vl")) + 9)
    found = answers(engine_of("qwen2_5_vl", max_batch_tokens=cap), requests_of("qwen2_5_vl"))
    for group, other in zip(found, expected, strict=True):
        for completion, wanted in zip(group.completions, other.completions, strict=True):
            check_equal(completion, wanted)


def test_groups_finish_one_after_the_other_when_not_all_fit():
    """Rewards can begin early: the first group is out before the last one begins."""
    requests = requests_of("qwen2_5_vl", n=4)
    widest = max(len(r.prompt.prompt_ids_T) for r in requests)
    engine = engine_of("qwen2_5_vl", max_batch_tokens=2 * widest + 5 * 9)
    order = sorted(requests, key=lambda r: -len(r.prompt.prompt_ids_T))
    finished = [group.request.request_id for group in engine.generate(requests)]

    assert finished[0] in [r.request_id for r in order[:2]]
    assert finished[-1] in [r.request_id for r in order[-2:]]
