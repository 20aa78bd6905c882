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
from mmrl.data.cards import CardReader, resolve_card
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenedMedia
from mmrl.data.rows import Rows, open_rows
from mmrl.data.sample import MediaKind, Sample
from mmrl.data.templates import resolve_templates
from mmrl.errors import DataError, MediaError, MissingMediaError
from mmrl.models.qwen import QwenGeometry
from mmrl.plugins import shipped_dir

FIRST_ROWS = 64
FIRST_MEDIA = 12
FILL_IN = "FILL_IN"
MODEL_PLACEHOLDER = "/path/to/Qwen2.5-VL-3B-Instruct"

# Only sizes are wanted of the media that are opened, so any family's arithmetic serves.
_GEOMETRY = QwenGeometry(
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
    """What the first rows of a dataset say.

    equals: cards that read the rows as well as `card`. unreadable: rows that the card does not read, with their
    reasons. opened: budget class -> kind -> media.
    """

    card: str
    equals: tuple[str, ...]
    rows: int
    samples: tuple[Sample, ...]
    unreadable: tuple[str, ...]
    opened: Mapping[str, Mapping[MediaKind, Sequence[OpenedMedia]]]
    media_errors: tuple[str, ...]


def init_command(data: Path, *, model: str | None, card: str | None, split: str | None) -> int:
    """Print a starter configuration for a dataset. Returns 0; DataError where no card reads the rows."""
    look = look_at(data, card=card, split=split)
    print(starter(look, data=data, model=_model_path(model), split=split))
    return 0


def _model_path(model: str | None) -> str:
    """A folder by its absolute path, for the configuration may be kept elsewhere; a hub id as it is."""
    if model is None:
        return MODEL_PLACEHOLDER
    return str(Path(model).absolute()) if Path(model).is_dir() else model


def look_at(data: Path, *, card: str | None, split: str | None) -> Look:
    """Read the first rows with the card named, or the shipped card that reads most of them, and open some media."""
    data = data.absolute()
    rows = open_rows(data, split=split)
    if not len(rows):
        raise DataError(f"{data}: holds no rows; write rows into it first")
    cards = [card] if card else sorted(path.parent.name for path in shipped_dir("datasets").glob("*/card.yaml"))
    tried = {name: _read(rows, data, name) for name in cards}
    fits = {name: _fit(rows.read(0), name, tried[name]) for name in cards}
    best = max(fits, key=lambda name: fits[name])
    samples, problems = tried[best]
    if not samples:
        columns = ", ".join(rows.read(0)) or "none"
        raise DataError(
            f"{data}: {'card ' + repr(card) if card else 'no shipped card'} reads its rows ({problems[0]}); "
            f"columns: {columns}. Write a card and name it with --card ./card.yaml, see docs/data.md"
        )
    opened, errors = _open_some(samples)
    equals = tuple(name for name in cards if name != best and fits[name] == fits[best])
    return Look(best, equals, len(rows), tuple(samples), tuple(problems), opened, tuple(errors))


def _read(rows: Rows, data: Path, card: str) -> tuple[list[Sample], list[str]]:
    """Samples of the first rows under a card, and why the others are none."""
    section = DatasetSection(path=str(data), card=card)
    reader = CardReader(
        card=_with_task(card),
        dataset=data.stem,
        stem=data.stem,
        root=data if data.is_dir() else data.parent,
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


def _open_some(samples: Sequence[Sample]) -> tuple[dict[str, dict[MediaKind, list[OpenedMedia]]], list[str]]:
    """The first media of each budget class, by kind, and why others cannot be opened."""
    opened: dict[str, dict[MediaKind, list[OpenedMedia]]] = defaultdict(lambda: defaultdict(list))
    errors: list[str] = []
    with MediaOpener(VideoSection(), workers=min(2, os.cpu_count() or 1)) as opener:
        for sample in samples:
            for ref in sample.media:
                media = opened[ref.budget or sample.modality][ref.kind]
                if len(media) >= FIRST_MEDIA:
                    continue
                try:
                    media.append(opener.open(ref, _GLANCE, _GEOMETRY))
                except (MediaError, MissingMediaError) as error:
                    errors.append(f"{sample.where}: {error}")
    return opened, errors


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
    lines = ["data:", "  train:", f"    - path: {json.dumps(str(data.absolute()), ensure_ascii=False)}"]
    if look.equals:
        lines.append(f"      # {', '.join(look.equals)} read these rows equally well; `mmrl init --card` chooses")
    lines += _card(look)
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
    own += _answer_space(look)
    if not own:
        return [f"      card: {look.card}"]
    if "/" in look.card:  # a card of the user's own: what is missing belongs into its file
        return [f"      card: {look.card}", *(f"      # add to it: {line.strip()}" for line in own)]
    return ["      card:", f"        preset: {look.card}", *own]


def _answer_space(look: Look) -> list[str]:
    """The line for the space of answers that are places or times, where neither card nor rows say it."""
    tasks = {task: reward for task, reward, _ in _task_rewards(look) if reward in ("box_iou", "temporal_iou")}
    if all(sample.answer_space is not None for sample in look.samples if sample.task in tasks):
        return []
    rewards = set(tasks.values())
    if len(rewards) > 1:
        both = "boxes and times in one file: write each row's space into a column `answer_space`, and remove this line"
        return [f"        answer_space: {FILL_IN} # {both}; or make two files, each with its own card"]
    if "box_iou" in rewards:
        return [f"        answer_space: {FILL_IN} # what the boxes are in: original_px, model_px, 0..1000 or 0..1"]
    return ["        answer_space: seconds # what the times are in; or 0..1, 0..1000 of the clip"]


def _budgets(look: Look) -> list[str]:
    lines = ["budgets: # pixels of one picture or frame; a Qwen2.5-VL token is 28 x 28 of them"]
    for name, media in look.opened.items():
        if media.get("video"):
            lines.append(_clip_budget(name, media["video"]))
        elif media.get("image"):
            lines.append(_picture_budget(name, media["image"]))
        else:
            lines.append(f"  {name}: {{}} # none of its media could be opened; these are the defaults")
    return lines if len(lines) > 1 else ["# no media in the first rows: the default budgets stand"]


def _picture_budget(name: str, pictures: Sequence[OpenedMedia]) -> str:
    pixels = sorted(width * height for width, height in (media.source_size for media in pictures))
    most = min(1_003_520, max(12_544, -(-pixels[-1] // 784) * 784))
    sizes = f"{pixels[0]:,} to {pixels[-1]:,} pixels in the first {len(pictures)} pictures"
    return f"  {name}: {{max_pixels: {most}}} # {sizes}; at most {most // 784} tokens each"


def _clip_budget(name: str, clips: Sequence[OpenedMedia]) -> str:
    seconds = sorted(media.duration_s or 0.0 for media in clips)
    frames = max(4, min(32, 2 * round(seconds[-1])))
    tokens = frames // 2 * (100_352 // 784)
    lengths = f"{seconds[0]:.1f} to {seconds[-1]:.1f} s in the first {len(clips)} clips"
    return f"  {name}: {{max_pixels: 100352, max_frames: {frames}, sample_fps: 2.0}} # {lengths}; {tokens} tokens"


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
        if any(sample.modality == "vla" for sample in samples):
            yield (
                task,
                FILL_IN,
                "answers are actions: action_tokens reads them written in 256 bins, action_distance as numbers",
            )
            continue
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
    if clips and {len(n or ()) for n in numbers} == {2, 4}:
        return FILL_IN, "boxes and times in one task: a column must name each row's task, see `columns` of the card"
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
