"""An assertion about a program's functions, split into what the program must give and what must be true of it.

The program could know or change whatever is computed beside it, so what its values are compared with stays away from
it. Pure.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from typing import Any

_BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_"))
_OWN = _BUILTINS | {"math"}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Assertion:
    """asked: an expression for the program.

    It must give `equals`; or, where there is a `verdict`, a list of values, of which (v0, v1, ..) that must be true.
    """

    asked: str
    equals: Any = None
    verdict: str | None = None


def split_assertion(text: str) -> Assertion:
    """`assert a == b` with one plain side asks for the other; any other asks for the calls in it.

    Comprehensions about the program are asked for as a whole: `all(f(x) > x for x in (1, 2))` asks for two truths.
    Raises ValueError for what is no single assertion.

    >>> split_assertion("assert f(1) == [2]")
    Assertion(asked='f(1)', equals=[2], verdict=None)
    >>> split_assertion("assert abs(f(1) - g) < 0.1 and len(f(2)) == 3")
    Assertion(asked='[f(1), g, f(2)]', equals=None, verdict='abs(v0 - v1) < 0.1 and len(v2) == 3')
    """
    test = _test(text)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        for asked, plain in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
            try:
                return Assertion(ast.unparse(asked), equals=ast.literal_eval(plain))
            except (ValueError, TypeError):
                continue
    taken = _Taken()
    verdict = ast.unparse(taken.visit(test))
    return Assertion(f"[{', '.join(taken.asked)}]", verdict=verdict)


def _test(text: str) -> ast.expr:
    try:
        tree = ast.parse(text.strip())
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no Python: {error.msg}") from error
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Assert):
        raise ValueError(f"{text!r} is not one assertion")
    return tree.body[0].test


class _Taken(ast.NodeTransformer):
    """Puts v0, v1, .. for what only the program can say, and keeps what that was."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and _is_the_program_s(node):
            if isinstance(node, ast.GeneratorExp):  # one is no value
                node = ast.ListComp(node.elt, node.generators)
            self.asked.append(ast.unparse(node))
            return ast.Name(f"v{len(self.asked) - 1}", ast.Load())
        # What is left of these has names of its own, and none of the program's.
        return node if isinstance(node, _COMPREHENSIONS) else self.generic_visit(node)


def _is_the_program_s(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id not in _OWN
    if isinstance(node, ast.Call):
        return not _is_ours(node.func)
    if isinstance(node, ast.Attribute):
        return not _is_ours(node)
    if isinstance(node, _COMPREHENSIONS):
        return not _free_names(node) <= _OWN
    return isinstance(node, ast.NamedExpr)


def _free_names(node: ast.expr) -> set[str]:
    names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    bound |= {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    return {name.id for name in names} - bound


def _is_ours(function: ast.expr) -> bool:
    """Of Python itself: a built-in function, one of `math`, a method of a literal."""
    if isinstance(function, ast.Attribute):
        owner = function.value
        return isinstance(owner, ast.Constant) or (isinstance(owner, ast.Name) and owner.id == "math")
    return isinstance(function, ast.Name) and function.id in _BUILTINS
