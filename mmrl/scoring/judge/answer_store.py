"""Answers of judges, remembered by what was asked: one SQLite file that processes share."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from pathlib import Path

FILE = "answers.sqlite"


class AnswerStore:
    """Text by text. Safe between threads and processes; a key is stored as its hash."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / FILE
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._local = threading.local()
        with self._connection() as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)")

    def get(self, key: str) -> str | None:
        row = self._connection().execute("SELECT answer FROM answers WHERE key = ?", (_hash(key),)).fetchone()
        return None if row is None else row[0]

    def put(self, key: str, answer: str) -> None:
        with self._connection() as database:
            database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (_hash(key), answer))

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = sqlite3.connect(self._path, timeout=30)
        return self._local.connection


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
