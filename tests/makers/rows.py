"""Small data files for tests: rows as JSONL, JSON or Parquet, with media files that exist."""

import json
from collections.abc import Sequence
from pathlib import Path

from mmrl.config.schema import DataSection, DatasetSection
from mmrl.data.readers import SampleSet, read_dataset
from mmrl.data.skipped import SkippedLog


def touch(folder: Path, *names: str) -> None:
    """Files that exist; readers look no further."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def write_jsonl(path: Path, rows: Sequence[dict]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def text_rows(count: int, **more: object) -> list[dict]:
    """Rows without media: prompt `q0`, answer `a0`, task `text`, and so on."""
    return [{"prompt": f"q{n}", "answer": f"a{n}", "task": "text", **more} for n in range(count)]


def read(path: Path, *, data: dict | None = None, skipped: SkippedLog | None = None, **section: object) -> SampleSet:
    """Read one data file with keys of DatasetSection, under keys of DataSection."""
    data_section = DataSection.model_validate(data or {})
    return read_dataset(
        DatasetSection.model_validate({"path": str(path), **section}),
        data=data_section,
        relative_to=path.parent,
        skipped=skipped or SkippedLog(None, max_fraction=data_section.max_skipped_fraction),
    )
