"""`mmrl export-results` and `import-results`: answers to and from lmms-eval's and VLMEvalKit's files."""

import csv
import json
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return write_benchmarks(tmp_path_factory.mktemp("benchmarks"), ["mmstar", "screenspot_pro"])


@pytest.fixture(scope="module")
def results(files, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "base"
    where = ("--root", files, "--cache", files / "cache", "--out", folder, "--limit", ROWS)
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1, "--max-new-tokens", 6)
    said = mmrl("evaluate", *model, *where, "--tasks", "mmstar")
    assert said.code == 0, said.err
    return folder


def written(path: Path, lines: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def imported(file: Path, files: Path, out: Path, *more: object, task: str = "mmstar"):
    return mmrl("import-results", file, out, "--task", task, "--root", files, "--limit", ROWS, *more)


def of_mmstar(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())["benchmarks"]["mmstar"]


def test_what_was_exported_comes_back_with_the_same_scores(files, results, tmp_path):
    said = mmrl("export-results", results, tmp_path / "logs", "--format", "lmms-eval", "--root", files)
    assert said.code == 0, said.err
    [log] = (tmp_path / "logs").glob("*/*_samples_mmstar.jsonl")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(row["doc_id"], row["key"], row["target"]) for row in rows] == [(0, "0", "A"), (1, "1", "B"), (2, "2", "C")]
    assert all("Which?" in row["input"] and len(row["filtered_resps"]) == 1 for row in rows)
    [numbers] = (tmp_path / "logs").glob("*/*_results.json")
    found = json.loads(numbers.read_text())
    assert found["results"]["mmstar"]["score,none"] == of_mmstar(results)["score"]
    assert found["n-samples"]["mmstar"] == {"original": ROWS, "effective": ROWS}
    assert imported(log, files, tmp_path / "back").code == 0
    back, before = (folder / "mmstar" / "scores.jsonl" for folder in (tmp_path / "back", results))
    assert back.read_text() == before.read_text()


def test_a_table_of_predictions_goes_out_and_comes_back(files, results, tmp_path):
    said = mmrl("export-results", results, tmp_path / "logs", "--format", "vlmevalkit", "--root", files)
    assert said.code == 0, said.err
    [table] = (tmp_path / "logs").glob("*/*_mmstar.tsv")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["index"], row["answer"], row["category"]) for row in rows] == [
        ("0", "A", "a"),
        ("1", "B", "b"),
        ("2", "C", "a"),
    ]
    rows[0]["prediction"], rows[1]["prediction"] = "A", "Failed to obtain answer via API."
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(reversed(rows))
    said = imported(table, files, tmp_path / "back")
    assert said.code == 1, "a request had failed there"
    row = of_mmstar(tmp_path / "back")
    # Categories: a has rows 0 (right) and 2, b has row 1, which failed.
    assert (row["n_failed"], row["score"]) == (1, 0.25)


def test_lmms_eval_logs_are_matched_by_place_and_failed_requests_are_no_letters(files, tmp_path):
    lines = [
        {"doc_id": 2, "filtered_resps": ["C"], "target": "C"},
        {"doc_id": 0, "filtered_resps": ["?"], "resps": [["The answer is A."]], "target": "A"},
        {"doc_id": 1, "filtered_resps": ["[LMMS_EVAL_REQUEST_FAILED after 3 tries] B"], "target": "B"},
    ]
    assert imported(written(tmp_path / "log.jsonl", lines), files, tmp_path / "out").code == 1
    row = of_mmstar(tmp_path / "out")
    assert (row["n_total"], row["n_failed"], row["score"]) == (3, 1, 0.5)
    said = imported(tmp_path / "log.jsonl", files, tmp_path / "out")
    assert said.code == 2 and said.line_with("holds results already", "--out")


def test_rows_without_a_question_and_questions_without_a_row_are_named(files, tmp_path):
    lines = [{"index": 0, "filtered_resps": ["A"]}, {"index": 7, "filtered_resps": ["B"]}]
    log = written(tmp_path / "log.jsonl", lines)
    said = imported(log, files, tmp_path / "out", "--key", "index")
    assert said.code == 2
    assert said.line_with("1 rows are of no question, by index: 7") and said.line_with(
        "2 questions have no row", ": 1, 2"
    )
    said = imported(log, files, tmp_path / "out")
    assert said.code == 2 and said.line_with("log.jsonl:1: no field 'doc_id' to match by", "index")
    said = imported(written(tmp_path / "twice.jsonl", lines[:1] * 2), files, tmp_path / "out", "--key", "index")
    assert said.code == 2 and said.line_with("twice.jsonl:2: a second answer to index '0'")
    assert not (tmp_path / "out").exists()


def test_places_and_unknown_files_are_refused(files, tmp_path):
    log = written(tmp_path / "log.jsonl", [{"doc_id": n, "filtered_resps": ["[1, 1]"]} for n in range(ROWS)])
    said = imported(log, files, tmp_path / "out", task="screenspot_pro")
    assert said.code == 2 and said.line_with("screenspot_pro: answers are places in the space of a model")
    said = imported(tmp_path / "log.xlsx", files, tmp_path / "out")
    assert said.code == 2 and said.line_with("neither .jsonl", "nor .tsv")
