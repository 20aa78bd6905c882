"""Mathematical expressions that a model wrote, read into a tree by a grammar of our own. Pure.

sympy's `parse_expr` and `sympify` evaluate their text as Python, and building a sympy object may work without end
(`10**10**10`); so no text reaches either. What can be read is arithmetic, named symbols, constants and functions, in
plain form or LaTeX, of at most LONGEST characters, MOST_TOKENS parts and DEEPEST brackets. Reading does no arithmetic.

    sum      = product {("+" | "-") product}
    product  = signed {["*" | "/"] signed}            a blank multiplies: 2x, 3(x + 1), x y; a/b c is (a/b) c
    signed   = {"+" | "-"} power
    power    = atom ["^" signed]
    atom     = number | symbol | constant | function argument | "(" sum ")" | "|" sum "|" | \\frac{sum}{sum} | ...

>>> str(parse_expression(r"\\frac{P L^2}{8}", symbols=frozenset("PL"))), str(parse_expression("2sin x - 1"))
('(/ (* P (^ L 2)) 8)', '(- (* 2 (sin x)) 1)')
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

LONGEST, MOST_TOKENS, DEEPEST = 800, 200, 25
FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "arcsin", "arccos", "arctan"),
        *("sinh", "cosh", "tanh", "exp", "ln", "log", "log10", "log_10", "sqrt", "abs"),
    )
)
CONSTANTS = frozenset(("pi", "e", "i", "oo"))
GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi"),
        *("rho", "sigma", "tau", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Sigma", "Phi"),
        *("Psi", "Omega"),
    )
)
_LOOKS = {
    **{r"\cdot": "*", r"\times": "*", "·": "*", "×": "*", "⋅": "*", "−": "-", "–": "-", "÷": "/", "**": "^"},
    **{"²": "^2", "³": "^3", "⁴": "^4", "√": r"\sqrt", "π": " pi ", "∞": " oo ", r"\infty": " oo "},
    **{r"\left": "", r"\right": "", r"\,": " ", r"\;": " ", r"\:": " ", r"\!": "", r"\ ": " ", r"\quad": " ", "$": ""},
    **{r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\lvert": "|", r"\rvert": "|", "α": " alpha ", "θ": " theta "},
}
_LOOK = re.compile("|".join(re.escape(k) + (r"(?![A-Za-z])" if k[-1].isalpha() else "") for k in _LOOKS))
_TEXT = re.compile(r"\\(?:text|mathrm|mathit|operatorname)\s*\{([^{}]*)\}")
_SUBSCRIPT = r"_(?:\{[A-Za-z0-9]{1,12}\}|[A-Za-z0-9]{1,12})"
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?)|(?P<command>\\[A-Za-z]+(?:{_SUBSCRIPT})?)"
    rf"|(?P<name>[A-Za-z]+(?:{_SUBSCRIPT})?)|(?P<sign>[-+*/^(){{}}|\[\]]))"
)


class NotReadError(ValueError):
    """A text that is no expression of the grammar; the message says why."""


@dataclass(frozen=True, slots=True)
class Tree:
    """kind: number, symbol, constant, call, or an operator + - * / ^ neg. name: of the first four. parts: operands."""

    kind: str
    name: str = ""
    parts: tuple[Tree, ...] = ()

    def __str__(self) -> str:
        if not self.parts:
            return self.name
        return f"({self.name or self.kind} {' '.join(map(str, self.parts))})"

    def walk(self) -> Iterator[Tree]:
        """This and every part of it, at any depth."""
        waiting: list[Tree] = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            waiting.extend(tree.parts)

    def symbols(self) -> set[str]:
        return {tree.name for tree in self.walk() if tree.kind == "symbol"}

    def is_exact(self) -> bool:
        """Whether no number in it is written as a decimal."""
        return all(tree.kind != "number" or tree.name.isdecimal() for tree in self.walk())


def plain(text: str) -> str:
    """The text with LaTeX spacing, \\text{..} and signs that look alike in one form."""
    return _LOOK.sub(lambda m: _LOOKS[m[0]], _TEXT.sub(r" \1 ", text)).strip()


def parse_expression(text: str, *, symbols: Collection[str] | None = None) -> Tree:
    """The tree of a text. NotReadError for anything that is not wholly an expression.

    symbols: those that may occur; a name that is none is read as their product, as `PL`. None: any letter, with a
    subscript or not, is a symbol.
    """
    if len(text) > LONGEST:
        raise NotReadError(f"it has more than {LONGEST} characters")
    tokens = list(_tokens(plain(text), symbols))
    if len(tokens) > MOST_TOKENS:
        raise NotReadError(f"it has more than {MOST_TOKENS} numbers, names and signs")
    return _Reader(tokens).read()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def _tokens(text: str, symbols: Collection[str] | None) -> Iterator[_Token]:
    text, at = re.sub(r"\\frac\s*([0-9])\s*([0-9])", r"\\frac{\1}{\2}", text), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at:].strip():
                raise NotReadError(f"{text[at : at + 10]!r} is no part of an expression")
            return
        at = match.end()
        kind, found = str(match.lastgroup), match[match.lastgroup or 0]
        if kind == "number" and len(found) > 60:
            raise NotReadError("a number has more than 60 digits")
        if kind in ("number", "sign"):
            yield _Token(kind, found)
        elif kind == "command":
            yield _command(re.sub(r"[{}]", "", found[1:]), symbols)
        else:
            yield from _names(re.sub(r"[{}]", "", found), symbols)


def _command(name: str, symbols: Collection[str] | None) -> _Token:
    if name in ("frac", "sqrt"):
        return _Token("command", name)
    if name.partition("_")[0] in GREEK and (symbols is None or name in symbols):
        return _Token("symbol", name)
    if name in FUNCTIONS or name in CONSTANTS:
        return _Token("function" if name in FUNCTIONS else "constant", name)
    raise NotReadError(f"\\{name} is not known")


def _names(text: str, symbols: Collection[str] | None) -> Iterator[_Token]:
    """The name as one thing that is known, or as a product of such; the longest first."""
    at = 0
    while at < len(text):
        for end in range(len(text), at, -1):
            token = _name(text[at:end], symbols)
            if token is not None:
                yield token
                at = end
                break
        else:
            raise NotReadError(f"{text!r} is no symbol of the answer")


def _name(name: str, symbols: Collection[str] | None) -> _Token | None:
    base, _, below = name.partition("_")
    if symbols is None and name not in FUNCTIONS and (len(base) == 1 or base in GREEK) and "_" not in below:
        return _Token("constant" if name in CONSTANTS else "symbol", name)
    if symbols is not None and name in symbols:
        return _Token("symbol", name)
    if name in FUNCTIONS:
        return _Token("function", name)
    return _Token("constant", name) if name in CONSTANTS else None


class _Reader:
    """Recursive descent over tokens."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def read(self) -> Tree:
        tree = self._sum()
        if self._at < len(self._tokens):
            raise NotReadError(f"{self._tokens[self._at].text!r} is out of place")
        return tree

    def _next(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "")

    def _takes(self, *signs: str) -> str | None:
        token = self._next()
        if token.kind != "sign" or token.text not in signs:
            return None
        self._at += 1
        return token.text

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise NotReadError(f"{sign!r} is missing")

    def _sum(self) -> Tree:
        tree = self._product()
        while sign := self._takes("+", "-"):
            tree = Tree(sign, parts=(tree, self._product()))
        return tree

    def _product(self) -> Tree:
        tree = self._signed()
        while True:
            if sign := self._takes("*", "/"):
                tree = Tree(sign, parts=(tree, self._signed()))
            elif self._begins_factor():
                tree = Tree("*", parts=(tree, self._power()))
            else:
                return tree

    def _begins_factor(self) -> bool:
        token = self._next()
        return token.kind in ("number", "symbol", "constant", "function", "command") or token.text in ("(", "{")

    def _signed(self) -> Tree:
        negative = False
        while sign := self._takes("+", "-"):
            negative ^= sign == "-"
        tree = self._power()
        return Tree("neg", parts=(tree,)) if negative else tree

    def _power(self) -> Tree:
        tower = [(False, self._atom())]
        while self._takes("^"):
            tower.append((bool(self._takes("-")), self._atom()))
        tree: Tree | None = None
        for negative, atom in reversed(tower):
            tree = atom if tree is None else Tree("^", parts=(atom, tree))
            tree = Tree("neg", parts=(tree,)) if negative else tree
        assert tree is not None
        return tree

    def _atom(self) -> Tree:
        self._depth += 1
        if self._depth > DEEPEST:
            raise NotReadError(f"brackets and functions are more than {DEEPEST} deep")
        tree = self._operand()
        self._depth -= 1
        return tree

    def _operand(self) -> Tree:
        token = self._next()
        if token.kind == "sign":
            return self._bracketed()
        self._at += 1
        if token.kind in ("number", "symbol", "constant"):
            return Tree(token.kind, token.text)
        if token.kind == "function":
            return self._call(token.text)
        if token.kind == "command":
            return self._fraction() if token.text == "frac" else self._root()
        raise NotReadError("an operand is missing")

    def _bracketed(self) -> Tree:
        opened = self._takes("(", "{", "|")
        if opened is None:
            raise NotReadError(f"{self._next().text!r} is no operand")
        tree = self._sum()
        self._expect({"(": ")", "{": "}", "|": "|"}[opened])
        return Tree("call", "abs", (tree,)) if opened == "|" else tree

    def _call(self, name: str) -> Tree:
        exponent = self._atom() if self._takes("^") else None
        if self._next().text in ("(", "{"):
            argument = self._bracketed()
        else:
            argument = self._bare_argument()
        tree = Tree("call", name, (argument,))
        return Tree("^", parts=(tree, exponent)) if exponent is not None else tree

    def _bare_argument(self) -> Tree:
        """An argument without brackets: the numbers and symbols up to the next sign, as in sin 2x."""
        tree = self._power()
        while self._next().kind in ("number", "symbol", "constant"):
            tree = Tree("*", parts=(tree, self._power()))
        return tree

    def _fraction(self) -> Tree:
        return Tree("/", parts=(self._group(), self._group()))

    def _group(self) -> Tree:
        self._expect("{")
        tree = self._sum()
        self._expect("}")
        return tree

    def _root(self) -> Tree:
        if self._takes("["):
            degree = self._sum()
            self._expect("]")
            return Tree("^", parts=(self._group(), Tree("/", parts=(Tree("number", "1"), degree))))
        argument = self._bracketed() if self._next().kind == "sign" else self._atom()
        return Tree("call", "sqrt", (argument,))
