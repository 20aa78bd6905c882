"""From a completion to a prediction: the answer's text; from that a letter, number, box, point or span. Pure.

Only the completion is read, never the prompt. Every parser returns None for what it cannot read without guessing:
two candidates, a letter that is an article, numbers scattered through prose. A None scores 0; it is never repaired.

>>> extract_prediction("<think>B? no.</think> <answer>The answer is (C).</answer>")
'The answer is (C).'
>>> parse_choice("The answer is (C)."), parse_choice("A or B"), parse_values("[10, 20, 30, 40]", count=4)
('C', None, (10.0, 20.0, 30.0, 40.0))
"""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from mmrl.data.sample import GeometryKind
from mmrl.scoring.reading import reports_answer, reports_value

AnswerFormat = Literal["auto", "tag", "boxed", "plain"]
FormatStyle = Literal["think_answer", "think_answer_glue", "think_boxed", "answer", "boxed"]

_UNSIGNED = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_BRACE = re.compile(r"\\boxed\{|\\.|[{}]", re.DOTALL)  # an escaped brace is text
_NUMBER = rf"[+-]?{_UNSIGNED}"


# --- where the answer stands -------------------------------------------------------------------------------------


@reports_answer
def extract_prediction(completion: str, *, answer: AnswerFormat = "auto") -> str | None:
    r"""The text of the final answer, stripped; None where the asked form is missing, unfinished or empty.

    Everything up to the last `</think>` is dropped first; a thought that never ends has no answer after it.
    tag: the last `<answer>...</answer>`, over any number of lines. boxed: the last `\boxed{...}`, braces balanced.
    plain: all that is left. auto: the tag if there is one (the box inside it, if any), else the box, else plain.
    """
    if answer not in get_args(AnswerFormat):
        raise ValueError(f"answer format {answer!r} is none of {', '.join(get_args(AnswerFormat))}")
    text = _after_thought(completion)
    if text is None:
        return None
    if answer in ("tag", "auto"):
        tagged = last_tag(text, "answer")
        if answer == "tag":
            return tagged or None
        if tagged is None and "<answer>" in text:
            return None
        text = text if tagged is None else tagged
    boxes = [] if answer == "plain" else boxed_contents(text)
    if answer == "boxed" and not boxes:
        return None
    return (boxes[-1] if boxes else text).strip() or None


def _after_thought(completion: str) -> str | None:
    rest = completion.rpartition("</think>")[2]
    return None if "<think>" in rest else rest


def last_tag(text: str, tag: str) -> str | None:
    """The stripped content of the last closed `<tag>..</tag>`; None where there is none.

    >>> last_tag("<answer>A</answer> or <answer> B </answer>", "answer")
    'B'
    """
    before, closed, _ = text.rpartition(f"</{tag}>")
    _, opened, content = before.rpartition(f"<{tag}>")
    return content.strip() if closed and opened else None


def boxed_contents(text: str) -> list[str]:
    r"""The contents of every closed `\boxed{...}`, in order; a box inside a box belongs to the outer one.

    >>> boxed_contents(r"\boxed{\frac{1}{2}} and \boxed{3}")
    ['\\frac{1}{2}', '3']
    """
    opened: list[int | None] = []
    closed: list[tuple[int, int]] = []
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            opened.append(None)
        elif match[0] == r"\boxed{":
            opened.append(match.end())
        elif match[0] == "}" and opened and (start := opened.pop()) is not None:
            closed.append((start, match.start()))
    outer: list[tuple[int, int]] = []
    for start, end in sorted(closed):
        if not outer or start > outer[-1][1]:
            outer.append((start, end))
    return [text[start:end] for start, end in outer]


