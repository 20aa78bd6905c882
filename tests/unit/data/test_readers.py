"""Datasets: every row checked at once, bad ones raised or counted, samples made lazily."""

import json

import pyarrow
import pyarrow.parquet
import pytest
from makers.rows import read, text_rows, touch, write_jsonl

from mmrl.config.schema import CardSection, DataSection, DatasetSection
from mmrl.data.readers import SampleSet, read_datasets
from mmrl.data.sample import TextPart
from mmrl.data.skipped import SkippedLog
from mmrl.errors import ConfigError, DataError, TooManySkippedError


def ids(samples) -> list[str]:
    return [s.sample_id for s in samples]


def test_equal_questions_are_different_samples(tmp_path):  # GRPO-Zero grouped by prompt text
    samples = read(write_jsonl(tmp_path / "a.jsonl", [*text_rows(1), *text_rows(1)]))
    assert ids(samples) == ["a:1", "a:2"]
    assert samples[0].messages == samples[1].messages


def test_ids_count_rows_and_places_count_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n" + "\n\n".join(json.dumps(row) for row in text_rows(2)))
    assert [s.where for s in read(path)] == ["a.jsonl:2 (id=a:1)", "a.jsonl:4 (id=a:2)"]


def test_duplicate_ids_name_both_lines(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [*text_rows(2), *text_rows(1, id="a:1")])
    with pytest.raises(DataError, match=r"^a.jsonl:3 \(id=a:1\): a.jsonl:1 has the same id"):
        read(path)


def test_a_set_is_a_sequence(tmp_path):
    samples = read(write_jsonl(tmp_path / "a.jsonl", text_rows(5)), name="five")
    assert samples[-1] == samples[4] and samples[4].dataset == "five"
    assert ids(samples[1::2]) == ["a:2", "a:4"]
    assert ids(reversed(samples[:2])) == ["a:2", "a:1"]
    with pytest.raises(IndexError):
        samples[5]


def test_concat_and_tasks(tmp_path):
    one = read(write_jsonl(tmp_path / "one.jsonl", [*text_rows(2), *text_rows(1, task="b")]))
    two = read(write_jsonl(tmp_path / "two.jsonl", [*text_rows(1, task="b"), *text_rows(1, task="c")]))
    both = SampleSet.concat([one, two])
    assert both.task_counts() == {"text": 2, "b": 2, "c": 1} and both.names == ("one", "two")
    assert ids(both.of_tasks(["b"])) == ["one:3", "two:1"]
    assert ids(both.of_tasks(["c"])[:1]) == ["two:2"] and ids(both.of_tasks([])) == ids(both)
    assert len(SampleSet.concat([])) == 0


def test_max_samples_takes_the_first_rows_and_reads_no_others(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*(json.dumps(row) for row in text_rows(2)), "broken"]))
    assert ids(read(path, max_samples=2)) == ["a:1", "a:2"]


def test_bad_rows_stop_or_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(row) for row in text_rows(8)]
    path.write_text("\n".join([*lines, "{", json.dumps({"prompt": "<image>", "answer": 1, "task": "t", "id": "x"})]))
    with pytest.raises(DataError, match=r"a.jsonl:9: not valid JSON"):
        read(path)
    log = SkippedLog(tmp_path / "skipped.jsonl", max_fraction=0.2)
    assert len(read(path, data={"bad_row": "skip"}, skipped=log)) == 8
    assert [json.loads(line) for line in (tmp_path / "skipped.jsonl").read_text().splitlines()][1] == {
        "dataset": "a",
        "sample_id": "x",
        "where": "a.jsonl:10 (id=x)",
        "kind": "bad_row",
        "reason": log.rows[1].reason,
        "path": None,
    }
    assert log.rows[1].reason.startswith("1 image placeholder but 0 images")
    with pytest.raises(TooManySkippedError, match=r"dataset 'a': 2 of 10 rows skipped \(2 bad_row\), more than"):
        read(path, data={"bad_row": "skip", "max_skipped_fraction": 0.19})


