"""Object storage behind the cache: what is fetched, uploaded and evicted; failures; damage on the way."""

import os
import threading
from pathlib import Path

import fsspec
import pytest
import torch
from makers.entries import entry_files, flip, picture
from makers.failing_fs import FailingFileSystem
from makers.openers import QWEN25, SMALL, LocalOpener

from mmrl.data import remote as module
from mmrl.data.cache import PixelCache
from mmrl.data.cache_cli import pack, push
from mmrl.data.container import encode
from mmrl.data.remote import Remote
from mmrl.data.storage import Storage
from mmrl.data.store import EntryStore
from mmrl.data.tiered import TieredStore
from mmrl.errors import CacheCorruptError, CacheMissError, CacheRemoteError


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    FailingFileSystem.reset()
    fsspec.filesystem("memory").store.clear()
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.0)


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path) -> str:
    return "memory://bucket/cache" if request.param == "memory" else f"file://{tmp_path}/bucket/cache"


def cache(folder: Path, url: str | None, **settings) -> PixelCache:
    most = settings.pop("max_local_bytes", None)
    return PixelCache(folder, storage=Storage(url, most), **settings)


def key_of(number: int) -> str:
    return f"{number:02x}" * 32


def blocks(number: int, size: int = 100_000) -> list[memoryview]:
    return encode({}, {"x": torch.full((size,), number, dtype=torch.uint8)})


def tiered(folder: Path, url: str, most: int | None = None) -> TieredStore:
    return TieredStore(folder, Remote(url, "pixels"), max_local_bytes=most)


def local_keys(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("??/*.safetensors"))


def test_what_one_machine_writes_another_reads_without_decoding(tmp_path, url):
    ref, opener = picture(tmp_path / "a.png"), LocalOpener()
    built = cache(tmp_path / "one", url).get(ref, SMALL, QWEN25, opener)
    other = cache(tmp_path / "two", url, on_miss="error")
    assert entry_files(tmp_path / "two") == []
    read = other.get(ref, SMALL, QWEN25, opener)
    assert torch.equal(read.frames_F3HW, built.frames_F3HW) and read.key == built.key
    assert (opener.opened, other.metrics()["hits"], other.metrics()["misses"]) == (1, 1, 0)
    (one,), (two,) = entry_files(tmp_path / "one"), entry_files(tmp_path / "two")
    assert one.read_bytes() == two.read_bytes()
    assert not list((tmp_path / "one/pixels/pending").iterdir())
    # From now on the local copy serves, whatever happens to the storage.
    assert cache(tmp_path / "two", None, on_miss="error").get(ref, SMALL, QWEN25, opener).key == built.key


def test_nothing_but_whole_entries_is_visible_in_the_storage(tmp_path, url):
    store = tiered(tmp_path / "local", url)
    store.write(key_of(1), blocks(1))
    store.write(key_of(1), blocks(1))
    assert store.remote.names() == {f"01/{key_of(1)}.safetensors"}
    data = store.remote.read(f"01/{key_of(1)}.safetensors")
    assert data is not None and data.tobytes() == b"".join(blocks(1))


def test_entries_of_remote_shards_are_read_by_range(tmp_path, url):
    refs, opener = [picture(tmp_path / f"{n}.png", seed=n) for n in range(4)], LocalOpener()
    for ref in refs:
        cache(tmp_path / "one", None).get(ref, SMALL, QWEN25, opener)
    pack(tmp_path / "one", shard_size="1MB")
    assert push(tmp_path / "one", url) == 0
    other = cache(tmp_path / "two", url, on_miss="error")
    other.get(refs[2], SMALL, QWEN25, opener)
    assert len(entry_files(tmp_path / "two")) == 1 and opener.opened == 4
    with pytest.raises(CacheMissError, match=r"not in the cache .*two/pixels or .*bucket/cache/pixels and"):
        other.get(picture(tmp_path / "new.png", seed=9), SMALL, QWEN25, opener)