def has_format(completion: str, *, style: FormatStyle = "think_answer", prefilled_think: bool = False) -> bool:
    r"""Whether the whole completion has the asked form, each part exactly once and not empty.

    think_answer: `<think>..</think> <answer>..</answer>`. think_answer_glue: and `<glue>..</glue>`. answer: the answer
    pair alone. think_boxed: the thought, then text with one `\boxed{}`. boxed: text with one `\boxed{}`. All may
    span lines.
    prefilled_think: the prompt ends with `<think>`, so the completion starts inside the thought.
    """
    if style not in get_args(FormatStyle):
        raise ValueError(f"format style {style!r} is none of {', '.join(get_args(FormatStyle))}")
    *tags, last = style.split("_")
    rest: str | None = "<think>" + completion if prefilled_think else completion
    for tag in tags if last == "boxed" else (*tags, last):
        rest = None if rest is None else _strip_pair(rest, tag)
    if rest is None or last != "boxed":
        return rest == ""
    boxes = boxed_contents(rest)
    return _no_tags(rest) and rest.count(r"\boxed{") == len(boxes) == 1 and bool(boxes[0].strip())


def is_tagged(completion: str) -> bool:
    """The R1 family's own looser form: a thought and an answer with nothing around them; any text inside, tags too.

    >>> is_tagged("<think></think><answer>A</answer><answer>B</answer>"), is_tagged("<answer>A</answer>")
    (True, False)
    """
    if not (completion.startswith("<think>") and completion.endswith("</answer>")):
        return False
    # The R1 family's one expression over all tries every end for every beginning: minutes for a long completion.
    return re.search(r"</think>\s*<answer>", completion[len("<think>") : -len("</answer>")]) is not None


def _strip_pair(text: str, tag: str) -> str | None:
    """What follows the leading pair of tags; None unless the pair leads, is not empty and is the only one."""
    match = re.fullmatch(rf"\s*<{tag}>(.*?)</{tag}>(.*)", text, re.DOTALL)
    if match is None or not match[1].strip() or not _no_tags(match[1]) or re.search(rf"</?{tag}>", match[2]):
        return None
    return match[2].strip()


def _no_tags(text: str) -> bool:
    return re.search(r"</?(?:think|answer)>", text) is None


# --- choice letters ----------------------------------------------------------------------------------------------

_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_WHOLE = re.compile(r"(?:option\s+)?[(\[{]?(\w{1,9})[)\]}]?[.:,]?", re.IGNORECASE)
_MARKED = r"(?:[(\[](?P<inside>[A-Za-z])[)\]]|(?P<marked>[A-Za-z])[).:](?!\w)|(?P<bare>[A-Za-z])(?![\w'\\]))"
_ANNOUNCED = re.compile(
    rf"\b(?:answer(?:\s+is)?|(?:option|choice)\s+is)\s*[:=]?\s*(?:(?:option|choice)\s+)?{_MARKED}", re.IGNORECASE
)
_CONFIRMED = re.compile(r"(?<!\S)\(?(?P<bare>[A-Z])\)?\s+is\s+(?:the\s+)?(?:correct|right|best|answer)\b")
_LEADING = re.compile(r"([A-Z])[).:]\s")
_BRACKETED = re.compile(r"[(\[]([A-Z])[)\]]")
_ENUMERATED = re.compile(r"(?<!\S)([A-Z])[).:]\s+\S")
_ALTERNATIVE = re.compile(r"[)\].:]?\s*(?:,|/|&|\bor\b|\band\b)\s*[(\[]?[A-Z](?!\w)")
_ARTICLE_GOES_ON = re.compile(r"\s+(?!because|since|as|for|due|and|or)[a-z]")
_CLAUSE = 200  # characters before a letter in which a negation of it is looked for
_NEGATED = re.compile(r"\bnot\b|n't\b|\bneither\b|\bnor\b", re.IGNORECASE)


@reports_value
def parse_choice(
    text: str, *, letters: Sequence[str] = string.ascii_uppercase, options: Sequence[str] = ()
) -> str | None:
    r"""The one of `letters` that the text chooses, upper case; None when it chooses none or several.

    In this order: the text is a letter (`B`, `(b)`, `**B**`, `B.`); the last announcement (`the answer is (B).`,
    `B is correct`); a leading `B. some text`; one bracketed letter; the text of one of `options` (options[i] is
    letters[i]). A label of several characters (`AB`, `12`) counts where it is the whole text.

    >>> [parse_choice(t) for t in ("Based on", "A or B or C", r"\Delta E", "It is not A", "The answer is a red car")]
    [None, None, None, None, None]
    """
    clean = re.sub(r"[*_`$\"]", "", _LATEX_TEXT.sub(r"\1", text)).strip()
    whole, labels = _WHOLE.fullmatch(clean), tuple(letters)
    if whole and whole[1].upper() in labels:
        return whole[1].upper()
    letter = _announced_letter(clean) or _listed_letter(clean)
    if letter is None and options:
        letter = _option_letter(clean, labels, options)
    return letter if letter in labels else None


