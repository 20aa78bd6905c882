"""The engine against the trainer and against plain recomputation, on tiny real models."""

import dataclasses

import pytest
import torch
from makers.vlm import FAMILIES, TinyVlm, answers, requests_for, tiny_vlm

from mmrl.errors import EngineError
from mmrl.models.encode import encode_media, gather_features
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.sampling import banned_tensor, transform_logits
from mmrl.rollout.stops import completes_stop
from mmrl.rollout.types import Completion, Group, Sampling

TOLERANCE = 1e-5


def engine_of(vlm: TinyVlm, **options) -> HfEngine:
    return HfEngine(vlm.model, vlm.processor, **options)


def mixed_prompts(vlm: TinyVlm) -> list:
    return [
        vlm.prompt([1, 2, 3]),
        vlm.prompt([1], vlm.image(1), [2]),
        vlm.prompt([1], vlm.image(1), [2], vlm.image(2, height=6), [3, 4]),
        vlm.prompt([5], vlm.clip(3, frames=5), [6]),
        vlm.prompt(vlm.clip(3), [6], vlm.image(4), [7]),
    ]


def trainer_logprobs(vlm: TinyVlm, group: Group, *, temperature: float) -> list[list[float]]:
    ids = [completion.ids for completion in group.completions]
    micro = pack([group_row(group.request.prompt, ids, range(len(ids)))], vlm.processor)
    with torch.no_grad():
        result = token_logprobs(
            vlm.model, micro, vlm.processor, temperature=temperature, banned_ids=vlm.processor.banned_ids, chunk=5
        )
    return [result.logprobs_L[micro.sequence_L == n].tolist() for n in range(len(ids))]


def full_logits(vlm: TinyVlm, prompt, completion: Completion) -> torch.Tensor:
    """Logits before every completion token, from one plain forward pass of transformers."""
    micro = pack([group_row(prompt, [completion.ids], [0])], vlm.processor)
    with torch.no_grad():
        features = encode_media(vlm.model, micro.media, vlm.processor)
        return vlm.model(
            input_ids=micro.ids_BT,
            position_ids=micro.positions_3BT,
            mm_encoder_outputs=gather_features(features, micro.media_order, vlm.processor),
        ).logits[0, micro.predict_L]


@pytest.mark.parametrize("family", FAMILIES)
def test_behavior_logprobs_equal_the_trainers_while_filters_are_off(family: str):  # faults 62, 64
    vlm = tiny_vlm(family)
    groups = answers(engine_of(vlm), requests_for(mixed_prompts(vlm)))

    assert len(groups) == 5
    for group in groups:
        expected = trainer_logprobs(vlm, group, temperature=0.7)
        for completion, values in zip(group.completions, expected, strict=True):
            assert completion.behavior_logprobs == pytest.approx(values, abs=TOLERANCE)


