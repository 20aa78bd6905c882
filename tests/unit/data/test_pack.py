"""Packed entries: read like loose ones, safe against kills, readers and writers; damage, pruning, mappings."""

import gc
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from makers.entries import entry_files, flip, picture
from makers.openers import QWEN25, SMALL, LocalOpener

from mmrl.config.schema import BudgetClass
from mmrl.data import pack as module
from mmrl.data.cache import PixelCache
from mmrl.data.cache_cli import ls, prune, verify
from mmrl.data.cache_cli import pack as pack_command
from mmrl.data.cache_cli import unpack as unpack_command
from mmrl.data.container import encode
from mmrl.data.mapping import temporary_files
from mmrl.data.pack import pack, unpack
from mmrl.data.shard import read_index_of
from mmrl.data.store import EntryStore
from mmrl.errors import CacheCorruptError, CacheError, CacheMissError, CacheRecipeError, ConfigError

SIZE = 1000


def key_of(number: int) -> str:
    return f"{number:02x}" * 32


def blocks(number: int, size: int = SIZE) -> list[memoryview]:
    return encode({"number": str(number)}, {"x": torch.full((size,), number % 256, dtype=torch.uint8)})


def filled(folder: Path, count: int = 10, *, size: int = SIZE) -> EntryStore:
    store = EntryStore(folder)
    for number in range(count):
        store.write(key_of(number), blocks(number, size))
    return store


def stored_bytes(store: EntryStore, number: int) -> bytes | None:
    mapped = store.find(key_of(number))
    return None if mapped is None else mapped.bytes_N.tobytes()


def whole(number: int, size: int = SIZE) -> bytes:
    return b"".join(blocks(number, size))


def shard_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("shards/*.shard"))


def mappings(name: Path) -> list[range]:
    """Where a file is mapped into this process."""
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(name))]
    return [range(*(int(end, 16) for end in line.split()[0].split("-"))) for line in lines]


def test_packed_and_loose_read_alike(tmp_path):
    store = filled(tmp_path)
    before = [(item.key, item.size) for item in store.items()]
    done = pack(store)
    assert (done.entries, done.shards, done.larger, done.problems) == (10, 1, 0, [])
    assert len(shard_files(tmp_path)) == 1 and not list(tmp_path.glob("??/*.safetensors"))
    for reader in (store, EntryStore(tmp_path)):
        assert [stored_bytes(reader, number) for number in range(10)] == [whole(number) for number in range(10)]
        assert reader.find(key_of(99)) is None
        items = list(reader.items())
        assert [(item.key, item.size) for item in items] == before and all(item.packed for item in items)


def test_entries_are_aligned_in_the_order_of_their_making(tmp_path):
    store = EntryStore(tmp_path)
    for number in (7, 3, 9, 1):
        store.write(key_of(number), blocks(number))
        os.utime(store.loose_path(key_of(number)), ns=(10**18, 10**18 - number))
    pack(store)
    index = read_index_of(shard_files(tmp_path)[0])
    assert [index.key(row) for row in range(4)] == [key_of(number) for number in (1, 3, 7, 9)]
    assert (index.records_R["offset"] % 64 == 0).all()
    order = [index.key(row) for row in np.argsort(index.records_R["offset"])]
    assert order == [key_of(number) for number in (9, 7, 3, 1)]


def test_shards_have_about_the_size_asked_for_and_large_entries_stay(tmp_path):
    store = filled(tmp_path, 20)
    store.write(key_of(77), blocks(77, 5000))
    done = pack(store, shard_bytes=6 * len(whole(0)))
    assert (done.entries, done.shards, done.larger) == (20, 4, 1)
    assert [len(read_index_of(path).records_R) for path in shard_files(tmp_path)] == [6, 6, 6, 2]
    assert stored_bytes(EntryStore(tmp_path), 77) == whole(77, 5000)


def test_packing_again_adds_a_shard_and_unpack_is_the_way_back(tmp_path):
    store = filled(tmp_path, 5)
    pack(store)
    store.write(key_of(50), blocks(50))
    assert (pack(store).entries, len(shard_files(tmp_path))) == (1, 2)
    assert pack(store).entries == 0
    done = unpack(store)
    assert (done.entries, done.shards, shard_files(tmp_path)) == (6, 2, [])
    assert [stored_bytes(store, number) for number in (0, 4, 50)] == [whole(number) for number in (0, 4, 50)]
    assert len(list(tmp_path.glob("??/*.safetensors"))) == 6