def _announced_letter(text: str) -> str | None:
    found = [m for pattern in (_ANNOUNCED, _CONFIRMED) for m in pattern.finditer(text) if not _is_article(m)]
    if not found:
        return None
    last = max(found, key=lambda m: m.start())
    if _ALTERNATIVE.match(text, last.end()) or _negated_before(text, last.start()):
        return None
    return next(letter.upper() for letter in last.groupdict().values() if letter)


def _is_article(match: re.Match[str]) -> bool:
    """Whether the letter is the word `a`: small and unmarked, or a capital that begins a phrase (`A red car`)."""
    bare = match["bare"]
    if bare is None or match.re is _CONFIRMED:
        return False
    return bare.islower() or (bare == "A" and _ARTICLE_GOES_ON.match(match.string, match.end()) is not None)


def _listed_letter(text: str) -> str | None:
    leading = _LEADING.match(text)
    bracketed = [m for m in _BRACKETED.finditer(text) if not _negated_before(text, m.start())]
    named = {m[1] for m in bracketed} | {m[1] for m in _ENUMERATED.finditer(text)}
    if leading is not None:
        alone = named <= {leading[1]} and not _ALTERNATIVE.match(text, leading.end(1))
        return leading[1] if alone else None
    return bracketed[0][1] if bracketed and len(named) == 1 else None


def _negated_before(text: str, start: int) -> bool:
    clause = re.split(r"[.!?;,\n]", text[max(0, start - _CLAUSE) : start])[-1]
    return _NEGATED.search(clause) is not None


def _option_letter(text: str, labels: Sequence[str], options: Sequence[str]) -> str | None:
    wanted = _plain_words(text)
    hits = [label for label, option in zip(labels, options, strict=False) if _plain_words(option) == wanted]
    return hits[0] if len(hits) == 1 else None


def _plain_words(text: str) -> str:
    return " ".join(text.casefold().strip(" .").split())


# --- numbers -----------------------------------------------------------------------------------------------------

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_WRITTEN_NUMBER = re.compile(
    rf"(?<![\w.])[-+]?\s?\$?\s?(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?!\d)|{_UNSIGNED})\s?(?:\\?%)?"
)
# What makes the number before it a piece of something else: `5..6`, `5.6.7`, `1e`, `1e5.5`, `1_000`, `0x10`.
_GOES_ON = re.compile(r"\.+\d|_\w|[xX]\d|[eE][+-]?+(?![A-Za-z])")
_SIGN_BEFORE = re.compile(r"[-+]\s?\$?\s?$")


@reports_value
def parse_number(text: str, *, percent: Literal["fraction", "ignore"] = "fraction") -> float | None:
    """The only number in the text; None when there is none or more than one.

    Thousands commas, a currency sign before and a unit after are accepted, and number words up to twelve where they
    are the whole text. What is no number as written (`5..6`, `1e`, `--5`) is not cut down to one. percent: `5%` is 0.05
    (fraction) or 5 (ignore).

    >>> parse_number("$1,200"), parse_number("3 chairs"), parse_number("5%"), parse_number("2 + 3 = 5")
    (1200.0, 3.0, 0.05, None)
    """
    clean = text.replace("\u2212", "-").replace("\\$", "$").strip()
    word = clean.strip(" .").casefold()
    if word in _WORDS:
        return float(_WORDS.index(word))
    found = list(_WRITTEN_NUMBER.finditer(clean))
    if len(found) != 1 or not _is_whole(found[0]):
        return None
    value = float(re.sub(r"[\s$,%\\]", "", found[0][0]))
    if not math.isfinite(value):
        return None
    return value / 100 if "%" in found[0][0] and percent == "fraction" else value


def _is_whole(number: re.Match[str]) -> bool:
    """Whether the number neither goes on after the match nor has a second sign before it."""
    before, after = number.string[: number.start()], number.start() + len(number[0].rstrip())
    signed_twice = number[0][0] in "+-" and _SIGN_BEFORE.search(before[-3:]) is not None
    return not signed_twice and _GOES_ON.match(number.string, after) is None


