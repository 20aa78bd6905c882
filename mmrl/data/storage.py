"""How the entries of a cache are kept: where, and in which form. One value for all levels of a cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmrl.config.cache_section import CacheSection
from mmrl.data.compress import check_library
from mmrl.data.remote import Remote
from mmrl.data.store import EntryStore
from mmrl.data.tiered import TieredStore

GB = 10**9


@dataclass(frozen=True, slots=True)
class Storage:
    """remote: URL of object storage behind the folder. max_local_bytes: the folder is kept below it, with a remote.

    compress: of pixels that are written; what is read says itself how it is stored.
    """

    remote: str | None = None
    max_local_bytes: int | None = None
    compress: Literal["none", "zstd"] = "none"

    @staticmethod
    def of(section: CacheSection) -> Storage:
        """As a configuration says."""
        most = None if section.max_local_gb is None else int(section.max_local_gb * GB)
        return Storage(section.remote, most, section.compress)

    def open(self, folder: Path, level: str) -> EntryStore:
        """The entries of a level (`pixels`, ...) of the cache in `folder`.

        Raises CacheRemoteError for a URL that nothing can open, CacheError where a library is missing.
        """
        if self.compress != "none":
            check_library()
        if self.remote is None:
            return EntryStore(folder / level)
        return TieredStore(folder / level, Remote(self.remote, level), max_local_bytes=self.max_local_bytes)
