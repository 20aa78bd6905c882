"""What a model answered, one line an answer, and how an interrupted evaluation finds what is missing.

samples.jsonl only grows while a benchmark runs. All answers to a question are written at once; of a process that was
killed in the middle of that, the question is asked again.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mmrl.data.sample import Sample
from mmrl.data.skipped import SkipKind
from mmrl.errors import DataError
from mmrl.rollout.types import Completion

Status = Literal["ok", "truncated", "error", "media_error", "timeout"]
SAMPLES = "samples.jsonl"
EXTENT = "answer_extent"  # the column in which the framework says it to rewards
FAILED: tuple[Status, ...] = ("error", "media_error", "timeout")


def status_of(kind: SkipKind) -> Status:
    """Of a question that cannot be asked, by why its row is left out."""
    match kind:
        case "bad_media":
            return "media_error"
        case "late_media":
            return "timeout"
        case _:
            return "error"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of an engine. is_cut: it ended at its longest length."""

    text: str
    is_cut: bool
    num_tokens: int

    @classmethod
    def of(cls, completion: Completion) -> Reply:
        return cls(completion.text, completion.finish_reason == "length", len(completion.ids))


@dataclass(frozen=True, slots=True)
class Record:
    """One answer. task_hash, key (the sample's id) and repeat name it.

    status: truncated: cut at the longest answer, and scored as it is; error, media_error, timeout: there is no answer,
    and `reason` says why. answer, answer_space: the dataset's, as it was compared, in the model's space.
    answer_extent: width and height of the picture there.
    """

    task_hash: str
    key: str
    repeat: int
    status: Status
    completion: str = ""
    num_tokens: int = 0
    reason: str = ""
    answer: Any = None
    answer_space: str | None = None
    answer_extent: Any = None

    @classmethod
    def of(cls, task_hash: str, sample: Sample, repeat: int, reply: Reply, *, is_place: bool) -> Record:
        """Of an answer. sample: as it was asked. is_place: its answer is a place, in the model's space by now."""
        return cls(
            task_hash,
            sample.sample_id,
            repeat,
            "truncated" if reply.is_cut else "ok",
            completion=reply.text,
            num_tokens=reply.num_tokens,
            answer=sample.answer if is_place else None,
            answer_space=sample.answer_space if is_place else None,
            answer_extent=sample.columns.get(EXTENT) if is_place else None,
        )

    @property
    def is_failed(self) -> bool:
        return self.status in FAILED


class RecordFile:
    """samples.jsonl of one benchmark. Other task hashes than the present one stay in the file and are not read.

    It is opened by the first `append` and stays open until `close`; what was appended is in the file at once.
    """

    def __init__(self, path: Path, *, task_hash: str, repeats: int) -> None:
        self.path, self.task_hash, self.repeats = path, task_hash, repeats
        self._file: io.BufferedWriter | None = None

    def read(self) -> dict[str, list[Record]]:
        """The records of every question that has all its answers, or failed; a cut last line is left out."""
        found: dict[str, dict[int, Record]] = defaultdict(dict)
        for record in self._rows():
            if record.task_hash == self.task_hash:
                found[record.key][record.repeat] = record
        whole = {key: [records[n] for n in sorted(records)] for key, records in found.items()}
        return {key: records for key, records in whole.items() if self._is_whole(records)}

    def keep(self, records: Mapping[str, Iterable[Record]]) -> None:
        """Leave of the present task's records only these: the file has each answer once from then on."""
        self.close()  # it would append to the file that is replaced
        others = [record for record in self._rows() if record.task_hash != self.task_hash]
        kept = [*others, *(record for of_key in records.values() for record in of_key)]
        new = self.path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            file.writelines(map(_line, kept))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)

    def append(self, records: Iterable[Record]) -> None:
        if self._file is None:
            self._file = self.path.open("ab")
        self._file.write("".join(map(_line, records)).encode())
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_whole(self, records: list[Record]) -> bool:
        failed = records[0].is_failed and len(records) == 1
        return failed or [record.repeat for record in records] == list(range(self.repeats))

    def _rows(self) -> Iterator[Record]:
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line == b"\n":
                    continue
                try:
                    yield Record(**json.loads(line))
                except (ValueError, TypeError) as error:
                    if not line.endswith(b"\n"):  # what was being written when the process was killed
                        return
                    raise DataError(f"{self.path}:{number}: not a record of this version ({error})") from error


def write_records(folder: Path, records: Mapping[str, Iterable[Record]]) -> None:
    """All records of a benchmark at once."""
    text = "".join(_line(record) for of_key in records.values() for record in of_key)
    (folder / SAMPLES).write_text(text, encoding="utf-8")


_FIELDS = tuple(field.name for field in dataclasses.fields(Record))
_encoded = json.JSONEncoder(ensure_ascii=False).encode


def _line(record: Record) -> str:
    return _encoded({name: getattr(record, name) for name in _FIELDS}) + "\n"
