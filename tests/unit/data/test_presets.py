"""Shipped cards: rows of other tools are read unchanged."""

import json
import re
from pathlib import Path

import pytest
import yaml
from makers.rows import read, touch, write_jsonl
from makers.shared import shared_media
from makers.tool_rows import MEDIA, ROWS

from mmrl.data.sample import GeometryPart, MediaPart, Sample, TextPart
from mmrl.errors import DataError
from mmrl.plugins import shipped_dir


def read_rows(folder: Path, card: str | dict, rows: list[dict]) -> list[Sample]:
    touch(folder, *MEDIA)
    task = {} if any("problem_type" in row or "data_source" in row for row in rows) else {"task": "chat"}
    section = {**({"preset": card} if isinstance(card, str) else card), **task}
    return list(read(write_jsonl(folder / "rows.jsonl", rows), card=section))


def shown(sample: Sample) -> list[str]:
    """`role: text`, with the file of each medium in brackets."""

    def text(part) -> str:
        return part.text if isinstance(part, TextPart) else f"[{sample.media[part.medium].source.name}]"

    return [f"{m.role}: {''.join(map(text, m.parts))}" for m in sample.messages]


EXPECTED = {
    "easyr1": [
        (["user: [a.jpg]Find x."], "3", None, "math", "image"),
        (
            ["user: [v.mp4]When, in [b.jpg] and [a.jpg]?"],
            '{"time": [1, 2]}',
            "<think>I look.</think><answer>1 to 2</answer>",
            "temporal grounding",
            "video",
        ),
    ],
    "verl": [
        (["system: Be brief.", "user: [a.jpg]Find x."], "3", None, "geo3k", "image"),
        (["user: 2 + 2?", "assistant: 4.", "user: And 3 + 3?"], ["6", "six"], None, "gsm8k", "text"),
    ],
    "trl": [
        (["user: 2 + 2?"], "4", "4", "chat", "text"),
        (["user: [a.jpg]Find x."], "3", None, "chat", "image"),
        (["user: Is <image> [b.jpg]old?"], "Yes.", "Yes.", "chat", "image"),
        (["system: Be brief.", "user: Hi"], "Hello", "Hello", "chat", "text"),
    ],
    "swift": [
        (
            [
                "system: Be brief.",
                "user: [a.jpg]Who?",
                "assistant: A dog with <image> on it.",
                "user: [b.jpg]And [v.mp4]?",
            ],
            "cat",
            None,
            "chat",
            "video",
        ),
        (["user: [a.jpg]55555"], "66666", "66666", "chat", "image"),
        (
            ["user: AAA", "assistant: BBB", "user: [b.jpg]", "assistant: D", "user: [v.mp4]five"],
            "six",
            "six",
            "chat",
            "video",
        ),
    ],
    "llamafactory": [
        (["system: Be brief.", "user: [a.jpg]\nWhat is it?"], "A dog.", "A dog.", "chat", "image"),
        (
            ["user: [b.jpg]Who?", "assistant: A dog with <image> on it.", "user: [v.mp4]Why?"],
            "So.",
            "So.",
            "chat",
            "video",
        ),
        (["user: [a.jpg]Describe.\nIn one word."], "Dog.", "Dog.", "chat", "image"),
    ],
    "alpaca": [
        (["user: Describe [a.jpg]."], "Dog.", "Dog.", "chat", "image"),
        (["system: Be brief.", "user: Hi", "assistant: Hello", "user: And now?"], "Bye.", "Bye.", "chat", "text"),
    ],
    "llava": [
        (["user: [a.jpg]\nWhat is it?"], "A dog.", "A dog.", "chat", "image"),
        (["user: Hi"], "Hello", "Hello", "chat", "text"),
    ],
    "qwen_vl": [
        (["user: [a.jpg]\n[b.jpg]\nOlder?"], "A dog.", "A dog.", "chat", "image"),
        (["user: [v.mp4]\nWhat?"], "A dog.", "A dog.", "chat", "video"),
        (["user: Picture 1: [a.jpg]\nWhat is it?"], "A dog.", "A dog.", "chat", "image"),
    ],
    "openai": [
        (
            ["system: Be brief.", "user: [a.jpg]What is <image>?[v.mp4][b.jpg]"],
            "A tag.",
            "A tag.",
            "chat",
            "video",
        ),
        (["user: Hi"], "Hello", None, "chat", "text"),
    ],
}


@pytest.mark.parametrize("card", ROWS)
def test_rows_of_a_tool(tmp_path, card):
    samples = read_rows(tmp_path, card, ROWS[card])
    found = [(shown(s), s.answer, s.columns.get("demonstration"), s.task, s.modality) for s in samples]
    assert found == EXPECTED[card]