@pytest.mark.parametrize("filters", [{"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.6}, {"top_k": 20, "top_p": 0.8}])
@pytest.mark.parametrize("family", FAMILIES)
def test_with_filters_on_they_are_of_the_distribution_drawn_from(family: str, filters: dict):  # fault 63
    vlm = tiny_vlm(family)
    sampling = Sampling(max_new_tokens=5, temperature=1.3, **filters)
    banned = banned_tensor(vlm.processor.banned_ids, torch.device("cpu"))
    for group in answers(engine_of(vlm), requests_for(mixed_prompts(vlm)[:2], sampling=sampling)):
        for completion in group.completions:
            logits = full_logits(vlm, group.request.prompt, completion)
            logprobs = transform_logits(logits, sampling, banned)
            expected = logprobs.gather(1, torch.tensor(completion.ids)[:, None])[:, 0].tolist()
            assert completion.behavior_logprobs == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_takes_the_most_likely_allowed_token(family: str):
    vlm = tiny_vlm(family)
    requests = requests_for(mixed_prompts(vlm), n=1, sampling=Sampling(max_new_tokens=6, greedy=True))
    for group in answers(engine_of(vlm), requests):
        [completion] = group.completions
        logits = full_logits(vlm, group.request.prompt, completion)
        logits[:, list(vlm.processor.banned_ids)] = -torch.inf
        assert logits.argmax(-1).tolist() == list(completion.ids)
        expected = logits.log_softmax(-1).amax(-1).tolist()
        assert completion.behavior_logprobs == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_completion_does_not_depend_on_its_neighbours(family: str):
    vlm = tiny_vlm(family)
    requests = requests_for(mixed_prompts(vlm))
    together = answers(engine_of(vlm), requests)
    for group in together:
        [alone] = engine_of(vlm).generate([group.request])
        assert [c.ids for c in alone.completions] == [c.ids for c in group.completions]
        split = list(engine_of(vlm, max_batch_tokens=60).generate([group.request]))
        assert [c.ids for c in split[0].completions] == [c.ids for c in group.completions]


def test_seed_decides_and_completions_of_a_group_differ():
    vlm = tiny_vlm("qwen2_5_vl")
    [request] = requests_for([vlm.prompt([1, 2])])
    first, again = answers(engine_of(vlm), [request])[0], answers(engine_of(vlm), [request])[0]
    other = answers(engine_of(vlm), [dataclasses.replace(request, seed=99)])[0]

    assert first.completions == again.completions
    assert len({c.ids for c in first.completions}) == 4
    assert {c.ids for c in other.completions}.isdisjoint(c.ids for c in first.completions)


def test_samples_follow_the_distribution():
    """2000 first tokens of a filtered distribution of 4 tokens: each frequency within 4 standard deviations."""
    vlm = tiny_vlm("qwen2_5_vl")
    sampling = Sampling(max_new_tokens=1, top_k=4, temperature=0.5)
    [group] = engine_of(vlm).generate(requests_for([vlm.prompt([1, 2])], n=2000, sampling=sampling))
    counts: dict[int, int] = {}
    probabilities: dict[int, float] = {}
    for completion in group.completions:
        [token] = completion.ids
        counts[token] = counts.get(token, 0) + 1
        probabilities[token] = torch.tensor(completion.behavior_logprobs).exp().item()

    assert sum(probabilities.values()) == pytest.approx(1.0, abs=1e-5)
    for token, p in probabilities.items():
        assert abs(counts[token] / 2000 - p) < 4 * (p * (1 - p) / 2000) ** 0.5


def test_vision_and_padding_ids_are_never_sampled():
    vlm = tiny_vlm("qwen2_5_vl")
    engine = engine_of(vlm)
    [group] = engine.generate(
        requests_for([vlm.prompt([1])], n=64, sampling=Sampling(max_new_tokens=16, temperature=100.0))
    )
    sampled = {i for c in group.completions for i in c.ids}

    assert {vlm.processor.image_token_id, vlm.processor.video_token_id} <= set(engine.banned_ids)
    assert sampled.isdisjoint(engine.banned_ids)
    assert len(sampled) > 100


@pytest.mark.parametrize("filters", [{}, {"top_k": 1}])
def test_forced_prefixes_begin_the_completion_with_the_policys_logprobs(filters: dict):
    vlm = tiny_vlm("qwen3_vl")
    prefixes = ((5, 6, 7), (), (8,))
    sampling = Sampling(max_new_tokens=5, **filters)
    [request] = requests_for([vlm.prompt([1], vlm.image(1), [2])], n=3, prefix_ids=prefixes, sampling=sampling)
    [group] = engine_of(vlm).generate([request])
    expected = trainer_logprobs(vlm, group, temperature=1.0)

    assert [c.num_forced for c in group.completions] == [3, 0, 1]
    for completion, prefix, values in zip(group.completions, prefixes, expected, strict=True):
        count = len(prefix) if filters else len(completion.ids)
        assert completion.ids[: len(prefix)] == prefix
        assert len(completion.ids) <= 5
        assert completion.behavior_logprobs[:count] == pytest.approx(values[:count], abs=TOLERANCE)


def test_an_end_token_inside_a_prefix_does_not_end_the_completion():
    vlm = tiny_vlm("qwen2_5_vl")
    end = vlm.processor.eos_ids[0]
    [request] = requests_for([vlm.prompt([1])], n=1, prefix_ids=((end, 5),), sampling=Sampling(max_new_tokens=3))
    [group] = engine_of(vlm).generate([request])

    assert group.completions[0].ids[:2] == (end, 5)
    assert len(group.completions[0].ids) == 3


def test_an_end_token_or_stop_string_that_is_last_in_a_prefix_ends_the_completion():
    vlm = tiny_vlm("qwen2_5_vl")
    end, word = vlm.processor.eos_ids[0], tuple(vlm.processor.encode_text("left"))
    prefixes, sampling = ((5, end), word, (end, 5, 6), ()), Sampling(max_new_tokens=4, stop=("left",))
    [request] = requests_for([vlm.prompt([1])], n=4, prefix_ids=prefixes, sampling=sampling)
    [group] = engine_of(vlm).generate([request])

    assert [c.ids for c in group.completions[:2]] == [(5, end), word]
    assert [c.finish_reason for c in group.completions[:2]] == ["stop", "stop"]
    assert [len(c.behavior_logprobs) for c in group.completions] == [len(c.ids) for c in group.completions]
    assert group.completions[2].ids[:3] == (end, 5, 6) and len(group.completions[2].ids) == 4


def test_end_token_and_length_give_their_finish_reason():
    vlm = tiny_vlm("qwen2_5_vl")
    sampling = Sampling(max_new_tokens=400, temperature=50.0)
    [group] = engine_of(vlm).generate(requests_for([vlm.prompt([1])], n=16, sampling=sampling))
    ends = set(vlm.processor.eos_ids)

    assert {c.finish_reason for c in group.completions} == {"stop", "length"}
    for completion in group.completions:
        assert ends.isdisjoint(completion.ids[:-1])
        if completion.finish_reason == "stop":
            assert completion.ids[-1] in ends
        else:
            assert len(completion.ids) == 400
            assert completion.ids[-1] not in ends


def test_a_stop_string_ends_the_completion_and_stays_in_its_text():
    vlm = tiny_vlm("qwen2_5_vl")
    [free] = engine_of(vlm).generate(requests_for([vlm.prompt([1])], n=6, sampling=Sampling(max_new_tokens=12)))
    stop = vlm.processor.decode(free.completions[0].ids[4:6])
    sampling = Sampling(max_new_tokens=12, stop=(stop,))
    [stopped] = engine_of(vlm).generate(requests_for([vlm.prompt([1])], n=6, sampling=sampling))

    assert "\N{REPLACEMENT CHARACTER}" not in stop
    assert stopped.completions[0].finish_reason == "stop"
    assert stop in stopped.completions[0].text
    for before, after in zip(free.completions, stopped.completions, strict=True):
        assert after.ids == before.ids[: len(after.ids)]
        assert (stop in after.text) == (after.finish_reason == "stop" and after.ids[-1] not in vlm.processor.eos_ids)


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("ight", True),
        ("t r", True),  # begins in an earlier token
        (" rig", True),  # ends in the middle of the last token
        ("left", False),  # was there before
        ("wrong", False),
    ],
)
def test_a_stop_string_counts_where_the_last_token_completes_it(stop: str, expected: bool):
    processor = tiny_vlm("qwen2_5_vl").processor
    ids = processor.encode_text("left right")

    assert processor.decode(ids[-1:]) == " right"
    assert completes_stop(ids, (stop,), processor) is expected


def test_a_character_of_several_tokens_completes_a_stop_string_with_its_last_byte():
    processor = tiny_vlm("qwen2_5_vl").processor
    ids = processor.encode_text("a\N{SNOWMAN}")

    assert len(ids) == 4
    assert [completes_stop(ids[:n], ("\N{SNOWMAN}",), processor) for n in (2, 3, 4)] == [False, False, True]


def test_special_tokens_inside_do_not_hide_a_stop_string():
    processor = tiny_vlm("qwen2_5_vl").processor
    left, right = processor.encode_text("left"), processor.encode_text(" right")
    special = processor.special_ids["<|box_start|>"]

    assert completes_stop([*left, special, *right], ("left right",), processor)
    assert not completes_stop([*left, *right, special], ("left right",), processor)


def test_entropy_and_alternatives_are_given_to_those_who_ask():
    vlm = tiny_vlm("qwen2_5_vl")
    plain, asking = requests_for([vlm.prompt([1]), vlm.prompt([2, 3])])
    asking = dataclasses.replace(asking, want_entropy=True, top_alternatives=3)
    groups = answers(engine_of(vlm), [plain, asking])
    banned = banned_tensor(vlm.processor.banned_ids, torch.device("cpu"))

    assert groups[0].completions[0].entropy == ()
    assert groups[0].completions[0].alternatives == ()
    for completion in groups[1].completions:
        logprobs = transform_logits(full_logits(vlm, asking.prompt, completion), asking.sampling, banned)
        expected = torch.distributions.Categorical(logits=logprobs.clamp_min(-1e9)).entropy().tolist()
        assert completion.entropy == pytest.approx(expected, abs=TOLERANCE)
        for row, distribution in zip(completion.alternatives, logprobs, strict=True):
            assert [i for i, _ in row] == distribution.topk(3).indices.tolist()
            assert [v for _, v in row] == pytest.approx(distribution.topk(3).values.tolist(), abs=TOLERANCE)


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_and_media_run_once_per_group(family: str):
    """16 + 16 patches and 15 + 20 prompt tokens, whatever n is; one decode step costs one token a sequence."""
    vlm = tiny_vlm(family)
    image, clip = vlm.image(1), vlm.clip(2)
    prompts = [vlm.prompt([1], image, [2]), vlm.prompt([1], image, [2], clip, [3])]
    patches, tokens = [], []
    hooks = [
        vlm.model.model.visual.register_forward_hook(lambda m, args, out: patches.append(len(args[0]))),
        vlm.model.model.language_model.register_forward_hook(
            lambda m, args, kwargs, out: tokens.append(kwargs["inputs_embeds"].shape[:2]), with_kwargs=True
        ),
    ]
    answers(engine_of(vlm), requests_for(prompts, n=8, sampling=Sampling(max_new_tokens=3)))
    for hook in hooks:
        hook.remove()

    assert sorted(patches) == [16, 16]
    assert tokens[0] == (2, len(prompts[1].prompt_ids_T))
    assert all(shape[1] == 1 and shape[0] <= 16 for shape in tokens[1:])


def test_a_longer_prompt_continues_the_conversation():
    vlm = tiny_vlm("qwen2_5_vl")
    [group] = engine_of(vlm).generate(requests_for([vlm.prompt([1], vlm.image(1), [2])], n=1))
    longer = vlm.prompt([1], vlm.image(1), [2, *group.completions[0].ids, 3], vlm.clip(2), [4])
    [second] = engine_of(vlm).generate(requests_for([longer], n=2))

    for completion, values in zip(second.completions, trainer_logprobs(vlm, second, temperature=0.7), strict=True):
        assert completion.behavior_logprobs == pytest.approx(values, abs=TOLERANCE)


def test_groups_come_out_as_they_finish_and_modes_are_restored_in_between():
    vlm = tiny_vlm("qwen2_5_vl")
    vlm.model.train()
    vlm.model.model.visual.eval()
    requests = requests_for([vlm.prompt([i]) for i in range(12)], n=2, sampling=Sampling(60.0, max_new_tokens=200))
    steps = []
    for group in engine_of(vlm).generate(requests):
        steps.append(max(len(completion.ids) for completion in group.completions))
        assert vlm.model.training
        assert not vlm.model.model.visual.training
        assert torch.is_grad_enabled()
    vlm.model.eval()

    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n 0"),
        ({"sampling": Sampling(max_new_tokens=0)}, "max_new_tokens 0"),
        ({"prefix_ids": ((1,),)}, "1 prefixes for 4 completions"),
        ({"prefix_ids": ((1,) * 8, (), (), ())}, "a prefix of 8 tokens, max_new_tokens is 7"),
        ({"sampling": Sampling(max_new_tokens=99)}, r"2 prompt tokens and 99 new tokens .*max_batch_tokens \(100\)"),
    ],
)
def test_requests_that_cannot_be_served_are_refused_before_decoding(changes: dict, message: str):
    vlm = tiny_vlm("qwen2_5_vl")
    with pytest.raises(EngineError, match=rf"request 0 \(hand-made\): .*{message}"):
        engine_of(vlm, max_batch_tokens=100).generate(requests_for([vlm.prompt([1, 2])], **changes))


