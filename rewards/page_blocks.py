r"""A page in Markdown against its blocks: text, formulas, tables and the order of reading (OmniDocBench).

Formula: the mean of the values that the page has. `text`: 1 - edits / length of the longer text, edits and lengths each
summed over matched blocks, of letters and digits alone. `formula`: the same of the formulas' sources. `table`: the mean
TEDS of the tables. Reported beside them: `order`, 1 - edits of the order of the text blocks / its length;
`table_structure`, TEDS without texts; `table_edit`, 1 - edits of the tables' HTML / length of the longer. With `cdm`
also `cdm`, the mean over the formulas of the F1 of their tokens where both are rendered by LaTeX; a formula that is no
LaTeX scores 0, one of the dataset that is none is left out.
Bounds: 0 to 1.
Answer: the page in Markdown: formulas between \[ and \], \( and \), $$ or $, tables in HTML or Markdown; a page of more
than 100,000 characters has no blocks. The dataset's answer is a list of blocks, `{kind, text, order, counts}`: kind
`text`, `formula` or `table` (HTML), order a number or null; text that does not count (captions, running heads) is
matched and then left out.
Space: none.
Source: OmniDocBench's end-to-end evaluation with quick_match, read in VLMEvalKit's copy. There tables in LaTeX are
converted by a program that is not needed here: they are none; bold and script letters are told apart in text. `cdm`:
v1.5's, after UniMERNet.
Example: blocks `one`, `two` for `one two`: text 1 (neighbours are joined), order 1; `a b` and `c d` swapped: text 1,
order 0; one of four cells of a table wrong: table 0.833333.
"""

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from scipy.optimize import linear_sum_assignment

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.block_matching import quick_match
from mmrl.scoring.cdm import rendered, similarity
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.page_blocks import Block, Blocks, formula_of, inside_marks, letters_of, read_blocks
from mmrl.scoring.parse import extract_prediction
from mmrl.scoring.sandbox.preflight import require_program, require_sandbox
from mmrl.scoring.tables import MAX_TEXT, TableTree, outer_tables, parse_html, plain_html, teds
from mmrl.scoring.tex_engine import INSTALL, PROGRAMS

BOUNDS = (0.0, 1.0)
_KINDS = ("text", "formula", "table")
_FAR = 20  # times the answer's nodes: as in the reward teds


@dataclass(frozen=True, slots=True)
class _Gold:
    """A block that is there. plain: the form in which it is compared, never empty."""

    plain: str
    order: int | None
    counts: bool
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    source: str
    tree: TableTree | None


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    if options["cdm"]:
        require_program(PROGRAMS, what="page_blocks with cdm: true", install=INSTALL)
        require_sandbox("page_blocks with cdm: true", options, timeout_s=timeout_s)


