"""Look at one row as the model sees it: `python tools/inspect_sample.py run.yaml --dataset dogs --sample 17`.

Prints the rendered prompt, its counts and positions, every medium, the answer in the dataset's space and in the
model's, and the reward of that answer in each form a model may write it. Writes a contact sheet of the frames after
the resize, with their timestamps and the answer drawn in. Media are opened through the run's cache.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import needs_mmrl  # noqa: F401

from mmrl.cli import print_error
from mmrl.config.load import load_config
from mmrl.config.schema import DataSection, DatasetSection, RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.prepare import Prepared, Preparer
from mmrl.data.preprocess.media import data_sections
from mmrl.data.readers import SampleSet, read_dataset
from mmrl.data.rendered import MediaEntry, RenderedPrompt
from mmrl.data.sample import GeometryKind, Sample
from mmrl.data.sheet import Mark, contact_sheet, mark_of
from mmrl.data.skipped import SkippedLog
from mmrl.data.source import source_name
from mmrl.data.templates import dataset_name
from mmrl.errors import ConfigError, DataError, MmrlError
from mmrl.models.families import FamilyProcessor
from mmrl.models.load import processor_of
from mmrl.scoring.places import each_place
from mmrl.scoring.router import Router
from mmrl.training.sft import target_text

# How a model may write an answer; the reward of each shows which one the task's rewards ask for.
FORMS = {
    "plain": "{}",
    "answer": "<answer>{}</answer>",
    "think_answer": "<think>I look.</think> <answer>{}</answer>",
    "boxed": "\\boxed{{{}}}",
    "think_boxed": "<think>I look.</think> \\boxed{{{}}}",
}


@dataclass(frozen=True)
class Choice:
    """Which row: by id, or by its number among the usable rows (from 0). dataset: None means the split's first."""

    split: str
    dataset: str | None
    sample_id: str | None
    row: int


@dataclass(frozen=True)
class Inspected:
    """A row as the dataset has it, as the model gets it, and what its answer is (a place of some kind, or None)."""

    original: Sample
    prepared: Prepared
    kind: GeometryKind | None
    processor: FamilyProcessor

    @property
    def media(self) -> tuple[MediaEntry, ...]:
        return self.prepared.prompt.media

    @property
    def answer_medium(self) -> int | None:
        """The medium that an answer of this kind speaks about."""
        fitting = (n for n, entry in enumerate(self.media) if self.kind != "time" or entry.kind == "video")
        return next(fitting, None) if self.kind else None


# --- finding and preparing the row --------------------------------------------------------------------------------


def choose_dataset(config: RunConfig, choice: Choice) -> tuple[DataSection, DatasetSection]:
    """The dataset of that name in the split, the run's own data before that of stages."""
    found = [(data, section) for data in data_sections(config) for section in getattr(data, choice.split)]
    for data, section in found:
        if choice.dataset in (None, dataset_name(section)):
            return data, section
    names = ", ".join(dict.fromkeys(dataset_name(section) for _, section in found)) or "none"
    raise ConfigError(f"no dataset {choice.dataset or 'at all'} in data.{choice.split}; there: {names}")


def choose_sample(samples: SampleSet, choice: Choice, log: SkippedLog) -> Sample:
    """The chosen row; DataError when there is none, with the reason if it is one that cannot be used."""
    if choice.sample_id is None:
        if 0 <= choice.row < len(samples):
            return samples[choice.row]
        raise DataError(f"--row {choice.row}: the dataset has the rows 0 to {len(samples) - 1}")
    for sample in samples:
        if sample.sample_id == choice.sample_id:
            return sample
    for row in log.rows:
        if row.sample_id == choice.sample_id:
            raise DataError(f"{row.where}: {row.reason}")
    raise DataError(f"no sample {choice.sample_id!r} among {len(samples)}; the first is {samples[0].sample_id!r}")


