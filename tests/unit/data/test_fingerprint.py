"""Content hashes: exact, remembered by stamp, forgotten on demand, safe against torn lines and changing files."""

import hashlib
import os
import time

import numpy as np
import pytest

from mmrl.data.fingerprint import ContentHashes, Fingerprint, hash_pixels, read_index, stamp_of
from mmrl.errors import MediaError


def old_file(path, content=b"pixels"):
    path.write_bytes(content)
    os.utime(path, ns=(10**18, 10**18))
    return path


def test_hash_is_sha256_of_the_bytes(tmp_path):
    path = old_file(tmp_path / "a b ü.png")
    assert ContentHashes().of(path) == Fingerprint(hashlib.sha256(b"pixels").hexdigest(), 6)


def test_second_process_hashes_nothing(tmp_path):
    path, index = old_file(tmp_path / "a.png"), tmp_path / "cache" / "index.jsonl"
    first, second = ContentHashes(index), ContentHashes(index)
    assert first.of(path) == first.of(path) == second.of(path)
    assert (first.files_hashed, first.bytes_hashed, second.files_hashed) == (1, 6, 0)


def test_rehash_ignores_the_memory_and_mends_it(tmp_path):
    path, index = old_file(tmp_path / "a.png"), tmp_path / "index.jsonl"
    before = ContentHashes(index).of(path)
    path.write_bytes(b"PIXELS")  # same size, same inode, and the time put back: the memory cannot see it
    os.utime(path, ns=(10**18, 10**18))
    assert ContentHashes(index).of(path) == before
    after = ContentHashes(index, rehash=True).of(path)
    assert after.sha256 == hashlib.sha256(b"PIXELS").hexdigest()
    assert ContentHashes(index).of(path) == after


@pytest.mark.parametrize("change", ["content", "time", "replaced"])
def test_a_changed_stamp_is_hashed_again(tmp_path, change):
    path, hashes = old_file(tmp_path / "a.png"), ContentHashes(tmp_path / "index.jsonl")
    hashes.of(path)
    if change == "content":
        path.write_bytes(b"longer than before")
    elif change == "time":
        os.utime(path, ns=(10**18, 10**18 + 1))
    else:
        old_file(tmp_path / "b.png", b"PIXELS").replace(path)
    assert hashes.of(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert hashes.files_hashed == 2


def test_links_share_the_memory_of_their_target(tmp_path):
    path, index = old_file(tmp_path / "a.png"), tmp_path / "index.jsonl"
    link = tmp_path / "link.png"
    link.symlink_to(path)
    ContentHashes(index).of(path)
    hashes = ContentHashes(index)
    assert hashes.of(link).size == 6
    assert hashes.files_hashed == 0
    link.unlink()
    link.symlink_to(old_file(tmp_path / "c.png", b"others"))
    assert hashes.of(link).sha256 == hashlib.sha256(b"others").hexdigest()


def test_a_file_just_written_is_not_remembered(tmp_path):
    path, hashes = tmp_path / "a.png", ContentHashes(tmp_path / "index.jsonl")
    path.write_bytes(b"pixels")
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    hashes.of(path)
    path.write_bytes(b"PIXELS")
    os.utime(path, ns=(now, now))
    assert hashes.of(path).sha256 == hashlib.sha256(b"PIXELS").hexdigest()


def test_torn_lines_cost_only_themselves(tmp_path):
    index = tmp_path / "index.jsonl"
    one, two = old_file(tmp_path / "1.png", b"1"), old_file(tmp_path / "2.png", b"2")
    ContentHashes(index).of(one)
    index.write_bytes(index.read_bytes() + b'\n["/half/a/li')
    ContentHashes(index).of(two)
    assert [line.path for line in read_index(index)] == [str(one), str(two)]
    hashes = ContentHashes(index)
    assert (hashes.of(one).size, hashes.of(two).size, hashes.files_hashed) == (1, 1, 0)


@pytest.mark.parametrize("name", [b"no-utf8-\xff.png", "汉字 照片.png".encode(), b"new\nline.png"])
def test_any_file_name_is_remembered(tmp_path, name):
    path, index = tmp_path / os.fsdecode(name), tmp_path / "index.jsonl"
    old_file(path)
    ContentHashes(index).of(path)
    hashes = ContentHashes(index)
    hashes.of(path)
    assert hashes.files_hashed == 0


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "null byte"])
def test_what_is_no_file_is_a_media_error(tmp_path, kind):
    path = tmp_path / ("\0" if kind == "null byte" else "x")
    if kind == "folder":
        path.mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(MediaError, match="x" if kind != "null byte" else "null"):
        ContentHashes().of(path)


def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch):
    path = old_file(tmp_path / "a.png")
    real_digest = hashlib.file_digest

    def digest_then_grow(file, name):
        found = real_digest(file, name)
        path.write_bytes(b"grown meanwhile")
        return found

    monkeypatch.setattr(hashlib, "file_digest", digest_then_grow)
    with pytest.raises(MediaError, match="changed while it was being read"):
        ContentHashes().of(path)


def test_pixels_in_memory_differ_by_shape_rate_and_bytes():
    pixels = np.zeros((4, 6, 3), np.uint8)
    other = pixels.copy()
    other[0, 0, 0] = 1
    hashes = {
        hash_pixels(pixels).sha256,
        hash_pixels(pixels.reshape(6, 4, 3)).sha256,
        hash_pixels(pixels, source_fps=2.0).sha256,
        hash_pixels(other).sha256,
    }
    assert len(hashes) == 4
    assert hash_pixels(np.asfortranarray(other)) == hash_pixels(other)


def test_stamp_follows_links(tmp_path):
    path = old_file(tmp_path / "a.png")
    (tmp_path / "link").symlink_to(path)
    assert stamp_of(tmp_path / "link") == stamp_of(path)
