"""The scripts that make rows: what they write, and what they say about published files that are not right."""

import io
import json
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from makers.robots import write_robot_folder
from makers.rows import read, write_jsonl
from PIL import Image

from mmrl.data.lerobot import ACTION_STATS
from mmrl.data.made_rows import PublishedRow, main, picture_file, published_rows, write_rows
from mmrl.errors import DataError
from mmrl.plugins import load_module, shipped_dir


def script(name: str) -> ModuleType:
    return load_module(shipped_dir("datasets") / name / "prepare.py")


def picture() -> dict:
    data = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(data, "PNG")
    return {"bytes": data.getvalue(), "path": "a.png"}


def test_a_missing_column_is_named_with_the_line(tmp_path):
    [row] = published_rows(write_jsonl(tmp_path / "rows.jsonl", [{"box": [1, 2, 3, 4], "words": "dog"}]))
    with pytest.raises(DataError, match=r"rows\.jsonl:1: no column 'bbox'; columns present: box, words; did you mean"):
        row["bbox"]


def test_equal_pictures_are_one_file(tmp_path):
    row = PublishedRow({"image": picture(), "text": {"bytes": b"GIF", "path": None}}, origin="a:1")
    first, second = (picture_file(row, "image", tmp_path) for _ in range(2))
    assert first == second and first.startswith("images/") and first.endswith(".png")
    assert Image.open(tmp_path / first).size == (8, 6)
    with pytest.raises(DataError, match="a:1: the column 'text' holds no PNG, JPEG or WebP picture"):
        picture_file(row, "text", tmp_path)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    def failing():
        yield {"a": 1}
        raise DataError("a bad row")

    for rows, problem in ((failing(), "a bad row"), ([], "nothing in the sources makes a row")):
        with pytest.raises(DataError, match=problem):
            write_rows(rows, tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_the_command_line(tmp_path, capsys):
    published = write_jsonl(
        tmp_path / "a.jsonl",
        [{"problem": "q", "problem_type": "spatial grounding", "answer": "<answer>[1, 2, 3, 4]</answer>"}],
    )
    out = tmp_path / "made" / "train.jsonl"
    options = {"boxes": {"default": "original_px"}}
    main("Doc.", script("easyvideo_r1").make, options=options, argv=[str(published), "--out", str(out)])
    assert capsys.readouterr().out == f"{out}: 1 rows\n"
    assert json.loads(out.read_text()) == {
        "problem": "q",
        "problem_type": "spatial grounding",
        "answer": "[1, 2, 3, 4]",
        "answer_space": "original_px",
    }
    with pytest.raises(SystemExit, match=r"error: .*no column 'problem_type'"):
        bad = write_jsonl(tmp_path / "b.jsonl", [{"answer": "3"}])
        main("Doc.", script("easyvideo_r1").make, options=options, argv=[str(bad), "--out", str(out)])


def test_a_box_is_turned_into_corners_and_every_expression_is_a_row(tmp_path):
    row = {"question_id": "7", "image": picture(), "answer": ["man", "he"], "bbox": [1.5, 2, 3, 4]}
    made = list(script("refcoco").make(_parquet(tmp_path / "a.parquet", row), tmp_path))
    assert [(r["id"], r["expression"], r["box"]) for r in made] == [
        ("7:0", "man", [1.5, 2, 4.5, 6]),
        ("7:1", "he", [1.5, 2, 4.5, 6]),
    ]
    with pytest.raises(DataError, match=r"\[1.0, 2.0, 0.0, 4.0\] is no box \[x, y, width, height\]"):
        list(script("refcoco").make(_parquet(tmp_path / "b.parquet", row | {"bbox": [1.0, 2.0, 0.0, 4.0]}), tmp_path))


def _parquet(path: Path, row: dict) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    return path


def test_actions_on_screens():
    action = script("gui_r1").action
    row = {"gt_action": "click", "gt_bbox": [0.1, 0.2, 0.3, 0.4], "gt_input_text": "no input text"}
    assert action(PublishedRow(row, origin="a:1")) == {"action": "click", "box": [0.1, 0.2, 0.3, 0.4]}
    assert action(PublishedRow(row | {"gt_bbox": [0.1, 0.2]}, origin="a:1")) == {"action": "click", "point": [0.1, 0.2]}
    typed = row | {"gt_action": "type", "gt_bbox": [-100, -100], "gt_input_text": "cat"}
    assert action(PublishedRow(typed, origin="a:1")) == {"action": "type", "input_text": "cat"}
    with pytest.raises(DataError, match=r"a:1: gt_bbox of a click is \[-100, -100\]"):
        action(PublishedRow(row | {"gt_bbox": [-100, -100]}, origin="a:1"))


def test_a_table_is_written_out():
    html = {
        "structure": {"tokens": ["<tr>", "<td", ' colspan="2"', ">", "</td>", "</tr>"]},
        "cells": [{"tokens": ["<b>", "a", "</b>"]}],
    }
    row = PublishedRow({"html": html}, origin="a:1")
    assert script("pubtabnet").html(row) == '<table><tr><td colspan="2"><b>a</b></td></tr></table>'
    for cells, problem in (([], "more cells than `cells`"), (html["cells"] * 2, "more cells than the structure")):
        with pytest.raises(DataError, match=problem):
            script("pubtabnet").html(PublishedRow({"html": html | {"cells": cells}}, origin="a:1"))


def test_tests_of_a_page_are_one_row(tmp_path):
    (tmp_path / "a.pdf").touch()
    tests = [{"pdf": "a.pdf", "page": 1, "id": str(n), "type": "present", "text": f"t{n}", "url": None} for n in (0, 1)]
    source = write_jsonl(tmp_path / "tests.jsonl", [*tests, tests[0] | {"page": 2, "max_diffs": None}])
    made = list(script("olmocr_bench").make(source, tmp_path, pdfs=tmp_path))
    assert [row["page"] for row in made] == [f"{tmp_path / 'a.pdf'}#page={page}" for page in (1, 2)]
    assert made[0]["tests"] == [{"type": "present", "text": "t0"}, {"type": "present", "text": "t1"}]
    assert made[1]["tests"] == [{"type": "present", "text": "t0"}]
    with pytest.raises(DataError, match=r"no such file: .*a\.pdf; name the folder by --pdfs"):
        list(script("olmocr_bench").make(source, tmp_path, pdfs=tmp_path / "pdfs"))


def test_pages_for_olmocr_bench_count_their_tests_by_file(tmp_path):
    """A PDF without a baseline test gets one on its first page, as the benchmark adds it."""
    for name in ("a.pdf", "b.pdf"):
        (tmp_path / name).touch()
    tests = [
        {"pdf": "a.pdf", "page": 2, "type": "present", "text": "t"},
        {"pdf": "b.pdf", "page": 1, "type": "baseline"},
    ]
    source = write_jsonl(tmp_path / "table_tests.jsonl", tests)
    made = {row["id"]: row for row in script("olmocr_bench").make(source, tmp_path, pdfs=tmp_path, by_file=True)}
    assert {name: row["counts"] for name, row in made.items()} == {
        "a.pdf:2": {"table_tests": 1},
        "b.pdf:1": {"table_tests": 1},
        "a.pdf:1": {"baseline": 1},
    }
    assert made["a.pdf:2"]["tests"] == [{"type": "present", "text": "t", "file": "table_tests"}]


def test_targets_of_osworld_g():
    def target(kind: str, numbers: list) -> object:
        row = PublishedRow({"box_type": kind, "box_coordinates": numbers}, origin="a:1")
        return script("osworld_g").target(row)

    assert target("bbox", [10, 20, 30, 5]) == [10, 20, 40, 25]
    assert target("polygon", [0, 0, 9, 0, 0, 9]) == {"polygon": [[0, 0], [9, 0], [0, 9]]}
    assert target("polygon", [9, 8, 1, 2]) == [1, 2, 9, 8]
    assert target("refusal", [-1, -1, -1, -1]) == {"action": "refuse"}
    with pytest.raises(DataError, match=r"a:1: circle \[1, 2, 3\] is no bbox, polygon or refusal"):
        target("circle", [1, 2, 3])


def drivelm(folder: Path, **changes: object) -> Path:
    """A file of DriveLM's challenge: one frame with three questions, tags 2, 0 and 3."""
    entries = [("perception", 2, "There is <c1,CAM_BACK,1088.3,497.5>."), ("perception", 0, "B"), ("behavior", 3, "x")]
    parts: dict[str, list] = {}
    for part, tag, answer in entries:
        parts.setdefault(part, []).append({"Q": f"q{tag}", "A": answer, "C": None, "tag": [tag]})
    frame = {"QA": parts, "image_paths": {"CAM_BACK": "../nuscenes/samples/CAM_BACK/a.jpg"}} | changes
    path = folder / "drivelm.json"
    path.write_text(json.dumps({"scene": {"key_frames": {"frame": frame}}}))
    return path


def test_questions_of_drivelm(tmp_path):
    made = list(script("drivelm").make(drivelm(tmp_path), tmp_path, images=Path("/n")))
    assert [(row["id"], row["kind"], row["part"]) for row in made] == [
        ("scene_frame_0_language", "language", "perception"),
        ("scene_frame_1_accuracy", "accuracy", "perception"),
        ("scene_frame_2_match", "match", "behavior"),
    ]
    assert made[0]["images"] == ["/n/samples/CAM_BACK/a.jpg"] and made[0]["cameras"] == ["CAM_BACK"]
    bad = drivelm(tmp_path, image_paths={"CAM_BACK": "pictures/a.jpg"})
    with pytest.raises(DataError, match=r"frame frame: the path 'pictures/a\.jpg' has no folder samples/"):
        list(script("drivelm").make(bad, tmp_path, images=Path("/n")))


def test_questions_about_charts_carry_charxivs_instructions(tmp_path):
    """Its two files, with instructions of our own, which are read and never run."""
    for folder in ("data", "src", "images"):
        (tmp_path / folder).mkdir()
    (tmp_path / "images" / "7.jpg").touch()
    texts = {
        "REASONING_RESP_INST": {1: "{}\n Name it. ", 4: "{}\n {}"},
        "DESCRIPTIVE_RESP_INST": {1: "{}title?", 18: "layout?"},
        "DESCRIPTIVE_GRADING_QMAP": {1: "t", 18: "l"},
    }
    constants = tmp_path / "src" / "constants.py"
    constants.write_text("".join(f"{name} = {text!r}\n" for name, text in texts.items()))
    reasoning, descriptive = tmp_path / "data" / "reasoning_val.json", tmp_path / "data" / "descriptive_val.json"
    number = {"figure_id": 7, "query": "How high?", "answer": "0.25", "inst_category": 4, "qa_source": 1}
    reasoning.write_text(json.dumps({"7": number}))
    subplot = {"figure_id": 7, "num_subplots": 2, "subplot_loc": [1, 2], "qids": [1, 18], "answers": ["Loss", "1 by 2"]}
    descriptive.write_text(json.dumps({"7": subplot}))
    make = partial(script("charxiv").make, folder=tmp_path, images=tmp_path / "images")
    [row] = make(reasoning)
    asked = "How high?\n * Your final answer must be a number with 2 decimal places."
    assert (row["question"], row["asked"], row["kind"]) == (asked, "How high?", "number in general")
    title, layout = make(descriptive)
    assert (title["id"], title["kind"], title["asked"], title["answer"]) == ("7_0", "title", "t", "Loss")
    assert title["question"] == "For the subplot at row 1 and column 2, title?" and layout["question"] == "layout?"
    (tmp_path / "images" / "7.jpg").unlink()
    with pytest.raises(
        DataError, match=r"descriptive_val\.json: 7: no such file: .*7\.jpg; name the folder by --images"
    ):
        list(make(descriptive))
    constants.unlink()
    with pytest.raises(DataError, match=r"constants\.py; question files stand in a copy of CharXiv's repository"):
        list(make(reasoning))


def test_a_picture_of_another_size_than_its_annotation_is_refused(tmp_path):
    Image.new("RGB", (8, 6)).save(tmp_path / "a.png")
    entry = {"id": "a", "instruction": "lift", "meta_data": {"original_width": 8, "original_height": 6}}
    area = {"affordance": {"x": 1, "y": 2, "width": 3, "height": 4}}
    good = write_jsonl(tmp_path / "good.jsonl", [entry | area, entry | {"points": [[1, 2], [3, 4]]}])
    region, path = script("sharerobot").make(good, tmp_path, images=tmp_path, suffix=".png")
    assert (region["region"], path["path"]) == ([1, 2, 4, 6], [[1, 2], [3, 4]])
    bad = write_jsonl(
        tmp_path / "bad.jsonl", [entry | area | {"meta_data": {"original_width": 16, "original_height": 12}}]
    )
    with pytest.raises(DataError, match=r"bad\.jsonl:1: .*a\.png has 8x6 pixels, its annotation 16x12"):
        list(script("sharerobot").make(bad, tmp_path, images=tmp_path, suffix=".png"))


def test_decisions_and_frames_of_the_car():
    nuscenes = script("nuscenes")
    ahead = [[2.0 * n, 0.0] for n in range(1, 7)]  # 4 m/s
    assert nuscenes.decision(4.0, ahead) == ("keep", "straight")
    assert nuscenes.decision(2.5, ahead) == ("accelerate", "straight")
    assert nuscenes.decision(5.5, [[x, -0.2 * x] for x, _ in ahead]) == ("decelerate", "right_turn")
    assert nuscenes.pose({"translation": [1, 2, 3], "rotation": [0.5**0.5, 0, 0, 0.5**0.5]}) == pytest.approx(
        (1, 2, 1.5707963)
    )
    assert nuscenes.seen_from((0, 0, 1.5707963), (-2, 5, 0)) == [5.0, 2.0, -1.571]


def test_percentiles_of_a_robot_folder_reach_its_rows(tmp_path):
    folder = write_robot_folder(tmp_path / "arm", clips=False)
    assert "action_stats" not in read(folder, card="lerobot")[0].columns
    write_stats = script("lerobot").write_stats
    write_stats(folder, unscaled=[0])  # episodes 0 and 1 of 7 and 4 frames: actions [episode, frame]
    stats = {"q01": [0, 0], "q99": [1, pytest.approx(5.9)], "mask": [False, True]}
    assert json.loads((folder / ACTION_STATS).read_text()) == stats
    assert read(folder, card="lerobot")[-1].columns["action_stats"] == {"arm": stats}
    with pytest.raises(DataError, match=r"have no dimensions \[2\]"):
        write_stats(folder, unscaled=[2])


def test_a_dimension_that_never_changes_cannot_be_scaled(tmp_path):
    folder = write_robot_folder(tmp_path / "arm", clips=False)
    info = json.loads((folder / "meta/episodes.jsonl").read_text().splitlines()[0])
    (folder / "meta/episodes.jsonl").write_text(json.dumps(info) + "\n")
    with pytest.raises(DataError, match=r"dimensions \[0\] never change, nothing scales them; add them to --unscaled"):
        script("lerobot").write_stats(folder, unscaled=[])
