"""How questions are asked: options in another order, prompt variants, by the command and into the files it writes."""

import json
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir

from mmrl.data.template_library import shipped_templates
from mmrl.evaluate.benchmark import load_benchmark


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return write_benchmarks(tmp_path_factory.mktemp("files"), ["ai2d", "screenspot_pro", "chartqa"])


def evaluate(files: Path, out: Path, *more: object, family: str = "qwen2_5_vl"):
    model = ("--model", tiny_model_dir(family), "--dtype", "float32", "--workers", 1)
    where = ("--root", files, "--out", out, "--cache", files / "cache", "--limit", ROWS)
    return mmrl("evaluate", *model, *where, "--max-new-tokens", 2, *more)


def row_of(out: Path, task: str) -> dict:
    return json.loads((out / "results.json").read_text())["benchmarks"][task]


def stored(out: Path, task: str) -> dict[str, dict]:
    lines = (out / task / "samples.jsonl").read_text().splitlines()
    return {row["key"]: row for row in map(json.loads, lines)}


def answer_all(out: Path, task: str, text: str) -> None:
    rows = [row | {"completion": text, "status": "ok"} for row in stored(out, task).values()]
    (out / task / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_model_that_always_says_b_has_nothing_right_in_circular_mode(files, tmp_path):
    """Each of three questions with four options is asked four times, and B is right in one of them."""
    out, circular = tmp_path / "out", ("--tasks", "ai2d", "--options", "circular")
    assert evaluate(files, out, *circular).code == 0
    answer_all(out, "ai2d", "B")
    assert evaluate(files, out, *circular, "--rescore").code == 0
    row = row_of(out, "ai2d")
    assert (row["score"], row["n_total"], row["options"]) == (0.0, 4 * ROWS, "circular")
    assert row["parts"] == {"choice": 0.25}
    rows = [f"test-*:{n}" for n in range(1, ROWS + 1)]
    assert sorted(stored(out, "ai2d")) == sorted(row + turn for row in rows for turn in ("", "/1", "/2", "/3"))
    assert row["task_hash"] == load_benchmark("ai2d").with_options("circular").answered_by(max_new_tokens=2).hash
    lines = [json.loads(line) for line in (out / "ai2d" / "scores.jsonl").read_text().splitlines()]
    assert len({tuple(line["all_of"]) for line in lines}) == ROWS
    exported = mmrl("export-results", out, tmp_path / "logs", "--format", "lmms-eval", "--root", files)
    assert exported.code == 0, exported.err


def test_a_shuffle_is_another_task_and_moves_the_answers(files, tmp_path):
    out = tmp_path / "out"
    assert evaluate(files, out, "--tasks", "ai2d", "--options", "shuffle:3").code == 0
    shuffled = row_of(out, "ai2d")
    assert shuffled["options"] == {"shuffle": 3} and shuffled["n_total"] == ROWS
    assert evaluate(files, out, "--tasks", "ai2d").code == 0
    assert row_of(out, "ai2d")["task_hash"] != shuffled["task_hash"]
    hashes = [json.loads(line)["task_hash"] for line in (out / "ai2d" / "samples.jsonl").read_text().splitlines()]
    assert len(hashes) == 2 * ROWS and len(set(hashes)) == 2, "answers to the one are not taken for the other"
    said = evaluate(files, out, "--tasks", "ai2d,chartqa", "--options", "circular")
    assert said.code == 1 and said.line_with("chartqa: cannot run", "its score reads no options")
    said = evaluate(files, tmp_path / "other", "--tasks", "ai2d", "--options", "turned")
    assert said.code == 2 and said.line_with("give written, circular or shuffle:SEED")


@pytest.mark.parametrize(("family", "variant"), [("qwen2_5_vl", "qwen2_5_vl"), ("qwen3_vl", "qwen3_vl")])
def test_a_model_is_asked_in_its_family_s_variant_unless_told_otherwise(files, tmp_path, family, variant):
    out, task = tmp_path / "out", ("--tasks", "screenspot_pro")
    assert evaluate(files, out, *task, family=family).code == 0
    row = row_of(out, "screenspot_pro")
    template = {"qwen2_5_vl": "point_json", "qwen3_vl": "click_tool_call"}[family]
    assert (row["variant"], row["template"]) == (variant, shipped_templates()[template].user)
    assert row["answers"]["max_new_tokens"] == 2, "the command line goes before the variant"
    assert evaluate(files, out, *task, "--variant", "default", family=family).code == 0
    plain = row_of(out, "screenspot_pro")
    assert plain["variant"] == "default" and plain["task_hash"] != row["task_hash"]
    said = evaluate(files, out, *task, "--variant", "qwen3", family=family)
    assert said.code == 2 and said.line_with("no variant 'qwen3'; known: default, qwen3_vl", "did you mean 'qwen3_vl'?")


def completions(out: Path, task: str) -> dict[tuple[str, int], str]:
    lines = (out / task / "samples.jsonl").read_text().splitlines()
    return {(row["key"], row["repeat"]): row["completion"] for row in map(json.loads, lines)}


def reversed_rows(files: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = files / "MMStar" / "mmstar.parquet"
    rows = parquet.read_table(path)
    parquet.write_table(rows.take(list(range(len(rows)))[::-1]), path)


@pytest.mark.parametrize("drawn", [(), ("--repeats", 3, "--temperature", 1.0)], ids=["greedy", "drawn"])
def test_neither_batch_nor_order_of_rows_changes_an_answer(tmp_path, drawn):
    files, task = write_benchmarks(tmp_path / "files", ["mmstar"]), ("--tasks", "mmstar", *drawn)
    assert evaluate(files, tmp_path / "a", *task, "--batch", 1).code == 0
    reversed_rows(files)
    assert evaluate(files, tmp_path / "b", *task, "--batch", ROWS).code == 0
    assert completions(tmp_path / "a", "mmstar") == completions(tmp_path / "b", "mmstar")
    assert list(completions(tmp_path / "a", "mmstar")) != list(completions(tmp_path / "b", "mmstar"))
    assert row_of(tmp_path / "a", "mmstar")["score"] == row_of(tmp_path / "b", "mmstar")["score"]


def test_more_answers_begin_with_those_that_fewer_are(tmp_path):
    """What is drawn is that of the question and the number of the answer, however many are asked for."""
    files, drawn = write_benchmarks(tmp_path / "files", ["mmstar"]), ("--tasks", "mmstar", "--temperature", 1.0)
    assert evaluate(files, tmp_path / "two", *drawn, "--repeats", 2).code == 0
    assert evaluate(files, tmp_path / "four", *drawn, "--repeats", 4).code == 0
    two, four = completions(tmp_path / "two", "mmstar"), completions(tmp_path / "four", "mmstar")
    assert two == {(key, repeat): text for (key, repeat), text in four.items() if repeat < 2}
    assert len(set(four.values())) > len(set(two.values())) > 1


def test_cut_answers_are_counted_and_a_thought_without_end_holds_none(files, tmp_path):
    out = tmp_path / "out"
    assert evaluate(files, out, "--tasks", "ai2d").code == 0
    said = {"test-*:1": "A. It is", "test-*:2": "<think>Not A, so it is B", "test-*:3": "<think>No.</think>C"}
    rows = [row | {"completion": said[key], "status": "truncated"} for key, row in stored(out, "ai2d").items()]
    (out / "ai2d" / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert evaluate(files, out, "--tasks", "ai2d", "--rescore").code == 0
    row = row_of(out, "ai2d")
    assert (row["score"], row["n_truncated"], row["n_unparsed"]) == (pytest.approx(2 / 3), 3, 1)
