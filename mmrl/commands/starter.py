"""`mmrl init DATA`: a commented configuration to start from, written after looking at the first rows of a dataset.

Which shipped card reads the rows is tried out; modalities and sizes come from opening the first media, rewards from
what the answers look like. The result is a proposal; what cannot be seen (the model's folder, the space of boxes) is
left to fill in, and `mmrl check` says so.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.config.schema import BudgetClass, DataSection, DatasetSection, VideoSection
from mmrl.data.budget import VisionGeometry
from mmrl.data.cards import CardReader, resolve_card
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenedMedia
from mmrl.data.rows import Rows, open_rows
from mmrl.data.sample import MediaKind, Sample
from mmrl.data.templates import resolve_templates
from mmrl.errors import DataError, MediaError, MissingMediaError
from mmrl.plugins import shipped_dir

FIRST_ROWS = 64
FIRST_MEDIA = 12
FILL_IN = "FILL_IN"
MODEL_PLACEHOLDER = "/path/to/Qwen2.5-VL-3B-Instruct"

# Only sizes are wanted of the media that are opened, so any family's arithmetic serves.
_GEOMETRY = VisionGeometry(
    family="qwen2_5_vl",
    patch_size=14,
    merge_size=2,
    temporal_patch_size=2,
    image_mean=(0.5, 0.5, 0.5),
    image_std=(0.5, 0.5, 0.5),
    video_rule="qwen2",
    default_total_pixels=180633600,
    tokens_per_second=4.0,
)
_GLANCE = BudgetClass(min_pixels=784, max_pixels=784 * 16, max_frames=4)


@dataclass(frozen=True, slots=True)
class Look:
    """What the first rows of a dataset say. unreadable: rows that the card does not read, with their reasons."""

    card: str
    rows: int
    samples: tuple[Sample, ...]
    unreadable: tuple[str, ...]
    opened: Mapping[MediaKind, tuple[OpenedMedia, ...]]
    media_errors: tuple[str, ...]


def init_command(data: Path, *, model: str | None, card: str | None, split: str | None) -> int:
    """Print a starter configuration for a dataset. Returns 0; DataError where no card reads the rows."""
    look = look_at(data, card=card, split=split)
    print(starter(look, data=data, model=model or MODEL_PLACEHOLDER, split=split))
    return 0


def look_at(data: Path, *, card: str | None, split: str | None) -> Look:
    """Read the first rows with the card named, or the shipped card that reads most of them, and open some media."""
    rows = open_rows(data, split=split)
    if not len(rows):
        raise DataError(f"{data}: no rows")
    cards = [card] if card else sorted(path.parent.name for path in shipped_dir("datasets").glob("*/card.yaml"))
    tried = {name: _read(rows, data, name) for name in cards}
    best = max(tried, key=lambda name: _fit(rows.read(0), name, tried[name]))
    samples, problems = tried[best]
    if not samples:
        columns = ", ".join(rows.read(0)) or "none"
        raise DataError(
            f"{data}: {'card ' + repr(card) if card else 'no shipped card'} reads its rows ({problems[0]}); "
            f"columns: {columns}. Write a card and name it with --card ./card.yaml, see docs/data.md"
        )
    opened, errors = _open_some(samples)
    return Look(best, len(rows), tuple(samples), tuple(problems), opened, tuple(errors))


def _read(rows: Rows, data: Path, card: str) -> tuple[list[Sample], list[str]]:
    """Samples of the first rows under a card, and why the others are none."""
    section = DatasetSection(path=str(data), card=card)
    reader = CardReader(
        card=_with_task(card),
        dataset=data.stem,
        stem=data.stem,
        root=(data if data.is_dir() else data.parent).absolute(),
        templates=resolve_templates(section, data=DataSection()),
    )
    samples, problems = [], []
    for number in range(min(FIRST_ROWS, len(rows))):
        try:
            samples.append(reader.sample(rows.read(number), number=number, origin=rows.origin(number)))
        except DataError as error:
            problems.append(str(error))
    return samples, problems


def _with_task(card: str) -> Any:
    """The card, with a task for rows that name none: the starter says that it was made up."""
    section = resolve_card(card, relative_to=Path.cwd())
    return section if section.task else section.model_copy(update={"task": "main"})


def _fit(row: Mapping[str, Any], card: str, tried: tuple[list[Sample], list[str]]) -> tuple[int, int, int]:
    """How well a card fits: rows read, rows whose one fault is a missing file, columns of the row that it knows."""
    samples, problems = tried
    section = resolve_card(card, relative_to=Path.cwd())
    written = [[column] if isinstance(column, str) else column or [] for column in section.columns.values()]
    known = {column.split(".")[0] for columns in written for column in columns}
    return len(samples), sum("no such file" in problem for problem in problems), len(known & set(row))


def _open_some(samples: Sequence[Sample]) -> tuple[dict[MediaKind, tuple[OpenedMedia, ...]], list[str]]:
    opened: dict[MediaKind, list[OpenedMedia]] = defaultdict(list)
    errors: list[str] = []
    with MediaOpener(VideoSection(), workers=min(2, os.cpu_count() or 1)) as opener:
        for sample in samples:
            for ref in sample.media:
                if len(opened[ref.kind]) >= FIRST_MEDIA:
                    continue
                try:
                    opened[ref.kind].append(opener.open(ref, _GLANCE, _GEOMETRY))
                except (MediaError, MissingMediaError) as error:
                    errors.append(f"{sample.where}: {error}")
    return {kind: tuple(media) for kind, media in opened.items() if media}, errors


def starter(look: Look, *, data: Path, model: str, split: str | None) -> str:
    """The configuration as text, every choice with the reason for it."""
    blocks = [
        _head(look, data),
        _model(model),
        _data(look, data, split),
        _budgets(look),
        _rewards(look),
        _training(look),
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _head(look: Look, data: Path) -> list[str]:
    kinds = Counter(ref.kind for sample in look.samples for ref in sample.media)
    counted = ", ".join(f"{count} {kind}s" for kind, count in kinds.items()) or "no media"
    lines = [
        f"# Written by `mmrl init` after looking at {data}",
        f"# {look.rows} rows; the first {len(look.samples)} hold {counted}.",
        "# Look over every choice, then:  mmrl check THIS.yaml,  mmrl preprocess THIS.yaml,  mmrl train THIS.yaml",
    ]
    for problem in (*look.unreadable[:3], *look.media_errors[:3]):
        lines.append(f"# not usable: {_one_line(problem)}")
    name = f"{data.absolute().parent.name}-{data.stem}"
    return [*lines, f"name: {re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-._') or 'run'}"]


def _model(model: str) -> list[str]:
    return [
        "model:",
        f"  path: {json.dumps(model, ensure_ascii=False)} # a folder in transformers format",
        "  freeze: [vision_tower] # less memory, and usually no worse; [] trains everything",
    ]


def _data(look: Look, data: Path, split: str | None) -> list[str]:
    lines = ["data:", "  train:", f"    - path: {json.dumps(str(data.absolute()), ensure_ascii=False)}", *_card(look)]
    if split:
        lines.append(f"      split: {split}")
    return [
        *lines,
        "  # val: [{path: ..., card: ...}]  # held-out rows: without them no score is measured and no best is kept",
        "  max_prompt_tokens: 8192",
        "  too_long: error # skip leaves such rows out, shrink lowers their pixel budget; nothing is ever cut",
    ]


def _card(look: Look) -> list[str]:
    """The card: by name, or with what the rows themselves do not say."""
    own = []
    if {sample.task for sample in look.samples} == {"main"}:
        own.append("        task: main # no column names a task, so all rows get this one")
    rewards = {reward for _, reward, _ in _task_rewards(look)}
    if all(sample.answer_space is not None for sample in look.samples):
        pass  # the card or the rows say it
    elif "box_iou" in rewards:
        own.append(f"        answer_space: {FILL_IN} # what the boxes are in: original_px, model_px, 0..1000 or 0..1")
    elif "temporal_iou" in rewards:
        own.append("        answer_space: seconds # what the times are in; or 0..1, 0..1000 of the clip")
    if not own:
        return [f"      card: {look.card}"]
    if "/" in look.card:  # a card of the user's own: what is missing belongs into its file
        return [f"      card: {look.card}", *(f"      # add to it: {line.strip()}" for line in own)]
    return ["      card:", f"        preset: {look.card}", *own]


def _budgets(look: Look) -> list[str]:
    lines = ["budgets: # pixels of one picture or frame; a Qwen2.5-VL token is 28 x 28 of them"]
    images, clips = look.opened.get("image", ()), look.opened.get("video", ())
    if images:
        pixels = sorted(width * height for width, height in (media.source_size for media in images))
        most = min(1_003_520, max(12_544, -(-pixels[-1] // 784) * 784))
        sizes = f"{pixels[0]:,} to {pixels[-1]:,} pixels in the first {len(images)} pictures"
        lines.append(f"  image: {{max_pixels: {most}}} # {sizes}; at most {most // 784} tokens each")
    if clips:
        seconds = sorted(media.duration_s or 0.0 for media in clips)
        frames = max(4, min(32, 2 * round(seconds[-1])))
        tokens = frames // 2 * (100_352 // 784)
        lengths = f"{seconds[0]:.1f} to {seconds[-1]:.1f} s in the first {len(clips)} clips"
        lines.append(
            f"  video: {{max_pixels: 100352, max_frames: {frames}, sample_fps: 2.0}} # {lengths}; {tokens} tokens"
        )
    return lines if len(lines) > 1 else ["# no media in the first rows: the default budgets stand"]


def _rewards(look: Look) -> list[str]:
    lines = ["rewards: # guessed from the answers; `mmrl list rewards` shows the others", "  tasks:"]
    for task, reward, why in _task_rewards(look):
        lines.append(f"    {json.dumps(task, ensure_ascii=False)}: [{{reward: {reward}}}] # {why}")
    return lines


def _task_rewards(look: Look) -> Iterator[tuple[str, str, str]]:
    """(task, reward, reason) of every task in the first rows."""
    tasks: dict[str, list[Sample]] = defaultdict(list)
    for sample in look.samples:
        tasks[sample.task].append(sample)
    for task, samples in sorted(tasks.items()):
        clips = any(ref.kind == "video" for sample in samples for ref in sample.media)
        yield task, *guess_reward([sample.answer for sample in samples], clips=clips)


def _training(look: Look) -> list[str]:
    prompts = min(32, look.rows)
    steps = max(10, min(500, look.rows // prompts))
    return [
        "rollout: {group_size: 8, max_new_tokens: 512}",
        "",
        "stages:",
        f"  - {{name: rl, kind: grpo, steps: {steps}, prompts_per_step: {prompts}, lr: 1.0e-6}}",
        "",
        "# validation: {every: 50}",
        "# checkpoint: {every: 50}",
    ]


def guess_reward(answers: Sequence[Any], *, clips: bool) -> tuple[str, str]:
    """The reward that fits what all answers look like, and the reason.

    >>> guess_reward(["B", "a"], clips=False)
    ('choice', 'every answer is a letter')
    """
    texts = [answer.strip() if isinstance(answer, str) else answer for answer in answers]
    numbers = [_numbers(answer) for answer in texts]
    if all(isinstance(t, str) and re.fullmatch(r"\(?[A-Za-z]\)?\.?", t) for t in texts):
        return "choice", "every answer is a letter"
    if all(n is not None and len(n) == 4 for n in numbers):
        return "box_iou", "every answer is four numbers"
    if clips and all(n is not None and len(n) == 2 for n in numbers):
        return "temporal_iou", "every answer is two numbers"
    if all(n is not None and len(n) == 1 for n in numbers):
        return "numeric", "every answer is a number"
    if any(isinstance(t, str) and ("\\" in t or "^" in t) for t in texts):
        return "math", "answers hold LaTeX"
    return "exact_text", "answers are texts"


def _numbers(answer: Any) -> list[float] | None:
    """The numbers of an answer that is nothing but numbers."""
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except ValueError:
            return None
    values = answer if isinstance(answer, list) else [answer]
    fitting = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return [float(value) for value in values] if values and fitting else None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
