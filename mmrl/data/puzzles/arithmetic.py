"""Puzzles of numbers: reaching a target, continuing a sequence, letters for digits, dates."""

from __future__ import annotations

import datetime
import itertools
import random
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from mmrl.data.puzzles.puzzle import LogicPuzzle, Made, entry, integers, read_items, read_pairs, texts

_DEEPEST = 20  # brackets inside brackets of an expression


@dataclass(frozen=True)
class Target(LogicPuzzle):
    """Reach a target with + - * / from given numbers, each used once (the game of 24, Countdown with all numbers)."""

    KIND: ClassVar[str] = "target"
    numbers: tuple[int, ...]
    target: int

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        count, highest = (3, 3, 4, 4, 5)[level - 1], (6, 13, 9, 13, 20)[level - 1]
        while True:
            numbers = [rng.randint(1, highest) for _ in range(count)]
            target = 24 if count == 4 else rng.randint(10, 60)
            solution = solve_target(numbers, target)
            if solution is not None:
                break
        question = (
            f"Use the numbers {', '.join(map(str, numbers))}, each exactly once, with +, -, *, / and parentheses "
            f"to get {target}. Answer with the expression alone."
        )
        return Made(question, {"numbers": numbers, "target": target}, solution)

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        numbers = integers(spec.get("numbers"), "'numbers'")
        if not numbers or min(numbers) < 0:
            raise ValueError("'numbers' is empty or has a negative number")
        return cls(numbers, entry(spec, "target", int))

    def is_solved_by(self, text: str) -> bool:
        left, _, right = text.replace("×", "*").replace("·", "*").replace("÷", "/").partition("=")
        if right.strip() not in ("", str(self.target)):
            return False
        found = evaluate(left)
        return found is not None and found[0] == self.target and Counter(found[1]) == Counter(self.numbers)


def solve_target(numbers: Sequence[int], target: int) -> str | None:
    """An expression of all numbers that equals the target; None where there is none."""

    def search(pool: list[tuple[Fraction, str]]) -> str | None:
        if len(pool) == 1:
            return pool[0][1] if pool[0][0] == target else None
        for i, j in itertools.permutations(range(len(pool)), 2):
            rest = [pool[k] for k in range(len(pool)) if k not in (i, j)]
            for joined in _joined(pool[i], pool[j], ordered=i < j):
                if (found := search([*rest, joined])) is not None:
                    return found
        return None

    found = search([(Fraction(n), str(n)) for n in numbers])
    return found[1:-1] if found is not None and found.startswith("(") else found


def _joined(a: tuple[Fraction, str], b: tuple[Fraction, str], *, ordered: bool) -> list[tuple[Fraction, str]]:
    """The results of a with b; of + and * only one order."""
    made = [(a[0] - b[0], f"({a[1]} - {b[1]})")]
    if b[0]:
        made.append((a[0] / b[0], f"({a[1]} / {b[1]})"))
    if ordered:
        made += [(a[0] + b[0], f"({a[1]} + {b[1]})"), (a[0] * b[0], f"({a[1]} * {b[1]})")]
    return made


def evaluate(text: str) -> tuple[Fraction, list[int]] | None:
    """The exact value of an expression of whole numbers with + - * / ( ), and its numbers; None for anything else.

    A grammar of its own: no text of a model reaches `eval`. At most 200 tokens, brackets 20 deep.

    >>> evaluate("(1 + 3) * 8 / 3"), evaluate("8 / (3 - 3)"), evaluate("2 ** 3")
    ((Fraction(32, 3), [1, 3, 8, 3]), None, None)
    """
    tokens = re.findall(r"\d+|\S", text)
    if len(tokens) > 200 or any(not re.fullmatch(r"[0-9]{1,6}|[-+*/()]", t) for t in tokens):
        return None
    numbers = [int(t) for t in tokens if t.isdecimal()]
    try:
        value, rest = _sum(tokens, 0, depth=0)
    except (ValueError, ZeroDivisionError):
        return None
    return (value, numbers) if rest == len(tokens) else None


def _sum(tokens: Sequence[str], at: int, *, depth: int) -> tuple[Fraction, int]:
    value, at = _product(tokens, at, depth=depth)
    while at < len(tokens) and tokens[at] in "+-":
        term, after = _product(tokens, at + 1, depth=depth)
        value, at = (value + term if tokens[at] == "+" else value - term), after
    return value, at


def _product(tokens: Sequence[str], at: int, *, depth: int) -> tuple[Fraction, int]:
    value, at = _factor(tokens, at, depth=depth)
    while at < len(tokens) and tokens[at] in "*/":
        factor, after = _factor(tokens, at + 1, depth=depth)
        value, at = (value * factor if tokens[at] == "*" else value / factor), after
    return value, at


