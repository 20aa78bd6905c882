r"""A formula's source with every token that shows in a colour of its own, so that a rendering tells where each one is.

A colour is set before a token, not around it, so that spaces stay as they are; what sets it is MACRO. Pure.

>>> coloured(r"x^2").tokens, coloured(r"x^2").source
(('x', '2'), '\\MmrlC{0 0 0.05882}x^{{\\MmrlC{0 0 0.11765}2}}')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

# Of pdfTeX: the colour holds to the end of its group; nothing here breaks where a macro expands or measures it.
MACRO = r"\def\MmrlC#1{\pdfcolorstack0 push{#1 rg #1 RG}\aftergroup\MmrlE}\def\MmrlE{\pdfcolorstack0 pop}"
GAP, STEPS = 15, 18  # between colours, and how many each of red, green and blue has
MOST_TOKENS = 1300
_BOX = r"\rule{0.8em}{0.8em}"  # stands for a character that TeX's own fonts lack, as Chinese ones
_TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|\S", re.DOTALL)
_DROPPED = re.compile(
    r"\\(?:label|tag\*?|vspace\*?|textcolor(?:\[[^\]]*\])?|color(?:\[[^\]]*\])?)\s*\{[^{}]*\}|\\(?:nonumber|notag)\b"
)
_WHOLE = {"equation", "displaymath", "math"}
_INNER = {"align": "aligned", "eqnarray": "aligned", "split": "aligned", "gather": "gathered", "multline": "gathered"}
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([A-Za-z]+)\*?\}")
_BIG = re.compile(r"\\[Bb]igg?[lrm]?\Z")
_ARGUMENTS = {"frac": 2, "dfrac": 2, "tfrac": 2, "cfrac": 2, "binom": 2, "dbinom": 2, "tbinom": 2, "sqrt": 1, "hat": 1}
_ARGUMENTS |= {"xrightarrow": 1, "xleftarrow": 1}
_ACCENTS = (
    "hat",
    "widehat",
    "tilde",
    "widetilde",
    "bar",
    "vec",
    "dot",
    "ddot",
    "dddot",
    "check",
    "breve",
    "acute",
    "grave",
)
_LINES = ("mathring", "overline", "underline", "overbrace", "underbrace", "overrightarrow", "overleftarrow")
_ARGUMENTS |= dict.fromkeys(_ACCENTS + _LINES, 1)
_LETTERS = ("rm", "bf", "it", "bb", "cal", "frak", "scr", "sf", "tt", "op", "bin", "rel", "ord")
_TEXTS = ("text", "textrm", "textbf", "textit", "textsf", "texttt", "textup", "textnormal", "mbox")
_UNSEEN = dict.fromkeys([*(f"math{letters}" for letters in _LETTERS), *_TEXTS, "boldsymbol", "pmb"], 1)
_UNSEEN |= {"overset": 2, "underset": 2, "stackrel": 2, "operatorname": 1, "operatorname*": 1}
_PLAIN = {"hspace", "hspace*", "phantom", "hphantom", "vphantom", "mathstrut", "kern", "rule"}
_SPACES = {",", ";", ":", "!", ">", " ", "\\", "quad", "qquad", "displaystyle", "textstyle", "scriptstyle"}
_SPACES |= {
    "scriptscriptstyle",
    "limits",
    "nolimits",
    "left",
    "right",
    "middle",
    "hline",
    "cr",
    "bf",
    "rm",
    "it",
    "cal",
}
_SPACES |= {"thinspace", "medspace", "thickspace", "enspace", "negthinspace", "hfill", "protect", "strut", "allowbreak"}


@dataclass(frozen=True, slots=True)
class Coloured:
    """source: with colours. tokens: those with a colour, in order; token n has colour_of(n)."""

    source: str
    tokens: tuple[str, ...]


def colour_of(number: int) -> tuple[int, int, int]:
    """Red, green and blue of a token; none is black or white."""
    number += 1
    return number // STEPS**2 * GAP, number // STEPS % STEPS * GAP, number % STEPS * GAP


def coloured(latex: str) -> Coloured:
    """Raises ValueError for braces that do not match and for more than 1,300 tokens."""
    painter = _Painter(_tokens(latex))
    source = painter.until(None)
    if len(painter.seen) > MOST_TOKENS:
        raise ValueError(f"a formula of more than {MOST_TOKENS} tokens")
    return Coloured(source, tuple(painter.seen))


def _tokens(latex: str) -> list[str]:
    r"""Commands, characters and whole \begin{..}; environments of a page as those that stand inside a formula."""
    bare = re.sub(r"\\bm(?![A-Za-z])", r"\\boldsymbol", _DROPPED.sub(" ", latex))
    bare = re.sub(r"\\(?:[ld]?dots[cbmio]?|cdots|hdots)(?![A-Za-z])", ". . .", bare)
    found, at = [], 0
    for match in _ENVIRONMENT.finditer(bare):
        found += _TOKEN.findall(bare[at : match.start()])
        if match[2] not in _WHOLE:
            found.append(rf"\{match[1]}{{{_INNER.get(match[2], match[2])}}}")
        at = match.end()
    return found + _TOKEN.findall(bare[at:])


@dataclass(slots=True)
class _Painter:
    """Reads tokens once, from the left. seen: those that got a colour."""

    tokens: list[str]
    at: int = 0
    seen: list[str] = field(default_factory=list)

    def until(self, end: str | None) -> str:
        """All up to the token that ends a group, which is taken."""
        parts = []
        while self.at < len(self.tokens):
            if self.tokens[self.at] == end:
                self.at += 1
                return "".join(parts)
            parts.append(self.one())
        if end is not None:
            raise ValueError(f"a group without its {end!r}")
        return "".join(parts)

    def one(self) -> str:
        """The next token with its arguments."""
        token = self._take()
        name = token[1:] if token.startswith("\\") else ""
        if token == "{":
            return f"{{{{{self.until('}')}}}}}"  # twice: the colour ends inside, where scripts and limits do not mind
        if token == "}":
            raise ValueError("a closing brace too many")
        if token in "^_":
            return token + self._group()
        if token == "'":
            return self._primes()
        if token.startswith(("\\begin{", "\\end{")):
            return token + (self._verbatim("{") if token == "\\begin{array}" else "")
        if _BIG.match(token) or name == "not":
            return self._paint(token + self._take())
        if name in ("left", "right", "middle"):
            delimiter = self._take()
            return f"{token}." if delimiter == "." else self._paint(delimiter, before=token)
        if name in _PLAIN:
            return token + self._verbatim("{")
        if name == "\\":
            return token + self._verbatim("[")
        if token in "&~$" or name in _SPACES:
            return token + " "
        if name == "substack" and self._next_is("{"):
            self.at += 1
            return f"{token}{{{self.until('}')}}}"
        if name in _UNSEEN:
            return token + "".join(self._group() for _ in range(_UNSEEN[name]))
        if name in _ARGUMENTS:
            painted = self._paint(token)
            return painted + self._optional() + "".join(self._group() for _ in range(_ARGUMENTS[name]))
        return self._paint(token)

    def _take(self) -> str:
        if self.at == len(self.tokens):
            raise ValueError("an argument is missing")
        self.at += 1
        return self.tokens[self.at - 1]

    def _next_is(self, token: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] == token

    def _paint(self, token: str, *, before: str = "") -> str:
        colour = " ".join(f"{round(value / 255, 5):g}" for value in colour_of(len(self.seen)))
        self.seen.append(token)
        if not token.isascii():
            return rf"\MmrlC{{{colour}}}{_BOX}"
        return rf"\MmrlC{{{colour}}}{before}{token}" + (" " if token[-1].isalpha() and token[0] == "\\" else "")

    def _group(self) -> str:
        painted = self.one()
        return painted if painted.startswith("{{") else f"{{{{{painted}}}}}"

    def _primes(self) -> str:
        """As one superscript, with what else is up there."""
        marks = [self._paint(r"\prime")]
        while self._next_is("'"):
            self.at += 1
            marks.append(self._paint(r"\prime"))
        if self._next_is("^"):
            self.at += 1
            marks.append(self._group())
        return f"^{{{{{''.join(marks)}}}}}"

    def _optional(self) -> str:
        if not self._next_is("["):
            return ""
        self.at += 1
        return f"[{{{self.until(']')}}}]"

    def _verbatim(self, opening: str) -> str:
        """An argument without anything that shows, as it is."""
        if not self._next_is(opening):
            return ""
        closing, depth, parts = {"{": "}", "[": "]"}[opening], 0, []
        while True:
            token = self._take()
            parts.append(token)
            depth += (token == opening) - (token == closing)
            if depth == 0:
                return "".join(parts)


_SAME = {
    "\\cdot": ".", "\\cdotp": ".", "\\ldotp": ".", "\\mid": "|", "\\rightarrow": "\\to", "\\top": "T", "\\prime": "'",
    "\\ast": "*", "\\lbrace": "\\{", "\\rbrace": "\\}", "\\lbrack": "[", "\\rbrack": "]", "\\leq": "\\le",
    "\\geq": "\\ge", "\\neq": "\\ne", "\\Vert": "\\|", "\\lVert": "\\|", "\\rVert": "\\|", "\\parallel": "\\|",
    "\\vert": "|", "\\lvert": "|", "\\rvert": "|", "\\colon": ":", "\\dag": "\\dagger", "\\ddag": "\\ddagger",
    "\\neg": "\\lnot", "\\not=": "\\ne", "\\dfrac": "\\frac", "\\tfrac": "\\frac",
}  # fmt: skip


def plain_token(token: str) -> str:
    r"""One name for tokens that show the same: \leq and \le, \big( and (, \varphi and \phi.

    >>> plain_token(r"\leq"), plain_token(r"\Big("), plain_token(r"\widehat")
    ('\\le', '(', '\\hat')
    """
    big = re.match(r"\\[Bb]igg?[lrm]?(?=[^A-Za-z])", token)
    token = token[big.end() :] if big else token
    token = _SAME.get(token, token)
    return re.sub(r"^\\(?:wide|var)(?=[a-z])", r"\\", token)


def plain_tokens(tokens: Iterable[str]) -> list[str]:
    return list(map(plain_token, tokens))
