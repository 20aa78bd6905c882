"""A short answer about a chart by ChartQAPro's rules: numbers, years, texts and lists of them.

Formula: the mean over the answer's items of each item's score: 1 if the texts are equal without case, for years (the
column `year_column` says YES) and for questions of the kinds Fact Checking and Multi Choice; else, for two numbers, 1
if |p - g| <= tolerance * |g|; else ANLS (0.5). Items that one side lacks score 0.
Bounds: 0 to 1.
Answer: a number, a text, or a list, `[12, 15]`; a final `%`, full stop and blanks do not count. The dataset's answer
is a text; a list may stand in it without quotes, `[France, Italy]`.
Space: none.
Source: ChartQAPro (Masry et al. 2025), read in lmms-eval's task chartqapro.
Example: answer `100`: `105%` 1, `106` 0, as a year `105` 0; answer `[12, blue]`: `[12, "Blue"]` 1, `[12]` 0.5; answer
`blue`: `blu` 0.75.
"""

import ast
import warnings
from collections.abc import Sequence

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.text_distance import anls

BOUNDS = (0.0, 1.0)
_EXACT = ("Fact Checking", "Multi Choice")
_LONGEST = 10_000  # characters of an answer that may be a list


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    tolerance: float = 0.05,
    kind_column: str = "Question Type",
    year_column: str = "Year",
) -> float:
    """`tolerance`: the largest error, as a share of the right number. `kind_column`, `year_column`: of the row."""
    gold, said = _bare(gold_text(sample)), _bare(extract_prediction(completion, answer=answer) or "")
    wanted, found = _list_in(gold) or _unquoted(gold) or [gold], _list_in(said) or [said]
    kind, years = sample.columns.get(kind_column), _years(sample, year_column)
    if kind == "Conversational":
        years = years[-1:]
    years = list(years) * len(wanted) if len(years) < len(wanted) else years
    scores = [
        _same(one, other)
        if kind in _EXACT or (n < len(years) and years[n].upper() == "YES")
        else _near(one, other, tolerance)
        for n, (one, other) in enumerate(zip(wanted, found, strict=False))
    ]
    return sum(scores) / max(len(wanted), len(found))


def _years(sample: Sample, column: str) -> Sequence[str]:
    value = sample.columns.get(column) or []
    return [str(flag) for flag in (value if isinstance(value, list | tuple) else [value])]


def _bare(text: str) -> str:
    return text.strip().strip(".").strip("\n")


def _list_in(text: str) -> list[str] | None:
    if not text.lstrip().startswith("[") or len(text) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes that begin no escape, and of 3in
            value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return [str(item).strip(" '") for item in value] if isinstance(value, list) else None


def _unquoted(text: str) -> list[str] | None:
    inside = text.strip()
    if not (inside.startswith("[") and inside.endswith("]")):
        return None
    return [item.strip(" '\"") for item in inside[1:-1].split(",")]


def _same(gold: str, said: str) -> float:
    return float(gold.strip().lower() == said.strip().lower())


def _near(gold: str, said: str, tolerance: float) -> float:
    gold, said = gold.strip().strip("%").strip(), said.strip().strip("%").strip()
    wanted, found = _number(gold), _number(said)
    if wanted is not None and found is not None:
        return float(abs(found - wanted) <= tolerance * abs(wanted) * (1 + 1e-9))
    return anls(said, [gold])


def _number(text: str) -> float | None:
    try:
        return float(text) if len(text) < 50 else None
    except ValueError:
        return None
