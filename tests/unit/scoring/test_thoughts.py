"""Claims of a thought against key frames."""

import time

import pytest

from mmrl.scoring import thoughts as t


def test_the_thought_ends_with_its_last_tag():
    assert t.thought("<think>a</think>b") == t.thought("a</think>b") == "a"
    assert t.thought("no thought") == ""


@pytest.mark.parametrize(
    ("claimed", "known", "fits"),
    [
        ("car", "Red Car", "head soft"),
        ("red car", "red", "soft"),
        ("a", "cat", "soft"),
        ("car man", "car", "soft"),
        ("red  car", "Red car", "exact head soft"),
        ("", "car", ""),
        ("dog", "cat", ""),
    ],
)
def test_names(claimed, known, fits):
    rules: tuple[t.NameRule, ...] = ("exact", "head", "soft")
    assert " ".join(rule for rule in rules if t.same_thing(claimed, known, rule=rule)) == fits


def test_a_claim_needs_a_key_frame_near_in_time():
    frames = t.read_key_frames(
        [{"time": 6, "objects": {"car": [0, 0, 10, 10]}}, {"time": 8, "objects": {"car": [5, 5, 6, 6]}}]
    )
    assert frames is not None
    claim = t.Claim("car", ((0, 0, 10, 10),), 6.9)
    assert t.claim_score(claim, frames, t.ClaimRules()) == 1
    assert t.claim_score(claim, frames, t.ClaimRules(within=0.5)) is None
    assert t.claim_score(t.Claim("bus", claim.boxes, 6), frames, t.ClaimRules()) is None


@pytest.mark.parametrize(
    "value", [None, [], {}, [{"time": 1}], [{"time": 1, "objects": {"a": "b"}}], [{"objects": {}}]]
)
def test_what_is_no_list_of_key_frames(value):
    assert not t.read_key_frames(value)


@pytest.mark.parametrize("text", ["<obj>a</obj>" + "<box>" * 150_000, "<obj>" * 200_000, "<t>1" * 250_000])
def test_a_megabyte_of_open_tags_costs_little(text):
    before = time.perf_counter()
    assert t.claims(text) == () and t.told_times(text) == ()
    assert time.perf_counter() - before < 2
