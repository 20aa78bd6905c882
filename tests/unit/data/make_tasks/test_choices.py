"""Open questions as multiple choice: the right option is there once, wrong ones are of its type."""

from collections import Counter

import numpy as np
import pytest
from makers.made_tasks import make, photos, rows_of, samples_of, scored
from makers.rows import write_jsonl

from mmrl.data.make_tasks.choices import Pool, answer_type
from mmrl.data.make_tasks.puzzle import UnusableError
from mmrl.data.sample import MediaPart, TextPart


def row(number, answer, **more):
    return {
        "problem_id": f"q{number}",
        "problem": f"<image>Question {number}?",
        "answer": answer,
        "images": ["coffee.png"],
        "problem_type": "vqa",
        **more,
    }


@pytest.fixture
def file(tmp_path):
    photos(tmp_path / "in", ("coffee.png",))
    names = [
        "a cup",
        "the spoon",
        "wooden table",
        "a red plate",
        "A cup.",
        "some milk",
        "no sugar here",
        "brown coffee",
    ]
    rows = [row(n, name) for n, name in enumerate(names)]
    rows += [row(10 + n, str(n * n + 3)) for n in range(8)]
    rows += [row(30, "yes"), row(31, "B"), row(32, [1, 2, 3, 4]), row(33, "7.25"), row(34, "x" * 300)]
    write_jsonl(tmp_path / "in" / "open.jsonl", rows)
    return tmp_path / "in" / "open.jsonl"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(3, "integer"), ("1,024", "integer"), ("-0.5", "decimal"), ("12 %", "number with %"), ("5.1 km", "number with km"),
     ("In 1999", "text with digits"), ("a red car", "text")],
)  # fmt: skip
def test_types_of_answers(answer, kind):
    assert answer_type(answer) == kind


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("Yes", "yes-or-no"), (True, "no text and no number"), ("(b)", "is a letter"), ([1, 2], "no text and no number"),
     (" ", "empty"), ("y" * 201, "201 characters")],
)  # fmt: skip
def test_answers_without_options(answer, reason):
    with pytest.raises(UnusableError, match=reason):
        answer_type(answer)


def test_the_letter_names_the_open_answer(file, tmp_path):
    make("multiple-choice", file, tmp_path / "out", epochs=3)
    rows = rows_of(tmp_path / "out")
    for made in rows:
        options = made["options"]
        assert options["ABCD".index(made["answer"])] == str(made["open_answer"])
        assert len(set(options)) == 4 and len({answer_type(option) for option in options}) == 1
        assert not {"a cup", "A cup."} <= set(options)  # one answer in two spellings
    letters = Counter(made["answer"] for made in rows)
    assert max(letters.values()) - min(letters.values()) <= 1
    first, again, third = [m["options"] for m in rows if m["source"] == "q3"]
    assert first != again or again != third


def test_wrong_options_come_as_often_as_rows_give_them():
    pool = Pool.of(["red"] * 8 + ["blue", "Red.", "green"])
    assert (pool.texts, pool.counts) == (["red", "blue", "green"], [9, 1, 1])
    rng = np.random.default_rng(0)
    drawn = Counter(pool.wrong("gray", count=1, rng=rng)[0] for _ in range(1000))
    assert drawn["red"] == pytest.approx(9000 / 11, abs=50)
    assert Counter(pool.wrong("blue", count=1, rng=rng)[0] for _ in range(50))["blue"] == 0


def test_wrong_options_have_about_the_right_ones_length():
    pool = Pool.of(["x" * n for n in range(1, 200)])
    wrong = {
        len(text) for seed in range(50) for text in pool.wrong("y" * 120, count=3, rng=np.random.default_rng(seed))
    }
    assert min(wrong) >= 70 and max(wrong) <= 169


def test_question_and_media_stay_as_they_were(file, tmp_path):
    make("multiple-choice", file, tmp_path / "out")
    sample = samples_of(tmp_path / "out")[0]
    (message,) = sample.messages
    assert isinstance(message.parts[0], MediaPart) and sample.media[0].source == file.parent / "coffee.png"
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    assert text.startswith("Question 0?\nA. ") and text.endswith("\nAnswer with the letter of the right option.")


def test_gold_letters_score_one_and_others_nothing(file, tmp_path):
    make("multiple-choice", file, tmp_path / "out")
    for sample in samples_of(tmp_path / "out"):
        scores = {letter: scored(f"<answer>{letter}</answer>", sample) for letter in "ABCD"}
        assert scores.pop(sample.answer) == 1.0 and set(scores.values()) == {0.0}
        assert scored(str(sample.columns["open_answer"]), sample) == 1.0  # its text counts too


def test_rows_that_cannot_be_rewritten_are_listed(file, tmp_path):
    made = make("multiple-choice", file, tmp_path / "out")
    reasons = {skip["source"]: skip["reason"] for skip in made.skipped}
    assert set(reasons) == {"q30", "q31", "q32", "q33", "q34"}
    assert reasons["q33"] == "only 0 other answers of its type, 3 needed"


def test_text_that_looks_like_a_placeholder_stays_text(tmp_path):
    rows = [
        {"prompt": f"What does <image> mean in line {n}?", "answer": f"tag number {'x' * n}", "task": "t"}
        for n in range(5)
    ]
    write_jsonl(tmp_path / "open.jsonl", rows)
    card = tmp_path / "card.yaml"
    card.write_text("columns: {prompt: prompt, answer: answer, task: task}\nimage_placeholder: null\n")
    make("multiple-choice", tmp_path / "open.jsonl", tmp_path / "out", card=str(card))
    for sample in samples_of(tmp_path / "out"):
        assert sample.media == () and "What does <image> mean" in sample.messages[0].parts[0].text


def test_rows_of_another_tool_keep_turns_modality_and_columns(tmp_path):
    photos(tmp_path / "in", ("coffee.png",))
    rows = [
        {
            "id": "same",
            "image": "coffee.png",
            "version": n,
            "conversations": [
                {"from": "human", "value": "<image>\nWhat is it?"},
                {"from": "gpt", "value": "A cup."},
                {"from": "human", "value": f"And thing {n}?"},
                {"from": "gpt", "value": f"thing of colour {'rgbyc'[n] * 3}"},
            ],
        }
        for n in range(5)
    ]
    write_jsonl(tmp_path / "in" / "llava.jsonl", rows)
    card = tmp_path / "card.yaml"
    card.write_text("preset: llava\nmodality: ocr\n")
    make("multiple-choice", tmp_path / "in" / "llava.jsonl", tmp_path / "out", card=str(card))
    samples = samples_of(tmp_path / "out")
    assert [sample.sample_id for sample in samples] == [f"llava:{n}" for n in range(1, 6)]
    for n, sample in enumerate(samples):
        assert [message.role for message in sample.messages] == ["user", "assistant", "user"]
        assert sample.modality == "ocr" and sample.columns["source_version"] == n
        assert sample.columns["source_id"] == "same" and sample.columns["source_task"] == "open-ended"
        assert sample.columns["options"]["ABCD".index(sample.answer)] == sample.columns["open_answer"]
        assert "demonstration" not in sample.columns
