"""Features under ZeRO-3 in two processes, beside media that a plug-in draws on: the numbers of pixels."""

import json
from pathlib import Path

import pytest
from makers.in_processes import run_jobs
from makers.tiny_run import write_run

# Some media are seen in negative: they come as pixels, on one process perhaps where the other has features.
DRAWS = """
def frames(sample, entry, progress):
    return 255 - entry.frames_F3HW if sample.media[0].source.stem in "024" else None
"""


def metrics(run: Path) -> list[dict]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("perf/") and k != "stage"} for row in rows]


def test_two_processes_train_on_features_as_on_pixels(tmp_path: Path):
    (tmp_path / "draws.py").write_text(DRAWS)
    stage = {"name": "rl", "kind": "grpo", "steps": 3, "prompts_per_step": 4, "lr": 1e-3}
    algorithm = {"plugins": ["./draws.py"], "ref_kl_coef": 0.1}
    path = write_run(tmp_path, stages=[stage], algorithm=algorithm)
    common = (
        str(path),
        "model.freeze=[vision_tower, projector]",
        "train.zero_stage=3",
        "train.eps=1e-2",
        "data.val=[]",
    )
    jobs = [
        {"name": level, "train": [*common, f"name={level}", f"cache.level={level}"]} for level in ("pixels", "features")
    ]
    assert run_jobs(tmp_path, jobs, processes=2) == {"pixels": 0, "features": 0}
    assert list((tmp_path / "cache" / "features").glob("*/*.safetensors"))  # made on first use
    for ours, theirs in zip(*(metrics(tmp_path / "runs" / name) for name in ("features", "pixels")), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
