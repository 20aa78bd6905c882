"""Compressed entries: the same pixels, beside plain ones; damage; a missing library."""

import json
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from makers.entries import entry_files, flip, picture, read_entry_file
from makers.openers import QWEN25, SMALL, LocalOpener
from skimage.data import astronaut

from mmrl.data.cache import PixelCache
from mmrl.data.compress import compressed, expanded
from mmrl.data.container import decode, encode
from mmrl.data.mapping import read_file, write_whole
from mmrl.data.pack import pack
from mmrl.data.sample import MediaRef
from mmrl.data.storage import Storage
from mmrl.errors import CacheCorruptError, CacheError

ZSTD = Storage(compress="zstd")


def frames(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 4), height=st.integers(1, 40), width=st.integers(1, 40), seed=st.integers(0, 99))
def test_any_frames_come_back(count, height, width, seed):
    frames_F3HW = frames(count, 3, height, width, seed=seed)
    before = frames_F3HW.clone()
    assert torch.equal(expanded(compressed(frames_F3HW).numpy(), frames_F3HW.shape), before)
    assert torch.equal(frames_F3HW, before)


def test_a_photograph_takes_at_most_two_thirds(tmp_path):
    ref = MediaRef("image", astronaut())
    budget = SMALL.model_copy(update={"max_pixels": 336 * 336, "min_pixels": 336 * 336})
    plain = PixelCache(tmp_path / "plain").get(ref, budget, QWEN25, LocalOpener())
    cache = PixelCache(tmp_path / "zstd", storage=ZSTD)
    entry = cache.get(ref, budget, QWEN25, LocalOpener())
    assert torch.equal(entry.frames_F3HW, plain.frames_F3HW) and entry.key == plain.key
    sizes = [entry_files(tmp_path / name)[0].stat().st_size for name in ("plain", "zstd")]
    assert sizes[1] < sizes[0] * 2 / 3


def test_compressed_and_plain_entries_share_a_cache_loose_and_packed(tmp_path):
    refs, opener = [picture(tmp_path / f"{n}.png", seed=n) for n in range(4)], LocalOpener()
    for number, ref in enumerate(refs):
        PixelCache(tmp_path / "c", storage=ZSTD if number % 2 else None).get(ref, SMALL, QWEN25, opener)
    expected = [opener.open(ref, SMALL, QWEN25).frames_F3HW for ref in refs]
    for storage in (None, ZSTD):
        cache = PixelCache(tmp_path / "c", on_miss="error", storage=storage)
        found = [cache.get(ref, SMALL, QWEN25, opener).frames_F3HW for ref in refs]
        assert all(map(torch.equal, found, expected))
        pack(cache.store)
    assert entry_files(tmp_path / "c") == []


def test_the_checksum_is_over_what_is_stored(tmp_path):
    ref = picture(tmp_path / "a.png")
    PixelCache(tmp_path / "c", storage=ZSTD).get(ref, SMALL, QWEN25, LocalOpener())
    (path,) = entry_files(tmp_path / "c")
    flip(path, -1)
    with pytest.raises(CacheCorruptError, match="do not match the checksum"):
        PixelCache(tmp_path / "c", on_miss="error").get(ref, SMALL, QWEN25, LocalOpener())


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"codec": "zstd", "shape": [1, 3, 10**6, 10**6]}, "not frames of shape"),
        ({"codec": "zstd", "shape": [1, 3, 4, 3]}, "not frames of shape"),
        ({"codec": "zstd", "shape": "all"}, "the header is damaged"),
        ({"codec": "lzma", "shape": [1, 3, 4, 4]}, "compressed with 'lzma'"),
        ({}, "the header is damaged"),
    ],
)
def test_a_wrong_header_is_an_error_before_any_memory_is_taken(tmp_path, how, message):
    PixelCache(tmp_path / "c", storage=ZSTD).get(picture(tmp_path / "a.png"), SMALL, QWEN25, LocalOpener())
    (path,) = entry_files(tmp_path / "c")
    stored = decode(path, read_file(str(path)).bytes_N, verify=True)
    metadata = {**stored.metadata, "compressed": json.dumps(how)}
    write_whole(path, encode(metadata, {name: stored[name] for name in ("seconds", "indices", "frames")}))
    with pytest.raises(CacheCorruptError, match=message):
        read_entry_file(path)


def test_data_that_are_no_zstd_are_an_error():
    with pytest.raises(ValueError, match="cannot be read"):
        expanded(np.zeros(40, np.uint8), (1, 3, 2, 2))


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    ref = picture(tmp_path / "a.png")
    PixelCache(tmp_path / "c", storage=ZSTD).get(ref, SMALL, QWEN25, LocalOpener())
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.delattr("backports.zstd", raising=False)
    for storage in (None, ZSTD):
        with pytest.raises(CacheError, match=r"pip install 'mmrl\[compress\]'"):
            PixelCache(tmp_path / "c", storage=storage).get(ref, SMALL, QWEN25, LocalOpener())