def _factor(tokens: Sequence[str], at: int, *, depth: int) -> tuple[Fraction, int]:
    if at >= len(tokens) or depth > _DEEPEST:
        raise ValueError("an operand is missing, or brackets are too deep")
    if tokens[at].isdecimal():
        return Fraction(int(tokens[at])), at + 1
    if tokens[at] != "(":
        raise ValueError(f"{tokens[at]!r} is no operand")
    value, at = _sum(tokens, at + 1, depth=depth + 1)
    if at >= len(tokens) or tokens[at] != ")":
        raise ValueError("a bracket is not closed")
    return value, at + 1


@dataclass(frozen=True)
class NumberSequence(LogicPuzzle):
    """Continue a sequence by its rule: x_n = a x_(n-1) + b x_(n-2) + c + d n, from one or two first terms.

    The rule stands in the spec and is what is checked: finitely many terms continue in any way.
    """

    KIND: ClassVar[str] = "sequence"
    first: tuple[int, ...]
    rule: tuple[int, int, int, int]
    shown: int
    asked: int

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        rules = (
            (1, 0, rng.choice([n for n in range(-9, 13) if n]), 0),
            (rng.randint(2, 4), 0, 0, 0),
            (1, 0, rng.randint(-5, 5), rng.randint(1, 4)),
            (rng.randint(2, 3), 0, rng.choice((-3, -2, -1, 1, 2, 3)), 0),
            (1, rng.randint(1, 2), rng.randint(-2, 2), 0),
        )
        rule = rules[rng.randrange(min(level, len(rules)))]
        first = [rng.randint(1, 12) for _ in range(2 if rule[1] else 1)]
        spec = {"first": first, "rule": list(rule), "shown": 6, "asked": (1, 1, 2, 2, 3)[level - 1]}
        puzzle = cls.read(spec)
        terms = puzzle.terms()
        question = (
            f"A sequence begins {', '.join(map(str, terms[: puzzle.shown]))}. "
            "Each term follows by one simple rule from its place and the one or two terms before it. "
            f"Give the next {'term' if puzzle.asked == 1 else f'{puzzle.asked} terms, separated by commas'}."
        )
        return Made(question, spec, ", ".join(map(str, terms[puzzle.shown :])))

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        first, rule = integers(spec.get("first"), "'first'"), integers(spec.get("rule"), "'rule'")
        shown, asked = entry(spec, "shown", int), entry(spec, "asked", int)
        if len(rule) != 4 or len(first) != (2 if rule[1] else 1):
            raise ValueError("'rule' is four numbers, 'first' one, or two where the rule has a second term")
        if not (len(first) < shown <= 30 and 1 <= asked <= 10) or max(map(abs, (*first, *rule))) > 1000:
            raise ValueError("'shown' is at most 30, 'asked' 1 to 10, numbers at most 1000")
        return cls(first, (rule[0], rule[1], rule[2], rule[3]), shown, asked)

    def terms(self) -> list[int]:
        """The terms shown and asked for; the first has place 1."""
        a, b, c, d = self.rule
        terms = list(self.first)
        while len(terms) < self.shown + self.asked:
            terms.append(a * terms[-1] + (b * terms[-2] if b else 0) + c + d * (len(terms) + 1))
        return terms

    def is_solved_by(self, text: str) -> bool:
        wanted = [str(term) for term in self.terms()[self.shown :]]
        return list(read_items(text.replace("\u2212", "-")) or ()) == wanted


@dataclass(frozen=True)
class Cryptarithm(LogicPuzzle):
    """A sum of words in which every letter is a digit (SEND + MORE = MONEY); no number begins with 0."""

    KIND: ClassVar[str] = "cryptarithm"
    addends: tuple[str, ...]
    total: str

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        digits, most = (2, 2, 3, 4, 4)[level - 1], (5, 6, 7, 8, 10)[level - 1]
        while True:
            numbers = [rng.randint(10 ** (digits - 1), 10**digits - 1) for _ in range(2)]
            used = sorted(set("".join(map(str, (*numbers, sum(numbers))))))
            if len(used) <= most:
                break
        letters = dict(zip(used, rng.sample(string.ascii_uppercase, len(used)), strict=True))
        words = ["".join(letters[d] for d in str(n)) for n in (*numbers, sum(numbers))]
        question = (
            f"In the sum {words[0]} + {words[1]} = {words[2]} every letter stands for one digit, different letters for "
            "different digits, and no number begins with 0. Answer with a digit for each letter, as in A=1, B=2."
        )
        solution = ", ".join(f"{letter}={digit}" for digit, letter in letters.items())
        return Made(question, {"addends": words[:2], "total": words[2]}, solution)

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        addends, total = spec.get("addends"), entry(spec, "total", str)
        if not isinstance(addends, list | tuple) or len(addends) < 2 or not all(isinstance(a, str) for a in addends):
            raise ValueError(f"'addends' is {addends!r}, not a list of two or more words")
        if not all(re.fullmatch(r"[A-Z]{1,12}", word) for word in (*addends, total)):
            raise ValueError("the words of a sum are 1 to 12 capital letters")
        return cls(tuple(addends), total)

    def is_solved_by(self, text: str) -> bool:
        digits = read_pairs(text)
        words = (*self.addends, self.total)
        if digits is None or digits.keys() != set("".join(words)) or len(set(digits.values())) != len(digits):
            return False
        if not all(re.fullmatch("[0-9]", d) for d in digits.values()) or any(
            len(word) > 1 and digits[word[0]] == "0" for word in words
        ):
            return False
        *parts, total = (int("".join(digits[letter] for letter in word)) for word in words)
        return sum(parts) == total