@reports_value
def parse_integers(text: str) -> tuple[int, ...] | None:
    """A bare list of integers: `3,1,2`, `3 1 2`, `[3, 1, 2]`; None if anything else stands beside it.

    >>> parse_integers("[3, 1, 2]"), parse_integers("first 3, then 1")
    ((3, 1, 2), None)
    """
    values = _bare_numbers(text)
    if not values or any(v != int(v) for v in values):
        return None
    return tuple(int(v) for v in values)


# --- boxes, points, spans ----------------------------------------------------------------------------------------

_FENCE = re.compile(r"^```(?:json)?\s*(.*?)\s*```$", re.DOTALL)
_SPECIAL = re.compile(r"<\|(?:object_ref|box|point)_(?:start|end)\|>|</?(?:box|point|t)>")
_GEOMETRY_KEYS = ("bbox_2d", "bbox", "box", "boxes", "point_2d", "point", "points", "coordinate", "time", "span")
_SEPARATOR = r"[\s,;]+"
_PAIR = rf"\(\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\)"
_CORNERS = re.compile(rf"{_PAIR}(?:\s*,\s*{_PAIR})+")


@reports_value
def parse_values(text: str, *, count: int) -> tuple[float, ...] | None:
    """The one box (count 4) or point (count 2) in the text, as numbers; None where there is none or more than one.

    JSON (a list, or an object under bbox_2d, bbox, box, boxes, point_2d, point, ..., alone or in a list of one), a
    bare list (`3 1 6 5`, `(3, 1), (6, 5)`), or prose with exactly one bracketed list of that many numbers; without one,
    with exactly one pair of corners, `the dog(3, 1),(6, 5)`.

    >>> parse_values('[{"bbox_2d": [3, 1, 6, 5], "label": "dog"}]', count=4)
    (3.0, 1.0, 6.0, 5.0)
    >>> parse_values("The dog is at [3, 1, 6, 5].", count=4), parse_values("3 dogs, 1 cat, 6 cows, 5 hens", count=4)
    ((3.0, 1.0, 6.0, 5.0), None)
    """
    found, value = parse_json(text)
    if found:
        return values_of(value, count=count)
    clean = _unwrapped(text)
    values = _bare_numbers(clean) or _bracketed(clean, count)
    return values if values is not None and len(values) == count else None


def _unwrapped(text: str) -> str:
    clean = _SPECIAL.sub(" ", text).replace("\u2212", "-").strip()
    fenced = _FENCE.match(clean)
    return fenced[1] if fenced else clean


def parse_json(text: str) -> tuple[bool, Any]:
    """Whether the text, out of its fence and special tokens, is JSON, and its value; every number a float.

    >>> parse_json('```json\\n{"boxes": [1, 2]}\\n```'), parse_json("[1, 2")
    ((True, {'boxes': [1.0, 2.0]}), (False, None))
    """
    try:
        return True, json.loads(_unwrapped(text), parse_int=float)
    except (ValueError, RecursionError):
        return False, None


def values_of(value: Any, *, count: int) -> tuple[float, ...] | None:
    """The one box (count 4) or point (count 2) that a JSON value is: a list, a pair of corners, or under its key."""
    while isinstance(value, dict) or (isinstance(value, list | tuple) and len(value) == 1):
        inner = [value[key] for key in _GEOMETRY_KEYS if key in value] if isinstance(value, dict) else value
        if len(inner) != 1:
            return None
        value = inner[0]
    if not isinstance(value, list | tuple):
        return None
    if len(value) == 2 and count == 4 and all(isinstance(v, list | tuple) and len(v) == 2 for v in value):
        value = [*value[0], *value[1]]
    numbers = [float(v) for v in value if isinstance(v, int | float) and not isinstance(v, bool)]
    return tuple(numbers) if len(numbers) == len(value) == count and all(map(math.isfinite, numbers)) else None


