"""Questions about figures, written by one model and checked by another: MedVLSynther's generate-and-verify pipeline.

    figure    a JSONL row: images, caption, and perhaps context (text that refers to it) and id
    generator {question, options A to E, answer}, from figure, caption and context
    verifier  rubric items {title, category, weight, score}; the seven ESSENTIALS weigh 5 each, further ones are
              Important (3 or 4) and Optional (1 or 2), Pitfalls cost 1 or 2 where they are found
    score     (sum over the positive of min(max(score, 0), weight) - sum of |pitfalls found|) / sum of their weights,
              cut off at 0 and 1
    kept      all seven essentials are there at full score, and score >= threshold (.95; the source's README has .90)
    letters   of the kept questions are dealt out evenly: the right option changes places with the one at its new letter

44 of 49 is .8980, with a pitfall of -1 .8776: both below .90. Any essential that fails rejects whatever the score is.

Both models are OpenAI-compatible servers, and what they said is remembered in OUT/answers: an interrupted call goes on.
Source: UCSC-VLAA/MedVLSynther@9df6f3b5, read in code; the prompts are ours.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mmrl.data.media_cell import read_media_cell
from mmrl.data.rows import open_rows
from mmrl.data.sample import MediaPart, MediaRef, Message, Sample
from mmrl.errors import DataError, JudgeError, MmrlError
from mmrl.scoring.judge.endpoint import ChatClient, Endpoint
from mmrl.scoring.judge.prompts import Asked, ask_about, question_of

LETTERS = "ABCDE"
TASK = "medical multiple choice"
ESSENTIALS = (
    "Stem Self-contained",
    "Vocabulary Constraint",
    "Diagnosis Leak",
    "Single Correct Option",
    "Option Type Consistency",
    "Clinical Validity",
    "Image–Text Consistency",
)
_ESSENTIAL_WEIGHT = 5.0
_CATEGORIES = ("essential", "important", "optional", "pitfall")
_GENERATE = (
    "You write one hard multiple-choice question that can only be answered by looking at the figure. The caption and"
    " the context tell you what is true; the question and its options must not quote them, nor name the diagnosis or"
    " finding that is asked for. Use words that stand in the caption or are common in medicine. Write five options of"
    " one kind and similar length, of which exactly one is right."
)
_GENERATED = (
    '{"question": "...", "options": {"A": "...", "B": "...", "C": "...", "D": "...", "E": "..."}, "answer": "B"}'
)
_VERIFY = (
    "You check a multiple-choice question about a figure by a rubric of your own. It has these seven essential items,"
    f" each of weight 5, with score 5 if it holds and 0 if not: {'; '.join(ESSENTIALS)}. (Diagnosis Leak holds if"
    " nothing in the question gives its answer away; Vocabulary Constraint if its words stand in the caption or are"
    " common in medicine.) Add two to six important items (weight 3 or 4) and optional ones (weight 1 or 2), scored"
    " from 0 to their weight, and pitfalls (weight -1 or -2), with score 0 where the pitfall is avoided and its weight"
    " where not."
)
_VERIFIED = '[{"title": "Stem Self-contained", "category": "Essential", "weight": 5, "score": 5}, ...]'


@dataclass(frozen=True)
class Figure:
    """What a question is made of. sample: the pictures and what is said about them."""

    key: str
    sample: Sample
    images: tuple[str, ...]
    caption: str
    context: str


@dataclass(frozen=True)
class Written:
    """A question. options: by letter, in order."""

    question: str
    options: Mapping[str, str]
    answer: str

    def moved(self, letter: str) -> Written:
        """With the right option at this letter, which changes places with what stood there."""
        options = dict(self.options)
        options[letter], options[self.answer] = options[self.answer], options[letter]
        return replace(self, options=options, answer=letter)


@dataclass(frozen=True)
class Item:
    """One line of a verifier's rubric."""

    title: str
    category: str
    weight: float
    score: float


@dataclass
class MadeQuestions:
    """What came of it. reasons: why figures have no question."""

    figures: int = 0
    kept: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def rubric_score(items: Sequence[Item]) -> float:
    """Share of the positive weight that is earned, less pitfalls found, between 0 and 1."""
    positive = [item for item in items if item.category != "pitfall"]
    total = sum(item.weight for item in positive)
    earned = sum(min(max(item.score, 0.0), item.weight) for item in positive)
    faults = sum(min(abs(item.score), abs(item.weight)) for item in items if item.category == "pitfall")
    return min(1.0, max(0.0, (earned - faults) / total)) if total else 0.0


