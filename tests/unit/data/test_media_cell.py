"""Media as mappings: what a row may say of one medium, and what is said of what it may not."""

import numpy as np
import pytest
from makers.media import picture_bytes, read_one, write_frames, write_pdf, write_picture, write_zip

from mmrl.config.schema import BudgetClass, DatasetSection, RunConfig
from mmrl.data.budgets_of import resolve_budget
from mmrl.data.locate import MediaRules
from mmrl.data.locations import ArchiveMember, FrameFiles, PdfPage, RawBytes
from mmrl.data.media_cell import read_media_cell
from mmrl.data.sample import MediaRef, Sample
from mmrl.errors import ConfigError, DataError


@pytest.fixture
def root(tmp_path):
    write_picture(tmp_path / "a.png")
    (tmp_path / "v.mp4").touch()
    write_pdf(tmp_path / "x.pdf")
    write_frames(tmp_path / "frames", 3)
    return tmp_path


def test_nothing_one_and_several(root):
    assert read_media_cell(None, "image", field="images", root=root, budget="gui") == []
    one, two = read_media_cell(["a.png", {"image": "a.png"}], "image", field="images", root=root, budget="gui")
    assert (one.source, one.budget, one.budget_keys) == (two.source, two.budget, two.budget_keys)
    assert (one.source, one.budget, one.budget_keys) == (root / "a.png", "gui", {})


def test_a_clip_as_qwen_vl_rows_have_it(root):
    row = {"type": "video", "video": f"file://{root}/v.mp4", "video_start": 2, "video_end": 5.5, "fps": 1.0}
    ref = read_one({**row, "min_pixels": 3136, "max_pixels": 50176, "total_pixels": 401408.0}, root, kind="video")
    assert (ref.source, ref.start_s, ref.end_s, ref.source_fps) == (root / "v.mp4", 2.0, 5.5, None)
    assert ref.budget_keys == {"sample_fps": 1.0, "min_pixels": 3136, "max_pixels": 50176, "total_pixels": 401408}
    ours = {"path": "v.mp4", "start_s": 2.0, "end_s": 5.5, "sample_fps": 1, "min_frames": 2, "max_frames": 8}
    ref = read_one({**ours, "budget": "driving"}, root, kind="video")
    assert (ref.start_s, ref.end_s, ref.budget) == (2.0, 5.5, "driving")
    assert ref.budget_keys == {"sample_fps": 1.0, "min_frames": 2, "max_frames": 8}
    assert read_one({"video": "v.mp4", "nframes": 6}, root, kind="video").budget_keys == {
        "min_frames": 6,
        "max_frames": 6,
    }


def test_null_is_absent_as_parquet_fills_rows(root):
    row = {"image": "a.png", "video": None, "bytes": None, "start_s": None, "max_pixels": None, "anything": None}
    ref = read_one(row, root)
    assert (ref.source, ref.start_s, ref.budget_keys) == (root / "a.png", None, {})


def test_pages(root):
    assert read_one("x.pdf#page=2", root).source == PdfPage(root / "x.pdf", 2, 144)
    assert read_one({"path": "x.pdf", "page": 2}, root).source == PdfPage(root / "x.pdf", 2, 144)
    assert read_one({"image": "x.pdf#page=2", "dpi": 200}, root).source == PdfPage(root / "x.pdf", 2, 200)
    rules = MediaRules(pdf_dpi=72)
    assert read_one({"bytes": b"%PDF-", "page": 3}, root, rules=rules).source.dpi == 72


def test_frames(root):
    paths = tuple(root / f"frames/{n}.png" for n in range(3))
    names = [f"frames/{n}.png" for n in range(3)]
    for written in ([names], {"frames": names}, {"video": names}, "frames", {"frames": "frames"}, {"path": "frames"}):
        ref = read_one(written, root, kind="video", rules=MediaRules(source_fps=4.0))
        assert isinstance(ref.source, FrameFiles) and ref.source.files == paths and ref.source_fps == 4.0
    archive = write_zip(root / "a.zip", {"f.png": picture_bytes()})
    mixed = ["a.zip::f.png", b"raw", {"bytes": b"more", "path": "f.png"}, {"bytes": None, "path": "a.png"}]
    ref = read_one({"frames": mixed, "source_fps": 2}, root, kind="video", rules=MediaRules(source_fps=4.0))
    assert ref.source_fps == 2.0
    first, second, third, fourth = ref.source.files
    assert first == ArchiveMember(archive, "f.png") and fourth == root / "a.png"
    assert isinstance(second, RawBytes) and second.data == b"raw" and third.data == b"more"


def test_bytes_are_not_copied(root):
    data = picture_bytes()
    for written in (data, {"bytes": data, "path": "x"}, {"image": {"bytes": data, "path": None}}):
        assert read_one(written, root).source.data is data


IMAGE_KEYS = "image, video, path, bytes, url, frames, type, budget, min_pixels, max_pixels, page, dpi"


