"""Completions that a reward must survive: random, malformed, truncated, very deep and very long. Pure and seeded.

Each kind is a function from a text (a completion or an answer of a golden case) and a random generator to a completion.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence

MEGABYTE = 2**20

_TAGS = (
    *("<think>", "</think>", "<answer>", "</answer>", "\\boxed{", "}", "```json", "```", "</", "<"),
    *("<|box_start|>", "<|box_end|>", "<point>", "</box>", "<tool_call>", "</tool_call>", '{"bbox_2d": [', "]}"),
    *("<table><tr><td>", "</td></tr></table>", "<svg", "/>", "\\begin{document}", "\\end{", "---\n", "click(", ")"),
)
_NUMBERS = (
    *("NaN", "nan", "-nan", "inf", "-inf", "Infinity", "-Infinity", "1e999", "-1e999", "1e308", "1e-400", "1e5000000"),
    *("9" * 5000, "0." + "3" * 5000, "-0", "007", "0x1F", "1_000", "1.2.3", "--5", "+-3", "1,2,3", "1/0", "5%", "3."),
    *("..5", "1e", "10^{10^{10}}", "9**9**9**9", "9!!!!", "\uff11\uff12", "\u0663", "\u00bd", "\u00b2", "\u221e", "-"),
)
_UNITS = (
    *("a", "A ", "(A", "A) ", "(", "[", "{", "<", "\\", "$", " ", "\n", "\t", "-", "|", "&", "#", "*", "`", "'", '"'),
    *("1", "1,", "1 ", "0.", "1:", "0:10 - ", "[1,", '{"a":', "not ", "is ", "the answer is ", "A or ", "-> ", "x^"),
    *("<answer>", "</answer>", "<think>", "</think>", "\\boxed{", "\\frac{", "\\sqrt{", "\\left(", "1+", "sin "),
    *(
        "<table>",
        "<tr><td>",
        "<td>",
        "| a ",
        "<svg>",
        "<g>",
        "\\begin{a}",
        "$$",
        "![",
        "](",
        "&lt;",
        "\u0301",
        "\u200b",
    ),
)
_WRAPS = ("@", "@", "@", "<answer>@</answer>", "\\boxed{@}", "<think>@</think>@", "```json\n@\n```")
_CONTROLS = "\x00\x01\x07\x08\x0b\x0c\r\x1b\x7f\x85\u2028\u2029\u200e\u202e\ufeff\ufffd\ufffe"
_UNUSUAL = "\u0130\u017f\ufb01\u00df\u1e9e\u0301\u200d\u2212\u2044\uff0c\u3000\u4e2d\u05d0\u0e01\U0001f600\U00010ffff"


def fuzz_text(texts: Sequence[str], rng: random.Random, *, kind: str) -> str:
    """One completion of a kind of `KINDS`, made from one of the texts; half of them wrapped so that they are parsed."""
    made = KINDS[kind](rng.choice(texts), rng)
    return rng.choice(_WRAPS).replace("@", made)


def _random(text: str, rng: random.Random) -> str:
    return "".join(chr(rng.randint(32, 126)) for _ in range(rng.randint(0, 300)))


def _mutated(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 6)):
        start, end = sorted(rng.randint(0, len(text)) for _ in range(2))
        inserted = rng.choice(("", text[start:end] * 2, rng.choice(_TAGS), rng.choice(_NUMBERS), rng.choice(_UNITS)))
        text = text[:start] + inserted + text[end:]
    return text[:MEGABYTE]


def _truncated(text: str, rng: random.Random) -> str:
    whole = f"<think>{text}</think> <answer>\\boxed{{{text}}}</answer>"
    return whole[: rng.randint(0, len(whole))]


def _tags(text: str, rng: random.Random) -> str:
    return "".join(rng.choice((text, rng.choice(_TAGS), rng.choice(_TAGS))) for _ in range(rng.randint(2, 40)))


def _numbers(text: str, rng: random.Random) -> str:
    if rng.random() < 0.5:
        return re.sub(r"\d+(?:\.\d+)?", lambda _: rng.choice(_NUMBERS), text)
    return rng.choice((" ", ", ", "; ", " to ")).join(rng.choice(_NUMBERS) for _ in range(rng.randint(1, 5)))


def _characters(text: str, rng: random.Random) -> str:
    strange = rng.choice((_CONTROLS, _UNUSUAL))
    return "".join(c + rng.choice(strange) * rng.choice((0, 0, 1, 3)) for c in text[:2000])


def _bomb(text: str, rng: random.Random) -> str:
    return _repeated(text, rng, length=20_000)


def _nested(text: str, rng: random.Random) -> str:
    depth = rng.choice((10, 500, 20_000))
    opened, closed = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"box":', "}]"), ("(", ")"), ("<b>", "</b>")))
    return opened * depth + rng.choice((text, "1", "[1, 2, 3, 4]", "")) + closed * rng.choice((depth, depth - 1, 0))


def _many(text: str, rng: random.Random) -> str:
    boxes = [[rng.randint(0, 1000) for _ in range(rng.choice((2, 4, 4, 4)))] for _ in range(rng.choice((20, 3000)))]
    key = rng.choice(("bbox_2d", "point_2d", "time", "box"))
    as_json = rng.random() < 0.5
    return json.dumps([{key: box, "label": text[:20]} for box in boxes]) if as_json else " ".join(map(str, boxes))


def _huge(text: str, rng: random.Random) -> str:
    shape = rng.randrange(3)
    if shape == 0:
        return _repeated(text, rng, length=MEGABYTE + 1)
    if shape == 1:
        unit = (text or "?") + rng.choice(("", " ", "\n", ", "))
        return unit * (MEGABYTE // len(unit) + 1)
    return "".join(rng.choices("abcdef ABCDEF 0123456789 .,;:()[]{}<>/\\$\n", k=MEGABYTE)) + text


def _repeated(text: str, rng: random.Random, *, length: int) -> str:
    unit = rng.choice(_UNITS)
    run = unit * (length // len(unit) + 1)
    return rng.choice((run, text + run, run + text, run + rng.choice("!x)]}>"), text + run + text))


KINDS: dict[str, Callable[[str, random.Random], str]] = {
    "random": _random,
    "mutated": _mutated,
    "truncated": _truncated,
    "tags": _tags,
    "numbers": _numbers,
    "characters": _characters,
    "bomb": _bomb,
    "nested": _nested,
    "many": _many,
    "huge": _huge,
}
