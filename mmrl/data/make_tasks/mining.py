"""Tests on the transcription of a page, mined from its blocks by the recipe of olmOCR 2. Pure.

Differences from the recipe: a rare word is one that few of the folder's documents hold (not one of low Zipf frequency
in a language), tests that an empty page passes are at most a tenth, and every test must pass on the transcription.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mmrl.data.make_tasks.blocks import Block, Document
from mmrl.data.make_tasks.typeset import PageContent
from mmrl.scoring.page_tests import Page, read_test
from mmrl.scoring.page_text import plain_text
from mmrl.scoring.tables import Cell, Grid

WORDS, NUMBERS, ORDERS, CELLS, FORMULAS, FORMATS, FOOTNOTES = 10, 5, 6, 25, 50, 5, 5
LEAST_TESTS = 9  # that an empty page fails
LEAST_ROWS = 3  # of a table, and columns
_WORD = re.compile(r"[^\W\d_]{5,}")
_NUMBER = re.compile(r"\d[\d.,]*\d")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")

Test = dict[str, Any]


def transcription(blocks: Sequence[Block]) -> str:
    """The page as Markdown; items of one list stand on neighbouring lines.

    Rules are left out: one at the start of a page would be read as the head of its front matter.
    """
    text, shown = "", [block for block in blocks if block.kind != "rule"]
    for before, block in zip((None, *shown), shown, strict=False):
        together = before is not None and before.kind == block.kind == "item"
        text += ("" if before is None else "\n" if together else "\n\n") + block.markdown
    return text


def words_of(document: Document) -> set[str]:
    return {word for block in document.blocks for word in _WORD.findall(block.text)}


def mine(
    page: PageContent, document: Document, *, documents_with: Mapping[str, int], rng: np.random.Generator
) -> list[Test]:
    """The tests of a page; empty where fewer than LEAST_TESTS would fail on an empty page.

    documents_with: in how many of the documents each word stands.
    """
    truth = Page(transcription(page.blocks))
    found = [
        {"type": "baseline"},
        *_present(truth, documents_with, rng),
        *_order(page.blocks, truth, rng),
        *(test for block in page.blocks if block.cells for test in _cells(block.cells, rng)),
        *_formulas(page.blocks),
        *_formats(page.blocks, rng),
        *_footnotes(page.blocks),
    ]
    empty = Page("")
    kept = [test for test in found if _passes(test, truth) and not _passes(test, empty)]
    if len(kept) < LEAST_TESTS:
        return []
    absent = [test for test in _absent(page, document) if _passes(test, truth)]
    return kept + absent[: len(kept) // 9]


def _passes(test: Test, page: Page) -> bool:
    return read_test(test).passes(page, same_formula=str.__eq__)


def _absent(page: PageContent, document: Document) -> Iterator[Test]:
    for text in (page.label, document.header, document.footer):
        if text:
            yield {"type": "absent", "text": text, "max_diffs": round(0.05 * len(text))}


def _present(truth: Page, documents_with: Mapping[str, int], rng: np.random.Generator) -> Iterator[Test]:
    words = [word for word, count in Counter(_WORD.findall(truth.plain)).items() if count == 1]
    shuffled = [words[n] for n in rng.permutation(len(words))]
    rare = sorted(shuffled, key=lambda word: documents_with.get(word, 0))
    once = [word for word in rare if truth.plain.count(word) == 1]
    numbers = [number for number in dict.fromkeys(_NUMBER.findall(truth.plain)) if truth.plain.count(number) == 1]
    for text in (*once[:WORDS], *(numbers[n] for n in rng.permutation(len(numbers))[:NUMBERS])):
        yield {"type": "present", "text": text, "max_diffs": 0}


def _order(blocks: Sequence[Block], truth: Page, rng: np.random.Generator) -> Iterator[Test]:
    texts = (plain_text(block.text) for block in blocks if block.kind in ("text", "item"))
    sentences = [s for text in texts for s in _SENTENCE_END.split(text) if 20 <= len(s) <= 300]
    once = [s for s in sentences if truth.plain.count(s) == 1]
    pairs = [(i, j) for i in range(len(once)) for j in range(i + 1, len(once))]
    for n in rng.permutation(len(pairs))[:ORDERS].tolist():
        before, after = (once[place] for place in pairs[n])
        allowed = round(0.02 * max(len(before), len(after)))
        yield {"type": "order", "before": before, "after": after, "max_diffs": allowed}


def _cells(cells: Grid, rng: np.random.Generator) -> Iterator[Test]:
    """Cells in random order, each with one random neighbour of one relation, as long as the pair of texts is unique."""
    rows, columns = (1 + max(place[side] for place in cells.places) for side in (0, 1))
    if rows < LEAST_ROWS or columns < LEAST_ROWS:
        return
    made = 0
    for n in rng.permutation(len(cells.cells)).tolist():
        cell = cells.cells[n]
        neighbours = list(_neighbours(cell, cells))
        if cell.text and neighbours:
            relation, other = neighbours[int(rng.integers(len(neighbours)))]
            yield {"type": "table", "cell": cell.text, relation: other, "max_diffs": 0}
            made += 1
        if made == CELLS:
            return


def _neighbours(cell: Cell, cells: Grid) -> Iterator[tuple[str, str]]:
    for side in ("up", "down", "left", "right"):
        yield from ((side, other.text) for other in sorted(cells.beside(cell, side), key=_place) if other.text)
    for relation, found in (
        ("top_heading", cells.headings(cell, "up")),
        ("left_heading", cells.headings(cell, "left")),
    ):
        headers = [other for other in sorted(found, key=_place) if other.is_header]
        yield from ((relation, other.text) for other in headers if other.text)


def _place(cell: Cell) -> tuple[int, int]:
    return cell.row, cell.column


def _formulas(blocks: Sequence[Block]) -> Iterator[Test]:
    unique = dict.fromkeys(run.text for block in blocks for run in block.runs if run.math)
    for formula in list(unique)[:FORMULAS]:
        yield {"type": "math", "math": formula}


def _formats(blocks: Sequence[Block], rng: np.random.Generator) -> Iterator[Test]:
    found = [("heading", block.text) for block in blocks if block.kind == "heading"]
    runs = [run for block in blocks if block.kind in ("text", "item") for run in block.runs if not run.math]
    found += [("bold", run.text.strip()) for run in runs if run.bold]
    found += [("italic", run.text.strip()) for run in runs if run.italic]
    fit = [(form, text) for form, text in dict.fromkeys(found) if len(text) >= 3]
    for n in rng.permutation(len(fit))[:FORMATS].tolist():
        yield {"type": "format", "format": fit[n][0], "text": fit[n][1], "max_diffs": 0}


def _footnotes(blocks: Sequence[Block]) -> Iterator[Test]:
    """Raised numbers, with the twenty characters before them."""
    made = 0
    for block in blocks:
        for place, run in enumerate(block.runs):
            before = plain_text("".join(r.text for r in block.runs[:place] if not r.math))[-20:]
            if run.raised and run.text.strip().isdigit() and len(before) >= 5 and made < FOOTNOTES:
                made += 1
                yield {"type": "footnote", "marker": run.text.strip(), "appears_before_marker": before}
