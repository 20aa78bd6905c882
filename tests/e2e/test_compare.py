"""`mmrl compare` on results of `mmrl evaluate`: what is compared, what is refused, the tables it writes."""

import json
import shutil
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir

TASKS = ("mmstar", "screenspot_pro")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return write_benchmarks(tmp_path_factory.mktemp("benchmarks"), TASKS)


def evaluate(files: Path, out: Path, *more: object, tasks: str = ",".join(TASKS)) -> None:
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1)
    where = ("--root", files, "--cache", files / "cache", "--out", out, "--limit", ROWS)
    said = mmrl("evaluate", *model, *where, "--tasks", tasks, *(more or ("--max-new-tokens", 6)))
    assert said.code == 0, said.err


@pytest.fixture(scope="module")
def base(files, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "base"
    evaluate(files, folder)
    return folder


def copied_with_a_hit(files: Path, base: Path, folder: Path) -> Path:
    """The same answers but one, which is right."""
    shutil.copytree(base, folder)
    stored = folder / "screenspot_pro" / "samples.jsonl"
    rows = [json.loads(line) for line in stored.read_text().splitlines()]
    rows[0]["completion"] = "[20, 20]"  # in the box, in the model's space
    stored.write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluate(files, folder, "--rescore", "--max-new-tokens", 6)
    return folder


def test_one_more_right_answer_is_the_difference(files, base, tmp_path):
    other = copied_with_a_hit(files, base, tmp_path / "other")
    said = mmrl("compare", base, other, "--out", tmp_path / "table.md")
    assert said.code == 0, said.err
    assert said.line_with("screenspot_pro", "+33.3", "+0.0 to +100.0")
    rows = [line for line in (tmp_path / "table.md").read_text().splitlines() if line.startswith("| ")]
    assert rows[0] == "| benchmark | A | B | B - A | 95% interval | n | only A | only B | p |"
    assert rows[-1] == "| screenspot_pro | 0.0 | 33.3 | +33.3 | +0.0 to +100.0 | 3 | 0 | 1 | 1 |"
    assert mmrl("compare", base, other, "--tasks", "mmstar", "--out", tmp_path / "table.html").code == 0
    page = (tmp_path / "table.html").read_text()
    assert page.count("<tr>") == 2 and "<td>mmstar</td>" in page and "screenspot_pro" not in page


def test_what_was_asked_otherwise_is_refused_and_named(files, base, tmp_path):
    evaluate(files, tmp_path / "longer", "--max-new-tokens", 8, tasks="mmstar")
    said = mmrl("compare", base, tmp_path / "longer")
    assert said.code == 2
    assert said.line_with("mmstar: answers.max_new_tokens: 6 and 8")
    assert said.line_with("were not made alike", "--anyway")
    said = mmrl("compare", base, tmp_path / "longer", "--anyway", "--out", tmp_path / "table.md")
    assert said.code == 0 and said.line_with("differs: mmstar: answers.max_new_tokens: 6 and 8")
    assert "- differs: mmstar: answers.max_new_tokens: 6 and 8\n" in (tmp_path / "table.md").read_text()


def test_another_budget_or_fewer_questions_are_refused(files, base, tmp_path):
    other = copied_with_a_hit(files, base, tmp_path / "other")
    path = other / "results.json"
    results = json.loads(path.read_text())
    [image] = results["benchmarks"]["mmstar"]["budgets"].values()
    was = image["max_pixels"]
    image["max_pixels"] = 1
    [(file, hash_)] = results["data"]["mmstar"].items()
    results["data"]["mmstar"] = {file: "0"}
    path.write_text(json.dumps(results))
    scores = other / "screenspot_pro" / "scores.jsonl"
    scores.write_text("".join(scores.read_text().splitlines(keepends=True)[:-1]))
    said = mmrl("compare", base, other)
    assert said.code == 2 and said.line_with(f"mmstar: budgets.image.max_pixels: {was} and 1")
    assert said.line_with(f'mmstar: files.{file}: "{hash_}" and "0"')
    assert said.line_with("screenspot_pro: questions: 1 are in A only")


def test_folders_without_results_and_unknown_names_are_errors_of_one_line(base, tmp_path):
    said = mmrl("compare", base, tmp_path)
    assert said.code == 2 and said.line_with("is no folder of results", "results.json")
    said = mmrl("compare", base, base, "--tasks", "mmstarr")
    assert said.code == 2 and said.line_with("'mmstarr' is not in both folders", "did you mean 'mmstar'?")
    said = mmrl("compare", base, base, "--out", tmp_path / "table.txt")
    assert said.code == 2 and said.line_with("the table is written as .md or .html")
