"""Rows of the card `olmocr_bench` from files of olmOCR's unit tests, one row for each page with all its tests:

    python datasets/olmocr_bench/prepare.py bench_data/table_tests.jsonl --pdfs bench_data/pdfs --out data/pages.jsonl

olmOCR-Bench itself is a benchmark: make training rows of tests mined from other pages, in the same form. For the
benchmark give `--by-file` and all its files: each test then says its file, and the column `counts` how many tests of
each file a page has; a PDF without a test of type baseline gets one, of the file `baseline`, as the benchmark does.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, published_rows
from mmrl.errors import DataError

PLACE = ("pdf", "page", "id", "url", "checked")  # where a test comes from
BASELINE = "baseline"

Pages = dict[tuple[str, int], list[dict[str, Any]]]


def make(source: Path, folder: Path, *, pdfs: Path, by_file: bool = False) -> Iterator[dict[str, Any]]:
    pages: Pages = {}
    for row in published_rows(source):
        if not (pdfs / row["pdf"]).is_file():
            raise DataError(f"no such file: {pdfs / row['pdf']}; name the folder by --pdfs", where=row.origin)
        test = {key: value for key, value in row.items() if key not in PLACE and value is not None}
        file = {"file": source.stem} if by_file else {}
        pages.setdefault((row["pdf"], row["page"]), []).append(test | file)
    if by_file:
        add_baselines(pages)
    for (pdf, page), tests in pages.items():
        yield {
            "id": f"{pdf}:{page}",
            "question": "Transcribe this page.",
            "page": f"{(pdfs / pdf).absolute()}#page={page}",
            "tests": tests,
            **({"counts": Counter(test["file"] for test in tests)} if by_file else {}),
        }


def add_baselines(pages: Pages) -> None:
    """A test that its first page is no rubbish, for every PDF without such a test."""
    has_one = {pdf for (pdf, _), tests in pages.items() if any(test["type"] == BASELINE for test in tests)}
    for pdf in dict.fromkeys(pdf for pdf, _ in pages):
        if pdf not in has_one:
            pages.setdefault((pdf, 1), []).append({"type": BASELINE, "file": BASELINE})


if __name__ == "__main__":
    options = {
        "pdfs": {"type": Path, "required": True, "help": "folder of the PDF files"},
        "by_file": {"action": "store_true", "help": "rows for the benchmark"},
    }
    main(__doc__, make, options=options)