def inspect(config: RunConfig, choice: Choice, router: Router) -> Inspected:
    """Read, open and render the chosen row as a run would; a row that a run would skip is an error here."""
    data, section = choose_dataset(config, choice)
    log = SkippedLog(None, max_fraction=1.0)
    lenient = data.model_copy(update={"bad_row": "skip", "bad_media": "skip"})
    sample = choose_sample(read_dataset(section, data=lenient, relative_to=Path.cwd(), skipped=log), choice, log)
    too_long = "error" if data.too_long == "skip" else data.too_long
    strict = data.model_copy(update={"bad_row": "error", "bad_media": "error", "too_long": too_long})
    kind = router.geometry_kind(sample.task) if sample.task in config.rewards.tasks else None
    processor = processor_of(config.model)
    with MediaOpener(data.video, workers=1) as opener:
        preparer = Preparer(
            cache=PixelCache(Path(config.cache.dir), on_miss=config.cache.on_miss, verify=config.cache.verify),
            opener=opener,
            processor=processor,
            config=config,
            data=strict,
            skipped=log,
            geometry_kind=lambda _: kind,
        )
        [prepared] = preparer.prepare([sample])
    return Inspected(sample, prepared, kind, processor)


# --- text ---------------------------------------------------------------------------------------------------------


def compact_prompt(prompt: RenderedPrompt, processor: FamilyProcessor) -> str:
    """The prompt as text, each run of placeholders as one token and its length: `<|image_pad|>[x12]`."""
    ids, pieces, done = prompt.prompt_ids_T.tolist(), [], 0
    for run in prompt.placeholders:
        pieces += [processor.decode(ids[done : run.start]), f"{processor.decode([ids[run.start]])}[x{run.length}]"]
        done = run.start + run.length
    return "".join([*pieces, processor.decode(ids[done:])])


def prompt_lines(item: Inspected) -> Iterator[str]:
    prompt = item.prepared.prompt
    total, vision = len(prompt.prompt_ids_T), prompt.num_vision_tokens
    yield compact_prompt(prompt, item.processor)
    yield ""
    yield f"ids: {total} ({total - vision} text, {vision} vision), unexpanded {len(prompt.engine_ids)}"
    ranges = zip("thw", prompt.position_ids_3T.amin(dim=1), prompt.position_ids_3T.amax(dim=1), strict=True)
    spans = ", ".join(f"{axis} {int(low)}..{int(high)}" for axis, low, high in ranges)
    yield f"positions: {spans}; the reply starts at {prompt.next_position}"
    if item.prepared.halvings:
        yield f"pixel budget halved {item.prepared.halvings} times to fit (data.too_long: shrink)"


def medium_lines(item: Inspected, number: int) -> Iterator[str]:
    """Where a medium comes from, what became of it and where it stands in the prompt."""
    entry, ref = item.media[number], item.original.media[number]
    (width, height), (t, h, w) = entry.model_size, entry.grid_thw
    yield f"medium {number}: {entry.kind} {source_name(ref)}"
    yield f"  {entry.source_size[0]} x {entry.source_size[1]} px -> {width} x {height} px, grid {t} x {h} x {w} (t h w)"
    runs = [run for run in item.prepared.prompt.placeholders if run.medium == number]
    places = ", ".join(f"{run.start}..{run.start + run.length - 1}" for run in runs)
    yield f"  {entry.num_tokens} tokens at {places}; cache key {entry.key[:12]}"
    if entry.kind == "video":
        yield f"  source {entry.source_fps:.4g} fps, {entry.duration_s:.4g} s; sampled at {entry.sample_fps:.4g} fps"
        stamps = (f"{s:.2f} s (#{i})" for s, i in zip(entry.timestamps_s, entry.frame_indices, strict=True))
        padding = t * item.processor.geometry.temporal_patch_size - len(entry.frames_F3HW)
        yield f"  frames: {', '.join(stamps)}" + (f", the last one {padding} more time(s)" if padding else "")


