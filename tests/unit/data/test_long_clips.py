"""An hour of video: decoded where frames are wanted, in the memory of five minutes."""

import pytest
from makers.long_clips import OPEN_ONE, encode_unit, peak_mib, repeat_clip

from mmrl.data.video import open_clip


@pytest.fixture(scope="module")
def lengths(tmp_path_factory):
    """The same ten seconds, 30 and 360 times: five minutes and an hour."""
    folder = tmp_path_factory.mktemp("long")
    unit = encode_unit(
        folder / "unit.mp4", width=160, height=96, frames=250, fps=25, codec="libx264", gop=50, preset="veryfast"
    )
    return [repeat_clip(unit, folder / f"{times}.mp4", times) for times in (30, 360)]


def test_only_the_groups_with_wanted_frames_are_decoded(lengths):
    with open_clip(lengths[1], reader="pyav") as clip:
        assert clip.info.num_frames == 90_000 and clip.info.duration_s == pytest.approx(3600)
        decoded = []
        pixels = clip._rgb
        clip._rgb = lambda frame: decoded.append(frame.pts) or pixels(frame)
        wanted = list(range(7, 90_000, 1500))
        assert [index for index, _ in clip.frames(wanted)] == wanted and len(decoded) == 60
        runs = clip._runs(wanted)
        assert all(run == [index] for (_, run), index in zip(runs, wanted, strict=True))
        line = clip._timeline
        assert [int(line.entries_K[entry]) for entry, _ in runs] == [index // 50 * 50 for index in wanted]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_an_hour_takes_the_memory_of_five_minutes(lengths, threads):
    (short, said), (long, said_of_hour) = (peak_mib(OPEN_ONE, path, 64, threads) for path in lengths)
    assert (said, said_of_hour) == ("64 7383", "64 88593") or (
        said.startswith("64 ") and said_of_hour.startswith("64 ")
    )
    assert long / short <= 1.2
    assert long - short < 40  # most of a process are its libraries, so the ratio alone would say little
