"""Rows of one tool written as rows of another:

    python tools/convert_data.py rows.parquet --from verl --to llava --out rows.json

    --from   a shipped card or the path of one: what the rows of SRC are        (see docs/data.md)
    --to     the shipped card of the tool that is to read the rows
    --out    .jsonl, or .json for one list; media paths are relative to its folder where they lie in it, else absolute

Every row becomes a Sample, is written, is read back, and must be the same Sample: same messages, media, answer, task
and demonstration. What the target's rows cannot hold is listed and nothing is written, unless `--drop` says what to
leave out: system (system turns), demonstration, options (spans and own budgets of media), columns (all that are no
field of a sample), answer_space, or rows (those that cannot be written whole); what was left out is counted at the end.
Columns that the target would take for something else get `source_` before their name. Media that lie in the rows as
bytes, or in archives, are written as files into `--media-dir`. Rows of tools that train on the assistant's text must
end with one: `--reply-json` makes it of an answer that is no text (a box), which stays in the column `answer` as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import needs_mmrl  # noqa: F401

from mmrl.cli import os_problem, print_error
from mmrl.config.schema import CardSection, DataSection, DatasetSection
from mmrl.data.cards import FIELDS, CardReader, resolve_card
from mmrl.data.file_bytes import read_bytes
from mmrl.data.locate import MediaRules
from mmrl.data.locations import ArchiveMember, FrameFiles, RawBytes
from mmrl.data.readers import SampleSet, read_dataset
from mmrl.data.sample import MediaRef, Sample
from mmrl.data.skipped import SkippedLog
from mmrl.data.templates import resolve_templates
from mmrl.data.write_rows import TARGETS, Draft, LossError, Target, options_of
from mmrl.errors import ConfigError, DataError, MediaError, MmrlError

DROPS = ("system", "demonstration", "options", "columns", "answer_space", "rows")
_MEANING = {"options": "; spans are gone too, so these clips are shown whole, and times count from their starts"}
_SUFFIXES = {b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"GIF8": ".gif", b"RIFF": ".webp", b"%PDF": ".pdf"}


@dataclass(frozen=True)
class Converter:
    """Turns samples into rows of a target, and checks each by reading it back.

    source: card of the samples' own file. out: the file the rows are for. stem: of the samples' file. reply_json: end
    rows with the answer as JSON where the target wants a reply and the answer is no text. dropped counts the rows by
    what was left out of them, files holds the media written into media_dir.
    """

    source: CardSection
    to: str
    out: Path
    stem: str
    drop: frozenset[str] = frozenset()
    media_dir: Path | None = None
    reply_json: bool = False
    dropped: Counter[str] = field(default_factory=Counter)
    files: set[Path] = field(default_factory=set)

    def row(self, sample: Sample) -> dict[str, Any]:
        """The sample as a row. LossError, naming the sample, where the row would not be the same sample."""
        kept = self._without_dropped(sample)
        try:
            kept = replace(kept, media=tuple(self._as_file(ref) for ref in kept.media), columns=self._with_reply(kept))
            row = self._row(kept)
            self._check(kept, row)
        except LossError as error:
            raise LossError(error.kind, f"{sample.where}: a row of {self.to} cannot hold {error}") from error
        self.dropped.update(kind for kind in sorted(self.drop) if _holds(sample, kind))
        return row

    def _row(self, sample: Sample) -> dict[str, Any]:
        target, card = TARGETS[self.to], self._reader.card
        reply = self._reply(sample, target)
        draft = Draft(sample, card, self.out.parent, reply, self._columns(sample, card))
        target.write(draft)
        for kind, column in zip(("image", "video"), target.media, strict=False):
            cells = draft.media(kind, target)
            if cells:
                draft.row[column] = cells[0] if len(cells) == 1 and column == kind else cells
        self._put_fields(draft, reply)
        return draft.row

    @cached_property
    def _reader(self) -> CardReader:
        """Reads rows as the target's card says."""
        card = resolve_card(self.to, relative_to=Path())
        templates = resolve_templates(DatasetSection.model_validate({"path": str(self.out)}), data=DataSection())
        return CardReader(card, self.out.stem, self.stem, self.out.parent, templates, MediaRules(allow_urls=True))

    def _reply(self, sample: Sample, target: Target) -> str | None:
        shown = sample.columns.get("demonstration")
        if shown is None and target.trains_on_reply:
            shown = sample.answer
        if isinstance(shown, str) or (shown is None and not target.trains_on_reply):
            return shown
        if target.trains_on_reply:
            raise _no_reply(shown)
        if self.to in ("verl", "swift"):  # they hold demonstrations that are no text in columns of their own
            return None
        raise LossError("demonstration", f"a demonstration that is no text, {shown!r:.60}")

    def _columns(self, sample: Sample, card: CardSection) -> dict[str, Any]:
        """The other columns, but for those whose values are in the messages now.

        One that the target would take for a field of its own is called `source_<name>`: LLaVA's `id`, which repeats.
        """
        used = (self.source.geometry_column, self.source.geometry_medium_column, self.source.text_column)
        spent = {column.partition(".")[0] for column in used if column is not None} | {"demonstration"}
        others = {column: value for column, value in sample.columns.items() if column not in spent}
        mapped = [*card.columns.values(), card.geometry_column, card.text_column]
        listed = [name for entry in mapped for name in ((entry,) if isinstance(entry, str) else entry or ())]
        taken = {*listed, *(name for name in FIELDS if name not in card.columns and name not in ("input", "history"))}
        names = {column: f"source_{column}" if column in taken else column for column in others}
        return {} if "columns" in self.drop else {names[column]: value for column, value in others.items()}

    def _put_fields(self, draft: Draft, reply: str | None) -> None:
        """Answer, task, id, space and modality, in the card's column where it has one, else under our own name."""
        sample, card = draft.sample, draft.card
        values: dict[str, Any] = {}
        if not (card.answer_from_demonstration and sample.answer == (reply or sample.columns.get("demonstration"))):
            values["answer"] = sample.answer
        if sample.task != card.task:
            values["task"] = sample.task
        if not re.fullmatch(re.escape(self.stem) + r":\d+", sample.sample_id):
            values["id"] = sample.sample_id
        if sample.answer_space not in (None, card.answer_space) and "objects" not in draft.row:
            names = {ours: theirs for theirs, ours in card.spaces.items()}
            values["answer_space"] = names.get(str(sample.answer_space), sample.answer_space)
        if any(ref.budget is None for ref in sample.media) or (not sample.media and sample.modality != "text"):
            values["modality"] = sample.modality
        for name, value in values.items():
            column = card.columns.get(name) or name
            if value is not None:
                draft.put(column if isinstance(column, str) else column[0], value)

    def _without_dropped(self, sample: Sample) -> Sample:
        messages, media, columns = sample.messages, sample.media, dict(sample.columns)
        if "system" in self.drop:
            messages = tuple(message for message in messages if message.role != "system")
        if "demonstration" in self.drop:
            columns.pop("demonstration", None)
        if "options" in self.drop:
            media = tuple(MediaRef(r.kind, r.source, r.budget and r.kind, r.source_fps) for r in media)
        space = None if "answer_space" in self.drop else sample.answer_space
        return replace(sample, messages=messages, media=media, columns=columns, answer_space=space)

    def _with_reply(self, sample: Sample) -> Mapping[str, Any]:
        """The columns, with an answer that is no text as demonstration where it is to be the row's reply."""
        reply = sample.columns.get("demonstration", sample.answer)
        wanted = self.reply_json and TARGETS[self.to].trains_on_reply
        if not wanted or reply is None or isinstance(reply, str):
            return sample.columns
        return {**sample.columns, "demonstration": json.dumps(reply, ensure_ascii=False)}

    def _as_file(self, ref: MediaRef) -> MediaRef:
        """The same medium, in a file of its own if it lies in a row or archive and a folder for such was named."""
        if not isinstance(ref.source, RawBytes | ArchiveMember) or self.media_dir is None:
            return ref
        try:
            data = read_bytes(ref.source)
        except MediaError as error:
            raise LossError("media", f"a medium that cannot be read: {error}") from error
        suffix = next(
            (s for head, s in _SUFFIXES.items() if data.startswith(head)), ".mp4" if ref.kind == "video" else ""
        )
        path = self.media_dir / f"{hashlib.sha256(data).hexdigest()[:20]}{suffix}"
        if not path.exists():
            self.media_dir.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.files.add(path)
        return replace(ref, source=path)

    def _check(self, sample: Sample, row: dict[str, Any]) -> None:
        """Read the row as the target's card does; LossError unless it is the same sample."""
        try:
            again = self._reader.sample(json.loads(json.dumps(row)), number=0, origin="")
        except DataError as error:
            raise LossError("text", f"it as it is; it would be read wrongly: {error.reason}") from error
        except TypeError as error:
            raise LossError("columns", f"a column that is no JSON: {error}") from error
        before, after = identity(sample), identity(again)
        different = [name for name in before if before[name] is not None and before[name] != after[name]]
        if different:
            raise LossError(different[0], f"its {' and '.join(different)}, {before[different[0]]!r:.200}")


