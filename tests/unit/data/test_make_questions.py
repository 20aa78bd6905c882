"""MedVLSynther's pipeline: the rubric's worked numbers, letters, and whole runs against local servers."""

import json
import re
from collections import Counter

import pytest
from makers.chat_server import MODEL, ChatServer, parts
from makers.command import mmrl
from makers.made_tasks import photos
from makers.rows import read, write_jsonl

from mmrl.data.make_questions import ESSENTIALS, Item, Written, balanced, read_written, rejection, rubric_score
from mmrl.errors import JudgeError


def essentials(**changed):
    return [Item(title, "essential", 5, changed.get(title, 5)) for title in ESSENTIALS]


BONUS = [*(Item(f"i{n}", "important", 3, score) for n, score in enumerate((3, 0, 3, 3))), Item("o", "optional", 2, 0)]
PITFALL = Item("p", "pitfall", -1, -1)


@pytest.mark.parametrize(
    ("items", "score", "kept_at_90"),
    [
        ([*essentials(), *BONUS], 0.8980, False),
        ([*essentials(), *BONUS, PITFALL], 0.8776, False),
        ([*essentials(), Item("i", "important", 4, 4)], 1.0, True),
        ([*essentials(), Item("i", "important", 4, 9), Item("p", "pitfall", -2, 0)], 1.0, True),
        ([*essentials(), PITFALL], round(34 / 35, 4), True),
    ],
)
def test_worked_scores(items, score, kept_at_90):
    assert round(rubric_score(items), 4) == score
    assert (rejection(items, threshold=0.9) is None) == kept_at_90


@pytest.mark.parametrize("title", ESSENTIALS)
def test_an_essential_that_fails_or_is_left_out_rejects_whatever_the_score(title):
    bonus = [Item(f"i{n}", "important", 4, 4) for n in range(40)]
    failed = [*essentials(**{title: 4}), *bonus]
    assert rubric_score(failed) > 0.99 and rejection(failed, threshold=0.0) == f"essential: {title}"
    absent = [item for item in failed if item.title != title]
    assert rejection(absent, threshold=0.0) == f"essential: {title} (the verifier left it out)"


def test_dashes_and_case_of_titles_do_not_matter():
    items = [Item(item.title.replace("–", "-").upper(), "essential", 5, 5) for item in essentials()]
    assert rejection(items, threshold=1.0) is None


def written(answer="A", options=5):
    return Written("Which?", {letter: f"option {letter}" for letter in "ABCDE"[:options]}, answer)


def test_letters_are_dealt_out_evenly_and_the_right_option_stays_right():
    questions = balanced([written() for _ in range(50)], seed=3)
    assert Counter(question.answer for question in questions) == dict.fromkeys("ABCDE", 10)
    assert all(question.options[question.answer] == "option A" for question in questions)
    assert all(sorted(question.options.values()) == sorted(written().options.values()) for question in questions)
    assert [q.answer for q in balanced([written() for _ in range(50)], seed=3)] == [q.answer for q in questions]
    few = balanced([written(options=2) for _ in range(4)], seed=0)
    assert Counter(question.answer for question in few) == {"A": 2, "B": 2}


@pytest.mark.parametrize(
    "changed",
    [{"answer": "F"}, {"options": {"A": "x"}}, {"options": {"A": "x", "B": "X "}}, {"question": ""}, {"answer": 1}],
)
def test_a_question_of_another_form_is_none(changed):
    value = {"question": "Which?", "options": {"A": "x", "B": "y"}, "answer": "B"}
    assert read_written(value) == Written("Which?", {"A": "x", "B": "y"}, "B")
    with pytest.raises(JudgeError, match="not of the form asked for"):
        read_written({**value, **changed})


def text_of(body):
    return "".join(part["text"] for part in parts(body, "text"))


def marked(body, value):
    """A reply that ends as the rules ask for."""
    mark = re.search(r"\[[0-9a-f]{12}\]", body["messages"][0]["content"])
    return f"Let me see.\n{mark[0]} {json.dumps(value)}" if mark else "white"


def generate(body):
    if "garbled" in text_of(body):
        return "I would rather not."
    options = {letter: f"finding {letter}" for letter in "ABCDE"}
    return marked(body, {"question": "What does the arrow show?", "options": options, "answer": "A"})


def verify(body):
    leaks = "leaking" in text_of(body)
    rubric = [
        {"title": t, "category": "Essential", "weight": 5, "score": 0 if leaks and t == "Diagnosis Leak" else 5}
        for t in ESSENTIALS
    ]
    weak = [{"title": "Depth", "category": "Important", "weight": 4, "score": 0}] if "shallow" in text_of(body) else []
    return marked(body, [*rubric, *weak])


def figures(folder):
    photos(folder, ("coffee.png",))
    captions = ["a clear one", "a leaking one", "a shallow one", "a garbled one", *(f"clear {n}" for n in range(9))]
    rows = [
        {"id": f"f{n}", "images": ["coffee.png"], "caption": text, "context": "t"} for n, text in enumerate(captions)
    ]
    return write_jsonl(folder / "figures.jsonl", rows)


def command(file, out, generator, verifier):
    servers = ("--generator", generator.url, "--verifier", verifier.url)
    return ["make-questions", file, out, *servers, "--generator-model", MODEL, "--verifier-model", MODEL]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_questions_are_written_checked_balanced_and_remembered(tmp_path):
    file, out = figures(tmp_path), tmp_path / "out"
    with ChatServer(generate) as generator, ChatServer(verify) as verifier:
        said = mmrl(*command(file, out, generator, verifier))
        assert said.code == 0, said.err
        assert said.line_with("10 questions of 13 figures")
        assert all(parts(body, "image_url") for body in (*generator.bodies, *verifier.bodies))
        before = (len(generator.bodies), len(verifier.bodies), (out / "train.jsonl").read_text())
        assert mmrl(*command(file, out, generator, verifier)).code == 0
        # asked again: whether each takes pictures, and for the figure that has no question yet twice more
        assert (len(generator.bodies), len(verifier.bodies)) == (before[0] + 3, before[1] + 1)
        assert (out / "train.jsonl").read_text() == before[2]
    reasons = {row["id"]: row["reason"] for row in lines(out / "rejected.jsonl")}
    assert reasons == {"f1": "essential: Diagnosis Leak", "f2": "score below the threshold", "f3": "no question"}
    rows = lines(out / "train.jsonl")
    assert Counter(row["answer"] for row in rows) == dict.fromkeys("ABCDE", 2)
    assert all(row["options"]["ABCDE".index(row["answer"])] == "finding A" for row in rows)
    samples = read(out / "train.jsonl", card=str(out / "card.yaml"))
    assert samples[0].task == "medical multiple choice" and len(samples[0].media) == 1


def test_a_verifier_that_fails_keeps_nothing(tmp_path):
    file = figures(tmp_path)
    with ChatServer(generate) as generator, ChatServer(lambda body: "fine") as verifier:
        said = mmrl(*command(file, tmp_path / "out", generator, verifier))
    assert said.code == 1 and "0 questions of 13 figures" in said.out
    assert Counter(row["reason"] for row in lines(tmp_path / "out" / "rejected.jsonl")) == {
        "no rubric": 12,
        "no question": 1,
    }


def test_a_row_that_is_no_figure_is_named(tmp_path):
    file = write_jsonl(tmp_path / "figures.jsonl", [{"images": ["a.png"]}])
    with ChatServer(generate) as server:
        said = mmrl(*command(file, tmp_path / "out", server, server))
    assert said.code == 2 and "figures.jsonl:1: a figure has `images` and a `caption`" in said.err