def test_a_banned_forced_token_is_refused():
    vlm = tiny_vlm("qwen2_5_vl")
    image = vlm.processor.image_token_id
    with pytest.raises(EngineError, match=rf"forced tokens \[{image}\] are banned"):
        engine_of(vlm).generate(requests_for([vlm.prompt([1])], n=1, prefix_ids=((image,),)))


def test_a_sleeping_engine_refuses_and_wakes():
    vlm = tiny_vlm("qwen2_5_vl")
    engine = engine_of(vlm)
    engine.sleep()
    with pytest.raises(EngineError, match="asleep"):
        engine.generate([])
    engine.wake()
    assert list(engine.generate([])) == []
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.generate([])


def own_model(vlm: TinyVlm):
    return type(vlm.model)(vlm.model.config).eval()


def test_syncing_an_engine_of_its_own_makes_it_sample_as_the_trainer():
    vlm = tiny_vlm("qwen2_5_vl")
    engine = HfEngine(own_model(vlm), vlm.processor)
    request = requests_for([vlm.prompt([1], vlm.image(1))])
    expected = answers(engine_of(vlm), request)[0]
    before = answers(engine, request)[0]
    engine.sync_weights(vlm.model.named_parameters(), 5)
    after = answers(engine, request)[0]

    assert [c.ids for c in before.completions] != [c.ids for c in expected.completions]
    assert [c.ids for c in after.completions] == [c.ids for c in expected.completions]
    assert [c.policy_version for c in after.completions] == [5] * 4


def test_syncing_shared_modules_only_counts_the_version():
    vlm = tiny_vlm("qwen2_5_vl")
    engine = engine_of(vlm)
    versions = [p._version for p in vlm.model.parameters()]
    engine.sync_weights(vlm.model.named_parameters(), 3)

    assert engine.policy_version == 3
    assert [p._version for p in vlm.model.parameters()] == versions


def test_weight_names_that_differ_are_listed_for_both_sides():  # fault 58
    vlm = tiny_vlm("qwen2_5_vl")
    renamed = [(n.replace("lm_head", "head"), p) for n, p in vlm.model.named_parameters()]
    with pytest.raises(EngineError, match=r"the engine also has lm_head.weight, the trainer also has head.weight"):
        HfEngine(own_model(vlm), vlm.processor).sync_weights(renamed, 1)


def test_a_weight_of_another_shape_is_named():  # fault 56
    vlm = tiny_vlm("qwen2_5_vl")
    tensors = [("lm_head.weight", torch.empty(0))]
    with pytest.raises(EngineError, match=r"lm_head.weight: the trainer sent \(0,\), the engine has \(\d+, 128\)"):
        HfEngine(own_model(vlm), vlm.processor).sync_weights(tensors, 1)