def answer_lines(item: Inspected) -> Iterator[str]:
    original, seen = item.original, item.prepared.sample
    yield f"answer: {original.answer!r}" + (f" in {original.answer_space}" if item.kind else "")
    if item.kind:
        yield f"  as the model writes it: {target_text(seen.answer, kind=item.kind)!r} in {seen.answer_space}"
    if "demonstration" in seen.columns:
        yield f"  demonstration: {target_text(seen.columns['demonstration'], kind=item.kind)!r}"


def reward_lines(item: Inspected, router: Router) -> Iterator[str]:
    """The reward of the answer in each form. Each form is scored as a group of its own."""
    sample = item.prepared.sample
    if sample.answer is None or sample.task not in router.section.tasks:
        yield f"reward: none (task {sample.task!r}; answer {sample.answer!r})"
        return
    gold = target_text(sample.answer, kind=item.kind)
    scores = router.score([(sample, [form.format(gold)]) for form in FORMS.values()])
    yield "reward of the answer, written"
    for index, (name, form) in enumerate(FORMS.items()):
        parts = ", ".join(f"{part} {value:.3g}" for part, value in scores.breakdown_of(index, 0).items())
        yield f"  {name:<12} {scores.rewards[index][0]:<6.3g} ({parts})  {form.format(gold)}"
    for event, message in scores.messages.items():
        yield f"  {event}: {message}"


def report(item: Inspected, router: Router) -> str:
    """Everything there is to say about the row, without the picture."""
    sample = item.original
    lines = [f"{sample.where}: dataset {sample.dataset}, task {sample.task}, modality {sample.modality}", ""]
    lines += prompt_lines(item)
    for number in range(len(item.media)):
        lines += medium_lines(item, number)
    return "\n".join([*lines, *answer_lines(item), *reward_lines(item, router)])


# --- contact sheet ------------------------------------------------------------------------------------------------


def answer_marks(item: Inspected) -> list[Mark]:
    """The answer's boxes, points or times, to be drawn on the medium they speak about."""
    if item.kind is None or item.answer_medium is None:
        return []
    answer, space = item.prepared.sample.answer, item.prepared.sample.answer_space
    assert space is not None  # a prepared answer says the model's space
    space = space.rpartition(" at ")[2]  # of a tube only the times are drawn: a mark stands on every frame
    medium = item.answer_medium
    return [
        mark_of(values, kind=kind, space=space, medium=medium, entry=item.media[medium])
        for kind, values in each_place(answer, kind=item.kind)
    ]


# --- command line -------------------------------------------------------------------------------------------------


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, metavar="CONFIG")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--split", choices=("train", "val"), default="train")
    parser.add_argument("--dataset", metavar="NAME", help="default: the first of the split")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--sample", metavar="ID")
    which.add_argument("--row", type=int, default=0, metavar="N", help="N-th usable row, from 0 (default: 0)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/inspected"), metavar="FOLDER", help="default: %(default)s"
    )
    return parser.parse_args(arguments)


def save_sheet(item: Inspected, folder: Path) -> Path:
    name = re.sub(r"[^\w.-]+", "_", f"{item.original.dataset}-{item.original.sample_id}")
    path = folder / f"{name}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        contact_sheet(item.media, answer_marks(item)).save(path)
    except OSError as error:
        reason = error.strerror or error
        raise MmrlError(f"{path}: cannot be written: {reason}; name another folder by --out") from error
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    choice = Choice(parsed.split, parsed.dataset, parsed.sample, parsed.row)
    try:
        config = load_config(parsed.config, parsed.overrides)
        with Router(config.rewards) as router:
            item = inspect(config, choice, router)
            print(report(item, router))
            if item.media:
                print(f"contact sheet: {save_sheet(item, parsed.out)}")
    except MmrlError as error:
        print_error(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
