"""`mmrl rate` on the tiny model: a column for each row, resumed, and read again as a band of a training."""

import json

import pytest
import yaml
from makers.command import mmrl
from makers.rows import read
from makers.tiny_run import write_run

from mmrl.evaluate.rate import rating_of


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_pass_rates_of_worked_scores():
    rating = rating_of([1.0, 0.4, 0.6, 0.0], threshold=0.5)
    assert rating == {
        "pass_rate": 0.5,
        "mean_score": 0.5,
        "answers": 4,
        "pass_at_2": pytest.approx(5 / 6),  # 1 - C(2, 2) / C(4, 2)
        "pass_at_4": 1.0,
    }
    assert rating_of([float("nan"), 1.0], threshold=0.5) == {"pass_rate": 1.0, "mean_score": 1.0, "answers": 1}
    assert rating_of([float("nan")], threshold=0.5) is None


def test_rows_are_rated_once_and_join_their_dataset(tmp_path):
    config = write_run(tmp_path)
    tree = yaml.safe_load(config.read_text())
    model, [dataset] = tree["model"]["path"], tree["data"]["train"]
    command = ["rate", model, config, "-k", 4, "--dtype", "float32", "--workers", 1]
    command += ["--out", tmp_path / "ratings", "--cache", tmp_path / "cache"]
    said = mmrl(*command, "--limit", 3)
    assert said.code == 0, said.err
    [folder] = [path.parent for path in (tmp_path / "ratings").glob("*/ratings.jsonl")]
    first = (folder / "samples.jsonl").read_text().splitlines()
    assert len(first) == 3 * 4 and len(lines(folder / "ratings.jsonl")) == 3

    assert mmrl(*command).code == 0
    again = (folder / "samples.jsonl").read_text().splitlines()
    assert again[:12] == first, "answers that were there are not asked for again"
    rated = lines(folder / "ratings.jsonl")
    assert len(rated) == 9 and {row["answers"] for row in rated} == {4}
    assert all(0 <= row["pass_rate"] <= row["pass_at_2"] <= row["pass_at_4"] <= 1 for row in rated)

    [path] = tmp_path.glob(dataset["path"].rsplit("/", 1)[-1])
    samples = read(path, card=dataset["card"], columns_from=str(folder / "ratings.jsonl"))
    rates = {row["id"]: row["pass_rate"] for row in rated}
    assert {sample.sample_id: sample.columns["pass_rate"] for sample in samples} == rates


def test_an_unknown_dataset_is_named(tmp_path):
    config = write_run(tmp_path)
    model = yaml.safe_load(config.read_text())["model"]["path"]
    said = mmrl("rate", model, config, "--datasets", "nowhere", "--out", tmp_path / "r")
    assert said.code == 2 and "has no dataset 'nowhere'; it has: " in said.err
    assert not list((tmp_path / "r").glob("*"))