def test_a_read_is_the_mapping_itself_and_one_mapping_serves_a_shard(tmp_path):
    pack(filled(tmp_path, 40))
    store = EntryStore(tmp_path)
    found = [store.find(key_of(number)) for number in range(40)]
    tensors = [torch.from_numpy(mapped.bytes_N) for mapped in found if mapped is not None]
    (place,) = mappings(shard_files(tmp_path)[0])
    assert len(tensors) == 40
    assert all(tensor.data_ptr() in place for tensor in tensors)
    # A view of a whole shard would drag all of it into every pickle.
    assert len(pickle.dumps(tensors[0])) < 2 * len(whole(0))
    assert tensors[0].untyped_storage().nbytes() == len(whole(0))


def test_pixels_of_the_cache_lie_in_the_mapping(tmp_path):
    ref, opener = picture(tmp_path / "a.png", size=(300, 280)), LocalOpener()
    large = BudgetClass(min_pixels=28 * 28, max_pixels=300 * 300)
    loose = PixelCache(tmp_path / "cache").get(ref, large, QWEN25, opener)
    (path,) = entry_files(tmp_path / "cache")
    assert any(loose.frames_F3HW.data_ptr() in place for place in mappings(path))
    pack(EntryStore(tmp_path / "cache" / "pixels"))
    packed = PixelCache(tmp_path / "cache", on_miss="error").get(ref, large, QWEN25, opener)
    (place,) = mappings(shard_files(tmp_path / "cache" / "pixels")[0])
    assert packed.frames_F3HW.data_ptr() in place
    assert torch.equal(packed.frames_F3HW, loose.frames_F3HW) and packed.key == loose.key


def test_mappings_are_bounded_and_those_in_use_stay(tmp_path):
    store = filled(tmp_path, 12)
    pack(store, shard_bytes=4 * len(whole(0)))
    pack(filled(tmp_path, 12), shard_bytes=4 * len(whole(0)))
    store = EntryStore(tmp_path)
    store.shards.most_mapped = 1
    for number in range(12):
        store.find(key_of(number))
        gc.collect()
        assert store.shards.num_mapped == 1
    held = [store.find(key_of(number)) for number in range(12)]
    again = [store.find(key_of(number)) for number in range(12)]
    assert store.shards.num_mapped == 3
    for one, two in zip(held, again, strict=True):
        assert one.bytes_N.ctypes.data == two.bytes_N.ctypes.data
    del held, again, one, two
    gc.collect()
    assert store.shards.num_mapped == 1


def test_writing_into_what_was_read_reaches_no_file(tmp_path):
    pack(filled(tmp_path, 1))
    EntryStore(tmp_path).find(key_of(0)).bytes_N[:] = 0
    assert stored_bytes(EntryStore(tmp_path), 0) == whole(0)


def test_a_reader_that_was_there_before_finds_what_was_packed_since(tmp_path):
    store, reader = filled(tmp_path, 3), EntryStore(tmp_path)
    assert stored_bytes(reader, 0) == whole(0)
    held = reader.find(key_of(1)).bytes_N
    pack(store)
    assert [stored_bytes(reader, number) for number in range(3)] == [whole(number) for number in range(3)]
    unpack(store)
    assert [stored_bytes(reader, number) for number in range(3)] == [whole(number) for number in range(3)]
    assert held.tobytes() == whole(1)


