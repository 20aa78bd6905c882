"""Rows of the card `olmocr_bench` from files of olmOCR's unit tests, one row for each page with all its tests:

    python datasets/olmocr_bench/prepare.py bench_data/table_tests.jsonl --pdfs bench_data/pdfs --out data/pages.jsonl

olmOCR-Bench itself is a benchmark: make training rows of tests mined from other pages, in the same form.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, published_rows
from mmrl.errors import DataError

PLACE = ("pdf", "page", "id", "url", "checked")  # where a test comes from


def make(source: Path, folder: Path, *, pdfs: Path) -> Iterator[dict[str, Any]]:
    pages: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in published_rows(source):
        if not (pdfs / row["pdf"]).is_file():
            raise DataError(f"no such file: {pdfs / row['pdf']}; name the folder by --pdfs", where=row.origin)
        test = {key: value for key, value in row.items() if key not in PLACE and value is not None}
        pages.setdefault((row["pdf"], row["page"]), []).append(test)
    for (pdf, page), tests in pages.items():
        yield {
            "id": f"{pdf}:{page}",
            "question": "Transcribe this page.",
            "page": f"{(pdfs / pdf).absolute()}#page={page}",
            "tests": tests,
        }


if __name__ == "__main__":
    main(__doc__, make, options={"pdfs": {"type": Path, "required": True, "help": "folder of the PDF files"}})
