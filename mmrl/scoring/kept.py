"""Results kept by their arguments, for what is dear and gives the same each time: renderings, compilations."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def kept(*, most: int) -> Callable[[Callable[P, T | None]], Callable[P, T | None]]:
    """Keep the last `most` results that are not None.

    None stands for what may be the machine's doing, such as a time limit, and is tried again.

    >>> calls = []
    >>> @kept(most=2)
    ... def half(n: int) -> int | None:
    ...     calls.append(n)
    ...     return n // 2 if n % 2 == 0 else None
    >>> [half(n) for n in (4, 4, 3, 3)], calls
    ([2, 2, None, None], [4, 3, 3])
    """

    def decorate(function: Callable[P, T | None]) -> Callable[P, T | None]:
        results: OrderedDict[Hashable, T] = OrderedDict()

        @functools.wraps(function)
        def remembered(*args: P.args, **kwargs: P.kwargs) -> T | None:
            key = (args, tuple(sorted(kwargs.items())))
            if key in results:
                results.move_to_end(key)
                return results[key]
            found = function(*args, **kwargs)
            if found is not None:
                results[key] = found
                if len(results) > most:
                    results.popitem(last=False)
            return found

        return remembered

    return decorate
