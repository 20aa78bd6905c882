"""Pairs of replies in rows as tools write them, through the shipped cards."""

import pytest
from makers.rows import write_jsonl

from mmrl.config.schema import DataSection, DatasetSection
from mmrl.data.preference import preference_pair
from mmrl.data.readers import read_dataset
from mmrl.data.sample import Message, TextPart
from mmrl.data.skipped import SkippedLog
from mmrl.errors import DataError

PROMPT = [{"role": "user", "content": "Which?"}]
GOOD, BAD = ({"role": "assistant", "content": text} for text in ("A", "B"))
ROWS = {
    "trl, text": ("trl", {"prompt": "Which?", "chosen": "A", "rejected": "B"}),
    "trl, conversational": ("trl", {"prompt": PROMPT, "chosen": [GOOD], "rejected": [BAD]}),
    "trl, parts": (
        "trl",
        {
            "prompt": PROMPT,
            "chosen": [{"role": "assistant", "content": [{"type": "text", "text": "A"}]}],
            "rejected": [BAD],
        },
    ),
    "trl, implicit prompt": (
        {"preset": "trl", "columns": {"prompt": "chosen"}},
        {"chosen": [*PROMPT, GOOD], "rejected": [*PROMPT, BAD]},
    ),
    "llamafactory": (
        {"preset": "llamafactory", "optional": ["answer"]},
        {
            "conversations": [{"from": "human", "value": "Which?"}],
            "chosen": {"from": "gpt", "value": "A"},
            "rejected": {"from": "gpt", "value": "B"},
        },
    ),
    "llamafactory, alpaca": (
        {"preset": "llamafactory", "optional": ["answer"]},
        {"instruction": "Which?", "chosen": "A", "rejected": "B"},
    ),
    "swift": ("swift", {"messages": [*PROMPT, GOOD], "rejected_response": "B"}),
    "swift, messages": ("swift", {"messages": [*PROMPT, GOOD], "rejected_messages": [*PROMPT, BAD]}),
}


def first(folder, card, row):
    path = write_jsonl(folder / "rows.jsonl", [row])
    section = DatasetSection.model_validate({"path": str(path), "card": card})
    log = SkippedLog(None, max_fraction=0.0)
    return read_dataset(section, data=DataSection(), relative_to=folder, skipped=log)[0]


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_other_tools(name, tmp_path):
    card, row = ROWS[name]
    sample = first(tmp_path, card, row)
    assert preference_pair(sample) == ("A", "B")
    assert sample.messages == (Message("user", (TextPart("Which?"),)),)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"chosen": "A"}, "rows.jsonl:1 .* needs a column 'rejected' or 'rejected_response'"),
        ({"chosen": "A", "rejected": "A"}, "rows.jsonl:1 .* are equal"),
        ({"chosen": "A", "rejected": 3}, "column 'rejected' must hold a text or messages, not"),
        ({"chosen": PROMPT, "rejected": "B"}, "column 'chosen' ends with a message of 'user'"),
    ],
)
def test_rows_that_are_no_pair_are_told(columns, message, tmp_path):
    with pytest.raises(DataError, match=message):
        preference_pair(first(tmp_path, "trl", {"prompt": "Which?", "answer": "x", **columns}))
