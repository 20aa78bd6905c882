"""VideoTG-R1: the masking schedule, which frames are black, which rows are never drawn."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from makers.plugin_values import plugin
from makers.pools import numbers
from makers.rows import read, text_rows, write_jsonl

from mmrl.data.loader import Loader
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Message, Sample, TextPart
from mmrl.errors import DataError

ENTRY = MediaEntry(
    key="k",
    kind="video",
    frames_F3HW=torch.full((20, 3, 2, 2), 200, dtype=torch.uint8),
    grid_thw=(10, 2, 2),
    num_tokens=10,
    source_size=(2, 2),
    timestamps_s=tuple(float(second) for second in range(20)),
    duration_s=20.0,
)
SAMPLE = Sample(
    "s", "t", "video", (Message("user", (TextPart("when?"),)),), answer=[5, 14], answer_space="seconds",
    columns={"mean_score": 0.2}, dataset="d",
)  # fmt: skip


def black(sample=SAMPLE, *, progress=0.0, entry=ENTRY, **options):
    frames = plugin("video_tg", **options).hooks["frames"](sample, entry, progress)
    return None if frames is None else [n for n in range(20) if not frames[n].any()]


def test_the_schedule_relaxes_to_nothing():
    share = plugin("video_tg").holder._share
    assert [share(step / 1000) for step in (0, 250, 500, 1000)] == [0.8, 0.4, 0.0, 0.0]


def test_frames_outside_the_interval_come_back_and_inside_it_none_is_masked():
    first, later = black(), black(progress=0.25)
    assert len(first) == 8 and len(later) == 4, "10 frames lie outside"
    assert set(later) < set(first) and not set(first) & set(range(5, 15))
    assert black(progress=0.5) is None and (ENTRY.frames_F3HW == 200).all()


def test_only_hard_clips_are_masked():
    assert len(black(replace(SAMPLE, columns={"mean_score": 0.3}))) == 8
    assert black(replace(SAMPLE, columns={"mean_score": 0.31})) is None
    assert black(replace(SAMPLE, columns={})) is None
    assert black(entry=replace(ENTRY, kind="image", timestamps_s=())) is None


def test_an_answer_in_the_models_space_is_read_back():
    scaled = replace(SAMPLE, answer=[25, 70], answer_space="0..100")
    assert black(scaled) == black()
    assert black(replace(SAMPLE, answer="x", columns={"mean_score": 0, "span": [5, 14]}), interval="span") == black()


def drawn(folder: Path, times: list, **options) -> list[int]:
    rows = text_rows(len(times))
    for row, of in zip(rows, times, strict=True):
        row |= {"answer": [10, 18], "found": of}
    samples = read(write_jsonl(folder / "a.jsonl", rows), card={"answer_space": "seconds"})
    loader = Loader([samples], weights=[1.0], mixture="concat", shuffle=False, seed="0/")
    loader.draw_by(plugin("video_tg", **options).hooks["draw"])
    return numbers(loader.next(6))


def test_rows_with_evidence_outside_their_interval_are_never_drawn(tmp_path):
    times = [[12.0], [21.5], [18.6, 9.0], None]
    assert drawn(tmp_path, times, timestamps="found") == [0, 2, 3, 0, 2, 3]
    assert drawn(tmp_path, times, timestamps="found", slack=0.5) == [0, 3, 0, 3, 0, 3]
    assert drawn(tmp_path, times) == [0, 1, 2, 3, 0, 1]


def test_what_cannot_be_used_names_the_row(tmp_path):
    with pytest.raises(DataError, match="every row has a time in 'found' that lies outside"):
        drawn(tmp_path, [[30], [0]], timestamps="found")
    with pytest.raises(DataError, match=r"a.jsonl:2 .*column 'found' must hold a list of seconds"):
        drawn(tmp_path, [[12], "12"], timestamps="found")
    with pytest.raises(DataError, match="must be a start and an end in seconds, not 7"):
        black(replace(SAMPLE, answer=7))