@pytest.mark.parametrize("card", ROWS)
def test_leading_puts_media_first_and_leaves_the_text_alone(tmp_path, card):
    rows = [row for row in ROWS[card] if "<image>" not in json.dumps(row) or "images" in row or "image" in row]
    samples = read_rows(tmp_path, {"preset": card, "placeholders": "leading"}, rows)
    inline = read_rows(tmp_path, card, rows)
    for led, placed in zip(samples, inline, strict=True):
        [first] = [m for m in led.messages if any(isinstance(p, MediaPart) for p in m.parts)] or [led.messages[0]]
        media = [p for p in first.parts if isinstance(p, MediaPart)]
        assert list(first.parts[: len(media)]) == media == [MediaPart(n) for n in range(len(led.media))]
        assert [ref.kind for ref in led.media] == sorted(ref.kind for ref in placed.media)
        assert {ref.source for ref in led.media} == {ref.source for ref in placed.media}
        assert all(isinstance(p, TextPart) for m in led.messages for p in m.parts[len(media) if m is first else 0 :])


def test_leading_keeps_the_placeholders_strings_as_text(tmp_path):
    [sample] = read_rows(tmp_path, {"preset": "verl", "placeholders": "leading"}, ROWS["verl"][:1])
    assert shown(sample) == ["system: Be brief.", "user: [a.jpg]<image>Find x."]


def test_other_columns_reach_the_rewards(tmp_path):
    columns = {card: read_rows(tmp_path, card, ROWS[card])[-1].columns for card in ("easyr1", "verl", "llava")}
    assert columns["easyr1"] == {
        "data_type": "video",
        "options": None,
        "preprocessed_video": "0a1b2c3d4e5f6071.pt",  # their tensors, of a budget nobody wrote down; not read
        "has_offline_trajectory": True,
        "demonstration": "<think>I look.</think><answer>1 to 2</answer>",
    }
    assert columns["verl"] == {"reward_model": {"style": "rule", "ground_truth": ["6", "six"]}}
    assert columns["llava"] == {"id": "000000033471", "demonstration": "Hello"}


def test_repeated_ids_of_llava_are_no_ids(tmp_path):
    assert [s.sample_id for s in read_rows(tmp_path, "llava", ROWS["llava"])] == ["rows:1", "rows:2"]


BOXES = [[10, 20, 30, 40], [50, 60, 70, 80]]


def grounding(question: str, reply: str, **objects: object) -> dict:
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": reply}]
    return {"messages": turns, "images": ["a.jpg", "b.jpg"][: question.count("<image>")], "objects": objects}


def test_grounding_rows_of_swift(tmp_path):
    rows = [
        grounding("<image>Find the <ref-object>.", "<bbox>", ref=["dog"], bbox=BOXES[:1]),
        grounding("<image>Find all <ref-object>.", "<bbox>\n<bbox>", ref=["dogs"], bbox=BOXES, bbox_type="norm1"),
        grounding("<image><image>What is at <bbox>?", "A <ref-object>.", ref=["cup"], bbox=BOXES[:1], image_id=[1]),
    ]
    one, many, which = read_rows(tmp_path, "swift", rows)
    assert (shown(one), one.answer, one.answer_space) == (["user: [a.jpg]Find the dog."], BOXES[0], "original_px")
    assert (many.answer, many.columns["demonstration"], many.answer_space) == (BOXES, BOXES, "0..1")
    box = GeometryPart("box", (10.0, 20.0, 30.0, 40.0), "original_px", medium=1)
    assert which.messages[0].parts == (MediaPart(0), MediaPart(1), TextPart("What is at "), box, TextPart("?"))
    assert which.answer == "A cup."


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (grounding("<image>Find.", "<bbox>", bbox=BOXES), "1 geometry placeholder but 2 geometry values"),
        (grounding("<image><ref-object>", "<bbox>", bbox=BOXES[:1]), "1 text placeholder but 0 words"),
        (grounding("<image>Find.", "at <bbox>", bbox=BOXES[:1]), "mixes words with geometry placeholders"),
        (grounding("<image><bbox>", "x", bbox=BOXES[:1], image_id=[1]), "image 1, but the row has 1, counted from 0"),
        (grounding("<image><bbox>", "x", bbox=BOXES[:1], image_id="0"), "must hold a list of image numbers"),
        (grounding("<image><ref-object>", "x", ref=[1]), "must hold text or a list of texts"),
    ],
)
def test_grounding_rows_that_do_not_add_up(tmp_path, row, message):
    with pytest.raises(DataError, match=r"^rows.jsonl:1 \(id=rows:1\): .*" + message):
        read_rows(tmp_path, "swift", [row])


