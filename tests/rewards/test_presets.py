"""The reward presets of configs/base/rewards: every task resolves, and totals are those of their sources."""

import pytest
import torch
import yaml
from makers.scoring import answered

from mmrl.algorithms.shaping import overlong_penalty
from mmrl.config.schema import RewardsSection
from mmrl.errors import ConfigError
from mmrl.plugins import shipped_dir
from mmrl.scoring.router import Router

PRESETS = sorted((shipped_dir("configs") / "base" / "rewards").glob("*.yaml"))


def router(name: str) -> Router:
    tasks = yaml.safe_load((shipped_dir("configs") / "base" / "rewards" / f"{name}.yaml").read_text())["rewards"]
    return Router(RewardsSection.model_validate({**tasks, "workers": 0, "on_error": "error"}))


def total(preset: str, task: str, answer, completion: str, **columns) -> float:
    sample = answered(answer, task=task, **columns)
    return router(preset).score([(sample, [completion])]).rewards[0][0]


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_every_task_of_a_preset_resolves(path):
    with router(path.stem) as found:
        try:
            found.validate()
        except ConfigError as error:
            reasons = ("this machine has none", "the judge at")
            if not any(reason in str(error) for reason in reasons):
                raise
            pytest.skip(str(error))


def tag(text: str) -> str:
    return f"<think>so</think><answer>{text}</answer>"


TUBE = {"time": [2, 6], "boxes": {"2": [0, 0, 10, 10], "4": [10, 0, 20, 10]}}


@pytest.mark.parametrize(
    ("task", "answer", "completion", "expected"),
    [
        ("multiple choice", "B", tag("B"), 1.0),
        ("multiple choice", "B", tag("A"), 0.10),
        ("multiple choice", "B", "B", 0.0),
        ("temporal grounding", [10, 18], tag('{"time": [12, 20]}'), 0.64),
        ("numerical", 3.14, tag("3.141"), 1.0),
        ("number", 3.14, tag("pi"), 0.05),
        ("regression", 10, tag("5"), 0.19),
        ("binary classification", "yes", tag("True"), 1.0),
        ("spatial grounding", {"boxes": [0, 0, 10, 10]}, tag('{"boxes": [0, 0, 10, 5]}'), 0.55),
        ("tracking", TUBE, tag('{"boxes": {"2": [0, 0, 10, 10]}}'), 0.55),
        ("spatial-temporal grounding", TUBE, tag('{"time": [2, 6], "boxes": {"2": [0, 0, 10, 10]}}'), 0.775),
        ("ocr", "open at nine", tag("open at ten"), 0.7),
        ("video qa", "the cat sat on the mat", tag("the cat lay on the mat"), 0.78),
        ("math", "1/2", tag(r"\boxed{0.5}"), 1.0),
        ("critic", "Response 2", tag("B"), 1.0),
    ],
)
def test_easyvideo_r1(task, answer, completion, expected):
    assert total("easyvideo_r1", task, answer, completion) == pytest.approx(expected, abs=1e-6)


def boxed(text: str, boxes: int = 1) -> str:
    return tag("It is " + rf"\boxed{{{text}}} " * boxes)


@pytest.mark.parametrize(
    ("task", "answer", "completion", "expected"),
    [
        ("string_match", "red", boxed("Red"), 1.0),
        ("string_match", "red", tag("red"), 0.9),
        ("string_match", "red", boxed("red", 2), 0.9),
        ("string_match", "red", r"\boxed{red}", 0.0),
        ("multiple_choice", "B", r"<answer>\boxed{B}</answer>", 0.0),
        ("number_list", "1,2,3,4,5,6,7,8,9", boxed("2,1,3,4,5,6,7,8,9"), 0.324444),
        ("web_action", {"ACTION": "CLICK", "MARK": 3, "VALUE": None}, boxed('{"ACTION": "CLICK", "MARK": 4}'), 0.6),
        ("numeric", 100, boxed("100.0000001"), 1.0),
        ("numeric", 100, boxed("100.9"), 0.2),
        ("multiple_choice", "B", boxed("C"), 0.2),
        ("grounding", [[0, 0, 10, 10]], tag("[[0, 0, 10, 10]]"), 1.0),
        ("clicking", [0, 0, 10, 10], tag('[{"point_2d": [5, 5]}]'), 1.0),
        ("instruction_following", [{"id": "punctuation:no_comma"}], tag("Red and blue."), 1.0),
    ],
)
def test_vero(task, answer, completion, expected):
    assert total("vero", task, answer, completion) == pytest.approx(expected, abs=1e-6)


