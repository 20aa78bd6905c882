"""A table against the table of the answer, by tree edit distance (TEDS).

Formula: 1 - D / max(n, m); D the least cost of node insertions and removals (1 each) and renamings (1 where tag or
span differ, else edits of the cell's text by the longer text's length), n and m the nodes below the two tables.
Bounds: 0 to 1.
Answer: one table, in HTML or Markdown; no table, or several, or one of more than 20 times
the answer's nodes, score 0. The dataset's answer is one table too.
Space: none.
Source: Zhong et al. 2020 (PubTabNet). There a `th` for a `td` and a missing `tbody` are errors; here they are none,
since no reader sees them: `official` restores that.
Example: 2 x 2 tables: one of four texts wrong 0.833333, one of four characters of a text wrong 0.958333, the last row
missing 0.5.
"""

import functools

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.tables import MAX_TEXT, TableTree, html_of_markdown, outer_tables, parse_html, teds

BOUNDS = (0.0, 1.0)
_FAR = 20  # times the answer's nodes: the score cannot exceed 0.05 there, and is taken as 0


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", structure: bool = False, official: bool = False
) -> float:
    """`structure`: without the texts (TEDS-S). `official`: header cells and row groups count as the source has them."""
    gold = _gold(sample.answer, official) if isinstance(sample.answer, str) else None
    if gold is None or not gold.size:
        raise bad_answer(sample, wanted="one table in HTML or Markdown")
    table = _table(extract_prediction(completion, answer=answer) or "", official)
    if table is None or table.size > _FAR * gold.size:
        return 0.0
    return teds(table, gold, structure_only=structure)


def _table(text: str, official: bool) -> TableTree | None:
    """The one table of a text; None where there is none, or several, or the text is longer than a page can be."""
    if len(text) > MAX_TEXT:
        return None
    found = outer_tables(parse_html(text if "<table" in text.lower() else html_of_markdown(text)))
    return TableTree.of(found[0], plain=not official) if len(found) == 1 else None


_gold = functools.lru_cache(256)(_table)
