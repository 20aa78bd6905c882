"""Random damage: whatever bytes a file holds, readers raise errors of ours, at once and with bounded memory."""

import io
import json
import resource
import zlib
from contextlib import contextmanager
from pathlib import Path

import av
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from makers.clips import ClipSpec, write_clip
from makers.rows import read
from PIL import Image

from mmrl.config.schema import CardSection
from mmrl.data.cards import CardReader
from mmrl.data.image import open_image
from mmrl.data.rows import open_rows
from mmrl.data.templates import Templates
from mmrl.data.video import open_clip
from mmrl.errors import DataError, MmrlError

CI = settings(
    max_examples=60,
    derandomize=True,  # the same examples in every run
    deadline=5_000,  # ms: nothing hangs
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
FEW = settings(CI, max_examples=25)

damage = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("a.png"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("prompt", "answer", "images", "videos", "task", "id", "system", "modality", "demonstration")


@contextmanager
def only_our_errors():
    try:
        yield
    except MmrlError as error:
        assert "\n" not in str(error).strip(), error


def read_all(path: Path) -> None:
    rows = open_rows(path)
    for number in range(min(len(rows), 50)):
        with only_our_errors():
            rows.read(number)
        rows.origin(number)


def damaged(raw: bytes, places: list[tuple[float, int]], cut: float) -> bytes:
    changed = bytearray(raw)
    for place, value in places:
        changed[int(place * len(changed))] = value
    return bytes(changed[: max(1, int(cut * len(changed)))])


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet", ".tsv", ".csv"])
@CI
@given(raw=st.binary(max_size=300))
def test_random_bytes_as_rows(tmp_path, suffix, raw):
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(raw)
    with only_our_errors():
        read_all(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
@CI
@given(text=st.text(alphabet='[]{}",:\\\\u0d8e1.- \n\t', max_size=120))
def test_almost_json(tmp_path, suffix, text):
    path = tmp_path / f"rows{suffix}"
    path.write_text(text, encoding="utf-8")
    with only_our_errors():
        read_all(path)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":['])
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_deep_nesting_is_bad_data(tmp_path, suffix, opening):
    path = tmp_path / f"rows{suffix}"
    path.write_text(opening * 100_000)
    with pytest.raises(DataError, match=r"nested too deeply|must hold one list"):
        rows = open_rows(path)
        rows.read(0)


@CI
@example(row={"\n": None})
@given(row=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), json_values, max_size=9))
def test_random_rows_through_a_card(tmp_path, row):
    (tmp_path / "a.png").touch()
    card = CardSection.model_validate({"task": "t", "geometry_placeholder": "<b>", "geometry_column": "g"} | SPACES)
    reader = CardReader(card, "data", "rows", tmp_path, Templates(None, None, {}, None, {}))
    with only_our_errors():
        reader.sample(row, number=0, origin="rows.jsonl:1")


SPACES = {"answer_space": "original_px"}


@CI
@given(rows=st.lists(st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=9), min_size=1, max_size=4))
def test_random_rows_through_read_dataset(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with only_our_errors():
        read(path, card={"task": "t"})
    with only_our_errors():
        samples = read(
            path, card={"task": "t"}, data={"bad_row": "skip", "bad_media": "skip", "max_skipped_fraction": 1}
        )
        assert [sample.task for sample in samples]


@pytest.fixture(scope="module")
def parquet() -> bytes:
    table = pyarrow.table({"prompt": ["q", "r", "s"], "n": [1, 2, 3], "images": [["a"], None, ["b", "c"]]})
    target = io.BytesIO()
    pyarrow.parquet.write_table(table, target, compression="zstd")
    return target.getvalue()


@CI
@given(places=damage, cut=st.floats(0, 1))
def test_damaged_parquet(tmp_path, parquet, places, cut):
    path = tmp_path / "rows.parquet"
    path.write_bytes(damaged(parquet, places, 1.0 if cut > 0.3 else cut))
    with only_our_errors():
        read_all(path)


@pytest.fixture(scope="module")
def pictures() -> dict[str, bytes]:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8))
    made = {}
    for kind in ("png", "jpeg", "gif", "webp", "tiff", "bmp"):
        target = io.BytesIO()
        noise.save(target, kind)
        made[kind] = target.getvalue()
    return made


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp", "tiff", "bmp"])
@FEW
@given(places=damage, cut=st.floats(0, 1))
def test_damaged_pictures(tmp_path, pictures, kind, places, cut):
    path = tmp_path / f"picture.{kind}"
    path.write_bytes(damaged(pictures[kind], places, 1.0 if cut > 0.5 else cut))
    with only_our_errors():
        rgb_HW3 = open_image(path)
        assert rgb_HW3.dtype == np.uint8 and rgb_HW3.ndim == 3 and rgb_HW3.shape[2] == 3


@CI
@given(raw=st.binary(max_size=200))
def test_random_bytes_as_media(tmp_path, raw):
    path = tmp_path / "medium"
    path.write_bytes(raw)
    with only_our_errors():
        open_image(path)
    with only_our_errors(), open_clip(path, reader="pyav") as clip:
        list(clip.frames(range(min(3, clip.info.num_frames))))


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("clips")
    return {name: write_clip(folder / name, ClipSpec(frames=12)).read_bytes() for name in ("clip.mp4", "clip.mkv")}


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv"])
@FEW
@given(places=damage, cut=st.floats(0, 1))
def test_damaged_clips(tmp_path, clips, name, places, cut):
    av.logging.set_level(av.logging.PANIC)
    path = tmp_path / name
    path.write_bytes(damaged(clips[name], places, 1.0 if cut > 0.5 else cut))
    with only_our_errors(), open_clip(path, reader="pyav") as clip:
        for _, rgb_HW3 in clip.frames(range(min(12, clip.info.num_frames))):
            assert rgb_HW3.dtype == np.uint8 and rgb_HW3.shape[2] == 3


def test_a_header_that_promises_a_huge_picture_costs_no_memory(tmp_path):
    """A PNG of 60,000 x 60,000 pixels in 100 bytes: refused by its header, nothing is allocated."""
    png = io.BytesIO()
    Image.new("L", (1, 1)).save(png, "png")
    raw = bytearray(png.getvalue())
    raw[16:24] = (60_000).to_bytes(4, "big") * 2
    raw[29:33] = zlib.crc32(bytes(raw[12:29])).to_bytes(4, "big")
    path = tmp_path / "huge.png"
    path.write_bytes(raw)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MmrlError, match="above the limit of 178956970"):
        open_image(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
