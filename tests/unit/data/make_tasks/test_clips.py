"""Puzzles of clips: frames show their own index, so what a row shows says what its answer must be."""

import itertools

import numpy as np
import pytest
from makers.clips import ClipSpec, shown_index, write_clip
from makers.made_tasks import make, rows_of, samples_of, scored
from makers.media import open_here
from makers.real_media import clip

from mmrl.config.schema import BudgetClass
from mmrl.data.make_tasks.clips import short_spans
from mmrl.data.make_tasks.puzzle import UnusableError

ALL = BudgetClass(min_pixels=28 * 28, max_pixels=112 * 84, max_frames=400, sample_fps=100.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    write_clip(folder / "a.mp4", ClipSpec(frames=250))
    write_clip(folder / "b.mp4", ClipSpec(frames=250, fps=9, first=300))
    return folder


def shown(sample):
    """For each clip of a sample the indices that its frames show."""
    media = [open_here(ref, budget=ALL) for ref in sample.media]
    return [[shown_index(frame.permute(1, 2, 0).numpy()) for frame in medium.frames_F3HW] for medium in media]


@pytest.mark.parametrize("kind", ["video-jigsaw", "clip-order"])
def test_clips_in_the_answers_order_follow_each_other(folder, tmp_path, kind):
    make(kind, folder, tmp_path / "out", epochs=2)
    for sample in samples_of(tmp_path / "out"):
        clips = shown(sample)
        numbers = [int(n) if n.isdigit() else "ABC".index(n) + 1 for n in sample.answer.split(", ")]
        frames = [index for number in numbers for index in clips[number - 1]]
        assert frames == sorted(frames) and len(set(frames)) == len(frames) and min(frames) >= 0


def test_every_span_is_exactly_the_trimmed_part(folder, tmp_path):
    make("video-jigsaw", folder, tmp_path / "out", pieces=6)
    sample = next(s for s in samples_of(tmp_path / "out") if s.sample_id == "a.mp4")
    first = sorted(shown(sample))[0]
    assert (first[0], first[-1]) == (10 + 4, 10 + 40 - 4 - 1)  # 250 frames: 10 go, 40 each, 4 at each end


def test_no_clip_is_written_for_spans(folder, tmp_path):
    make("video-jigsaw", folder, tmp_path / "out")
    assert not (tmp_path / "out" / "media").exists()
    assert all(cell["video"].startswith(str(folder)) for row in rows_of(tmp_path / "out") for cell in row["videos"])


def test_frames_rise_forward_and_fall_backward(folder, tmp_path):
    make("arrow-of-time", folder, tmp_path / "out", epochs=4)
    samples = samples_of(tmp_path / "out")
    assert sorted(sample.answer for sample in samples) == ["backward"] * 4 + ["forward"] * 4
    for sample in samples:
        (frames,) = shown(sample)
        steps = np.sign(np.diff(frames))
        assert set(steps) == {1 if sample.answer == "forward" else -1}


def test_gold_answers_score_one_and_others_low(folder, tmp_path):
    for kind in ("video-jigsaw", "clip-order", "arrow-of-time"):
        make(kind, folder, tmp_path / kind, epochs=3)
        samples = samples_of(tmp_path / kind)
        assert all(scored(f"<answer>{sample.answer}</answer>", sample) == 1.0 for sample in samples)
        pairs = itertools.permutations(samples, 2)
        others = [scored(f"<answer>{b.answer}</answer>", a) for a, b in pairs if a.answer != b.answer]
        assert others and max(others) <= 0.2


def test_short_and_still_clips_are_skipped_with_the_reason(tmp_path):
    write_clip(tmp_path / "in.mp4", ClipSpec(frames=250))
    (tmp_path / "in").mkdir()
    (tmp_path / "in.mp4").rename(tmp_path / "in" / "long.mp4")
    write_clip(tmp_path / "in" / "short.mp4", ClipSpec(frames=30))
    write_clip(
        tmp_path / "in" / "still.mp4", ClipSpec(frames=250, fps=10, times_s=tuple(n * 100.0 for n in range(250)))
    )
    reasons = {skip["source"]: skip["reason"] for skip in make("video-jigsaw", tmp_path / "in", tmp_path / "o").skipped}
    assert reasons == {"short.mp4": "lasts 3.0 s, this kind needs at least 24 s; --min-seconds lowers that"}
    reasons = {
        skip["source"]: skip["reason"] for skip in make("arrow-of-time", tmp_path / "in", tmp_path / "p").skipped
    }
    assert reasons["still.mp4"].startswith("nothing moves from ")
    with pytest.raises(UnusableError, match="20 frames, 3 parts need at least 24"):
        short_spans(20, pieces=3, rng=np.random.default_rng(0))


def test_a_real_clip(tmp_path):
    source = clip("video/cockatoo.mp4", "bigbuckbunny.mp4")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / source.name).symlink_to(source)
    make("arrow-of-time", tmp_path / "in", tmp_path / "out", epochs=2)
    forward, backward = sorted(rows_of(tmp_path / "out"), key=lambda row: row["answer"], reverse=True)
    assert (forward["answer"], backward["answer"]) == ("forward", "backward")
    assert forward["frame_indices"] == sorted(forward["frame_indices"])
    names = backward["videos"][0]["frames"]
    assert names == sorted(names, reverse=True) and len(names) == 16
