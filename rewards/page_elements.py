r"""How many tables and formulas a transcribed page has, and whether its tables are whole.

Formula: `counts`: 0.5 for as many HTML tables as the reference page, 0.5 for as many formulas in `$$..$$`, `\(..\)` and
`\[..\]`. `rectangular`: the share of the HTML tables without a gap, counting spans; without a table 1 where the
reference has none, else 0. `official`: without a table 1.
Bounds: 0 to 1.
Answer: the page itself. The reference is the column `column` of the row, a page's text; the dataset's answer is not
read, so that a page's tests may stand there.
Space: none.
Source: olmOCR 2, reward_element_count and reward_rect_tables, which its release does not use. HTML comments do not
count.
Example: reference with a table and two formulas: a page with a table and one formula 0.5; `rectangular`: a table of
two cells above one 0, with `colspan=2` below 1.
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_column
from mmrl.scoring.page_tests import Page

BOUNDS = (0.0, 1.0)
_MOST_PAGES_HAVE_NONE = (
    "most pages have neither table nor formula, and a text without them agrees; read it beside others"
)
KNOWN_HACKS = dict.fromkeys(("constant", "echo", "options", "empty", "repeated"), _MOST_PAGES_HAVE_NONE)


def score(
    completion: str,
    sample: Sample,
    *,
    column: str = "reference",
    measure: Literal["counts", "rectangular"] = "counts",
    official: bool = False,
) -> float:
    """`column`: the reference page. `measure`: what is looked at."""
    text = sample.columns.get(column)
    if not isinstance(text, str):
        raise bad_column(sample, column, wanted="the text of the reference page")
    page, reference = Page(completion), Page(text)
    if measure == "counts":
        return 0.5 * (page.table_count == reference.table_count) + 0.5 * (page.formula_count == reference.formula_count)
    if not page.table_count:
        return float(official or not reference.table_count)
    return sum(grid.is_rectangular for grid in page.html_grids) / page.table_count
