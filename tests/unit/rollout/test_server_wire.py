"""What trainer and rollout servers send each other."""

import dataclasses
import json
import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from makers.vlm import tiny_vlm
from safetensors.torch import save

from mmrl.data.rendered import MediaEntry
from mmrl.errors import EngineError
from mmrl.rollout.server import wire
from mmrl.rollout.server.push import shards
from mmrl.rollout.server.wire import WeightsId, pack, pack_group, pack_request, unpack, unpack_group, unpack_request
from mmrl.rollout.types import Completion, Group, Request, Sampling

WEIGHTS = WeightsId("session", 3, 2)


def request_of(**changes) -> Request:
    vlm = tiny_vlm("qwen3_vl")
    clip = vlm.clip(2, frames=5)
    prompt = vlm.prompt([1], vlm.image(1), clip, [5])
    fields = {
        "n": 2,
        "sampling": Sampling(temperature=0.3, top_p=0.9, top_k=5, max_new_tokens=9, stop=("</a>", "\n")),
        "seed": 2**62,
        "prefix_ids": ((1, 2), ()),
        "top_alternatives": 3,
        **changes,
    }
    return Request("7", prompt, **fields)


def assert_equal(value: object, other: object) -> None:
    if isinstance(value, torch.Tensor):
        assert torch.equal(value, other) and value.dtype == other.dtype
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            assert_equal(getattr(value, field.name), getattr(other, field.name))
    elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        for mine, theirs in zip(value, other, strict=True):
            assert_equal(mine, theirs)
    else:
        assert value == other and type(value) is type(other)


def test_a_request_arrives_as_it_was():
    request = request_of()
    arrived, weights = unpack_request(pack_request(request, WEIGHTS))

    assert weights == WEIGHTS
    assert_equal(request, arrived)


def test_every_field_of_a_medium_travels():
    names = {field.name for field in dataclasses.fields(MediaEntry)}

    assert set(wire._Entry.model_fields) == names - {"frames_F3HW", "features", "reopen"}, "servers are given pixels"


def test_a_medium_that_is_shown_twice_is_sent_once():
    vlm = tiny_vlm("qwen2_5_vl")
    image = vlm.image(1, height=16)
    once, twice = (dataclasses.replace(request_of(), prompt=vlm.prompt(*parts)) for parts in ([image], [image, image]))
    sizes = [len(pack_request(request, WEIGHTS)) for request in (once, twice)]

    assert sizes[1] - sizes[0] < image.frames_F3HW.nbytes
    arrived, _ = unpack_request(pack_request(twice, WEIGHTS))
    assert [entry.key for entry in arrived.prompt.media] == [image.key] * 2


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.floats(max_value=0.0, allow_nan=False), min_size=1, max_size=5))
def test_completions_arrive_with_all_their_digits(logprobs: list[float]):
    request = request_of(n=1)
    ids = tuple(range(len(logprobs)))
    alternatives = tuple(((i, v), (i + 1, v)) for i, v in enumerate(logprobs))
    completion = Completion(ids, tuple(logprobs), "stop", 'a"\n€', 4, num_forced=1, alternatives=alternatives)
    answer = json.loads(json.dumps(pack_group(Group(request, (completion,)))))

    assert unpack_group(answer, request).completions == (completion,)


def test_an_answer_with_too_few_completions_is_an_error():
    completion = Completion((1,), (-math.inf,), "stop", "", 0)
    with pytest.raises(EngineError, match="1 completions came back for request 7 of 2"):
        unpack_group(pack_group(Group(request_of(), (completion,))), request_of())
    with pytest.raises(EngineError, match="the answer cannot be read"):
        unpack_group({"completions": [{"ids": "x"}]}, request_of())


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\xff" * 40, save({"a": torch.zeros(1)}), pack({}, {})[:-3]])
def test_bytes_that_are_no_message_are_an_error(data: bytes):
    with pytest.raises(EngineError, match="cannot be read"):
        unpack_request(data)


def changed(**changes) -> bytes:
    """A packed request with other values of its prompt's record."""
    record, tensors = unpack(pack_request(request_of(), WEIGHTS))
    tree = json.loads(record)
    tree["prompt"].update(changes)
    return pack(tree, tensors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shown": [0, 9]}, r"cannot be read \(IndexError"),
        ({"entries": 3}, r"cannot be read \(ValidationError"),
        ({"path": "/etc/passwd"}, r"cannot be read \(ValidationError"),
        ({"placeholders": []}, r"\[0, 0\] placeholders for media of \["),
        ({"placeholders": [{"start": 10**6, "length": 2, "medium": 0, "first": 0}]}, "outside the prompt"),
        ({"placeholders": [{"start": 0, "length": 2, "medium": 5, "first": 0}]}, "of no medium"),
        ({"placeholders": [{"start": 3, "length": -2, "medium": 0, "first": 0}]}, "outside the prompt"),
        ({"placeholders": [{"start": 3, "length": 1, "medium": 0, "first": 1}]}, "are not in the order"),
    ],
)
def test_requests_that_contradict_themselves_are_an_error(changes: dict, message: str):
    with pytest.raises(EngineError, match=message):
        unpack_request(changed(**changes))


def test_a_clip_without_its_rate_is_an_error():
    vlm = tiny_vlm("qwen3_vl")
    for sample_fps in (None, 0.0, math.nan):
        clip = dataclasses.replace(vlm.clip(2, frames=5), sample_fps=sample_fps)
        request = dataclasses.replace(request_of(), prompt=vlm.prompt([1], clip))
        with pytest.raises(EngineError, match="a clip without its sample_fps"):
            unpack_request(pack_request(request, WEIGHTS))


def test_weights_of_another_trainer_or_an_earlier_sync_do_not_do():
    assert WeightsId("a", 3, 1).covers(WeightsId("a", 3, 1))
    assert not WeightsId("a", 3, 5).covers(WeightsId("a", 4, 5))
    assert not WeightsId("b", 9, 9).covers(WeightsId("a", 1, 0))


def test_weights_are_cut_into_parts():
    """Of 3, 3, 9 and 1 bytes in parts of 6: two together, the large one alone."""
    named = [(name, torch.zeros(size, dtype=torch.uint8)) for name, size in zip("abcd", (3, 3, 9, 1), strict=True)]

    assert [list(part) for part in shards(named, 6)] == [["a", "b"], ["c"], ["d"]]
    with pytest.raises(EngineError, match="weight a was sent twice"):
        list(shards([named[0], named[0]], 100))