def _bare_numbers(text: str) -> tuple[float, ...] | None:
    """The numbers of a text that holds nothing but numbers, separators and brackets."""
    if re.sub(_NUMBER, "", text).strip(" \t\n,;()[]{}."):
        return None
    tokens = [t for t in re.split(r"[\s,;()\[\]{}]+", text.strip().removesuffix(".")) if t]
    if not tokens or not all(re.fullmatch(_NUMBER, t) for t in tokens):
        return None
    values = tuple(float(t) for t in tokens)
    return values if all(map(math.isfinite, values)) else None


def _bracketed(text: str, count: int) -> tuple[float, ...] | None:
    inner = _SEPARATOR.join([_NUMBER] * count)
    found = {_bare_numbers(m[0]) for m in re.finditer(rf"[\[(]\s*{inner}\s*[\])]", text)}
    if not found and count == 4:
        found = {_bare_numbers(m[0]) for m in _CORNERS.finditer(text) if m[0].count("(") == 2}
    return found.pop() if len(found) == 1 else None


def parse_geometry(text: str, *, kind: GeometryKind) -> tuple[float, ...] | None:
    """A box by `parse_values`, a point by `parse_values`, a time by `parse_span`."""
    return parse_span(text) if kind == "time" else parse_values(text, count=4 if kind == "box" else 2)


_UNIT = r"\s*(?:s|secs?|seconds?)\b"
_CLOCK = r"(?:\d+:)?\d{1,2}:\d{2}(?:\.\d+)?"
_MOMENT = rf"(?:{_CLOCK}|\d+(?:\.\d+)?|\.\d+)"
_RANGE = re.compile(
    rf"(?:from\s+)?({_MOMENT})(?:{_UNIT})?\s*(?:to|and|-|\u2013|\u2014|~|,)\s*({_MOMENT})(?:{_UNIT})?\.?", re.I
)
_RANGE_INSIDE = re.compile(
    rf"(?<![\w.:])({_MOMENT})(?:{_UNIT})?\s*(?:to\b|until\b|-|\u2013|\u2014|~)\s*({_MOMENT})(?![\w:]|\.\d)(?:{_UNIT})?"
    rf"|\bbetween\s+({_MOMENT})(?:{_UNIT})?\s+and\s+({_MOMENT})(?![\w:]|\.\d)",
    re.I,
)
_TIMED = re.compile(rf"(?<![\w.:])(?:{_CLOCK}|(?:\d+(?:\.\d+)?)(?={_UNIT}))", re.I)


@reports_value
def parse_span(text: str) -> tuple[float, float] | None:
    """The one span (start, end) in the text, in the numbers' own unit; None where there is none or more than one.

    JSON and bare lists as in `parse_values`; `12.5 to 17.8`, `12.5s - 17.8s`, `0:10 - 0:20` (clock times become
    seconds); prose with exactly two moments that carry a unit. A reversed span is returned as written.

    >>> parse_span("It starts at 24.3s and ends at 30.4s."), parse_span("8 to 12, and again 10 to 20 seconds")
    ((24.3, 30.4), None)
    """
    values = parse_values(text, count=2)
    if values is None:
        clean = _unwrapped(text)
        match = _RANGE.fullmatch(clean)
        moments = list(match.groups()) if match else list(_timed(clean))
        values = tuple(_seconds(m) for m in moments) if len(moments) == 2 else None
    return (values[0], values[1]) if values is not None else None


def ranges_in(text: str) -> tuple[tuple[float, float], ...]:
    """Every range that stands in sentences, in their order: `8 to 12`, `0:10 - 0:20`, `between 3s and 5s`.

    >>> ranges_in("From 8 to 12, and again between 0:10 and 0:20.")
    ((8.0, 12.0), (10.0, 20.0))
    """
    found = ([moment for moment in match.groups() if moment] for match in _RANGE_INSIDE.finditer(text))
    return tuple((_seconds(start), _seconds(end)) for start, end in found)


def _timed(text: str) -> Iterator[str]:
    plain = len(re.findall(rf"(?<![\w.:]){_MOMENT}", text))
    moments = [m[0] for m in _TIMED.finditer(text)]
    # A number without a unit beside them ("the 2 dogs") could be a moment too, so nothing is certain.
    return iter(moments if len(moments) == plain else ())


def _seconds(moment: str) -> float:
    total = 0.0
    for field in moment.split(":"):
        total = total * 60 + float(field)
    return total
