"""File systems of fsspec made for tests: they fail, cut and count as they are told. `failing://` is kept in memory."""

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class FailingFileSystem(MemoryFileSystem):
    """failures: calls still to fail. cut: downloads still to come short. calls: (what, path) of each."""

    protocol = "failing"
    store: dict = {}  # noqa: RUF012  of the class, as its parent's
    pseudo_dirs = [""]  # noqa: RUF012
    failures = 0
    cut = 0
    calls: list = []  # noqa: RUF012
    error: Exception = ConnectionError("the line is dead")

    @classmethod
    def reset(cls) -> None:
        cls.failures, cls.cut, cls.calls, cls.error = 0, 0, [], ConnectionError("the line is dead")
        cls.store.clear()
        cls.pseudo_dirs[:] = [""]

    def _happens(self, what: str, path: str) -> None:
        type(self).calls.append((what, path))
        if type(self).failures > 0:
            type(self).failures -= 1
            raise type(self).error

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._happens("read", path)
        data = super().cat_file(path, start, end, **kwargs)
        if type(self).cut > 0:
            type(self).cut -= 1
            return data[: len(data) // 2]
        return data

    def put_file(self, lpath, rpath, **kwargs):
        self._happens("put", rpath)
        return super().put_file(lpath, rpath, **kwargs)

    def ls(self, path, detail=True, **kwargs):
        self._happens("list", path)
        return super().ls(path, detail, **kwargs)


fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