def test_visioncoach_scores_the_answer_and_the_evidence_of_one_row():
    answer = {"answer": "B", "frames": [{"time": 3, "objects": {"cup": [[0, 0, 10, 10], [40, 40, 50, 50]]}}]}
    thought = "<obj>cup</obj><box>[0, 0, 10, 10]</box>at<t>3</t>s"
    completion = f"<think>{thought}</think><answer>B</answer>"
    assert total("grounding", "visioncoach_spatio_temporal", answer, completion) == 1 + 0.5 + 1


MOMENT = {"answer": "B", "spans": [[10, 18]]}
LOOKS = "<think><t>12</t>s, <t>30</t>s</think>"
ANSWERS = "<answer>From <t>12</t>s to <t>20</t>s.\nCorrect Option: {}</answer>"
FRAMES = [{"time": t, "objects": {"cup": [[0, 0, 10, 10]]}} for t in (6, 12)]


@pytest.mark.parametrize(
    ("task", "answer", "completion", "expected"),
    [
        ("General video QA MCQ", "B", tag("B"), 2.0),
        ("General video QA Free-form", "the cat sat on the mat", tag("the cat lay on the mat"), 1.755556),
        ("temporal QA", [10, 18], tag("<t>12</t>s to <t>20</t>s"), 0.6 + 0 + 0.5),
        (
            "temporal QA",
            [10, 18],
            "<think><t>12</t>s, <t>30</t>s</think><answer><t>12</t>s to <t>20</t>s</answer>",
            0.6 + 0.5 + 1,
        ),
        ("temporal QA (MCQ)", MOMENT, LOOKS + ANSWERS.format("B"), 1 + 0.6 + 0.5 + 1),
        ("temporal QA (MCQ)", MOMENT, LOOKS + ANSWERS.format("C"), 0.6 + 0.5 + 1),
        ("temporal QA (MCQ)", MOMENT, tag("B"), 0.5),
        ("visual QA", [0, 0, 10, 10], tag("<obj>cup</obj><box>[0, 0, 10, 5]</box>"), 0.5 + 0 + 1),
        (
            "visual QA",
            [0, 0, 10, 10],
            "<think><obj>cup</obj><box>[0, 0, 10, 8]</box></think><answer><box>[0, 0, 10, 5]</box></answer>",
            0.5 + 0.8 + 1,
        ),
        (
            "temporal-spatial free-form QA",
            {"answer": "a cup", "frames": FRAMES},
            "<think><obj>cup</obj><box>[0, 0, 10, 8]</box>at<t>6</t>s</think><answer>a cup</answer>",
            1 + 0.5 + 0.8 + 1,
        ),
        ("temporal-spatial free-form QA", {"answer": "a cup", "frames": FRAMES}, "a cup", 0.0),
    ],
)
def test_visioncoach(task, answer, completion, expected):
    assert total("visioncoach", task, answer, completion) == pytest.approx(expected, abs=1e-6)


def test_vero_takes_the_tolerance_of_the_row():
    assert total("vero", "numeric", 100, boxed("100.9"), tolerance=0.01) == 1.0


def test_vero_charges_the_last_2048_of_16384_tokens():
    preset = yaml.safe_load((shipped_dir("configs") / "base" / "rewards" / "vero.yaml").read_text())
    limits = {"max_length": preset["rollout"]["max_new_tokens"], "buffer": preset["algorithm"]["overlong_buffer"]}
    penalty = overlong_penalty(torch.tensor([15360]), factor=1.0, **limits).item()
    assert total("vero", "string_match", "red", boxed("red")) + penalty == 0.5


def test_vero_judged_is_0_8_of_a_verdict_of_7_and_0_2_of_the_form():
    tasks = yaml.safe_load((shipped_dir("configs") / "base" / "rewards" / "vero_judged.yaml").read_text())["rewards"]
    judged, form = tasks["tasks"]["llm_judge"]
    assert judged["weight"] * (7 - 1) / 9 + form["weight"] == pytest.approx(0.733333, abs=1e-6)