def score(
    completion: str,
    sample: Sample,
    *,
    cdm: bool = False,
    time_limit_s: float = 8.0,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    """`cdm`: formulas by the places of their rendered tokens too; `time_limit_s`: of all renderings of a page."""
    if not isinstance(sample.answer, list):
        raise bad_answer(sample, wanted="a list of blocks")
    try:
        golds = _golds(json.dumps(sample.answer, sort_keys=True))
    except (ValueError, TypeError, KeyError) as error:
        raise RewardError(f"{sample.where}: the answer holds a block that cannot be compared: {error}") from error
    text = extract_prediction(completion, answer="plain") or ""
    page = read_blocks(text) if len(text) <= MAX_TEXT else Blocks((), (), ())
    values = {
        **(_texts(golds["text"], page.texts) if any(gold.counts for gold in golds["text"]) else {}),
        **(_formulas(golds["formula"], page.formulas, time_limit_s if cdm else None) if golds["formula"] else {}),
        **(_tables(golds["table"], page.tables) if golds["table"] else {}),
    }
    counted = [values[kind] for kind in _KINDS if kind in values]
    nothing_there = float(not (page.texts or page.tables))
    return {"reward": sum(counted) / len(counted) if counted else nothing_there, **values}


@functools.lru_cache(64)
def _golds(answer: str) -> Mapping[str, Sequence[Any]]:
    """By kind and in the order of reading. Blocks without anything that is compared are left out."""
    found: dict[str, list[Any]] = defaultdict(list)
    for block in sorted(json.loads(answer), key=lambda block: block["order"] or 0):
        kind, text = block["kind"], block["text"]
        if kind not in _KINDS or not isinstance(text, str):
            raise ValueError(
                f"kind {kind!r} and text {text!r:.40}; a block has a text and is one of {', '.join(_KINDS)}"
            )
        if kind == "table":
            found[kind] += _read_tables([text])
        elif plain := (letters_of if kind == "text" else formula_of)(text):
            found[kind].append(_Gold(plain, block["order"], block.get("counts", True), text))
    return found


def _texts(golds: Sequence[_Gold], blocks: Sequence[Block]) -> dict[str, float]:
    found = [(plain, block.position) for block in blocks if (plain := letters_of(block.text))]
    matches = quick_match([gold.plain for gold in golds], [plain for plain, _ in found])
    counted = [match for match in matches if not match.golds or any(golds[n].counts for n in match.golds)]
    pairs = [
        ("".join(golds[n].plain for n in match.golds), "".join(found[n][0] for n in match.found)) for match in counted
    ]
    orders = [[golds[n].order for n in match.golds if golds[n].order] for match in counted]
    there = sorted(order for of in orders for order in of if order is not None)
    read = sorted((found[match.found[0]][1], n) for n, match in enumerate(counted) if match.golds and match.found)
    order = Levenshtein.normalized_similarity([place for _, n in read for place in orders[n]], there)
    return {"text": _similarity(pairs), **({"order": order} if there else {})}


def _formulas(golds: Sequence[_Gold], blocks: Sequence[Block], time_limit_s: float | None) -> dict[str, float]:
    """time_limit_s: for their renderings; None: they are compared by their sources alone."""
    found = [(plain, block.text) for block in blocks if (plain := formula_of(block.text))]
    plains = [plain for plain, _ in found]
    matches = [match for match in quick_match([gold.plain for gold in golds], plains) if match.golds]
    pairs = [
        ("".join(golds[n].plain for n in match.golds), "".join(plains[n] for n in match.found)) for match in matches
    ]
    drawn = {}
    if time_limit_s is not None:
        sources = [
            (_joined(golds[n].source for n in match.golds), _joined(found[n][1] for n in match.found))
            for match in matches
        ]
        drawn = _rendered_alike(sources, time_limit_s)
    return {"formula": _similarity(pairs), **drawn}


def _joined(sources: Iterable[str]) -> str:
    return " ".join(map(inside_marks, sources))


def _rendered_alike(pairs: Sequence[tuple[str, str]], time_limit_s: float) -> dict[str, float]:
    drawn = rendered([formula for pair in pairs for formula in pair], time_limit_s=time_limit_s)
    scores = [similarity(drawn[found], drawn[gold]) for gold, found in pairs]
    known = [value for value in scores if value is not None]
    return {"cdm": sum(known) / len(known)} if known else {}


def _similarity(pairs: Sequence[tuple[str, str]]) -> float:
    """1 - edits / length of the longer text, both summed."""
    edits = sum(Levenshtein.distance(gold, found) for gold, found in pairs)
    return 1 - edits / sum(max(len(gold), len(found)) for gold, found in pairs)


def _tables(golds: Sequence[_Table], blocks: Sequence[Block]) -> dict[str, float]:
    found = _read_tables([block.text for block in blocks])
    costs = np.ones((len(golds), 0))
    if found:
        sources = [[table.source for table in tables] for tables in (golds, found)]
        costs = cdist(*sources, scorer=Levenshtein.normalized_distance, dtype=float)
    pairs = [(golds[row], found[column]) for row, column in zip(*linear_sum_assignment(costs), strict=True)]
    partner = {id(gold): table for gold, table in pairs}
    values: dict[str, list[float]] = defaultdict(list)
    for gold in golds:
        table = partner.get(id(gold))
        values["table"].append(_teds(table, gold, structure=False))
        values["table_structure"].append(_teds(table, gold, structure=True))
    edits = [(gold.source, "" if (of := partner.get(id(gold))) is None else of.source) for gold in golds]
    return {name: sum(of) / len(of) for name, of in values.items()} | {"table_edit": _similarity(edits)}


def _teds(table: _Table | None, gold: _Table, *, structure: bool) -> float:
    if table is None or table.tree is None or gold.tree is None or table.tree.size > _FAR * max(gold.tree.size, 1):
        return 0.0
    return teds(table.tree, gold.tree, structure_only=structure)


def _read_tables(sources: Sequence[str]) -> list[_Table]:
    elements = [table for source in sources for table in outer_tables(parse_html(source))]
    return [_Table(plain_html(table), TableTree.of(table, plain=True)) for table in elements]