def rejection(items: Sequence[Item], *, threshold: float) -> str | None:
    """Why a question is not kept; None where it is."""
    essentials = {_plain(item.title): item for item in items if item.category == "essential"}
    for title in ESSENTIALS:
        item = essentials.get(_plain(title))
        if item is None or item.score < max(item.weight, _ESSENTIAL_WEIGHT):
            return f"essential: {title}" + ("" if item else " (the verifier left it out)")
    return None if rubric_score(items) >= threshold else "score below the threshold"


def balanced(questions: Sequence[Written], *, seed: int) -> list[Written]:
    """The questions with their answers dealt out evenly over the letters that each has, in an order by chance."""
    chance, dealt = random.Random(seed), Counter[str]()
    moved: dict[int, Written] = {}
    for number in chance.sample(range(len(questions)), len(questions)):
        letters = list(questions[number].options)
        fewest = min(dealt[letter] for letter in letters)
        letter = chance.choice([letter for letter in letters if dealt[letter] == fewest])
        dealt[letter] += 1
        moved[number] = questions[number].moved(letter)
    return [moved[number] for number in range(len(questions))]


def make_questions(
    file: Path, out: Path, *, generator: Endpoint, verifier: Endpoint, threshold: float = 0.95, seed: int = 0
) -> MadeQuestions:
    """Write OUT/train.jsonl, rejected.jsonl and card.yaml. DataError for a row that is no figure.

    The endpoints are asked with pictures, and their answers are kept in OUT/answers.
    """
    figures = read_figures(file)
    out.mkdir(parents=True, exist_ok=True)
    store = str(out / "answers")
    with ExitStack() as stack:
        writes, checks = (replace(end, show_media=True, store=store) for end in (generator, verifier))
        generating = stack.enter_context(ChatClient(writes, called="the generator"))
        verifying = stack.enter_context(ChatClient(checks, called="the verifier"))
        generating.check()
        verifying.check()
        written = _ask(generating, [(figure, partial(_generate, figure)) for figure in figures], read_written)
        asked = [(figure, partial(_verify, figure, of)) for figure, of in written if isinstance(of, Written)]
        rubrics = {figure.key: said for figure, said in _ask(verifying, asked, read_rubric)}
    return _write(out, written, rubrics, threshold=threshold, seed=seed)


def read_figures(file: Path) -> list[Figure]:
    """The rows of a file: `images` (or `image`), `caption`, and perhaps `context` and `id`."""
    rows, found = open_rows(file), []
    for number in range(len(rows)):
        row, where = rows.read(number), rows.origin(number)
        texts = {name: row.get(name) or "" for name in ("caption", "context")}
        cell = row.get("images") or row.get("image")
        if not cell or not texts["caption"] or not all(isinstance(text, str) for text in texts.values()):
            raise DataError(f"{where}: a figure has `images` and a `caption`, and perhaps a `context`, which are texts")
        refs = read_media_cell(cell, "image", field="images", root=file.absolute().parent, budget="image")
        key = str(row.get("id", f"{file.stem}:{number + 1}"))
        sample = Sample(key, TASK, "image", (_shown(refs),), media=tuple(refs), origin=where)
        found.append(Figure(key, sample, tuple(str(ref.source) for ref in refs), **texts))
    for key, count in Counter(figure.key for figure in found).items():
        if count > 1:
            raise DataError(f"{file}: {count} figures have the id {key!r}; ids tell them apart")
    return found


def read_written(value: Any) -> Written:
    """A generator's question. JudgeError for another form."""
    try:
        question, options, answer = value["question"], dict(value["options"]), value["answer"]
        letters = tuple(LETTERS[: len(options)])
        texts = [question, *options.values()]
        fits = len(letters) >= 2 and tuple(sorted(options)) == letters and answer in letters
        distinct = len({text.strip().lower() for text in options.values()}) == len(options)
        if not (fits and distinct and all(isinstance(text, str) and text.strip() for text in texts)):
            raise ValueError("letters, options and answer do not fit")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JudgeError(f"the generator's question is not of the form asked for: {error}") from error
    return Written(question.strip(), {letter: options[letter].strip() for letter in letters}, answer)


def read_rubric(value: Any) -> list[Item]:
    """A verifier's rubric. JudgeError for another form."""
    try:
        items = [_item(row) for row in value]
        if not items or any(item.category not in _CATEGORIES for item in items):
            raise ValueError(f"categories are {', '.join(_CATEGORIES)}")
        if any(item.weight <= 0 for item in items if item.category != "pitfall"):
            raise ValueError("a weight is not above 0")
    except (KeyError, TypeError, ValueError) as error:
        raise JudgeError(f"the verifier's rubric is not of the form asked for: {error}") from error
    return items


