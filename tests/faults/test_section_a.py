"""Section A of the public faults: vision tokens and features, truncation, placeholders. `mmrl check` finds each."""

import pytest
from makers.command import Said, mmrl
from makers.rows import write_jsonl
from makers.tiny_run import write_run

COVERED = {
    1: [
        "e2e/test_modes.py::test_prompts_that_are_too_long_are_skipped_and_counted",
        "faults/test_section_a.py::test_bad_row",
    ],
    2: ["unit/data/test_render.py::test_too_long_is_an_error_with_numbers_and_nothing_is_cut"],
    3: [
        "unit/data/test_budget.py::test_largest_max_pixels_of_four_pictures",
        "faults/test_section_a.py::test_too_long",
    ],
    4: ["unit/data/test_render.py::test_too_long_is_an_error_with_numbers_and_nothing_is_cut"],
    5: ["faults/test_section_a.py::test_too_long"],
    6: ["unit/data/test_render.py::test_engine_ids_hold_one_placeholder_per_medium"],
    7: ["unit/data/test_render.py::test_extending_keeps_sampled_ids_and_old_placeholders"],
    8: ["faults/test_section_a.py::test_too_long"],
    9: [
        "unit/data/test_check.py::test_lengths_are_those_of_rendered_prompts",
        "faults/test_section_a.py::test_too_long",
    ],
    10: ["unit/models/test_logprobs.py::test_a_mixed_micro_batch_equals_one_row_at_a_time"],
    11: ["unit/models/test_logprobs.py::test_a_mixed_micro_batch_equals_one_row_at_a_time"],
    12: ["unit/models/test_logprobs.py::test_a_mixed_micro_batch_equals_one_row_at_a_time"],
    13: ["unit/data/test_cards.py::test_answers_are_never_searched", "faults/test_section_a.py::test_good_rows"],
    14: ["unit/data/test_render.py::test_what_people_type_stays_text", "faults/test_section_a.py::test_good_rows"],
    15: ["unit/data/test_placeholders.py::test_counts_must_agree", "faults/test_section_a.py::test_bad_row"],
    16: ["unit/data/test_placeholders.py::test_split", "faults/test_section_a.py::test_good_rows"],
}

GOOD = {"prompt": "<image> What?", "answer": "a", "task": "t", "images": ["0.png"]}
GOOD_ROWS = [
    GOOD,
    {**GOOD, "answer": "<p>a <video> tag</p>"},  # fault 13
    {**GOOD, "prompt": "<|image_pad|><|vision_start|> <image> What?"},  # fault 14
    {**GOOD, "prompt": "<image>\n\nWhat?\n"},  # fault 16
]
BAD_ROWS = {
    '{"prompt": "<image>"': "not valid JSON: ",
    "[1, 2]": "a row must be a JSON object, this is a list",
    "[" * 5000: "brackets are nested too deeply",
    '{"prompt": ' + "9" * 5000 + "}": "a number with too many digits; write it as a string",
    '{"prompt": "\\ud800 cut", "answer": "a", "task": "t"}': "text with half a character (\\ud800)",
    # faults 1 and 15: counts that do not agree are never guessed
    '{"prompt": "<image><image>?", "images": ["0.png"], "answer": "a", "task": "t"}': "2 image placeholders but 1",
    '{"prompt": "none", "images": ["0.png"], "answer": "a", "task": "t"}': "0 image placeholders but 1 image; put the",
    '{"prompt": "<video><image>", "images": ["0.png"], "answer": "a", "task": "t"}': "1 video placeholder but 0 videos",
    '{"prompt": "   ", "answer": "a", "task": "t"}': "the prompt is empty",
    '{"prompt": 5, "answer": "a", "task": "t"}': "the prompt must be a string or ",
    '{"answer": "a", "task": "t"}': "no column 'prompt' for the sample field prompt; columns present: answer, task",
    '{"prompt": "q", "answer": "a"}': "no task: the column 'task' is absent or empty",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> Said:
    """What `mmrl check` says of the good rows followed by the bad ones, without opening media."""
    folder = tmp_path_factory.mktemp("rows")
    config = write_run(folder)
    write_jsonl(folder / "train.jsonl", GOOD_ROWS)
    with (folder / "train.jsonl").open("a") as file:
        file.writelines(f"{line}\n" for line in BAD_ROWS)
    return mmrl("check", config, "--media", "none", "data.val=[]")


@pytest.mark.parametrize("number", range(len(BAD_ROWS)))
def test_bad_row(checked, number):  # faults 1, 15
    place, reason = f"train.jsonl:{len(GOOD_ROWS) + number + 1}", list(BAD_ROWS.values())[number]
    assert checked.code == 1
    if number < 10:  # the report lists ten, and counts all
        assert reason in checked.line_with(f"bad_row {place}")
    assert f"problem: train train: {len(BAD_ROWS)} rows are bad and data.bad_row is `error`" in checked.out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run whose training rows are one question on four pictures of 6 tokens, and the cache filled."""
    folder = tmp_path_factory.mktemp("long")
    write_run(folder)
    row = {"prompt": "<image><image><image><image>?", "answer": "a", "task": "t"}
    write_jsonl(folder / "train.jsonl", [{**row, "images": [f"{n}.png" for n in range(4)]}])
    assert mmrl("check", folder / "config.yaml", "data.val=[]", "--media", "all").code == 0
    return folder


def test_good_rows(folder):  # faults 13, 14, 16
    """Typed markup neither becomes a medium nor moves one: 6 vision tokens in each of the four rows."""
    path = folder / "good.jsonl"
    write_jsonl(path, GOOD_ROWS)
    said = mmrl("check", folder / "config.yaml", "data.val=[]", f"data.train.0.path={path}", "--media", "all")
    assert said.code == 0, said
    row = said.line_with("train good", "t 4").split("│")
    assert [cell.strip() for cell in row[2:5]] == ["4", "0", "4"]
    assert row[6].strip() == "6 / 6 / 6 / 6"


@pytest.mark.parametrize(
    ("policy", "code", "words"),
    [
        ("error", 1, "1 of 1 prompts are longer than data.max_prompt_tokens=40 and data.too_long is `error`"),
        ("skip", 1, "1 of 1 rows would be skipped, more than data.max_skipped_fraction=0.05"),
        ("shrink", 0, "nothing would stop a run"),
    ],
)
def test_too_long(folder, policy, code, words):  # faults 3, 5, 8, 9
    """Four pictures of 6 tokens and the text. The renderer counts, whatever the policy; half the pixels fit in 40."""
    limits = ("data.val=[]", "data.max_prompt_tokens=40", f"data.too_long={policy}")
    said = mmrl("check", folder / "config.yaml", *limits, "--media", "all")
    assert (said.code, words in said.out) == (code, True), said


def test_too_long_for_every_budget(folder):  # fault 3: the sum by picture and what would fit
    limits = ("data.val=[]", "data.max_prompt_tokens=25", "data.too_long=shrink")
    said = mmrl("check", folder / "config.yaml", *limits, "--media", "all")
    assert said.code == 1
    line = said.line_with("problem:", "1 prompts cannot be shrunk enough. First: train.jsonl:1 (id=train:1): ")
    assert "24 of media (6 + 6 + 6 + 6)" in line and "no pixel budget makes it fit" in line
