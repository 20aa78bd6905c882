"""Reading datasets: every row is checked when a dataset is read, and becomes a Sample again when it is asked for.

What stays in memory is about 50 bytes a row (and Arrow buffers for Parquet), so a million rows cost 50 MB.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import numpy as np

from mmrl.config.schema import CardSection, DataSection, DatasetSection
from mmrl.data.cards import CardReader, resolve_card
from mmrl.data.joined_rows import joined_rows
from mmrl.data.locate import MediaRules
from mmrl.data.many_files import open_files
from mmrl.data.rows import Rows
from mmrl.data.sample import Sample
from mmrl.data.seen_ids import SeenIds
from mmrl.data.skipped import Skipped, SkippedLog
from mmrl.data.templates import dataset_name, resolve_templates
from mmrl.errors import ConfigError, DataError, MissingMediaError, type_words


@dataclass(frozen=True, eq=False)
class _Dataset:
    """One data file with its reader. task_N[i] indexes task_names for the good row row_N[i] of the file.

    budgets: budget classes of its media, each with the first good row that has it. seen: the ids of the good rows.
    """

    name: str
    rows: Rows
    reader: CardReader
    row_N: np.ndarray
    task_N: np.ndarray
    task_names: tuple[str, ...]
    budgets: dict[str, int]
    seen: SeenIds

    def sample(self, index: int, given: Mapping[str, Any] = MappingProxyType({})) -> Sample:
        row = int(self.row_N[index])
        return self.reader.sample(self.rows.read(row), number=row, origin=self.rows.origin(row), given=given)


class SampleSet(Sequence[Sample]):
    """The good rows of one or several datasets, in file order; a slice is a SampleSet too.

    Samples are made anew at each access and are equal each time.
    """

    def __init__(self, datasets: Sequence[_Dataset], dataset_N: np.ndarray, index_N: np.ndarray) -> None:
        self._datasets, self._dataset_N, self._index_N = tuple(datasets), dataset_N, index_N

    @classmethod
    def concat(cls, sets: Sequence[SampleSet]) -> SampleSet:
        """All rows of several sets, one after the other."""
        datasets = [dataset for part in sets for dataset in part._datasets]
        shifts = np.cumsum([0, *(len(part._datasets) for part in sets)])
        empty = [np.zeros(0, dtype=np.int64)]
        dataset_N = np.concatenate(empty + [part._dataset_N + s for part, s in zip(sets, shifts, strict=False)])
        return cls(datasets, dataset_N, np.concatenate(empty + [part._index_N for part in sets]))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the datasets."""
        return tuple(dataset.name for dataset in self._datasets)

    def __len__(self) -> int:
        return len(self._index_N)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> SampleSet: ...
    def __getitem__(self, index: int | slice) -> Sample | SampleSet:
        if isinstance(index, slice):
            return SampleSet(self._datasets, self._dataset_N[index], self._index_N[index])
        return self._datasets[self._dataset_N[index]].sample(int(self._index_N[index]))

    def with_columns(self, index: int, given: Mapping[str, Any]) -> Sample:
        """Row `index` as a sample, with other values of columns, which prompt and made columns see."""
        return self._datasets[self._dataset_N[index]].sample(int(self._index_N[index]), given)

    def task_counts(self) -> Counter[str]:
        """Rows per task."""
        counts: Counter[str] = Counter()
        for number, dataset in enumerate(self._datasets):
            codes, sizes = np.unique(dataset.task_N[self._index_N[self._dataset_N == number]], return_counts=True)
            counts.update({dataset.task_names[c]: int(n) for c, n in zip(codes, sizes, strict=True)})
        return counts

    def task_codes(self) -> tuple[tuple[str, ...], np.ndarray]:
        """Names of tasks, and for each row which of them it has, int16."""
        names: dict[str, int] = {}
        code_N = np.zeros(len(self), dtype=np.int16)
        for number, dataset in enumerate(self._datasets):
            codes = np.array([names.setdefault(name, len(names)) for name in dataset.task_names], dtype=np.int16)
            here_N = self._dataset_N == number
            code_N[here_N] = codes[dataset.task_N[self._index_N[here_N]]]
        return tuple(names), code_N

    def places_of(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Where the samples of these (dataset, id) are; those that are not there are missing. Only these are read."""
        found: dict[tuple[str, str], int] = {}
        for number, dataset in enumerate(self._datasets):
            here_P = np.flatnonzero(self._dataset_N == number)
            here_P = here_P[np.argsort(self._index_N[here_P], kind="stable")]
            index_P = self._index_N[here_P]
            for key in keys:
                for twin in dataset.seen.twins(key[1]):
                    at = int(np.searchsorted(index_P, twin))
                    if at < len(index_P) and index_P[at] == twin:
                        sample = self[int(here_P[at])]
                        if (sample.dataset, sample.sample_id) == key:
                            found.setdefault(key, int(here_P[at]))
        return found

    def first_of_budgets(self) -> dict[str, Sample]:
        """Budget classes of the media in the data files, each with the first good row that has one."""
        return {name: part.sample(row) for part in reversed(self._datasets) for name, row in part.budgets.items()}

    def of_tasks(self, tasks: Collection[str]) -> SampleSet:
        """Only the rows of these tasks; an empty collection means all."""
        if not tasks:
            return self
        keep_N = np.zeros(len(self), dtype=bool)
        for number, dataset in enumerate(self._datasets):
            wanted = [code for code, name in enumerate(dataset.task_names) if name in tasks]
            here_N = self._dataset_N == number
            keep_N[here_N] = np.isin(dataset.task_N[self._index_N[here_N]], wanted)
        return SampleSet(self._datasets, self._dataset_N[keep_N], self._index_N[keep_N])


def read_datasets(
    sections: Sequence[DatasetSection], *, data: DataSection, relative_to: Path, skipped: SkippedLog
) -> list[SampleSet]:
    """Every dataset of a split, `data.train` or `data.val` alike. ConfigError for two datasets of one name."""
    for name, count in Counter(dataset_name(section) for section in sections).items():
        if count > 1:
            raise ConfigError(f"{count} datasets are called {name!r}; tell them apart with `name:`")
    return [read_dataset(section, data=data, relative_to=relative_to, skipped=skipped) for section in sections]


def read_dataset(section: DatasetSection, *, data: DataSection, relative_to: Path, skipped: SkippedLog) -> SampleSet:
    """Read and check every row of a dataset.

    Relative `path`, `card` and `root` start from `relative_to`; media paths from `root`, else from the data file's
    folder (a dataset folder itself). A bad row raises DataError or is skipped, as `data.bad_row` says, one whose
    medium is absent as `data.bad_media` says; TooManySkippedError when too many were skipped.
    """
    path = (relative_to / section.path).absolute()
    name = dataset_name(section)
    reader = card_reader(section, data=data, relative_to=relative_to)
    rows = open_files(path, split=section.split, robot=reader.card.robot)
    if section.columns_from is not None:
        rows = joined_rows(rows, (relative_to / section.columns_from).absolute(), sample_id=reader.sample_id)
    dataset = _check_rows(rows, reader, section=section, policies=_Policies(data, skipped))
    skipped.check()
    if not len(rows):
        raise DataError(f"{path}: holds no rows; write rows into it, or take the dataset out of the configuration")
    if not len(dataset.row_N):
        first = next((row for row in skipped.rows if row.dataset == name), None)
        raise DataError(f"{path}: no usable rows" + (f"; the first: {first.where}: {first.reason}" if first else ""))
    count = len(dataset.row_N)
    return SampleSet([dataset], np.zeros(count, dtype=np.int64), np.arange(count))


def card_reader(section: DatasetSection, *, data: DataSection, relative_to: Path) -> CardReader:
    """What makes samples of a dataset's rows."""
    path, name = (relative_to / section.path).absolute(), dataset_name(section)
    return CardReader(
        card=_card(name, section, relative_to),
        dataset=name,
        stem=path.stem,
        root=_root(section, path, relative_to),
        templates=resolve_templates(section, data=data),
        rules=MediaRules(source_fps=section.source_fps, pdf_dpi=data.pdf_dpi, allow_urls=data.allow_urls),
    )


def _card(name: str, section: DatasetSection, relative_to: Path) -> CardSection:
    try:
        return resolve_card(section.card, relative_to=relative_to)
    except ConfigError as error:
        raise ConfigError(f"dataset {name!r}: {error}") from error


def _root(section: DatasetSection, path: Path, relative_to: Path) -> Path:
    if section.root is None:
        return path if path.is_dir() else path.parent
    root = (relative_to / section.root).absolute()
    if not root.is_dir():
        raise DataError(f"dataset {dataset_name(section)!r}: root {root} is no folder")
    return root


@dataclass(frozen=True)
class _Policies:
    """What to do with a bad row: raise, or note it and go on."""

    data: DataSection
    skipped: SkippedLog

    def handle(self, error: DataError, *, dataset: str, origin: str) -> None:
        missing = isinstance(error, MissingMediaError)
        if (self.data.bad_media if missing else self.data.bad_row) == "error":
            raise error
        kind = "bad_media" if missing else "bad_row"
        self.skipped.skip(Skipped(dataset, error.sample_id, error.where or origin, kind, error.reason, error.path))


def _check_rows(rows: Rows, reader: CardReader, *, section: DatasetSection, policies: _Policies) -> _Dataset:
    """Make every row a Sample once, and keep the numbers of the good ones."""
    row_numbers, tasks = array("I"), array("i")
    codes: dict[str, int] = {}
    budgets: dict[str, int] = {}
    seen = SeenIds()
    selected = 0
    for number in range(len(rows)):
        selected += 1
        try:
            row = rows.read(number)
            if not _is_selected(reader.with_made(row, section.select), section.select, origin=rows.origin(number)):
                selected -= 1
                continue
            sample = reader.sample(row, number=number, origin=rows.origin(number))
            _check_unique(sample, [row_numbers[place] for place in seen.twins(sample.sample_id)], rows, reader)
        except DataError as error:
            policies.handle(error, dataset=reader.dataset, origin=rows.origin(number))
            continue
        seen.add(sample.sample_id)
        for ref in sample.media:
            budgets.setdefault(ref.budget or sample.modality, len(row_numbers))
        row_numbers.append(number)
        tasks.append(codes.setdefault(sample.task, len(codes)))
        if len(row_numbers) == section.max_samples:
            break
    if section.select and not selected:
        wanted = ", ".join(f"{column}: {value!r}" for column, value in section.select.items())
        raise DataError(
            f"dataset {reader.dataset!r}: none of the {len(rows)} rows has what `select` asks for ({wanted})"
        )
    policies.skipped.rows_read(reader.dataset, selected)
    row_N, task_N = np.frombuffer(row_numbers, dtype=np.uint32), np.frombuffer(tasks, dtype=np.int32)
    return _Dataset(reader.dataset, rows, reader, row_N, task_N, tuple(codes), budgets, seen)


def _is_selected(row: Mapping[str, Any], select: Mapping[str, Any], *, origin: str) -> bool:
    """Whether a row has the values that are asked for. DataError for a column that it does not have."""
    for column, wanted in select.items():
        if column not in row:
            raise DataError(f"no column {column!r}, which `select` names; present: {', '.join(row)}", where=origin)
        if isinstance(wanted, Mapping) and wanted and wanted.keys() <= {"min", "max"}:
            if not _is_within(row[column], wanted, column=column, origin=origin):
                return False
        elif row[column] not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def _is_within(value: Any, bounds: Mapping[str, Any], *, column: str, origin: str) -> bool:
    """Whether a number lies between `min` and `max`, both included. null is in no range."""
    if value is None:
        return False
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"`select` asks for a range of {column!r}, which is {type_words(value)} here", where=origin)
    return bounds.get("min", value) <= value <= bounds.get("max", value)


def _check_unique(sample: Sample, suspects: Sequence[int], rows: Rows, reader: CardReader) -> None:
    """DataError if one of the suspects, rows whose ids have the same hash, has the same id."""
    for row in suspects:
        if reader.sample_id(rows.read(row), row) == sample.sample_id:
            raise DataError(
                f"{rows.origin(row)} has the same id; ids must be unique within a dataset "
                "(without an id column they are made from the row numbers)",
                where=sample.where,
                sample_id=sample.sample_id,
            )