def _item(row: Any) -> Item:
    return Item(str(row["title"]), str(row["category"]).lower(), float(row["weight"]), float(row["score"]))


def _shown(refs: Sequence[MediaRef]) -> Message:
    return Message("user", tuple(MediaPart(number) for number in range(len(refs))))


def _generate(figure: Figure, endpoint: Endpoint) -> Asked:
    return ask_about(_GENERATE, _material(figure, endpoint), form=_GENERATED)


def _verify(figure: Figure, written: Written, endpoint: Endpoint) -> Asked:
    shown = json.dumps({"question": written.question, "options": written.options, "answer": written.answer})
    return ask_about(_VERIFY, {**_material(figure, endpoint), "question": shown}, form=_VERIFIED)


def _material(figure: Figure, endpoint: Endpoint) -> dict[str, Any]:
    texts = {"caption": figure.caption, "context": figure.context}
    return {"figure": question_of(figure.sample, endpoint), **{name: text for name, text in texts.items() if text}}


def _ask(client: ChatClient, asked: Sequence[tuple[Figure, Any]], read: Any) -> list[tuple[Figure, Any]]:
    """Figures with what a model said of each, or why it said nothing. Some are asked at a time: pictures are large."""
    found: list[tuple[Figure, Any]] = []
    for first in range(0, len(asked), 4 * client.endpoint.concurrency):
        part = asked[first : first + 4 * client.endpoint.concurrency]
        opened = [(figure, _opened(make, client.endpoint)) for figure, make in part]
        questions = {figure.key: item for figure, item in opened if isinstance(item, Asked)}
        by_question = {item.question: item for item in questions.values()}
        replies = client.ask(
            [item.question for item in questions.values()],
            lambda question, answer, known=by_question: read(known[question].verdict(answer)),
        )
        said = dict(zip(questions, replies, strict=True))
        found += [(figure, said.get(figure.key, item)) for figure, item in opened]
    return found


def _opened(make: Any, endpoint: Endpoint) -> Asked | MmrlError:
    try:
        return make(endpoint)
    except MmrlError as error:  # a picture that cannot be opened is that figure's own problem
        return error


def _write(
    out: Path, written: Sequence[tuple[Figure, Any]], rubrics: Mapping[str, Any], *, threshold: float, seed: int
) -> MadeQuestions:
    made, kept, rejected = MadeQuestions(figures=len(written)), [], []
    for figure, question in written:
        items = rubrics.get(figure.key)
        if not isinstance(question, Written):
            reason, detail = "no question", {"error": str(question)}
        elif not isinstance(items, list):
            reason, detail = "no rubric", {"error": str(items)}
        else:
            reason, detail = rejection(items, threshold=threshold), _facts(question, items)
        if reason is None:
            kept.append((figure, question, items))
        else:
            made.reasons[reason] += 1
            rejected.append({"id": figure.key, "reason": reason, **detail})
    moved = balanced([question for _, question, _ in kept], seed=seed)
    rows = [_row(figure, question, items) for (figure, _, items), question in zip(kept, moved, strict=True)]
    made.kept = len(rows)
    for name, lines in (("train.jsonl", rows), ("rejected.jsonl", rejected)):
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (out / name).write_text(text, encoding="utf-8")
    columns = "{prompt: problem, answer: answer, images: images, task: task, id: id}"
    (out / "card.yaml").write_text(f"# Rows of `mmrl make-questions`.\ncolumns:\n  {columns}\n", encoding="utf-8")
    return made


def _row(figure: Figure, written: Written, items: Sequence[Item]) -> dict[str, Any]:
    lines = "\n".join(f"{letter}. {text}" for letter, text in written.options.items())
    return {
        "id": figure.key,
        "problem": "<image>" * len(figure.images) + f"{written.question}\n{lines}",
        "answer": written.answer,
        "options": list(written.options.values()),
        "images": list(figure.images),
        "task": TASK,
        "verifier_score": round(rubric_score(items), 4),
    }


def _facts(written: Written, items: Sequence[Item]) -> dict[str, Any]:
    rubric = [{"title": i.title, "category": i.category, "weight": i.weight, "score": i.score} for i in items]
    said = {"question": written.question, "options": dict(written.options), "answer": written.answer}
    return {**said, "score": round(rubric_score(items), 4), "rubric": rubric}


def _plain(title: str) -> str:
    """A title without what models write differently: case, and kinds of dashes."""
    return "".join(character for character in title.lower() if character.isalnum())
