r"""What stands in LaTeX source: sections, formulas, tables, references, citations. Pure; every pass is linear.

Nothing is expanded: a command that a macro would make is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_SECTION = re.compile(r"\\(?:sub){0,2}section\*?[ \t]*(?:\[[^\]\n]{0,200}\])?[ \t]*(?=\{)")
_REFERENCE = re.compile(r"\\(?:ref|eqref|autoref|cref|Cref|pageref)[ \t]*(?=\{)")
_CITATION = re.compile(r"\\[A-Za-z]{0,8}[cC]ite[a-z]{0,8}\*?[ \t]*(?:\[[^\]\n]{0,200}\][ \t]*){0,2}(?=\{)")
_LABEL = re.compile(r"\\label[ \t]*(?=\{)")
_BIB_ITEM = re.compile(r"\\bibitem[ \t]*(?:\[[^\]\n]{0,200}\])?[ \t]*(?=\{)")
_BIB_ENTRY = re.compile(r"^[ \t]*@([A-Za-z]+)[ \t]*(?=\{)", re.MULTILINE)
_ENVIRONMENT = re.compile(r"\\(begin|end)[ \t]*\{([A-Za-z]+\*?)\}")
_DISPLAY = re.compile(r"\\\[|\\\]|(?<!\\)\$\$")
_DOLLAR = re.compile(r"\\.|\$", re.DOTALL)
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\S", re.DOTALL)
_SIZE_COMMAND = re.compile(r"\\(?:left|right)(?![A-Za-z])\s*\.?")
_NUMBER = re.compile(r"(?<![\w.])[+-]?\d+(?:[.,]\d+)*")
_TITLE_NUMBER = re.compile(r"^[\s\d.]+")
_FORMULA_ENVIRONMENTS = ("equation", "align", "gather", "multline", "eqnarray", "displaymath", "flalign", "alignat")
_TABLES = ("tabular", "tabularx", "longtable", "tabulary")
# An empty line, a line that begins with a command, and the end of one that ends with an argument.
_BREAK = re.compile(r"\n[ \t]*\n|\n[ \t]*(?=\\)|(?<=\})[ \t]*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FEWEST_WORDS = 5


class Source:
    """Source without comments, with its braces and environments found once."""

    def __init__(self, text: str) -> None:
        self.text = strip_comments(text)
        self.closing, self.braces_balance = _matched_braces(self.text)
        self.environments, self.environments_nest = _environments(self.text)

    def arguments(self, command: re.Pattern[str]) -> list[str]:
        """The first braced argument of every such command."""
        found = []
        for match in command.finditer(self.text):
            end = self.closing.get(match.end())
            if end is not None:
                found.append(self.text[match.end() + 1 : end])
        return found

    def titles(self) -> list[str]:
        """Of sections, subsections and subsubsections, without numbers, in lower case."""
        titles = (_TITLE_NUMBER.sub("", title) for title in self.arguments(_SECTION))
        return [" ".join(title.casefold().split()) for title in titles]

    def references(self) -> list[str]:
        return _names(self.arguments(_REFERENCE))

    def citations(self) -> list[str]:
        return _names(self.arguments(_CITATION))

    def labels(self) -> list[str]:
        return _names(self.arguments(_LABEL))

    def bibliography(self) -> list[str]:
        """Keys of BibTeX entries and of \\bibitem."""
        keys = [body.partition(",")[0].strip() for body in self.arguments(_BIB_ENTRY)]
        return [key for key in keys if key] + _names(self.arguments(_BIB_ITEM))

    def without_bibtex(self) -> str:
        """The source without its BibTeX entries, which no LaTeX document holds."""
        kept, at = [], 0
        for match in _BIB_ENTRY.finditer(self.text):
            end = self.closing.get(match.end())
            if end is not None and match.start() >= at:
                kept.append(self.text[at : match.start()])
                at = end + 1
        return "".join([*kept, self.text[at:]])

    def formulas(self) -> list[str]:
        """Contents of display formulas, in order."""
        spans = [(s, e) for name, s, e in self.environments if name.rstrip("*") in _FORMULA_ENVIRONMENTS]
        spans += _between_delimiters(self.text)
        return [self.text[start:end] for start, end in sorted(spans)]

    def longest_table(self) -> str | None:
        tables = [self.text[s:e] for name, s, e in self.environments if name.rstrip("*") in _TABLES]
        return max(tables, key=len, default=None)

    def dollars_pair(self) -> bool:
        return sum(match[0] == "$" for match in _DOLLAR.finditer(self.text)) % 2 == 0


def strip_comments(text: str) -> str:
    r"""Without what stands between an unescaped % and the end of its line.

    >>> strip_comments("50\\% of % a note\nall")
    '50\\% of \nall'
    """
    return _COMMENT.sub(r"\1", text)


def formula_tokens(formula: str) -> tuple[str, ...]:
    r"""Commands and characters, without white space, \left and \right.

    >>> formula_tokens(r"\left( x ^2\right)")
    ('(', 'x', '^', '2', ')')
    """
    return tuple(_TOKEN.findall(_SIZE_COMMAND.sub("", formula)))


def numbers(text: str) -> list[str]:
    """Numbers as they are written, in order."""
    return _NUMBER.findall(text)


def plain_sentences(text: str) -> list[str]:
    r"""Sentences of at least five words without commands, formulas or braces, white space as single blanks.

    >>> plain_sentences("We show that this works well. By \\cite{a} it does not hold.\n\nToo short.")
    ['We show that this works well.']
    """
    found = []
    for paragraph in _BREAK.split(strip_comments(text)):
        for sentence in _SENTENCE_END.split(paragraph):
            clean = " ".join(sentence.split())
            if len(clean.split()) >= _FEWEST_WORDS and not re.search(r"[\\${}~&^_#]", clean):
                found.append(clean)
    return found


def _names(arguments: list[str]) -> list[str]:
    return [name.strip() for argument in arguments for name in argument.split(",") if name.strip()]


def _matched_braces(text: str) -> tuple[dict[int, int], bool]:
    """The closing place of each opening brace, and whether all match."""
    opened: list[int] = []
    closing: dict[int, int] = {}
    balance = True
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "}":
            if opened:
                closing[opened.pop()] = match.start()
            else:
                balance = False
    return closing, balance and not opened


def _environments(text: str) -> tuple[list[tuple[str, int, int]], bool]:
    """Name, start and end of the content of every closed environment; whether all are closed in order."""
    opened: list[tuple[str, int]] = []
    found: list[tuple[str, int, int]] = []
    for match in _ENVIRONMENT.finditer(text):
        if match[1] == "begin":
            opened.append((match[2], match.end()))
        elif opened and opened[-1][0] == match[2]:
            name, start = opened.pop()
            found.append((name, start, match.start()))
        else:
            return found, False
    return found, not opened


def _between_delimiters(text: str) -> Iterator[tuple[int, int]]:
    opened: re.Match[str] | None = None
    for match in _DISPLAY.finditer(text):
        if opened is None:
            opened = match if match[0] != r"\]" else None
        elif match[0] == {r"\[": r"\]", "$$": "$$"}[opened[0]]:
            yield opened.end(), match.start()
            opened = None
