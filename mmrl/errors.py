"""Exceptions a user can meet. All derive from ValueError, so `except ValueError` at the edge catches every one.

The command line prints them without a traceback. `assert` is kept for this program's own invariants.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

_MOST_LISTED = 20
_LEAST_RATIO, _LEAST_RATIO_OTHER_LETTER = 0.65, 0.75
_TYPE_WORDS = {
    (int, float): "a number",
    str: "text",
    (bytes, bytearray, memoryview): "bytes",
    (list, tuple): "a list",
    Mapping: "a mapping",
}


def one_line(text: str) -> str:
    """The text with line breaks and other control characters spelled out: what a row says cannot forge a message.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda m: m[0].encode("unicode_escape").decode(), text)


def type_words(value: object) -> str:
    """What a value of a row is, in words for somebody who does not write Python.

    >>> type_words(3), type_words(["a"]), type_words(None)
    ('a number', 'a list', 'null')
    """
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    for kind, words in _TYPE_WORDS.items():
        if isinstance(value, kind):
            return words
    return type(value).__name__


class MmrlError(ValueError):
    """Base of all errors that a user can cause and mend."""


class ConfigError(MmrlError):
    """A configuration that cannot run: unknown key, wrong type, contradiction. Names file, line and remedy."""


class PluginError(MmrlError):
    """A plug-in that cannot be found or has the wrong form. Lists the known names."""


class DataError(MmrlError):
    """A row that cannot become a Sample. The message starts with `where`, which is `file:line (id=...)`."""

    def __init__(self, reason: str, *, where: str = "", sample_id: str | None = None, path: str | None = None) -> None:
        reason, where = one_line(reason), one_line(where)
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason, self.where, self.sample_id, self.path = reason, where, sample_id, path


class MissingMediaError(DataError):
    """A row that names a picture or clip that is not there: `path`."""


class MediaError(MmrlError):
    """A picture or clip that cannot be opened as asked: path and reason."""

    def __init__(self, path: object, reason: str) -> None:
        reason = one_line(reason)
        super().__init__(f"{one_line(str(path))}: {reason}")
        self.path = str(path)
        self.reason = reason


class LateMediaError(MediaError):
    """A picture or clip whose reader hung until its time was over."""


class ChangedMediaError(MediaError):
    """A picture or clip whose file changed while it was opened: nothing is known about either content."""


class PromptTooLongError(MmrlError):
    """A rendered prompt above the limit. The message gives tokens per medium and the largest budget that fits."""


class CacheError(MmrlError):
    """Something is wrong with a cache entry."""


class CacheMissError(CacheError):
    """No entry for (source, recipe) and `cache.on_miss` is `error`."""


class CacheCorruptError(CacheError):
    """An entry whose bytes do not match its checksum, or that is cut short."""


class CacheRecipeError(CacheError):
    """An entry stored under a key that its own recipe does not produce."""


class CacheRemoteError(CacheError):
    """The object storage of `cache.remote` cannot be opened, read or written."""


class EngineError(MmrlError):
    """The rollout engine refused a request or died."""


class RewardError(MmrlError):
    """A reward cannot score as configured (unknown task, missing answer space, bad answer)."""


class JudgeError(MmrlError):
    """A judge that gave no verdict: it did not answer, or what it said cannot be read."""


class TooManySkippedError(MmrlError):
    """More rows were skipped than `data.max_skipped_fraction` allows; skipped.jsonl lists them."""


class CheckpointError(MmrlError):
    """A checkpoint that cannot be read or does not fit this run."""


class EchoedError(MmrlError):
    """An error of another process of this run, which raises and prints it; this process only ends with it."""


def nearest(written: str, known: Iterable[str]) -> str | None:
    """The known name most like a written one; None where none is near.

    Near is difflib's ratio of 0.65 with the same first letter, of 0.75 with another: names that only end alike, as
    `caption` and `rotation`, are no typos of each other.

    >>> nearest("choise", ["box_iou", "choice"]), nearest("caption", ["rotation"])
    ('choice', None)
    """
    names = list(known)
    close = difflib.get_close_matches(written, names, n=max(1, len(names)), cutoff=_LEAST_RATIO)
    very_close = difflib.get_close_matches(written, close, n=max(1, len(close)), cutoff=_LEAST_RATIO_OTHER_LETTER)
    return next((name for name in close if name[:1] == written[:1] or name in very_close), None)


def known_names(known: Collection[str], *, listed_by: str) -> str:
    """The known names for a message; of more than 20, the command that lists them.

    >>> known_names(["a", "b"], listed_by="mmrl list rewards")
    'a, b'
    >>> known_names([str(n) for n in range(21)], listed_by="mmrl list rewards")
    'those that `mmrl list rewards` prints'
    """
    return (", ".join(known) or "none") if len(known) <= _MOST_LISTED else f"those that `{listed_by}` prints"


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one; empty where none is near.

    >>> did_you_mean("choise", ["box_iou", "choice"])
    "; did you mean 'choice'?"
    """
    near = nearest(written, known)
    return f"; did you mean {near!r}?" if near else ""
