"""The text of a page as tests on it see it, and where in it another text stands, give or take some edits. Pure.

Shape letters: M characters of what is sought, N of the page.
"""

from __future__ import annotations

import itertools
import re
import unicodedata

import numpy as np
import yaml
from rapidfuzz import fuzz

_LONGEST_HEAD = 2000
_DENSE = 16  # from a piece in so many characters on, finding pieces saves nothing
_EMPHASIS = re.compile(r"\*\*([^*]*)\*\*|__([^_]*)__|\*([^*]*)\*|(?<!\w)_([^_]*)_(?!\w)")
_TAGS = re.compile(r"</?[bi]>", re.IGNORECASE)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_PLAIN = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "＿": "_", "µ": "μ"} | dict.fromkeys("–—‑‒−", "-")
)


def plain_text(text: str) -> str:
    """Without bold and italics, with every run of white space as one blank, NFC, and quotes and dashes of ASCII.

    Source: the normalisation of olmOCR-Bench; an underscore inside a word stays here.

    >>> plain_text("**Total**<br>of  “all” — _a_ snake_case_name")
    'Total of "all" - a snake_case_name'
    """
    text = " ".join(_BREAK.sub(" ", text).split())
    text = _TAGS.sub("", _EMPHASIS.sub(lambda found: next(g for g in found.groups() if g is not None), text))
    return unicodedata.normalize("NFC", text).translate(_PLAIN).strip()


def split_front_matter(text: str) -> tuple[dict | None, str]:
    r"""The mapping at the beginning of a page, and the page without it; None and all of it where there is none.

    It stands between lines of `---`, is YAML, and has at most 2000 characters and no anchors, which would let few lines
    be many. A page that begins with a rule has none.

    >>> split_front_matter("---\nis_table: true\n---\n# Title"), split_front_matter("---\nText\n---")
    (({'is_table': True}, '# Title'), (None, '---\nText\n---'))
    """
    first, _, rest = text.lstrip().partition("\n")
    head, closed, page = rest.partition("\n---")
    if first.strip() != "---" or not closed or len(head) > _LONGEST_HEAD or "&" in head or "*" in head:
        return None, text
    try:
        found = yaml.safe_load(head)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None, text
    return (found, page.partition("\n")[2]) if isinstance(found, dict) else (None, text)


def best_ratio(sought: str, page: str) -> float:
    """The best match of `sought` with a part of the page as long, of 0 to 1; with all of a page that is shorter.

    The ratio of rapidfuzz: 1 - (insertions + deletions) / (sum of both lengths).

    >>> round(best_ratio("photosynthesis", "by photosynthezis in"), 3), best_ratio("long", "o")
    (0.929, 0.4)
    """
    return (fuzz.partial_ratio if len(page) >= len(sought) else fuzz.ratio)(sought, page) / 100


def starts(sought: str, page: str, *, max_edits: int) -> np.ndarray:
    """Where in the page a text begins that is at most `max_edits` edits from `sought`: indices in order.

    Of places closer to each other than max_edits + 1 only the best, for a match may begin an edit earlier or later.
    Sellers 1980, backwards, so that the end of a match is where it begins; M steps over all places at once. Only places
    near a piece of the sought text are looked at: of max_edits + 1 pieces, as many edits leave one as it was.

    >>> starts("cat", "a cat, a cut", max_edits=1)
    array([2, 9])
    """
    if not page:
        return np.array([], dtype=np.int64)
    page_N = np.frombuffer(page.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    near_N = _near_a_piece(sought, page, max_edits=max_edits)
    # No match is longer, so one that begins near a piece lies in these characters, whatever was left out around them.
    kept = np.flatnonzero(_covered(np.flatnonzero(near_N), length=len(sought) + max_edits, size=len(page)))
    edits = _edits_from(sought, page_N[kept])
    is_start = (edits <= max_edits) & near_N[kept]
    found, edits_N = kept[is_start], np.full(len(page), max_edits + 1)
    edits_N[found] = edits[is_start]
    runs = np.split(found, np.nonzero(np.diff(found) > max_edits + 1)[0] + 1) if len(found) else []
    return np.array([run[np.argmin(edits_N[run])] for run in runs], dtype=np.int64)


def _near_a_piece(sought: str, page: str, *, max_edits: int) -> np.ndarray:
    """(N,): whether a text with at most max_edits edits may begin there; everywhere where too many pieces stand."""
    everywhere = np.ones(len(page), dtype=bool)
    if max_edits >= len(sought):
        return everywhere
    edges = np.linspace(0, len(sought), max_edits + 2).astype(int).tolist()
    begins: list[int] = []
    for begin, end in itertools.pairwise(edges):
        at = page.find(sought[begin:end])
        while at >= 0:
            begins.append(at - begin)
            if len(begins) * _DENSE > len(page):
                return everywhere
            at = page.find(sought[begin:end], at + 1)
    return _covered(np.array(begins, dtype=np.int64) - max_edits, length=2 * max_edits + 1, size=len(page))


def _covered(begins: np.ndarray, *, length: int, size: int) -> np.ndarray:
    """(size,): whether a place lies in a stretch of that length from one of these beginnings."""
    steps = np.zeros(size + 1, dtype=np.int64)
    np.add.at(steps, np.clip(begins, 0, size), 1)
    np.add.at(steps, np.clip(begins + length, 0, size), -1)
    return np.cumsum(steps[:-1]) > 0


def _edits_from(sought: str, page_N: np.ndarray) -> np.ndarray:
    """(N,): the fewest edits between `sought` and any text that begins at that character of the page."""
    page_N = page_N[::-1]
    ramp_N = np.arange(len(page_N) + 1)
    row_N = np.zeros(len(page_N) + 1, dtype=np.int64)
    for step, character in enumerate(reversed(sought), start=1):
        below_N = np.minimum(row_N[1:] + 1, row_N[:-1] + (page_N != ord(character)))
        row_N = np.minimum.accumulate(np.concatenate(([step], below_N)) - ramp_N) + ramp_N
    return row_N[1:][::-1]