@pytest.mark.parametrize(
    ("gold", "span", "expected"),
    [([10, 18], "12 to 20", 1.6), ([10, 18], "10 to 18", 2.0), ([10, 18], "5 to 30", 1.32), ([10, 15], "0 to 5", 1.0)],
)
def test_time_r1(gold, span, expected):
    assert total("grounding", "time_r1_grounding", gold, tag(span)) == pytest.approx(expected)


def test_perception_r1_is_the_squared_iou_and_the_form_of_box_tokens():
    tokens = "<|object_ref_start|>cup<|object_ref_end|><|box_start|>(20,20),(70,70)<|box_end|>"
    for completion, form in ((tokens, 1), ("cup(20,20),(70,70)", 1), ("[20, 20, 70, 70]", 0)):
        found = total("grounding", "perception_r1_grounding", [10, 10, 60, 60], completion)
        assert found == pytest.approx(0.221453 + form, abs=1e-6)


def test_videochat_r1_scores_letter_spans_and_form():
    answer = {"answer": "B", "spans": [[0, 3], [2, 4], [22, 25]]}
    glued = tag("B") + "<glue>[(1, 5), (2, 2), (2, 4)]</glue>"
    assert total("grounding", "videochat_r1_grounded_qa", answer, glued) == 1 + 0.375 + 1
    assert total("grounding", "videochat_r1_grounded_qa", answer, glued.replace(">B<", ">C<")) == 1.375
    assert total("grounding", "videochat_r1_grounded_qa", answer, tag("B")) == 1


PAGE_TESTS = [
    *({"type": "present", "text": word} for word in ("seven", "words", "and", "then", "final", "dot", "missing", "no")),
    {"type": "order", "before": "seven", "after": "dot"},
    {"type": "order", "before": "dot", "after": "seven"},
]
HEAD = {
    "primary_language": "en",
    "is_rotation_valid": True,
    "rotation_correction": 0,
    "is_table": True,
    "is_diagram": True,
}


@pytest.mark.parametrize(
    ("task", "head", "expected"),
    [
        ("page", yaml.safe_dump({**HEAD, "is_table": False, "is_diagram": False}, explicit_start=True) + "---\n", 1.5),
        ("page", "---\nprimary_language: [en\n", 0.7),
        ("page_by_type", "", 0.625),
    ],
)
def test_olmocr(task, head, expected):  # the term for a page that ends: tests/unit/algorithms/test_shaping_plugins.py
    page = head + "seven words and then a final dot."
    assert total("olmocr", task, PAGE_TESTS, page, front_matter=HEAD) == pytest.approx(expected)


NINE = [5, 1, 3, 7, 9, 2, 4, 8, 6]


@pytest.mark.parametrize(
    ("order", "completion", "expected"),
    [
        (NINE, tag("5,1,3,7,9,2,4,8,6"), 1.2),
        (NINE, tag("1,5,3,7,9,2,4,8,6"), 0.355556),
        (NINE, tag("5,5,5,5,5,5,5,5,5"), 0.2),
        (NINE, tag("1,2,4,3,5,6,7,9,8"), 0.2),
        (NINE, "5,1,3,7,9,2,4,8,6", 0.0),
        ([2, 4, 1, 3], tag("2,4,3,1"), 0.3),
    ],
)
def test_visual_jigsaw(order, completion, expected):
    recipe = shipped_dir("configs") / "tasks" / "image" / "visual_jigsaw.yaml"
    parts = yaml.safe_load(recipe.read_text())["rewards"]
    found = Router(RewardsSection.model_validate({**parts, "workers": 0, "on_error": "error"}))
    rewards = found.score([(answered(order, task="image-jigsaw"), [completion])]).rewards
    assert rewards[0][0] == pytest.approx(expected, abs=1e-6)


def test_rewardmap():
    assert total("rewardmap", "Counting1", "B", r"\boxed{B}", difficulty="hard") == 15


@pytest.mark.parametrize(
    ("completion", "expected"),
    [(tag("B"), 1.1), (tag("C"), 0.1), (tag("E"), 0.1), ("<answer>B</answer>", 1.0), ("B", 0.0)],
)
def test_medical_is_the_letter_among_the_rows_options_and_a_tenth_for_the_form(completion, expected):
    found = total("medical", "medical multiple choice", "B", completion, options=["a", "b", "c", "d"])
    assert found == pytest.approx(expected)
