"""tools/convert_data.py: rows of any tool become rows of any other, or an error says what would be lost."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from makers.robots import write_robot_folder
from makers.rows import read, touch, write_jsonl
from makers.tool_rows import MEDIA, ROWS
from makers.tools import load_tool

from mmrl.data.cards import CardReader, resolve_card
from mmrl.data.locations import Url
from mmrl.data.sample import MediaPart, MediaRef, Message, Sample, TextPart
from mmrl.data.templates import Templates
from mmrl.data.write_rows import TARGETS, LossError

NO_TEMPLATES = Templates(None, None, {}, None, {})


tool = load_tool("convert_data")


def reader(card: str, root: Path) -> CardReader:
    return CardReader(resolve_card(card, relative_to=root), "rows", "rows", root, NO_TEMPLATES)


def converter(source: str, to: str, folder: Path, *drop: str) -> "tool.Converter":
    return tool.Converter(resolve_card(source, relative_to=folder), to, folder / "out.jsonl", "rows", frozenset(drop))


def read_rows(card: str, rows: list[dict], folder: Path) -> list[Sample]:
    there = reader(card, folder)
    return [there.sample(json.loads(json.dumps(r)), number=n, origin=f"rows:{n + 1}") for n, r in enumerate(rows)]


# (source, row number) -> loss -> the tools that cannot hold it; every other pair works.
NO_SYSTEM, NO_OPTIONS = ("easyr1", "llava", "qwen_vl"), ("trl", "swift", "llamafactory", "alpaca")
LOSSES = {
    ("verl", 0): {"system": NO_SYSTEM, "options": NO_OPTIONS},
    ("verl", 1): {"turns": ("easyr1",), "reply": ("llamafactory", "alpaca", "llava", "qwen_vl")},
    ("trl", 2): {"text": ("easyr1", "verl", "swift", "llamafactory", "alpaca", "llava", "qwen_vl")},
    ("trl", 3): {"system": NO_SYSTEM},
    ("swift", 0): {"system": NO_SYSTEM},
    ("swift", 2): {"turns": ("easyr1",)},
    ("llamafactory", 0): {"system": NO_SYSTEM},
    ("llamafactory", 1): {"turns": ("easyr1",)},
    ("alpaca", 1): {"system": NO_SYSTEM},
    ("openai", 0): {"system": NO_SYSTEM, "text": ("verl", "swift", "llamafactory", "alpaca")},
}


@pytest.mark.parametrize("to", TARGETS)
def test_every_row_of_every_tool_is_the_same_sample_or_a_named_loss(tmp_path, to):
    touch(tmp_path, *MEDIA)
    lost = {}
    for source in ROWS:
        for number, sample in enumerate(read_rows(source, ROWS[source], tmp_path)):
            try:
                row = converter(source, to, tmp_path).row(sample)
            except LossError as error:
                lost[source, number] = error.kind
                assert str(error).startswith(f"rows:{number + 1} (id=") and f"a row of {to} cannot hold" in str(error)
                continue
            [again] = read_rows(to, [row], tmp_path)
            assert tool.identity(again) == tool.identity(sample) | {"answer_space": again.answer_space}
    assert lost == {key: kind for key, losses in LOSSES.items() for kind, targets in losses.items() if to in targets}


def test_a_row_in_each_form(tmp_path):
    touch(tmp_path, *MEDIA)
    sample = read_rows("llamafactory", [{**ROWS["llamafactory"][2], "answer": "a dog", "k": 1}], tmp_path)[0]
    user, reply = "<image>Describe.\nIn one word.", {"from": "gpt", "value": "Dog."}
    more = {"answer": "a dog", "k": 1}
    rows = {to: converter("llamafactory", to, tmp_path).row(sample) for to in TARGETS}
    assert rows == {
        "easyr1": {"problem": user, "answer": "a dog", "problem_type": "open-ended", "images": ["a.jpg"], "k": 1}
        | {"offline_output": "Dog."},
        "verl": {
            "prompt": [{"role": "user", "content": user}],
            "images": ["a.jpg"],
            "data_source": "open-ended",
            "reward_model": {"style": "rule", "ground_truth": "a dog"},
            "demonstration": "Dog.",
            "k": 1,
        },
        "trl": {
            "prompt": [
                {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Describe.\nIn one word."}]}
            ],
            "completion": [{"role": "assistant", "content": "Dog."}],
            "images": ["a.jpg"],
        }
        | more,
        "swift": {
            "messages": [{"role": "user", "content": user}, {"role": "assistant", "content": "Dog."}],
            "images": ["a.jpg"],
            "solution": "a dog",
            "k": 1,
        },
        "llamafactory": {"conversations": [{"from": "human", "value": user}, reply], "images": ["a.jpg"]} | more,
        "alpaca": {"instruction": user, "output": "Dog.", "images": ["a.jpg"]} | more,
        "llava": {"conversations": [{"from": "human", "value": user}, reply], "image": "a.jpg"} | more,
        "qwen_vl": {"conversations": [{"from": "human", "value": user}, reply], "image": "a.jpg"} | more,
        "openai": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "a.jpg"}},
                        {"type": "text", "text": "Describe.\nIn one word."},
                    ],
                },
                {"role": "assistant", "content": "Dog."},
            ]
        }
        | more,
    }


def test_spans_and_budgets_of_media_stay_with_the_tools_that_know_them(tmp_path):
    touch(tmp_path, *MEDIA)
    cell = {"video": "v.mp4", "video_start": 1.0, "video_end": 2.5, "fps": 4.0, "nframes": None, "max_pixels": 50176}
    row = {**ROWS["verl"][0], "prompt": "<video>Find.", "images": None, "videos": [cell]}
    [sample] = read_rows("verl", [row], tmp_path)
    assert converter("verl", "verl", tmp_path).row(sample)["videos"] == [{k: v for k, v in cell.items() if v}]
    [part, _] = converter("verl", "openai", tmp_path).row(sample)["messages"][0]["content"]
    assert part == {"type": "video", **{k: v for k, v in cell.items() if v}}
    with pytest.raises(LossError, match="cannot hold video_start, video_end, fps, max_pixels of a medium"):
        converter("verl", "easyr1", tmp_path).row(sample)
    assert converter("verl", "easyr1", tmp_path, "options").row(sample)["videos"] == ["v.mp4"]


def grounding(question: str, reply: str, **objects: object) -> dict:
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": reply}]
    return {"messages": turns, "images": ["a.jpg", "b.jpg"][: question.count("<image>")], "objects": objects}


def test_boxes_of_swift(tmp_path):
    touch(tmp_path, *MEDIA)
    boxes = [[10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]]
    find, which = read_rows(
        "swift",
        [
            grounding("<image>Find all <ref-object>.", "<bbox><bbox>", ref=["dogs"], bbox=boxes, bbox_type="norm1"),
            grounding("<image><image>What is at <bbox>?", "A cup.", bbox=boxes[:1], image_id=[1]),
        ],
        tmp_path,
    )
    again = converter("swift", "swift", tmp_path).row(find)
    assert again == grounding("<image>Find all dogs.", "<bbox><bbox>", ref=[], bbox=boxes, bbox_type="norm1")
    verl = converter("swift", "verl", tmp_path).row(find)
    assert (verl["reward_model"]["ground_truth"], verl["answer_space"]) == (boxes, "0..1")
    back = read_rows("verl", [verl], tmp_path)[0]
    assert converter("verl", "swift", tmp_path).row(back)["objects"] == again["objects"]
    assert converter("swift", "swift", tmp_path).row(which)["objects"]["image_id"] == [1]
    with pytest.raises(LossError, match="cannot hold a box inside the prompt"):
        converter("swift", "verl", tmp_path).row(which)
    message = r"cannot hold an answer that is no text, \[\[10.*, as the assistant's last turn; --reply-json ends"
    with pytest.raises(LossError, match=message):
        converter("swift", "llava", tmp_path).row(find)
    llava = replace(converter("swift", "llava", tmp_path), reply_json=True).row(find)
    assert llava["conversations"][-1] == {"from": "gpt", "value": "[[10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]]"}
    assert (llava["answer"], llava["answer_space"]) == (boxes, "0..1")


words = st.lists(st.sampled_from(["What", "<image>", "<video>", "<img>x</img>", "<bbox>", " ", "\n", "é"]), max_size=4)
texts = words.map("".join).filter(str.strip)
media_parts = st.sampled_from(["image", "video"])


@st.composite
def samples(draw: st.DrawFn, folder: Path) -> Sample:
    """A conversation with media in its user turns, a text answer, perhaps a demonstration."""
    media: list[MediaRef] = []

    def message(role: str) -> Message:
        parts = []
        for kind in draw(st.lists(media_parts, max_size=2)) if role == "user" else []:
            media.append(
                MediaRef(
                    kind,
                    folder / draw(st.sampled_from([n for n in MEDIA if (".mp4" in n) == (kind == "video")])),
                    budget=kind,
                )
            )
            parts.append(MediaPart(len(media) - 1))
        return Message(role, (*parts, TextPart(draw(texts))))

    roles = [*draw(st.sampled_from([[], ["system"]])), *["user", "assistant"] * draw(st.integers(0, 1)), "user"]
    messages = tuple(message(role) for role in roles)
    kinds = {ref.kind for ref in media}
    shown = draw(st.none() | texts)
    return Sample(
        sample_id="rows:1",
        task=draw(st.sampled_from(["open-ended", "count"])),
        modality="video" if "video" in kinds else "image" if kinds else "text",
        messages=messages,
        media=tuple(media),
        answer=draw(texts),
        columns={} if shown is None else {"demonstration": shown},
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), source=st.sampled_from(sorted(TARGETS)), to=st.sampled_from(sorted(TARGETS)))
def test_what_is_written_is_read_as_the_same_sample(tmp_path, data, source, to):
    touch(tmp_path, *MEDIA)
    sample = data.draw(samples(tmp_path))
    try:
        first = converter(source, source, tmp_path).row(sample)
    except LossError:
        return
    [read_back] = read_rows(source, [first], tmp_path)
    try:
        second = converter(source, to, tmp_path).row(read_back)
    except LossError as error:
        assert error.kind in ("system", "turns", "text")
        return
    [again] = read_rows(to, [second], tmp_path)
    assert tool.identity(again) | {"answer_space": None} == tool.identity(sample) | {"answer_space": None}


# --- the command -----------------------------------------------------------------------------------------------------


def run(*arguments: object) -> int:
    return tool.main([str(argument) for argument in arguments])


@pytest.mark.parametrize("name", ["out.jsonl", "out.json"])
def test_a_file_becomes_a_file(tmp_path, capsys, name):
    touch(tmp_path, *MEDIA)
    path, out = write_jsonl(tmp_path / "rows.jsonl", ROWS["llava"]), tmp_path / "deeper" / name
    assert run(path, "--from", "llava", "--to", "verl", "--task", "chat", "--out", out) == 0
    assert f"2 rows of verl: {out}" in capsys.readouterr().out
    before, after = read(path, card={"preset": "llava", "task": "chat"}), read(out, card="verl")
    assert [tool.identity(s) for s in after] == [tool.identity(s) for s in before]
    assert [s.columns["source_id"] for s in after] == ["000000033471"] * 2
    assert after[0].media[0].source == tmp_path / "a.jpg"


def test_losses_are_counted_and_nothing_is_written(tmp_path, capsys):
    touch(tmp_path, *MEDIA)
    path, out = write_jsonl(tmp_path / "rows.jsonl", ROWS["llamafactory"]), tmp_path / "out.jsonl"
    arguments = (path, "--from", "llamafactory", "--to", "easyr1", "--out", out)
    assert run(*arguments) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors == [
        "1 of 3 rows: rows.jsonl:1 (id=rows:1): a row of easyr1 cannot hold a system turn; --drop system leaves it out",
        "1 of 3 rows: rows.jsonl:2 (id=rows:2): a row of easyr1 cannot hold a conversation of several turns",
        "nothing was written; --drop rows leaves such rows out",
    ]
    assert not (tmp_path / "out.jsonl").exists()
    assert [p.name for p in tmp_path.glob("out*")] == []
    assert run(*arguments, "--drop", "system,rows") == 0
    assert capsys.readouterr().err.splitlines() == [
        errors[1],
        "1 of 3 rows: left out, as --drop says: system",
    ]
    assert [json.loads(line)["problem"] for line in out.read_text().splitlines()] == [
        "<image>\nWhat is it?",
        "<image>Describe.\nIn one word.",
    ]


def test_pictures_inside_rows_get_files(tmp_path, capsys):
    rows = [
        {"problem": "<image>?", "answer": "3", "problem_type": "t", "images": [{"bytes": b"\x89PNG123", "path": None}]}
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    arguments = (tmp_path / "a.parquet", "--from", "easyr1", "--to", "llava", "--out", tmp_path / "out.json")
    assert run(*arguments) == 1
    assert "name a folder for its file with --media-dir" in capsys.readouterr().err
    assert run(*arguments, "--media-dir", tmp_path / "pictures") == 0
    [row] = json.loads((tmp_path / "out.json").read_text())
    assert row["image"].startswith("pictures/") and row["image"].endswith(".png")
    assert (tmp_path / row["image"]).read_bytes() == b"\x89PNG123"


def test_members_of_archives_get_files(tmp_path, capsys):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("deep/b.jpg", b"\xff\xd8\xff123")
    row = {"problem": "<image>?", "answer": "3", "problem_type": "t", "images": ["a.zip::deep/b.jpg"]}
    path = write_jsonl(tmp_path / "rows.jsonl", [row, {**row, "answer": "4"}])
    arguments = (path, "--from", "easyr1", "--to", "llava", "--out", tmp_path / "out.json")
    assert run(*arguments) == 1
    assert "a.zip::deep/b.jpg; name a folder for its file with --media-dir" in capsys.readouterr().err
    assert run(*arguments, "--media-dir", tmp_path / "files") == 0
    assert f"1 media written as files into {tmp_path / 'files'}" in capsys.readouterr().err
    first, second = json.loads((tmp_path / "out.json").read_text())
    assert first["image"] == second["image"] and (tmp_path / first["image"]).read_bytes() == b"\xff\xd8\xff123"


def test_places_that_a_tool_cannot_open_are_losses(tmp_path):
    url = MediaRef("image", Url("https://a.b/c.jpg"), budget="image")
    sample = Sample("rows:1", "open-ended", "image", (Message("user", (MediaPart(0), TextPart("?"))),), (url,), "3")
    assert converter("verl", "swift", tmp_path).row(sample)["images"] == ["https://a.b/c.jpg"]
    with pytest.raises(LossError, match="a row of llava cannot hold a medium that is on the web; download it"):
        converter("verl", "llava", tmp_path).row(sample)


def test_dropped_spans_are_listed(tmp_path, capsys):
    touch(tmp_path, *MEDIA)
    cell = {"video": "v.mp4", "video_start": 1.0, "video_end": 2.5}
    row = {**ROWS["verl"][0], "prompt": "<video>Find.", "images": None}
    rows = [{**row, "videos": [cell]}, {**row, "videos": ["v.mp4"]}]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    assert run(path, "--from", "verl", "--to", "easyr1", "--drop", "options", "--out", tmp_path / "o.jsonl") == 0
    assert capsys.readouterr().err == (
        "1 of 2 rows: left out, as --drop says: options; spans are gone too, so these clips are shown whole, and times "
        "count from their starts\n"
    )


def test_robot_frames_become_rows(tmp_path):
    folder = write_robot_folder(tmp_path / "arm", clips=False)
    card = tmp_path / "card.yaml"
    card.write_text("preset: lerobot\nrobot: {frame_stride: 4, cameras: [observation.images.top]}\n")
    assert run(folder, "--from", card, "--to", "openai", "--out", tmp_path / "out.jsonl") == 0
    before = read(folder, card=str(card))
    after = read(tmp_path / "out.jsonl", card="openai")
    assert [tool.identity(s) for s in after] == [tool.identity(s) for s in before]
    assert [(s.sample_id, s.columns["proprio"]) for s in after] == [(s.sample_id, s.columns["proprio"]) for s in before]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--to", "lerobot"), "error: --to lerobot: rows can be written for easyr1, verl"),
        (("--out", "a.parquet"), "error: --out a.parquet: the file must end in .jsonl or .json"),
        (("--drop", "videos"), "error: --drop videos: it may name system, demonstration"),
        (("--from", "lava"), "error: unknown card 'lava'"),
    ],
)
def test_wrong_arguments_are_one_line(tmp_path, capsys, change, message):
    path = write_jsonl(tmp_path / "rows.jsonl", ROWS["alpaca"])
    given_arguments = {"--from": "alpaca", "--to": "verl", "--out": str(tmp_path / "o.jsonl")} | dict([change])
    assert run(path, *[a for pair in given_arguments.items() for a in pair]) == 2
    error = capsys.readouterr().err
    assert error.startswith(message) and error.count("\n") == 1