def _no_reply(answer: Any) -> LossError:
    """The loss of a row that must end with the assistant's text, and has none."""
    if answer is None:
        missing = "there is neither demonstration nor answer"
        return LossError("reply", f"a question alone: it ends with the assistant's text, and {missing}")
    remedy = "--reply-json ends the row with it as JSON, and keeps it in the column `answer` too"
    return LossError("reply", f"an answer that is no text, {answer!r:.60}, as the assistant's last turn; {remedy}")


def _holds(sample: Sample, kind: str) -> bool:
    """Whether a sample has what `--drop kind` leaves out."""
    has = {
        "system": any(message.role == "system" for message in sample.messages),
        "demonstration": "demonstration" in sample.columns,
        "options": any(options_of(ref) for ref in sample.media),
        "columns": bool(sample.columns.keys() - {"demonstration"}),
        "answer_space": sample.answer_space is not None,
    }
    return has.get(kind, False)


def identity(sample: Sample) -> dict[str, Any]:
    """What makes a sample the same after a conversion. A demonstration that is the answer is none of its own."""
    return {
        "messages": sample.messages,
        "media": [_medium_identity(ref) for ref in sample.media],
        "answer": sample.answer,
        "answer_space": sample.answer_space,
        "task": sample.task,
        "modality": sample.modality,
        "demonstration": sample.columns.get("demonstration", sample.answer),
    }