def test_push_sends_what_is_missing_once(tmp_path, capsys, url):
    cache(tmp_path / "one", None).get(picture(tmp_path / "a.png"), SMALL, QWEN25, LocalOpener())
    assert push(tmp_path / "one", url) == push(tmp_path / "one", url) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 files (0.0 MB) sent to") and lines[1].startswith("0 files (0.0 MB) sent to")


def test_a_range_read_asks_for_the_entry_alone(tmp_path):
    store = EntryStore(tmp_path / "one" / "pixels")
    for number in range(5):
        store.write(key_of(number), blocks(number))
    pack(tmp_path / "one", shard_size="1MB")
    push(tmp_path / "one", "failing://b")
    reader = tiered(tmp_path / "two", "failing://b")
    FailingFileSystem.calls.clear()
    assert reader.find(key_of(3)).bytes_N.tobytes() == b"".join(blocks(3))
    assert reader.find(key_of(4)).bytes_N.tobytes() == b"".join(blocks(4))
    assert [what for what, _ in FailingFileSystem.calls] == ["list", "read", "read", "read", "read"]
    assert local_keys(tmp_path / "two") == [key_of(3), key_of(4)]


def test_the_local_folder_stays_below_its_limit_and_the_longest_unused_goes(tmp_path):
    most = 5 * len(b"".join(blocks(0)))
    store = tiered(tmp_path, "memory://b", most)
    for number in range(4):
        store.write(key_of(number), blocks(number))
        os.utime(store.loose_path(key_of(number)), (1000 + number, 1000 + number))
    store._used_s.clear()
    store.find(key_of(0))  # used now
    store.write(key_of(4), blocks(4))
    assert len(local_keys(tmp_path)) == 5
    store.write(key_of(5), blocks(5))
    assert local_keys(tmp_path) == [key_of(number) for number in (0, 3, 4, 5)]
    assert store.find(key_of(1)).bytes_N.tobytes() == b"".join(blocks(1))  # fetched again
    assert sum(path.stat().st_size for path in tmp_path.glob("??/*")) <= most


def test_an_entry_that_is_mapped_is_not_evicted(tmp_path):
    most = 3 * len(b"".join(blocks(0)))
    store = tiered(tmp_path, "memory://b", most)
    store.write(key_of(0), blocks(0))
    os.utime(store.loose_path(key_of(0)), (1, 1))
    held = store.find(key_of(0)).bytes_N[100:]  # a view keeps the mapping, as a tensor does
    store._used_s.clear()
    os.utime(store.loose_path(key_of(0)), (1, 1))
    for number in range(1, 8):
        store.write(key_of(number), blocks(number))
    assert key_of(0) in local_keys(tmp_path) and len(local_keys(tmp_path)) <= 3
    assert held.tobytes() == b"".join(blocks(0))[100:]
    del held
    for number in range(8, 12):
        store.write(key_of(number), blocks(number))
    assert key_of(0) not in local_keys(tmp_path)


def test_a_short_failure_is_tried_again(tmp_path):
    store = tiered(tmp_path / "one", "failing://b")
    FailingFileSystem.failures = 2
    store.write(key_of(1), blocks(1))
    FailingFileSystem.failures = 3
    assert tiered(tmp_path / "two", "failing://b").find(key_of(1)) is not None


@pytest.mark.parametrize("on_miss", ["build", "error"])
def test_a_dead_storage_is_an_error_that_names_url_and_remedy(tmp_path, on_miss):
    FailingFileSystem.failures = 10**6
    ref, opener = picture(tmp_path / "a.png"), LocalOpener()
    message = (
        r"failing://b/pixels/.*: cannot be (read|listed), 4 tries: ConnectionError: the line is dead; check the "
        r"network and the credentials .*cache\.remote: null"
    )
    with pytest.raises(CacheRemoteError, match=message):
        cache(tmp_path / "c", "failing://b", on_miss=on_miss).get(ref, SMALL, QWEN25, opener)
    assert len(FailingFileSystem.calls) == 4
    assert opener.opened == 0