@pytest.mark.parametrize(
    ("written", "kind", "message"),
    [
        (3, "image", "media must be a path, a mapping, bytes, or a list of such, not a number"),
        ([3], "image", "media[0] must be a path, not a number"),
        ([None], "image", "media[0] must be a path, not null"),
        ([["a.png"]], "image", "media[0] is a list; only a clip is a list of frame files"),
        ([[]], "video", "media[0]: a clip without frames"),
        ([b""], "image", "media[0]: holds no bytes"),
        (
            {},
            "image",
            "media[0]: a mapping names one medium by one of image, video, path, bytes, url, frames; it has none",
        ),
        (
            {"image": "a.png", "url": "a.png"},
            "image",
            "media[0]: a mapping names one medium by one of image, video, path, bytes, url, frames; it has 'image' and "
            "'url'",
        ),
        (
            {"image": "a.png", "max_pixel": 9},
            "image",
            f"media[0]: unknown key 'max_pixel'; known for an image: {IMAGE_KEYS}; did you mean 'max_pixels'?",
        ),
        ({"video": "v.mp4"}, "image", "media[0]: key 'video' in a cell that holds media of kind 'image'"),
        (
            {"path": "a.png", "type": "video"},
            "image",
            "media[0]: type 'video' in a cell that holds media of kind 'image'",
        ),
        ({"bytes": 3}, "image", "media[0].bytes: `bytes` must hold bytes or base64, not a number"),
        ({"bytes": "@"}, "image", "media[0].bytes: not valid base64: Only base64 data is allowed"),
        (
            {"image": {"url": "a"}},
            "image",
            "media[0].image: a mapping inside a medium holds `bytes` and `path`, not url",
        ),
        (
            {"frames": "v.mp4"},
            "video",
            "media[0].frames must be a list of picture files or a folder of them, not {root}/v.mp4",
        ),
        (
            {"frames": ["a.png"]},
            "video",
            "media[0]: a clip given as frames needs their rate; write {{frames: ..., source_fps: N}} in the row, or "
            "set the dataset's `source_fps`",
        ),
        (
            {"frames": [["a.png"]]},
            "video",
            "media[0].frames[0]: a frame must be one picture file, not media[0].frames[0] (1 frames)",
        ),
        (
            {"frames": ["x.pdf#page=1"]},
            "video",
            "{root}/x.pdf#page=1: a PDF page is a picture, not a clip; list it among the images",
        ),
        (
            {"video": "v.mp4", "source_fps": 30},
            "video",
            "media[0]: source_fps is for clips given as frames; a clip file says its own rate",
        ),
        (
            {"video": "v.mp4", "fps": 2, "sample_fps": 2},
            "video",
            "media[0]: 'fps' and 'sample_fps' say the same; keep one",
        ),
        ({"video": "v.mp4", "start_s": 5, "end_s": 5}, "video", "media[0]: the span from 5 to 5 s holds no time"),
        ({"video": "v.mp4", "start_s": -1}, "video", "media[0]: start_s must be at least 0, not -1"),
        ({"video": "v.mp4", "video_end": 0}, "video", "media[0]: video_end must be above 0, not 0"),
        ({"video": "v.mp4", "fps": "2"}, "video", "media[0]: fps must be a number, not '2'"),
        ({"video": "v.mp4", "fps": True}, "video", "media[0]: fps must be a number, not True"),
        ({"video": "v.mp4", "fps": float("nan")}, "video", "media[0]: fps must be a number, not nan"),
        ({"video": "v.mp4", "max_frames": 2.5}, "video", "media[0]: max_frames must be a whole number, not 2.5"),
        (
            {"video": "v.mp4", "nframes": 8, "fps": 2},
            "video",
            "media[0]: nframes fixes the number of frames; remove sample_fps",
        ),
        (
            {"video": "v.mp4", "min_pixels": 9, "max_pixels": 4},
            "video",
            "media[0]: min_pixels 9 is above max_pixels 4",
        ),
        ({"image": "a.png", "budget": 3}, "image", "media[0]: budget must be the name of a budget class, not 3"),
        ({"image": "a.png", "dpi": 72}, "image", "media[0]: dpi is for PDF pages; name the page too"),
        (
            {"image": "x.pdf#page=1", "page": 2},
            "image",
            "media[0]: `page` and {root}/x.pdf#page=1 both name a page; keep one",
        ),
    ],
)
def test_errors(root, written, kind, message):
    with pytest.raises(DataError) as caught:
        read_one(written, root, kind=kind)
    assert str(caught.value) == message.format(root=root)


def budget_of(ref):
    config = RunConfig.model_validate(
        {"model": {"path": "m"}, "budgets": {"video": {"min_pixels": 3136, "max_pixels": 50176}, "gui": {}}}
    )
    sample = Sample("s", "t", "video", (), media=(ref,), origin="a.jsonl:1")
    return resolve_budget(config, DatasetSection.model_validate({"path": "x"}), sample, ref)


def test_a_mediums_own_keys_are_put_over_its_class():
    pixels = np.zeros((1, 4, 4, 3), np.uint8)
    ref = MediaRef("video", pixels, budget_keys={"max_pixels": 12544, "max_frames": 6, "sample_fps": 1.0})
    assert budget_of(ref) == BudgetClass(min_pixels=3136, max_pixels=12544, max_frames=6, sample_fps=1.0)
    assert budget_of(MediaRef("video", pixels, budget="gui", budget_keys={"max_frames": 6})) == BudgetClass(
        max_frames=6
    )
    with pytest.raises(ConfigError) as caught:
        budget_of(MediaRef("video", pixels, budget_keys={"max_pixels": 784}))
    assert str(caught.value) == (
        "a.jsonl:1 (id=s): the row sets max_pixels 784, but budgets.video has min_pixels 3136 and max_pixels 50176: "
        "the least would be above the most; set both in the row"
    )