def _medium_identity(ref: MediaRef) -> tuple[Any, ...]:
    source = ref.source.files if isinstance(ref.source, FrameFiles) else str(ref.source)
    return ref.kind, source, ref.budget, ref.start_s, ref.end_s, ref.source_fps, dict(ref.budget_keys)


def convert(samples: Iterable[Sample], converter: Converter) -> Iterator[dict[str, Any] | LossError]:
    """The row of every sample, or why there is none."""
    for sample in samples:
        try:
            yield converter.row(sample)
        except LossError as error:
            yield error


def write_rows(rows: Iterable[dict[str, Any] | LossError], out: Path) -> tuple[int, list[LossError]]:
    """Write the rows as JSONL, or one JSON list; how many there are, and the losses between them."""
    losses: list[LossError] = []
    count = 0
    first, between, last = ("", "\n", "\n") if out.suffix == ".jsonl" else ("[\n", ",\n", "\n]\n")
    with out.open("w", encoding="utf-8") as file:
        for row in rows:
            if isinstance(row, LossError):
                losses.append(row)
                continue
            file.write((between if count else first) + json.dumps(row, ensure_ascii=False))
            count += 1
        file.write(last if count else "")
    return count, losses


def read_source(arguments: argparse.Namespace) -> tuple[SampleSet, CardSection]:
    card = resolve_card(arguments.source, relative_to=Path.cwd())
    card = card if arguments.task is None else card.model_copy(update={"task": arguments.task})
    section = DatasetSection(path=arguments.path, card=card, split=arguments.split, root=arguments.root)
    skipped = SkippedLog(None, max_fraction=0.0)
    return read_dataset(section, data=DataSection(allow_urls=True), relative_to=Path.cwd(), skipped=skipped), card