def test_readers_and_writers_go_on_while_it_is_packed_unpacked_and_pruned(tmp_path):
    store = filled(tmp_path, 30)
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        reader, rng = EntryStore(tmp_path), np.random.default_rng(threading.get_ident())
        while not stop.is_set():
            number = int(rng.integers(30))
            if stored_bytes(reader, number) != whole(number):
                wrong.append(number)

    def write() -> None:
        writer, number = EntryStore(tmp_path), 100
        while not stop.is_set():
            number = 100 + (number + 1) % 50
            writer.write(key_of(number), blocks(number))

    threads = [threading.Thread(target=target) for target in (read, read, write)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        pack(store, shard_bytes=8 * len(whole(0)))
        store.remove([key_of(number) for number in range(100, 150)])
        unpack(store)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_second_packer_is_refused(tmp_path):
    store = filled(tmp_path, 2)
    with store.exclusive(), pytest.raises(CacheError, match="another process packs"):
        pack(EntryStore(tmp_path))
    assert pack(store).entries == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from mmrl.data.pack import pack
from mmrl.data.store import EntryStore
calls = 0
def killing(real):
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call
os.fsync, Path.replace, Path.unlink = killing(os.fsync), killing(Path.replace), killing(Path.unlink)
pack(EntryStore(Path(sys.argv[1])), shard_bytes=4 * 1200)
"""


@pytest.mark.slow
@pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 6, 8])
def test_killed_at_any_point_every_entry_is_still_there(tmp_path, call):
    filled(tmp_path, 8)
    process = subprocess.run([sys.executable, "-c", KILLED, tmp_path, str(call)], check=False)
    assert process.returncode == -9
    store = EntryStore(tmp_path)
    assert [stored_bytes(store, number) for number in range(8)] == [whole(number) for number in range(8)]
    assert len({item.key for item in store.items()}) == len(list(store.items())) == 8
    for path in temporary_files(tmp_path):
        os.utime(path, (time.time() - 3600,) * 2)
    pack(store)
    assert [stored_bytes(store, number) for number in range(8)] == [whole(number) for number in range(8)]
    assert not list(tmp_path.glob("??/*.safetensors")) and not list(temporary_files(tmp_path))


def packed_pictures(folder: Path, count: int = 3) -> tuple[list, LocalOpener]:
    """Pictures whose entries are packed, and the opener that counts."""
    opener, cache = LocalOpener(), PixelCache(folder / "cache")
    refs = [picture(folder / f"{number}.png", seed=number) for number in range(count)]
    for ref in refs:
        cache.get(ref, SMALL, QWEN25, opener)
    assert pack_command(folder / "cache", shard_size="1MB") == 0
    return refs, opener


def test_the_cache_commands_see_packed_entries(tmp_path, capsys):
    packed_pictures(tmp_path)
    assert "3 entries (0.0 MB) packed into 1 shards" in capsys.readouterr().out
    assert ls(tmp_path / "cache") == verify(tmp_path / "cache") == 0
    out = capsys.readouterr().out
    assert "3 of them packed in 1 shards" in out and "3 entries and 3 sources read, 0 problems" in out
    assert unpack_command(tmp_path / "cache") == 0
    assert len(entry_files(tmp_path / "cache")) == 3
    with pytest.raises(ConfigError, match="at least"):
        pack_command(tmp_path / "cache", shard_size="1KB")


def test_hits_of_packed_entries_count_like_others(tmp_path):
    refs, opener = packed_pictures(tmp_path)
    cache = PixelCache(tmp_path / "cache", on_miss="error")
    for ref in [*refs, *refs]:
        cache.get(ref, SMALL, QWEN25, opener)
    metrics = cache.metrics()
    assert (metrics["hits"], metrics["misses"], metrics["bytes_read"], opener.opened) == (6, 0, 6 * 3 * 84 * 56, 3)
    with pytest.raises(CacheMissError, match="mmrl preprocess"):
        cache.get(picture(tmp_path / "new.png", seed=9), SMALL, QWEN25, opener)


def test_one_damaged_entry_of_a_shard_is_found_and_rebuilt(tmp_path, capsys):
    refs, opener = packed_pictures(tmp_path)
    (shard,) = shard_files(tmp_path / "cache" / "pixels")
    cache = PixelCache(tmp_path / "cache")
    key = cache.get(refs[1], SMALL, QWEN25, opener).key
    index = read_index_of(shard)
    (row,) = [row for row in range(3) if index.key(row) == key]
    flip(shard, index.place(row).stop - 1)
    assert verify(tmp_path / "cache") == 1
    assert re.search(rf"\.shard: entry {key}: the bytes do not match", capsys.readouterr().out)
    error = PixelCache(tmp_path / "cache", on_miss="error")
    with pytest.raises(CacheCorruptError, match="do not match the checksum"):
        error.get(refs[1], SMALL, QWEN25, opener)
    fresh = PixelCache(tmp_path / "cache")
    for ref in refs:
        fresh.get(ref, SMALL, QWEN25, opener)
    assert (fresh.metrics()["rebuilt"], fresh.metrics()["hits"], opener.opened) == (1, 2, 4)
    error.get(refs[1], SMALL, QWEN25, opener)
    assert verify(tmp_path / "cache") == 0
    # Packed again, the new entry counts, and the room of the damaged one is given back.
    assert pack_command(tmp_path / "cache", shard_size="1MB") == 0
    assert verify(tmp_path / "cache") == 0
    sizes = [len(read_index_of(path).records_R) for path in shard_files(tmp_path / "cache" / "pixels")]
    assert sorted(sizes) == [1, 2]


def test_a_damaged_entry_is_not_packed(tmp_path, capsys):
    cache = PixelCache(tmp_path / "cache")
    cache.get(picture(tmp_path / "a.png"), SMALL, QWEN25, LocalOpener())
    (path,) = entry_files(tmp_path / "cache")
    flip(path, -1)
    assert pack_command(tmp_path / "cache", shard_size="1MB") == 1
    assert f"{path}: the bytes do not match the checksum" in capsys.readouterr().out
    assert path.exists()


@pytest.mark.parametrize("damage", ["cut", "magic", "count", "record", "empty", "huge count"])
def test_a_damaged_index_is_a_named_error_or_a_rebuild(tmp_path, damage, capsys):
    refs, opener = packed_pictures(tmp_path)
    (shard,) = shard_files(tmp_path / "cache" / "pixels")
    size = shard.stat().st_size
    if damage in ("cut", "empty"):
        os.truncate(shard, size - 1 if damage == "cut" else 0)
    elif damage == "huge count":
        with shard.open("r+b") as file:
            file.seek(size - 64 + 24)
            file.write(b"\xff" * 8)
    else:
        flip(shard, {"magic": size - 64, "count": size - 64 + 24, "record": size - 100}[damage])
    message = r"\.shard: the index of the shard is damaged .*delete the file and run `mmrl preprocess`"
    with pytest.raises(CacheCorruptError, match=message):
        PixelCache(tmp_path / "cache", on_miss="error").get(refs[0], SMALL, QWEN25, opener)
    assert verify(tmp_path / "cache") == ls(tmp_path / "cache") == 1
    assert len(re.findall(message, capsys.readouterr().out)) == 2
    cache = PixelCache(tmp_path / "cache")
    cache.get(refs[0], SMALL, QWEN25, opener)
    assert (cache.metrics()["rebuilt"], opener.opened) == (1, 4)


def test_an_index_that_points_to_another_entry_is_a_recipe_error(tmp_path):
    refs, opener = packed_pictures(tmp_path, 2)
    cache = PixelCache(tmp_path / "cache", on_miss="error")
    one, two = (cache.get(ref, SMALL, QWEN25, opener).key for ref in refs)
    store = cache.store
    other = store.find(two).bytes_N.copy()
    store.remove([one, two])
    store.shards.write([(one, other)])
    with pytest.raises(CacheRecipeError, match="holds another source's pixels"):
        PixelCache(tmp_path / "cache", on_miss="error").get(refs[0], SMALL, QWEN25, opener)


def test_prune_drops_whole_shards_and_rewrites_one(tmp_path, capsys):
    (tmp_path / "pixels").mkdir()
    store = filled(tmp_path / "pixels", 12)
    pack(store, shard_bytes=4 * len(whole(0)))
    old, middle, new = shard_files(tmp_path / "pixels")
    for age, path in enumerate((middle, new, old)):
        os.utime(path, (2_000_000_000 + age, 2_000_000_000 + age))
    left = 6 * len(whole(0))
    held = store.find(key_of(5)).bytes_N
    assert prune(tmp_path, size=f"{left}B") == 0
    assert "6 entries removed, 6 left" in capsys.readouterr().out
    reader = EntryStore(tmp_path / "pixels")
    assert sorted(item.key for item in reader.items()) == [key_of(n) for n in (0, 1, 2, 3, 10, 11)]
    assert [stored_bytes(reader, n) for n in (0, 3, 10, 11)] == [whole(n) for n in (0, 3, 10, 11)]
    assert sum(path.stat().st_size for path in shard_files(tmp_path / "pixels")) < left + 6 * 192
    assert held.tobytes() == whole(5)  # what is mapped stays
    assert prune(tmp_path, size="0") == 0
    assert shard_files(tmp_path / "pixels") == [] and list(EntryStore(tmp_path / "pixels").items()) == []


def test_rows_that_share_a_medium_share_its_packed_entry(tmp_path):
    refs, opener = packed_pictures(tmp_path, 1)
    copy = tmp_path / "copy.png"
    copy.write_bytes(refs[0].source.read_bytes())
    cache = PixelCache(tmp_path / "cache", on_miss="error")
    same = [cache.get(ref, SMALL, QWEN25, opener) for ref in (refs[0], type(refs[0])("image", copy), refs[0])]
    assert len({entry.frames_F3HW.data_ptr() for entry in same}) == 1
    assert opener.opened == 1 and len(list(cache.store.items())) == 1


def test_compaction_gives_back_the_room_of_replaced_entries(tmp_path):
    store = filled(tmp_path, 8)
    pack(store)
    for number in range(4):
        store.write(key_of(number), blocks(number))
    pack(store)
    counts = [len(read_index_of(path).records_R) for path in shard_files(tmp_path)]
    assert sorted(counts) == [4, 4]
    assert [stored_bytes(store, number) for number in range(8)] == [whole(number) for number in range(8)]
    assert module.SHARD_BYTES == 256_000_000


def test_an_entry_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "00").write_text("a file where a folder should be")
    with pytest.raises(CacheError, match=r"00/00.*\.safetensors: cannot be read: Not a directory"):
        EntryStore(tmp_path).find(key_of(0))
