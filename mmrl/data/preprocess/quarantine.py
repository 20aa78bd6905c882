"""Media that failed or hung, remembered so that they are not tried again until they change.

    <cache>/quarantine.jsonl   one JSON object a line, appended; of one key the last line holds

The key is the entry's: of the file's content and of how it is opened. So a file that is mended, another reader or
another budget is another key, and is tried; what hung is tried again with a longer deadline too.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from mmrl.data.cache import Request
from mmrl.errors import ChangedMediaError, LateMediaError, MediaError

FILE = "quarantine.jsonl"


class Quarantine:
    """The list of a cache folder. retry: forget it, as if nothing had ever failed.

    Any number of processes may append: a line is one write, and a torn line is passed over.
    """

    def __init__(self, folder: Path, *, retry: bool = False) -> None:
        self._path = folder / FILE
        self._retry = retry
        self._lines = {line["key"]: line for line in _read(self._path)}

    def reason(self, request: Request, *, deadline_s: float) -> str | None:
        """Why a medium is not tried; None: it is."""
        line = self._lines.get(request.key)
        if self._retry or line is None or line["reason"] is None:
            return None
        hung_s = line["hung_s"]
        if hung_s is not None and deadline_s > hung_s:
            return None
        return f"{line['reason']} (in quarantine since {line['since']}; --retry-quarantined tries it again)"

    def add(self, request: Request, error: MediaError, *, deadline_s: float) -> None:
        """Remember a medium that could not be opened; not one that merely changed meanwhile."""
        if isinstance(error, ChangedMediaError):
            return
        self._append(
            {
                "key": request.key,
                "path": error.path,
                "reason": error.reason,
                "hung_s": deadline_s if isinstance(error, LateMediaError) else None,
                "since": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
                "sha256": request.source.sha256,
                "size": request.source.size,
            }
        )

    def release(self, request: Request) -> None:
        """Say that a medium could be opened after all."""
        line = self._lines.get(request.key)
        if line is not None and line["reason"] is not None:
            self._append({"key": request.key, "path": line["path"], "reason": None, "hung_s": None})

    def _append(self, line: dict[str, Any]) -> None:
        self._lines[line["key"]] = line
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(file, f"{json.dumps(line)}\n".encode("ascii"))
        finally:
            os.close(file)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return []
    lines = []
    for row in text.splitlines():
        try:
            line = json.loads(row)
        except ValueError:
            continue
        if isinstance(line, dict) and {"key", "path", "reason", "hung_s"} <= line.keys():
            lines.append(line)
    return lines
