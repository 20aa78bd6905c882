"""Rows of the card `charxiv` from the question files of CharXiv's repository, one row for each question:

    python datasets/charxiv/prepare.py CharXiv/data/reasoning_val.json --images CharXiv/images --out rows.jsonl
    python datasets/charxiv/prepare.py CharXiv/data/descriptive_val.json --images CharXiv/images --out rows.jsonl

Questions carry the instructions of CharXiv/src/constants.py, which is read beside the question file, never run.
"""

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main
from mmrl.errors import DataError

REASONING = {1: "text in chart", 2: "text in general", 3: "number in chart", 4: "number in general"}
NUMBER_IN_GENERAL = 4
LAYOUT, SUBPLOTS = 18, 19  # templates about all subplots together
DESCRIPTIVE = {  # CharXiv's rubrics, by the number of the template
    "title": (1,),
    "text": (2, 3, 4, 5, 6, 7),
    "quantity": (8, 9, 10, 12, 14, 15, 17, SUBPLOTS),
    "yes or no": (11,),
    "list": (13,),
    "trend": (16,),
    "layout": (LAYOUT,),
}
KINDS = {number: kind for kind, numbers in DESCRIPTIVE.items() for number in numbers}


def make(source: Path, folder: Path, *, images: Path) -> Iterator[dict[str, Any]]:
    instructions = constants(source.parent.parent / "src" / "constants.py")
    for key, row in json.loads(source.read_bytes()).items():
        picture = images / f"{row['figure_id']}.jpg"
        if not picture.is_file():
            raise DataError(f"no such file: {picture}; name the folder by --images", where=f"{source.name}: {key}")
        shared = {"figure": row["figure_id"], "image": str(picture.absolute())}
        rows = reasoning(row, instructions) if "inst_category" in row else descriptive(row, instructions)
        for number, of_row in enumerate(rows):
            yield {"id": f"{key}_{number}", **of_row, **shared}


def reasoning(row: Mapping[str, Any], instructions: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    form, asked = row["inst_category"], row["query"]
    texts = (asked, number_instruction(row["answer"])) if form == NUMBER_IN_GENERAL else (asked,)
    question = instructions["REASONING_RESP_INST"][form].format(*texts)
    yield {"question": question.strip(), "asked": asked, "answer": row["answer"], "kind": REASONING[form]}


def descriptive(row: Mapping[str, Any], instructions: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for template, answer in zip(row["qids"], row["answers"], strict=True):
        question = instructions["DESCRIPTIVE_RESP_INST"][template]
        if template not in (LAYOUT, SUBPLOTS):
            question = question.format(place(row["subplot_loc"]))
        asked = instructions["DESCRIPTIVE_GRADING_QMAP"][template]
        yield {"question": question.strip(), "asked": asked, "answer": answer, "kind": KINDS[template]}


def place(subplot: str | list[int]) -> str:
    """How a descriptive question begins.

    >>> place([1, 2]), place([0, 0]), place("the bottom subplot")
    ('For the subplot at row 1 and column 2, ', 'For the current plot, ', 'For the bottom subplot, ')
    """
    if isinstance(subplot, str):
        return f"For {subplot}, "
    row, column = subplot
    return f"For the subplot at row {row} and column {column}, " if row else "For the current plot, "


def number_instruction(answer: str) -> str:
    """The form of a number that no text of the chart gives.

    >>> number_instruction("0.25")
    '* Your final answer must be a number with 2 decimal places.'
    """
    _, point, decimals = answer.partition(".")
    form = f"a number with {len(decimals)} decimal places" if point else "an exact integer"
    return f"* Your final answer must be {form}."


def constants(path: Path) -> dict[str, Any]:
    """The constants of a Python file that are written out in it."""
    if not path.is_file():
        raise DataError(f"no such file: {path}; question files stand in a copy of CharXiv's repository, in data/")
    found = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name):
            found[target.id] = ast.literal_eval(statement.value)
    return found


if __name__ == "__main__":
    main(__doc__, make, options={"images": {"type": Path, "required": True, "help": "folder of 0.jpg, 2.jpg, .."}})