def test_absent_media_follow_bad_media(tmp_path):
    touch(tmp_path, "there.jpg")
    rows = text_rows(2, images="there.jpg")
    rows[1]["images"] = "gone.jpg"
    path = write_jsonl(tmp_path / "a.jsonl", [{**row, "prompt": "<image>"} for row in rows])
    with pytest.raises(DataError, match=r"^a.jsonl:2 \(id=a:2\): no such file: .*gone.jpg"):
        read(path, data={"bad_row": "skip"})
    log = SkippedLog(None, max_fraction=0.5)
    assert ids(read(path, data={"bad_media": "skip"}, skipped=log)) == ["a:1"]
    assert [(row.kind, row.sample_id) for row in log.rows] == [("bad_media", "a:2")]


def test_train_and_val_are_read_alike(tmp_path):  # fault 48
    touch(tmp_path, "clips/v.mp4")
    write_jsonl(tmp_path / "a.jsonl", [{"q": "<video>", "answer": 1, "task": "t", "clip": "v.mp4"}])
    card = {"columns": {"prompt": "q", "videos": "clip"}}
    section = {"path": "a.jsonl", "root": "clips", "card": card, "user_template": "{prompt}!"}
    data = DataSection.model_validate({"train": [section], "val": [section]})
    log = SkippedLog(None, max_fraction=0)
    [train], [val] = (
        read_datasets(split, data=data, relative_to=tmp_path, skipped=log) for split in (data.train, data.val)
    )
    assert train[0].messages == val[0].messages and train[0].messages[0].parts[1] == TextPart("!")
    assert train[0].media[0].source == val[0].media[0].source == tmp_path / "clips" / "v.mp4"


def test_datasets_of_one_name_are_refused(tmp_path):
    sections = [DatasetSection(path="a/train.jsonl"), DatasetSection(path="b/train.jsonl")]
    with pytest.raises(ConfigError, match="2 datasets are called 'train'; tell them apart with `name:`"):
        read_datasets(sections, data=DataSection(), relative_to=tmp_path, skipped=SkippedLog(None, max_fraction=0))


def test_errors_before_the_first_row(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", text_rows(1))
    with pytest.raises(DataError, match=r"root .*nowhere is no folder"):
        read(path, root="nowhere")
    with pytest.raises(ConfigError, match=r"dataset 'a': card.columns: unknown sample field"):
        read(path, card={"columns": {"x": "y"}})
    with pytest.raises(DataError, match=r"a.jsonl: holds no rows; write rows into it, or take"):
        read(write_jsonl(path, []))


def test_parquet_stops_at_the_first_bad_row_group(tmp_path):
    rows = [{**row, "images": [{"bytes": b"x", "path": None}]} for row in text_rows(6)]
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    with pytest.raises(DataError, match=r"^a.parquet:1 \(id=a:1\): 0 image placeholders but 1 image"):
        read(path)


def test_a_linked_data_file_keeps_its_own_folder(tmp_path):
    touch(tmp_path, "data/a.jpg")
    real = write_jsonl(tmp_path / "blob", [{"prompt": "<image>", "answer": 1, "task": "t", "images": "a.jpg"}])
    (tmp_path / "data" / "a.jsonl").symlink_to(real)
    assert read(tmp_path / "data" / "a.jsonl")[0].media[0].source == tmp_path / "data" / "a.jpg"


def test_many_rows_cost_little_memory(tmp_path):  # fault 50
    import tracemalloc

    path = write_jsonl(tmp_path / "a.jsonl", text_rows(3000, filler="x" * 2000))
    tracemalloc.start()
    samples = read(path)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(samples) == 3000
    assert kept / 3000 < 300  # bytes a row; the text of one is 2,000


def test_select_reads_the_rows_with_the_values_asked_for(tmp_path):
    rows = [*text_rows(2, split="train"), *text_rows(1, split="testA"), *text_rows(1, split="testB")]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    assert ids(read(path, select={"split": "testA"})) == ["a:3"]
    assert ids(read(path, select={"split": ["testA", "testB"]})) == ["a:3", "a:4"]
    with pytest.raises(DataError, match=r"none of the 4 rows has what `select` asks for \(split: 'val'\)"):
        read(path, select={"split": "val"})
    with pytest.raises(DataError, match=r"^a.jsonl:1: no column 'spilt', which `select` names; present: .*split"):
        read(path, select={"spilt": "testA"})


def test_select_knows_the_columns_that_the_card_makes(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [*text_rows(2), *text_rows(1, pair=4)])
    make = {"form": {"text": "{% if pair is defined %}two{% else %}five{% endif %}"}}
    card = CardSection.model_validate({"make": make})
    assert ids(read(path, card=card, select={"form": "two"})) == ["a:3"]
