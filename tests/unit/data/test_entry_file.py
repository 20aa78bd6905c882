"""The entry file: what safetensors reads back, and that no damaged byte goes unseen."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from makers.entries import read_entry_file
from safetensors import safe_open

from mmrl.data.entry_file import StoredEntry, entry_blocks
from mmrl.data.fingerprint import Fingerprint
from mmrl.data.mapping import temporary_files, write_whole
from mmrl.errors import CacheCorruptError, CacheError

RECIPE = '{"kind":"video"}'
SOURCE = Fingerprint("ab" * 32, 4321).text
MEDIUM = {"grid_thw": [1, 2, 2], "source_size": [640, 480], "note": 'ü "quoted"'}
TIMES, INDICES = (0.0, 1 / 3), (0, 10)


def frames(count=2, height=8, width=12):
    return (
        torch.arange(count * 3 * height * width, dtype=torch.int64)
        .remainder(251)
        .to(torch.uint8)
        .view(count, 3, height, width)
    )


def write(path, pixels=None):
    entry = StoredEntry(RECIPE, SOURCE, MEDIUM, frames() if pixels is None else pixels, TIMES, INDICES)
    return write_whole(path, entry_blocks(entry))


def test_round_trip_and_size(tmp_path):
    path = tmp_path / "ab" / "entry.safetensors"
    size = write(path)
    stored = read_entry_file(path)
    assert size == path.stat().st_size
    assert (stored.recipe, stored.source, stored.medium) == (RECIPE, SOURCE, MEDIUM)
    assert (stored.timestamps_s, stored.frame_indices) == (TIMES, INDICES)
    assert stored.shape == (2, 3, 8, 12)
    assert torch.equal(stored.frames_F3HW, frames())
    assert [p.name for p in path.parent.iterdir()] == ["entry.safetensors"]


def test_safetensors_reads_it(tmp_path):
    path = tmp_path / "entry.safetensors"
    write(path)
    with safe_open(path, "pt") as file:
        assert torch.equal(file.get_tensor("frames"), frames())
        assert (file.get_tensor("seconds").tolist(), file.get_tensor("indices").tolist()) == (
            list(TIMES),
            list(INDICES),
        )
        assert sorted(file.metadata()) == ["checksum", "medium", "recipe", "source"]


def test_same_input_same_file(tmp_path):
    write(tmp_path / "a.safetensors")
    write(tmp_path / "b.safetensors", frames().transpose(2, 3).contiguous().transpose(2, 3))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_every_flipped_byte_is_found(tmp_path):
    path = tmp_path / "entry.safetensors"
    write(path, frames(1, 4, 4))
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(CacheCorruptError, match=r"entry\.safetensors"):
            read_entry_file(path)


def test_every_cut_is_found_without_checksum(tmp_path):
    path = tmp_path / "entry.safetensors"
    write(path, frames(1, 4, 4))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CacheCorruptError):
            read_entry_file(path, verify=False)


def test_appended_bytes_are_found_without_checksum(tmp_path):
    path = tmp_path / "entry.safetensors"
    write(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CacheCorruptError, match="600 bytes of data expected, 601 found"):
        read_entry_file(path, verify=False)


def test_writing_into_the_frames_does_not_reach_the_file(tmp_path):
    path = tmp_path / "entry.safetensors"
    write(path)
    read_entry_file(path, verify=False).frames_F3HW.zero_()
    assert torch.equal(read_entry_file(path).frames_F3HW, frames())


def test_a_thousand_open_entries_hold_no_file_descriptors(tmp_path):
    path = tmp_path / "entry.safetensors"
    write(path)
    held = [read_entry_file(path, verify=False).frames_F3HW for _ in range(2000)]
    assert torch.equal(held[-1], frames())


def test_failed_write_leaves_nothing_and_names_the_file(tmp_path):
    (tmp_path / "ab").write_text("a file where the folder should be")
    with pytest.raises(CacheError, match=r"ab/entry\.safetensors: cannot write"):
        write(tmp_path / "ab" / "entry.safetensors")
    assert list(temporary_files(tmp_path)) == []


@settings(max_examples=50, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)),
    times=st.lists(st.floats(0, 1e5, allow_nan=False), max_size=5),
    text=st.text(max_size=20),
    seed=st.integers(0, 2**31),
)
def test_any_entry_round_trips(tmp_path_factory, shape, times, text, seed):
    count, height, width = shape
    pixels = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (count, 3, height, width), dtype=np.uint8))
    path = tmp_path_factory.mktemp("entries") / "entry.safetensors"
    indices = tuple(range(7, 7 + len(times)))
    write_whole(path, entry_blocks(StoredEntry(text, SOURCE, MEDIUM, pixels, tuple(times), indices)))
    stored = read_entry_file(path)
    assert torch.equal(stored.frames_F3HW, pixels)
    assert (stored.recipe, stored.timestamps_s, stored.frame_indices) == (text, tuple(times), indices)
