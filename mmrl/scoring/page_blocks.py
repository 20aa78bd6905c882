"""A page in Markdown as blocks of text, formulas and tables, and each kind in the form in which it is compared. Pure.

Source: OmniDocBench's end-to-end evaluation, by whose rules a page is taken apart and texts are made plain.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from mmrl.scoring.tables import markdown_tables

_PICTURE = re.compile(r"!\[[^\]\n]*\]\([^)\n]*\)")
_FENCE = re.compile(r"^[ \t]*```\w*[ \t]*$", re.MULTILINE)
_RUNS = ((re.compile(r"_{4,}"), "____"), (re.compile(r" {4,}"), "    "))
_LONG_RUN = re.compile(r"([^a-zA-Z0-9])\1{10,}")
_TABLE_TAG = re.compile(r"<(/?)table\b[^>]*>", re.IGNORECASE)
_OPENING = re.compile(r"\$\$|\\\[|\$|\\\(")
_CLOSING = {"$$": "$$", "\\[": "\\]", "$": "$", "\\(": "\\)"}
_HEADING = re.compile(r"\\(?:title|section\*?|text)\s*\{\s*([^{}]*?)\s*\}")


@dataclass(frozen=True, slots=True)
class Block:
    """position: of its first character in the page."""

    text: str
    position: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """In the page's order. formulas: those on lines of their own and those inside text, for a gold one may be either.
    tables: HTML; Markdown's are made HTML.
    """

    texts: tuple[Block, ...]
    formulas: tuple[Block, ...]
    tables: tuple[Block, ...]


def read_blocks(page: str) -> Blocks:
    r"""The blocks of a page. Paragraphs are parted by empty lines, or where there is none by line ends.

    >>> page = read_blocks("# One\n\nis $a_1$\n\n\\[ b \\]\n\n<table><tr><td>x</td></tr></table>")
    >>> [block.text for block in page.texts], [block.text for block in page.formulas], len(page.tables)
    (['# One', 'is $a_1$'], ['a_1', ' b '], 1)
    """
    text = page.replace("\r\n", "\n").replace("\r", "\n")
    text = _FENCE.sub("", _PICTURE.sub("", text))
    for run, short in _RUNS:
        text = run.sub(short, text)
    text = _LONG_RUN.sub(r"\1\1\1\1", text)
    tables, formulas = [], []
    for start, end in _outer_tables(text):
        tables.append(Block(text[start:end], start))
        text = _blanked(text, start, end)
    for start, end, inside, is_display in list(_formulas(text)):
        formulas.append(Block(inside, start))
        text = _blanked(text, start, end) if is_display else text
    for start, end, table in markdown_tables(text):
        tables.append(Block(table, start))
        text = _blanked(text, start, end)
    in_order = sorted(tables, key=lambda block: block.position)
    return Blocks(tuple(_paragraphs(text)), tuple(formulas), tuple(in_order))


def _blanked(text: str, start: int, end: int) -> str:
    """With blanks in place of a part, so that the rest keeps its place."""
    return text[:start] + " " * (end - start) + text[end:]


def _outer_tables(text: str) -> list[tuple[int, int]]:
    """Where HTML tables stand that are in no other; one that is not closed is none."""
    opened: list[int] = []
    found: list[tuple[int, int]] = []
    for tag in _TABLE_TAG.finditer(text):
        if not tag[1]:
            opened.append(tag.start())
        elif opened:
            start = opened.pop()
            while found and found[-1][0] > start:
                found.pop()
            found.append((start, tag.end()))
    return found


def _formulas(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """Start, end, what is inside and whether it stands on its own. Marks that nothing closes are text."""
    position, missing = 0, set()
    while (mark := _OPENING.search(text, position)) is not None:
        opening = mark[0]
        end = -1 if opening in missing else text.find(_CLOSING[opening], mark.end())
        if end < 0:
            missing.add(opening)
            position = mark.end()
            continue
        inside, after = text[mark.end() : end], end + len(_CLOSING[opening])
        if inside.strip():
            yield mark.start(), after, inside, opening in ("$$", "\\[")
        position = after


def _paragraphs(text: str) -> Iterator[Block]:
    text = _HEADING.sub(lambda found: found[1].ljust(len(found[0])), text)
    separator = "\n\n" if "\n\n" in text else "\n"
    position = 0
    for part in text.split(separator):
        lines = [line.strip() for line in part.split("\n")]
        said = "\n".join(line for line in lines if line)
        is_formula = said.startswith("$") and said.endswith("$")  # it is among the formulas already
        if said and not is_formula:
            yield Block(said, position)
        position += len(part) + len(separator)


_INLINE = re.compile(r"\$([^$\n]*)\$|\\\((.*?)\\\)")
_COMMAND = re.compile(r"\\([a-zA-Z]+)|\\(.)")
_ESCAPED_SPACE = re.compile(r"\\[tn]")
_NO_LETTER = re.compile(r"\W")
_NAMES = frozenset(
    (
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln"),
        *("lg", "exp", "lim", "max", "min", "sup", "inf", "det", "dim", "ker", "deg", "gcd", "arg", "Pr", "mod", "hom"),
    )
)
_LETTERS = {"hbar": "ℏ", "ell": "ℓ", "Re": "ℜ", "Im": "ℑ", "aleph": "ℵ", "varepsilon": "ε", "varphi": "φ"}


def letters_of(text: str) -> str:
    r"""What of a text is compared: letters, digits and underscores, formulas inside it as characters.

    A formula with a command, a power or an index is written out: Greek letters and names of functions stay, all other
    commands and braces go. There a library does it, which keeps bold and script letters apart.

    >>> letters_of("Total: **12 %** of $\\alpha^2$, \\(x_1\\)"), letters_of("你好，世界")
    ('Total12ofα2x_1', '你好世界')
    """
    plain = _INLINE.sub(_written_out, text)
    return _NO_LETTER.sub("", _ESCAPED_SPACE.sub("", plain))


def _written_out(found: re.Match[str]) -> str:
    inside = found[1] if found[1] is not None else found[2]
    return _COMMAND.sub(_command, inside) if any(sign in inside for sign in "\\^_") else found[0]


def _command(found: re.Match[str]) -> str:
    name = found[1]
    if name is None:
        return found[2] if found[2] in "_&%^" else ""
    if name in _NAMES:
        return name
    return _LETTERS.get(name) or _greek(name)


def _greek(name: str) -> str:
    """The Greek letter that a command is called after; an empty text where it is none."""
    case = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name.upper().removeprefix('VAR')}")
    except KeyError:
        return ""


_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
_WITH_ARGUMENT = re.compile(r"\\(?:tag|hspace|begin|end)\{[^{}]*\}|\\arraycolsep[^}]*\}")
_OF_STYLE = (
    *("mathbf", "mathrm", "mathnormal", "mathit", "mathbb", "mathcal", "mathscr", "mathfrak", "mathsf", "mathtt"),
    *("textbf", "text", "boldmath", "boldsymbol", "operatorname", "bm", "symbfit", "mathbfcal", "symbf"),
    *("scriptscriptstyle", "notag", "setlength", "coloneqq", "space", "thickspace", "thinspace", "medspace"),
    *("nobreakspace", "negmedspace", "quad", "qquad", "enspace", "substackw"),
)
_STYLE = re.compile(r"\\(?:" + "|".join(sorted(_OF_STYLE, key=len, reverse=True)) + r")|\s")


def formula_of(latex: str) -> str:
    r"""What of a formula's source is compared: small letters, without marks around it, fonts, spaces, numbers and
    environments.

    >>> formula_of("$$ \\mathbf{X} \\quad = 1 \\tag{2} $$"), formula_of("\\[ {x}=1. \\]")
    ('{x}=1', '{x}=1')
    """
    bare = _WITH_ARGUMENT.sub("", inside_marks(latex)).strip().strip(".")
    return _STYLE.sub("", bare).strip(".").lower()


def inside_marks(latex: str) -> str:
    r"""A formula without the marks around it.

    >>> inside_marks(" $$ X $$ "), inside_marks("x")
    (' X ', 'x')
    """
    inside = latex.strip()
    for opening, closing in _DELIMITERS:
        if inside.startswith(opening) and inside.endswith(closing) and len(inside) >= len(opening + closing):
            return inside[len(opening) : -len(closing)]
    return inside