@dataclass(frozen=True)
class Calendar(LogicPuzzle):
    """The date so many days, weeks and months after another; a month that lacks the day ends on its last."""

    KIND: ClassVar[str] = "calendar"
    start: datetime.date
    steps: tuple[tuple[int, str], ...]

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        start = datetime.date(rng.randint(1970, 2060), 1, 1) + datetime.timedelta(days=rng.randrange(365))
        units = ("days", "weeks", "days", "weeks", "months")[:level]
        steps = [[rng.choice((-1, 1)) * rng.randint(2, 20 * level), rng.choice(units)] for _ in range((level + 1) // 2)]
        puzzle = cls.read({"start": start.isoformat(), "steps": steps})
        moves = ", then ".join(f"{abs(n)} {unit} {'later' if n > 0 else 'earlier'}" for n, unit in puzzle.steps)
        question = (
            f"Start at {start.isoformat()}. Which date is {moves}? Months keep the day of the month, or end on their "
            "last day where they lack it. Answer as YYYY-MM-DD."
        )
        return Made(question, {"start": start.isoformat(), "steps": steps}, puzzle.end().isoformat())

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        steps = entry(spec, "steps", list)
        for step in steps:
            if not isinstance(step, list | tuple) or len(step) != 2 or type(step[0]) is not int:
                raise ValueError(f"a step is [number, unit], not {step!r}")
            if step[1] not in ("days", "weeks", "months") or abs(step[0]) > 10_000:
                raise ValueError(f"a step is at most 10000 days, weeks or months, not {step!r}")
        try:
            puzzle = cls(datetime.date.fromisoformat(entry(spec, "start", str)), tuple((s[0], s[1]) for s in steps))
            puzzle.end()
        except OverflowError as error:
            raise ValueError(f"the steps leave the calendar: {error}") from error
        return puzzle

    def end(self) -> datetime.date:
        """The date after all steps. ValueError or OverflowError for one outside the years 1 to 9999."""
        date = self.start
        for count, unit in self.steps:
            date = _months_later(date, count) if unit == "months" else date + datetime.timedelta(**{unit: count})
        return date

    def is_solved_by(self, text: str) -> bool:
        return text.strip(" .") == self.end().isoformat()


def _months_later(date: datetime.date, count: int) -> datetime.date:
    year, month = divmod(date.year * 12 + date.month - 1 + count, 12)
    following = datetime.date(year + month // 11, (month + 1) % 12 + 1, 1)
    last = (following - datetime.timedelta(days=1)).day
    return datetime.date(year, month + 1, min(date.day, last))


@dataclass(frozen=True)
class WordSorting(LogicPuzzle):
    """Words in the order of an alphabet, the usual one or another, up or down."""

    KIND: ClassVar[str] = "word_sorting"
    words: tuple[str, ...]
    alphabet: str
    descending: bool

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        words: list[str] = []
        while len(words) < 3 + 2 * level:
            word = "".join(rng.choice(s) for s in ("bcdfglmnprst", "aeiou", "bcdfglmnprst", "aeiou", "klmnrst"))
            words += [word[: rng.randint(3, 5)]] if word not in words else []
        words = list(dict.fromkeys(words))
        alphabet = string.ascii_lowercase
        if level >= 3:
            moved = rng.sample(string.ascii_lowercase, 2 * level)
            alphabet = "".join(moved) + "".join(c for c in alphabet if c not in moved)
        spec = {"words": words, "alphabet": alphabet, "order": rng.choice(("ascending", "descending"))}
        puzzle = cls.read(spec)
        rule = "the alphabet" if level < 3 else f"an alphabet whose letters come in this order: {alphabet}"
        question = (
            f"Sort these words by {rule}, {spec['order']}: {', '.join(words)}. "
            "Answer with the words separated by commas."
        )
        return Made(question, spec, ", ".join(puzzle.in_order()))

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        words, order = texts(spec.get("words"), "'words'"), spec.get("order")
        alphabet = spec.get("alphabet", string.ascii_lowercase)
        if not isinstance(alphabet, str) or len(set(alphabet)) != len(alphabet):
            raise ValueError("'alphabet' is not a text of different letters")
        if order not in ("ascending", "descending"):
            raise ValueError(f"'order' is {order!r}, not ascending or descending")
        if not set("".join(words)) <= set(alphabet):
            raise ValueError("a word has a letter that the alphabet lacks")
        return cls(words, alphabet, order == "descending")

    def in_order(self) -> list[str]:
        return sorted(self.words, key=lambda w: [self.alphabet.index(c) for c in w], reverse=self.descending)

    def is_solved_by(self, text: str) -> bool:
        return list(read_items(text) or ()) == self.in_order()
