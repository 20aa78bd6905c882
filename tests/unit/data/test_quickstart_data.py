"""The quickstart's data: real files, balanced exact answers, disjoint splits, imprecise demonstrations."""

import importlib.util
import json
from collections import Counter

import numpy as np
import pytest

from mmrl.config.load import load_config
from mmrl.data.readers import read_dataset
from mmrl.data.skipped import SkippedLog
from mmrl.plugins import load_module, shipped_dir

for package in ("skimage", "sklearn", "skvideo"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (extra: quickstart)", allow_module_level=True)

maker = load_module(shipped_dir("datasets") / "quickstart" / "prepare.py")
ROWS = {"train": 36, "val": 36}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("quickstart")
    maker.prepare(out, rows=ROWS)
    return out


def rows_of(folder, split):
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("split", ROWS)
def test_answers_are_balanced(folder, split):
    counts = Counter((row["problem_type"], str(row["answer"])) for row in rows_of(folder, split))
    assert Counter(counts.values()) == {9: 4, 4: 9, 6: 6}  # 4 quarters, 9 cells, 6 spans, 36 rows each


def test_demonstrations_are_imprecise_but_never_miss(folder):
    for row in rows_of(folder, "train"):
        answer, said = row["answer"], row["demonstration"]
        if row["problem_type"] == "quadrant":
            assert said in {answer, {"A": "B", "B": "A", "C": "D", "D": "C"}[answer]}
            continue
        half = len(answer) // 2
        assert all(0 <= a - s <= 1 for a, s in zip(answer[:half], said[:half], strict=True))
        assert all(0 <= s - a <= 1 and s <= 6 for a, s in zip(answer[half:], said[half:], strict=True))


def test_a_clip_lasts_six_seconds_and_shows_the_inserted_one(folder):
    import av

    row = next(row for row in rows_of(folder, "val") if row["problem_type"] == "segment" and 0 < row["answer"][0] < 5)
    with av.open(str(folder / row["videos"][0])) as container:
        assert container.duration == 6_000_000
        frames = np.stack([f.to_ndarray(format="rgb24").astype(float) for f in container.decode(video=0)])
    changes = np.abs(np.diff(frames, axis=0)).mean(axis=(1, 2, 3))
    start, end = (second * maker.CLIP_FPS for second in row["answer"])
    assert len(frames) == 24
    assert min(changes[start - 1], changes[end - 1]) > 20  # both cuts survive the codec


def test_the_parts_of_a_photo_and_a_clip_are_disjoint():
    ramp = np.tile(np.arange(100, dtype=np.uint8)[None, :, None], (4, 1, 3))
    assert maker.share_of_photo(ramp, "train").max() == 59 and maker.share_of_photo(ramp, "val").min() == 62
    frames = np.arange(100)[:, None]
    assert maker.share_of_clip(frames, "train").max() < maker.share_of_clip(frames, "val").min()


def test_same_seed_same_files(folder, tmp_path):
    maker.prepare(tmp_path, rows=ROWS)
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.suffix in {".jsonl", ".png", ".mp4"})
    assert len(names) == 2 + 6 * 36
    assert all((folder / name).read_bytes() == (tmp_path / name).read_bytes() for name in names)


def test_the_shipped_config_reads_these_rows(folder):
    config = load_config(shipped_dir("configs") / "quickstart.yaml")
    log = SkippedLog(None, max_fraction=0.0)
    for split, [section] in (("train", config.data.train), ("val", config.data.val)):
        here = section.model_copy(update={"path": str(folder / f"{split}.jsonl")})
        samples = read_dataset(here, data=config.data, relative_to=folder, skipped=log)
        assert {sample.task for sample in samples} == set(config.rewards.tasks)
        assert all("demonstration" in sample.columns for sample in samples)