def test_without_permission_it_is_not_tried_again(tmp_path):
    FailingFileSystem.failures, FailingFileSystem.error = 10**6, PermissionError("403")
    with pytest.raises(CacheRemoteError, match="1 tries: PermissionError: 403"):
        tiered(tmp_path, "failing://b").find(key_of(1))


def test_what_could_not_be_uploaded_is_kept_and_uploaded_by_the_next_run(tmp_path):
    most = 2 * len(b"".join(blocks(0)))
    store = tiered(tmp_path, "failing://b", most)
    store.write(key_of(9), blocks(9))
    FailingFileSystem.failures = 4
    with pytest.raises(CacheRemoteError, match="cannot be written"):
        store.write(key_of(1), blocks(1))
    assert key_of(1) in local_keys(tmp_path)
    for number in range(2, 5):  # it is not evicted, though used longest ago
        os.utime(store.loose_path(key_of(1)), (1, 1))
        store.write(key_of(number), blocks(number))
    assert key_of(1) in local_keys(tmp_path)
    assert f"01/{key_of(1)}.safetensors" not in store.remote.names()
    again = tiered(tmp_path, "failing://b", most)
    again.write(key_of(5), blocks(5))
    assert {f"01/{key_of(1)}.safetensors", f"05/{key_of(5)}.safetensors"} <= again.remote.names()
    assert not list((tmp_path / "pending").iterdir())


def test_a_download_that_comes_short_is_never_visible(tmp_path):
    tiered(tmp_path / "one", "failing://b").write(key_of(1), blocks(1))
    FailingFileSystem.cut = 2
    reader = tiered(tmp_path / "two", "failing://b")
    with pytest.raises(CacheCorruptError, match=rf"failing://b/pixels/01/{key_of(1)}\.safetensors: "):
        reader.find(key_of(1))
    assert local_keys(tmp_path / "two") == []
    FailingFileSystem.cut = 1  # tried once more
    assert reader.find(key_of(1)).bytes_N.tobytes() == b"".join(blocks(1))


def test_a_damaged_remote_entry_is_rebuilt_and_replaced(tmp_path):
    url, ref, opener = f"file://{tmp_path}/bucket", picture(tmp_path / "a.png"), LocalOpener()
    cache(tmp_path / "one", url).get(ref, SMALL, QWEN25, opener)
    (path,) = entry_files(tmp_path / "bucket")
    flip(path, -1)
    with pytest.raises(CacheCorruptError, match="do not match the checksum"):
        cache(tmp_path / "two", url, on_miss="error").get(ref, SMALL, QWEN25, opener)
    mending = cache(tmp_path / "two", url)
    mending.get(ref, SMALL, QWEN25, opener)
    assert (mending.metrics()["rebuilt"], opener.opened) == (1, 2)
    cache(tmp_path / "three", url, on_miss="error").get(ref, SMALL, QWEN25, opener)


def test_threads_that_want_the_same_entry_fetch_it_once(tmp_path):
    tiered(tmp_path / "one", "failing://b").write(key_of(1), blocks(1))
    reader = tiered(tmp_path / "two", "failing://b")
    FailingFileSystem.calls.clear()
    found: list = []
    threads = [threading.Thread(target=lambda: found.append(reader.find(key_of(1)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [mapped.bytes_N.tobytes() == b"".join(blocks(1)) for mapped in found] == [True] * 8
    assert [what for what, _ in FailingFileSystem.calls].count("read") == 1


@pytest.mark.parametrize("url", ["nonsense://bucket", "", "s4://x"])
def test_a_url_that_nothing_opens_is_named(tmp_path, url):
    with pytest.raises(CacheRemoteError, match=r"cache\.remote"):
        cache(tmp_path, url)
