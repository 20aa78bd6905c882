"""`evaluate:` in a training's configuration: benchmarks on the live policy, the best checkpoint by their score."""

import json
import shutil
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.command import mmrl
from makers.in_processes import run_jobs
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

STAGES = [{"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 2, "lr": 1e-2}]
SIGNS = """
data:
  path: signs.jsonl
  card:
    columns: {prompt: question, answer: answer, images: image, id: id}
    placeholders: leading
    image_placeholder: null
score: [{reward: ./letters.py:score}]
answers: {max_new_tokens: 4}
provenance: {source: made here, layout: verified}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A shipped benchmark, and one of our own whose score a random model moves."""
    root = write_benchmarks(tmp_path_factory.mktemp("benchmarks"), ["screenspot_pro"])
    pictures = sorted((root / "ScreenSpot-Pro" / "images").iterdir())
    rows = [
        {"id": f"s{n}", "question": f"What is {n}?", "answer": "x", "image": str(p)} for n, p in enumerate(pictures)
    ]
    (root / "signs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "signs.yaml").write_text(SIGNS)
    (root / "letters.py").write_text(
        "def score(completion, sample):\n    return sum(c.islower() for c in completion) / max(1, len(completion))\n"
    )
    return root


def config_file(files: Path, folder: Path) -> tuple[Path, Path]:
    """The configuration's file and the run's folder."""
    tasks = ["screenspot_pro", str(files / "signs.yaml")]
    section = {"tasks": tasks, "root": str(files), "every": 1, "limit": ROWS}
    return write_run(folder, stages=STAGES, evaluate=section), folder / "runs" / "tiny"


def config_of(files: Path, folder: Path, *overrides: str) -> tuple[RunConfig, Path]:
    path, run = config_file(files, folder)
    return load_config(path, ["checkpoint.best=eval/signs/score", "data.val=[]", *overrides]), run


def of_benchmarks(row: dict) -> dict:
    return {key: value for key, value in row.items() if key.startswith("eval/")}


def measured(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("perf/")} for row in lines if "eval/signs/score" in row]


def test_benchmarks_are_scored_every_step_and_the_best_checkpoint_goes_by_one(files, tmp_path):
    config, folder = config_of(files, tmp_path)
    assert train(config) == 0
    rows = measured(folder)
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert {row["eval/screenspot_pro/n"] for row in rows} == {ROWS}
    assert [row["eval/signs/failed"] + row["eval/signs/unscored"] for row in rows] == [0, 0, 0]
    scores = {row["step"]: row["eval/signs/score"] for row in rows}
    stated = json.loads((find_checkpoints(folder)[-1] / "state.json").read_text())["position"]["best"]
    # The weights before the first step are not a checkpoint; of equal scores the earliest wins.
    best = max((1, 2), key=lambda step: scores[step])
    assert stated == [scores[best], f"step-{best:06d}"]
    for step, score in scores.items():
        found = json.loads((folder / "evaluations" / f"step-{step:06d}" / "results.json").read_text())
        assert found["benchmarks"]["signs"]["score"] == score and found["model"]["step"] == step
        lines = (folder / "evaluations" / f"step-{step:06d}" / "signs" / "samples.jsonl").read_text().splitlines()
        texts = [json.loads(line)["completion"] for line in lines]
        assert score == pytest.approx(sum(sum(map(str.islower, t)) / max(1, len(t)) for t in texts) / len(texts))
    said = mmrl("compare", *(folder / "evaluations" / f"step-{step:06d}" for step in (0, 2)))
    assert said.code == 0 and said.line_with("signs", f"{100 * (scores[2] - scores[0]):+.1f}")
    for checkpoint in find_checkpoints(folder)[1:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert measured(folder) == rows, "a run that is continued comes to the same scores"


def test_the_scores_are_those_of_mmrl_evaluate(files, tmp_path):
    config, folder = config_of(files, tmp_path, "stages.0.steps=1", "evaluate.every=0", "evaluate.before_first=false")
    assert train(config) == 0
    [row] = measured(folder)
    model = find_checkpoints(folder)[-1] / "model"
    more = ("--tasks", files / "signs.yaml", "--root", files, "--out", tmp_path / "out", "--cache", tmp_path / "cache")
    said = mmrl("evaluate", "--model", model, "--dtype", "float32", "--workers", 1, "--limit", ROWS, *more)
    assert said.code == 0, said.err
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["benchmarks"]["signs"]["score"] == row["eval/signs/score"]


def test_questions_that_cannot_be_asked_count_as_failed_and_stop_nothing(files, tmp_path):
    """One picture is missing and one is no picture; an answer of a million tokens does not fit into the engine."""
    root = tmp_path / "files"
    shutil.copytree(files, root)
    pictures = sorted((root / "ScreenSpot-Pro" / "images").iterdir())
    pictures[0].unlink()
    pictures[1].write_bytes(b"no picture")
    rows = [json.loads(line) for line in (root / "signs.jsonl").read_text().splitlines()]
    (root / "signs.jsonl").write_text("".join(json.dumps({**row, "image": str(pictures[2])}) + "\n" for row in rows))
    (root / "signs.yaml").write_text(SIGNS.replace("max_new_tokens: 4", "max_new_tokens: 1000000"))
    config, folder = config_of(root, tmp_path, "stages.0.steps=1", "evaluate.before_first=false")
    assert train(config) == 0
    [row] = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines() if "eval/" in line]
    assert (row["eval/screenspot_pro/n"], row["eval/screenspot_pro/failed"]) == (ROWS, 2)
    counts = {name: row[f"eval/signs/{name}"] for name in ("n", "failed", "unscored", "unparsed", "truncated", "score")}
    assert counts == {"n": ROWS, "failed": ROWS, "unscored": 0, "unparsed": 0, "truncated": 0, "score": 0}
    answers = folder / "evaluations" / "step-000001" / "signs" / "samples.jsonl"
    assert all("rollout.max_batch_tokens" in json.loads(line)["reason"] for line in answers.read_text().splitlines())


def test_two_processes_share_the_questions(files, tmp_path):
    path, folder = config_file(files, tmp_path)
    changes = ["stages.0.steps=1", "evaluate.before_first=true", "checkpoint.best=null", "data.val=[]"]
    jobs = [{"name": "two", "train": [str(path), *changes]}]
    run_jobs(tmp_path, jobs, processes=2)
    two = of_benchmarks(measured(folder)[0])
    assert train(load_config(path, [*changes, "name=one"])) == 0
    one = measured(folder.with_name("one"))[0]
    assert {key: value for key, value in two.items() if "eval/" in key} == {
        k: v for k, v in one.items() if "eval/" in k
    }
    lines = (folder / "evaluations" / "step-000000" / "signs" / "samples.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["key"] for line in lines) == ["s0", "s1", "s2"]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("evaluate.tasks=[mmstarr]", "no benchmark 'mmstarr'"),
        ("evaluate.tasks=[mmstar,mmstar]", "'mmstar' is named twice"),
        ("evaluate.root=null", "'evaluate.tasks' needs 'evaluate.root'"),
        (
            "evaluate.tasks=[mathverse]",
            "no server of a judge is given: set evaluate.judge.url, or evaluate.no_judge: true",
        ),
        ("checkpoint.best=eval/sign/score", "did you mean 'eval/signs/score'?"),
    ],
)
def test_what_cannot_be_run_or_watched_is_refused_at_the_start(files, tmp_path, override, said):
    path = write_run(tmp_path, stages=STAGES, evaluate={"tasks": [str(files / "signs.yaml")], "root": str(files)})
    found = mmrl("train", path, "checkpoint.best=eval/signs/score", override)
    assert found.code == 2 and said in found.err
