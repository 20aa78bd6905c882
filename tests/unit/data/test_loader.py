"""The order of training rows: exact, seeded, resumable, mixed as asked."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers.rows import read, text_rows, write_jsonl

from mmrl.config.schema import DataSection
from mmrl.data.loader import Loader, build_loader, hash_numbers
from mmrl.data.skipped import SkippedLog
from mmrl.errors import CheckpointError, DataError

MIXTURES = ("concat", "weights", "shares")
SIZES = {"a": 7, "b": 3, "c": 1}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    return [read(write_jsonl(folder / f"{name}.jsonl", text_rows(size))) for name, size in SIZES.items()]


def make(sets, mixture="concat", *, weights=(4.0, 2.0, 2.0), shuffle=True, seed="0/stage") -> Loader:
    return Loader(sets, weights=weights, mixture=mixture, shuffle=shuffle, seed=seed)


def ids(samples) -> list[str]:
    return [s.sample_id for s in samples]


def test_concat_shows_every_row_once_an_epoch(sets):
    loader = make(sets)
    epochs = [ids(loader.next(11)) for _ in range(3)]
    assert len(loader) == 11 and loader.epoch == 3.0
    assert all(len(set(epoch)) == 11 for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_batch_crosses_epochs_and_may_be_larger_than_the_data(sets):
    drawn = ids(make(sets[1:2], weights=[1.0]).next(8))
    assert [sorted(drawn[k : k + 3]) for k in (0, 3)] == [["b:1", "b:2", "b:3"]] * 2
    assert len(drawn) == 8


def test_without_shuffle_rows_come_in_file_order(sets):
    assert ids(make(sets, shuffle=False).next(12))[6:] == ["a:7", "b:1", "b:2", "b:3", "c:1", "a:1"]


def test_order_is_the_same_on_every_machine(sets):
    """The numbers are written down (hashes from plain Python integers): no library version may change them."""
    assert hash_numbers("x", np.arange(3)).tolist() == [4287533568477091168, 6867233925070853595, 11727447247294377143]
    assert " ".join(ids(make(sets).next(11))) == "a:6 a:4 b:2 a:1 b:1 a:5 b:3 a:7 c:1 a:2 a:3"


def test_order_depends_on_seed_and_stage(sets):
    orders = {tuple(ids(make(sets, seed=seed).next(11))) for seed in ("0/a", "0/b", "1/a")}
    assert len(orders) == 3
    assert ids(make(sets, seed="0/a").next(11)) == ids(make(sets, seed="0/a").next(11))


@pytest.mark.parametrize("mixture", MIXTURES)
@settings(max_examples=25, deadline=None)
@given(batch=st.integers(1, 14), before=st.integers(0, 6), seed=st.integers(0, 3))
def test_resume_continues_exactly(sets, mixture, batch, before, seed):  # faults 73, 74
    loader, fresh = (make(sets, mixture, seed=str(seed)) for _ in range(2))
    for _ in range(before):
        loader.next(batch)
    fresh.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert [ids(fresh.next(batch)) for _ in range(4)] == [ids(loader.next(batch)) for _ in range(4)]


def test_resume_at_an_epoch_boundary_goes_on_with_the_next_epoch(sets):  # fault 73
    loader = make(sets)
    first, state = ids(loader.next(11)), loader.state_dict()
    fresh = make(sets)
    fresh.load_state_dict(state)
    second = ids(fresh.next(11))
    assert sorted(second) == sorted(first) and second == ids(loader.next(11)) != first


@pytest.mark.parametrize("mixture", MIXTURES)
def test_batch_size_does_not_change_the_order(sets, mixture):
    small, large = make(sets, mixture), make(sets, mixture)
    assert [i for _ in range(12) for i in ids(small.next(2))] == ids(large.next(24))


def test_shares_are_exact_in_every_batch(sets):
    loader = make(sets, "shares")  # 4 : 2 : 2 of 8
    for _ in range(10):
        assert Counter(s.dataset for s in loader.next(8)) == {"a": 4, "b": 2, "c": 2}


@settings(max_examples=30, deadline=None)
@given(weights=st.lists(st.floats(0.1, 10), min_size=3, max_size=3), batch=st.integers(1, 9))
def test_shares_never_drift(sets, weights, batch):
    loader = make(sets, "shares", weights=weights)
    drawn = Counter(s.dataset for _ in range(20) for s in loader.next(batch))
    for name, weight in zip(SIZES, weights, strict=True):
        assert abs(drawn[name] - 20 * batch * weight / sum(weights)) < 2


def test_weights_are_probabilities_and_sets_wrap_alone(sets):
    drawn = Counter(s.sample_id for s in make(sets, "weights").next(4000))
    by_set = Counter({name: sum(n for i, n in drawn.items() if i[0] == name) for name in SIZES})
    assert by_set["a"] == pytest.approx(2000, abs=130) and by_set["c"] == pytest.approx(1000, abs=110)
    in_a = [n for i, n in drawn.items() if i[0] == "a"]
    assert max(in_a) - min(in_a) <= 1  # each set is gone through completely before it starts again


def test_changed_data_refuse_an_old_state(sets):
    state = make(sets).state_dict()
    with pytest.raises(CheckpointError, match=r"rows \[11\] is now \[10\]"):
        make(sets[:2], weights=[1, 1]).load_state_dict({**state, "sets": ["a+b"]})


def build(tmp_path, *, tasks=(), **data) -> Loader:
    section = DataSection.model_validate({"train": [{"path": "x.jsonl"}, {"path": "y.jsonl", "weight": 3}], **data})
    log = SkippedLog(None, max_fraction=0)
    return build_loader(section, seed=1, stage="s", tasks=tasks, relative_to=tmp_path, skipped=log)


def test_build_loader_keeps_the_tasks_of_a_stage(tmp_path):
    write_jsonl(tmp_path / "x.jsonl", [*text_rows(2), *text_rows(2, task="b")])
    write_jsonl(tmp_path / "y.jsonl", text_rows(3))
    assert sorted(ids(build(tmp_path, tasks=["b"], mixture="shares").next(2))) == ["x:3", "x:4"]
    assert len(build(tmp_path)) == 7
    with pytest.raises(DataError, match="no training row of the task zoom; tasks: text, b"):
        build(tmp_path, tasks=["b", "zoom"])
    with pytest.raises(DataError, match="no training row"):
        build(tmp_path, train=[])


@pytest.mark.parametrize("mixture", ["concat", "weights", "shares"])
def test_a_look_at_the_next_rows_changes_nothing(sets, mixture):
    loader, other = make(sets, mixture), make(sets, mixture)
    for _ in range(4):
        expected = ids(loader.peek(5))
        assert expected == ids(loader.peek(5)) == ids(loader.next(5)) == ids(other.next(5))
    assert loader.state_dict() == other.state_dict()
