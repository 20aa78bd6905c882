"""Ids seen before are found by their hashes; equal hashes of different ids are told apart by the reader."""

from hypothesis import given
from hypothesis import strategies as st
from makers.rows import read, text_rows, write_jsonl

from mmrl.data.seen_ids import SeenIds


@given(st.lists(st.text(max_size=3), unique=True, max_size=300), st.text(max_size=3))
def test_every_id_is_found_at_its_place(ids, other):
    seen = SeenIds()
    for sample_id in ids:
        assert seen.twins(sample_id) == []
        seen.add(sample_id)
    assert [seen.twins(sample_id) for sample_id in ids] == [[place] for place in range(len(ids))]
    assert seen.twins(other) == [place for place, sample_id in enumerate(ids) if sample_id == other]


def test_different_ids_of_one_hash_are_both_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("mmrl.data.seen_ids.hash", lambda sample_id: 7, raising=False)
    samples = read(write_jsonl(tmp_path / "a.jsonl", [{**row, "id": f"x{n}"} for n, row in enumerate(text_rows(5))]))
    assert [sample.sample_id for sample in samples] == ["x0", "x1", "x2", "x3", "x4"]