def run(arguments: argparse.Namespace) -> int:
    out = Path(arguments.out).absolute()
    if arguments.to not in TARGETS:
        raise ConfigError(f"--to {arguments.to}: rows can be written for {', '.join(TARGETS)}")
    if out.suffix not in (".jsonl", ".json"):
        raise ConfigError(f"--out {out.name}: the file must end in .jsonl or .json")
    drop = frozenset(arguments.drop.split(",")) if arguments.drop else frozenset()
    unknown = sorted(drop - set(DROPS))
    if unknown:
        raise ConfigError(f"--drop {unknown[0]}: it may name {', '.join(DROPS)}")
    samples, card = read_source(arguments)
    media_dir = Path(arguments.media_dir).absolute() if arguments.media_dir else None
    stem = Path(arguments.path).stem
    converter = Converter(card, arguments.to, out, stem, drop, media_dir, reply_json=arguments.reply_json)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + ".part" + out.suffix)
    count, losses = write_rows(convert(samples, converter), part)
    print_losses(losses, converter, of=len(samples))
    if losses and "rows" not in drop:
        part.unlink()
        print("nothing was written; --drop rows leaves such rows out", file=sys.stderr)
        return 1
    part.replace(out)
    print(f"{count} rows of {arguments.to}: {out}")
    return 0


def print_losses(losses: Sequence[LossError], converter: Converter, *, of: int) -> None:
    """What could not be written and what was left out, counted, and where media went; on standard error."""
    for kind, number in Counter(loss.kind for loss in losses).items():
        remedy = f"; --drop {kind} leaves it out" if kind in DROPS and kind not in converter.drop else ""
        example = next(loss for loss in losses if loss.kind == kind)
        print(f"{number} of {of} rows: {example}{remedy}", file=sys.stderr)
    for kind, number in sorted(converter.dropped.items()):
        print(f"{number} of {of} rows: left out, as --drop says: {kind}{_MEANING.get(kind, '')}", file=sys.stderr)
    if converter.files:
        print(f"{len(converter.files)} media written as files into {converter.media_dir}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="SRC", help="data file or folder, as `data.train[i].path`")
    parser.add_argument("--from", dest="source", required=True, metavar="CARD", help="card of SRC")
    parser.add_argument("--to", required=True, metavar="CARD", help=f"one of {', '.join(TARGETS)}")
    parser.add_argument("--out", required=True, metavar="DST", help="file to write, .jsonl or .json")
    parser.add_argument("--root", help="folder that SRC's media paths start from")
    parser.add_argument("--split", help="split of SRC, if it is a folder with splits")
    parser.add_argument("--task", help="task of rows that name none")
    parser.add_argument("--drop", help=f"what may be lost, with commas between: {', '.join(DROPS)}")
    parser.add_argument("--media-dir", help="folder for media that lie in SRC as bytes, or in archives")
    parser.add_argument("--reply-json", action="store_true", help="end rows with answers that are no text, as JSON")
    try:
        return run(parser.parse_args(argv))
    except MmrlError as error:
        print_error(str(error))
        return 2
    except OSError as error:
        print_error(os_problem(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