@pytest.mark.parametrize(
    ("card", "row", "message"),
    [
        (
            "llava",
            {"image": "a.jpg", "conversations": [{"from": "human", "value": "Hi"}]},
            "0 image placeholders but 1",
        ),
        ("llava", {"conversations": [{"from": "human", "value": "Hi"}]}, "no answer: neither a column 'answer' nor"),
        ("llamafactory", {"conversations": [{"from": "observation", "value": "{}"}]}, "card's `roles`"),
        ("alpaca", {"instruction": "Hi", "output": "x", "history": [["a"]]}, r"list of \[question, reply\] pairs"),
        ("trl", {"prompt": "Hi", "completion": [{"role": "user", "content": "x"}]}, "one message of 'assistant'"),
        ("verl", {"data_source": "a", "prompt": "x", "reward_model": {}}, "no column 'reward_model.ground_truth'"),
    ],
)
def test_rows_that_a_tool_would_not_write(tmp_path, card, row, message):
    with pytest.raises(DataError, match=rf"^rows.jsonl:1 \(id=rows:1\): .*{message}"):
        read_rows(tmp_path, card, [row])


def of_datasets() -> set[str]:
    """Cards of single datasets, which task recipes or benchmarks name; the others are of tools."""
    files = [*(shipped_dir("configs") / "tasks").rglob("*.yaml"), *(shipped_dir("datasets") / "benchmarks").iterdir()]
    recipes = "".join(path.read_text() for path in files)
    return {path.parent.name for path in shipped_dir("datasets").glob("*/card.yaml") if named(path, recipes)}


def named(path: Path, recipes: str) -> bool:
    return re.search(rf"(card|preset): {path.parent.name}\b", recipes) is not None


def test_every_shipped_card_shows_rows_of_its_tool():
    shipped = {path.parent.name: path for path in shipped_dir("datasets").glob("*/card.yaml")}
    assert shipped.keys() - {"quickstart", "lerobot"} - of_datasets() == ROWS.keys()
    for path in shipped.values():
        assert path.read_text().startswith("# ") and yaml.safe_load(path.read_text())


def documented_rows() -> list[tuple[str, str]]:
    page = Path(__file__).parents[3] / "docs" / "data.md"
    return re.findall(r"^\| `(\w+)` \| `(\{.*\})` \|$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize(("card", "row"), documented_rows())
def test_the_rows_of_the_documentation(tmp_path, card, row):
    touch(tmp_path, *MEDIA)
    [sample] = read(write_jsonl(tmp_path / "rows.jsonl", [json.loads(row)]), card=card)
    assert sample.answer is not None and len(sample.media) == (0 if "2 + 2" in row else 1)


def test_the_card_for_another_tool_that_the_documentation_writes(tmp_path):
    row = {"meta": {"q": "<img>a.jpg</img>How many?"}, "gold": {"value": 3}, "kind": "count"}
    columns = {"prompt": "meta.q", "answer": "gold.value", "task": "kind"}
    touch(tmp_path, *MEDIA)
    card = {"columns": columns, "image_placeholder": "<img>{path}</img>"}
    [sample] = read(write_jsonl(tmp_path / "rows.jsonl", [row]), card=card)
    assert (shown(sample), sample.answer, sample.task) == (["user: [a.jpg]How many?"], 3, "count")


def test_the_documentation_shows_every_tool():
    assert {card for card, _ in documented_rows()} == ROWS.keys()


@pytest.mark.parametrize(
    ("name", "card", "count"),
    [
        ("mllm_demo.json", "llamafactory", 6),
        ("mllm_video_demo.json", "llamafactory", 3),
        ("qwen_video.json", "qwen_vl", 3),
    ],
)
def test_published_rows(tmp_path, name, card, count):
    path = shared_media() / "bench" / name
    for row in json.loads(path.read_text()):
        media = [row.get(column, []) for column in ("images", "videos", "video")]
        touch(tmp_path, *(p for cell in media for p in ([cell] if isinstance(cell, str) else cell)))
    samples = list(read(path, card=card, root=str(tmp_path)))
    assert len(samples) == count
    assert all(s.media and isinstance(s.answer, str) and s.messages[-1].role == "user" for s in samples)


def test_published_rows_of_swift_name_files_on_the_web(tmp_path):
    rows = [json.loads(line) for line in (shared_media() / "bench" / "swift_multi_modal_1.jsonl").open()]
    local = [{**row, "query": row["query"].replace("https://", "")} for row in rows]
    touch(tmp_path, *MEDIA, "qianwen-res.oss-cn-beijing.aliyuncs.com/Qwen-VL/assets/demo.jpeg")
    one, two, none = read_rows(tmp_path, "swift", local)
    assert (shown(one), one.answer) == (["user: [demo.jpeg]55555"], "66666")
    assert shown(two) == ["user: hello", "assistant: 123", "user: [demo.jpeg][demo.jpeg]eeeee"]
    assert (shown(none)[-1], none.answer) == ("user: EEEEE", "FFFFF")
