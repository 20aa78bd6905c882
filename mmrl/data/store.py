"""EntryStore: the bytes of cache entries by key, in files of their own or packed into shards, read alike.

    <folder>/ab/<key>.safetensors     an entry by itself
    <folder>/shards/*.shard           many entries behind each other, and their index (shards.py)

What the bytes mean is not known here: an entry is a container (container.py). Keys are 64 hex digits and name the
content, so two stored entries of one key are equal unless one is damaged; the loose one is taken, being the later.
Entries appear by rename, whole. Removing a file leaves those who have it mapped their memory.

Shape letters: N bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mmrl.data.mapping import Mapped, read_file, sync_folder, temporary_files, write_whole
from mmrl.data.shards import FOLDER as SHARDS
from mmrl.data.shards import Shards
from mmrl.errors import CacheError

SUFFIX = ".safetensors"


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as it is listed.

    where: the file it lies in. size: bytes it takes. last_use: seconds since 1970; of a packed one its shard's.
    """

    key: str
    where: Path
    size: int
    last_use: float
    packed: bool = False


class EntryStore:
    """Entries of one kind in a folder, which need not exist. Safe to use from several threads and processes.

    place: where they are, for messages.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = self._name = str(folder)
        self.shards = Shards(folder / SHARDS)
        self._unsynced: set[Path] = set()

    def find(self, key: str) -> Mapped | None:
        """The entry, or None when there is none. Raises CacheCorruptError for a file that cannot be mapped.

        One that is packed or unpacked meanwhile is found: it lies in both places before it leaves one.
        """
        return self.find_loose(key) or self.shards.find(key) or self.find_loose(key)

    def find_loose(self, key: str) -> Mapped | None:
        """The entry if it lies by itself."""
        try:
            return read_file(f"{self._name}/{key[:2]}/{key}{SUFFIX}")
        except FileNotFoundError:
            return None

    def write(self, key: str, blocks: Iterable[memoryview]) -> int:
        """Write an entry whole or not at all: temporary name, sync, rename. Returns its bytes. Raises CacheError.

        `sync` makes the new name survive a power cut: without it a rebuild is lost, never half an entry there.
        """
        path = self.loose_path(key)
        size = write_whole(path, blocks)
        self._unsynced.add(path.parent)  # now that it exists: any thread may sync it
        return size

    def sync(self) -> None:
        """Make the names written so far survive a power cut."""
        with contextlib.suppress(KeyError):  # other threads take from the same set
            while True:
                sync_folder(self._unsynced.pop())

    def items(self) -> Iterator[Stored]:
        """All entries, each once: those by themselves in the order of their keys, then the packed ones."""
        loose = set()
        for path in sorted(self.folder.glob(f"??/*{SUFFIX}")):
            with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
                info = path.stat()
                loose.add(path.stem)
                # File systems mounted without access times keep the time of writing.
                yield Stored(path.stem, path, info.st_size, max(info.st_atime, info.st_mtime))
        last_use: dict[str, float] = {}
        for key, index, row in self.shards.items():
            if key not in loose:
                if index.where not in last_use:
                    last_use[index.where] = _last_use(Path(index.where))
                size = int(index.records_R["length"][row])
                yield Stored(key, Path(index.where), size, last_use[index.where], packed=True)

    def remove(self, keys: Collection[str]) -> None:
        """Forget entries; those that are not there are passed over.

        Shards that held some are written anew without them, one at a time, and shards that held nothing else deleted.
        Raises CacheError while another process packs.
        """
        for key in keys:
            self.loose_path(key).unlink(missing_ok=True)
        gone = set(keys)
        kept: dict[Path, list[tuple[str, int]]] = defaultdict(list)
        touched = set()
        for key, index, row in self.shards.items():
            kept[Path(index.where)].append((key, row))
            if key in gone:
                touched.add(Path(index.where))
        if not touched:
            return
        with self.exclusive():
            for path in touched:
                self.rewrite(path, keep={key for key, _ in kept[path]} - gone)

    def rewrite(self, shard: Path, *, keep: Collection[str]) -> None:
        """Put a shard that holds only `keep` in the place of a shard; none at all where that is empty."""
        entries = (entry for entry in self.shards.entries(shard) if entry[0] in keep)
        if keep:
            self.shards.write(entries)
        shard.unlink(missing_ok=True)
        sync_folder(self.shards.folder)
        self.shards.refresh()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Only one process at a time changes shards; readers and writers of entries go on. Raises CacheError."""
        self.shards.folder.mkdir(parents=True, exist_ok=True)
        with (self.shards.folder / ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise CacheError(
                    f"{self.shards.folder}: another process packs or prunes it; wait until it has ended"
                ) from error
            yield

    def loose_path(self, key: str) -> Path:
        """Where an entry by itself lies, or would."""
        return self.folder / key[:2] / f"{key}{SUFFIX}"

    def remove_stale_temporaries(self, *, older_than_s: float = 600.0) -> int:
        """Remove what writers that were killed left behind; a living writer's file is never that old. Returns bytes."""
        freed = 0
        for path in temporary_files(self.folder):
            with contextlib.suppress(FileNotFoundError):  # its writer has just renamed it
                info = path.stat()
                if time.time() - info.st_mtime >= older_than_s:
                    path.unlink()
                    freed += info.st_size
        return freed


def _last_use(path: Path) -> float:
    try:
        info = path.stat()
    except FileNotFoundError:
        return 0.0
    return max(info.st_atime, info.st_mtime)
