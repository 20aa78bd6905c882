"""Columns made of columns: each way, what is null, and the message of each row that does not fit."""

from pathlib import Path

import pytest
from makers.rows import read, touch
from pydantic import ValidationError

from mmrl.config.data_sections import MadeColumn
from mmrl.config.schema import CardSection
from mmrl.data.cards import CardReader, resolve_card
from mmrl.data.made_columns import with_made
from mmrl.data.templates import Templates
from mmrl.errors import ConfigError, DataError, MissingMediaError


def made(row: dict, **how):
    return with_made(row, {"x": MadeColumn.model_validate(how)})["x"]


@pytest.mark.parametrize(
    ("row", "how", "value"),
    [
        ({"videoID": "a7"}, {"text": "{{ videoID }}.mp4"}, "a7.mp4"),
        ({"video ID": "a7"}, {"text": "{{ row['video ID'] }}.mp4"}, "a7.mp4"),
        ({"A": "red", "B": "blue", "C": None, "D": ""}, {"items": ["A", "B", "C", "D"]}, ["red", "blue"]),
        ({"o": ["(A) red", "(B) blue"]}, {"items": "o", "strip": r"\([A-Z]\)\s*"}, ["red", "blue"]),
        ({"o": "['it\\'s', \"3,4\"]"}, {"items": "o"}, ["it's", "3,4"]),
        ({"o": '["red", 2]'}, {"items": "o"}, ["red", 2]),
        ({"o": "[]"}, {"items": "o"}, []),
        ({"o": "red, blue"}, {"items": "o", "alone": True}, ["red, blue"]),
        ({"o": "['3', '4']"}, {"items": "o", "alone": True}, ["3", "4"]),
        ({"o": "7"}, {"items": "o", "alone": True}, ["7"]),
        ({"a": ""}, {"text": "{{ a }}"}, None),
        ({"a": "14", "o": None}, {"letter": "a", "options": "o"}, "14"),
        ({"a": "14", "o": "[]"}, {"letter": "a", "options": "o"}, "14"),
        ({"o": None}, {"items": "o"}, None),
        (
            {"q": "Is <image 2> as <image 1>, <image 2>?", "i1": "a", "i2": "b", "i3": "c"},
            {"items": ["i1", "i2", "i3"], "named_in": "q"},
            ["b", "a", "b"],
        ),
        ({"o": ["red", "blue"]}, {"lettered": "o"}, "A. red\nB. blue"),
        (
            {"o": {"A": "red", "C": "{letter}", "D": None}},
            {"lettered": "o", "style": "({letter}) {option}"},
            "(A) red\n(C) {letter}",
        ),
        ({"a": 2}, {"letter": "a", "counted_from": 0}, "C"),
        ({"a": "2"}, {"letter": "a", "counted_from": 1}, "B"),
        ({"a": " blue", "o": ["red", "blue"]}, {"letter": "a", "options": "o"}, "B"),
        ({"a": "4", "o": "[2, 4]"}, {"letter": "a", "options": "o"}, "B"),
        ({"a": "", "o": None}, {"letter": "a", "options": "o"}, None),
        ({"n": "1,200"}, {"number": "n"}, 1200),
        ({"n": " -3.50 "}, {"number": "n"}, -3.5),
        ({"n": 7}, {"number": "n"}, 7),
        ({"a": "1", "b": 2, "c": 30.5, "d": "40"}, {"box": ["a", "b", "c", "d"]}, [1, 2, 30.5, 40]),
        ({"b": [10, 20, 5, 6]}, {"box": "b", "form": "xywh"}, [10, 20, 15, 26]),
        ({"b": "[10, 20, 15, 26]"}, {"box": "b"}, [10, 20, 15, 26]),
        ({"a": "", "b": None}, {"box": ["a", "a", "b", "b"]}, None),
        ({"a": 1}, {"translate": "a", "to": {"0": "no", "1": "yes"}}, "yes"),
        (
            {"v": "a.mp4", "s": 1.5, "e": None},
            {"mapping": {"video": "v", "end_s": "e"}},
            {"video": "a.mp4", "end_s": None},
        ),
    ],
)
def test_each_way(row, how, value):
    assert made(row, **how) == value


@pytest.mark.parametrize(
    ("row", "how", "message"),
    [
        ({"videoId": "a"}, {"text": "{{ videoID }}.mp4"}, "'videoID' is undefined"),
        ({"A": "red", "B": "", "C": "blue"}, {"items": ["A", "B", "C"]}, "'B' is empty and 'C' is not; mend the row"),
        ({"A": "red"}, {"items": ["A", "B"]}, "no column 'B'; columns present: A"),
        ({"o": "red, blue"}, {"items": "o"}, "column 'o' must hold a list, maybe written as text, not 'red, blue'"),
        ({"q": "<image 2>", "i": "a"}, {"items": ["i"], "named_in": "q"}, "names <image 2>, but the row has 1"),
        ({"a": 26}, {"letter": "a", "counted_from": 0}, "column 'a' is 26, no number of an option from 0 on"),
        ({"a": 0}, {"letter": "a", "counted_from": 1}, "column 'a' is 0, no number of an option from 1 on"),
        ({"a": "C", "o": ["red"]}, {"letter": "a", "options": "o"}, "'C', which is none of the options ['red']"),
        ({"n": "12 m"}, {"number": "n"}, "column 'n' must hold a number, maybe as text, not '12 m'"),
        ({"n": True}, {"number": "n"}, "must hold a number, maybe as text, not true"),
        ({"n": "inf"}, {"number": "n"}, "must hold a number, maybe as text, not 'inf'"),
        ({"b": [1, 2, 3]}, {"box": "b"}, "column 'b' must hold four numbers, not 3"),
        ({"a": 1, "b": None}, {"box": ["a", "a", "b", "b"]}, "column 'b' must hold a number"),
        ({"a": 2}, {"translate": "a", "to": {"0": "no"}}, "column 'a' is 2; `to` knows '0'; add it there"),
    ],
)
def test_a_row_that_does_not_fit(row, how, message):
    with pytest.raises(DataError) as error:
        made(row, **how)
    assert str(error.value).startswith("make.x: ") and message in str(error.value)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "here none"),
        ({"text": "a", "number": "n"}, "here text and number"),
        ({"number": "n", "strip": "a"}, "strip does not belong to `number`"),
        ({"letter": "a"}, "needs `options`"),
        ({"letter": "a", "options": "o", "counted_from": 0}, "needs `options`"),
        ({"translate": "a"}, "`translate` needs `to`"),
    ],
)
def test_a_column_is_made_in_one_way(how, message):
    with pytest.raises(ValidationError, match=message):
        MadeColumn.model_validate(how)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"text": "{{ a"}, r"card\.make\.x\.text is not valid Jinja"),
        ({"items": "o", "strip": "("}, r"card\.make\.x\.strip is no regular expression"),
        ({"items": "o", "named_in": "q", "named_as": "<image>"}, r"make\.x\.named_as: '<image>' has no \{n\}"),
        ({"lettered": "o", "style": "{letter}"}, r"make\.x\.style: '\{letter\}' must hold"),
    ],
)
def test_what_no_row_could_mend_is_found_with_the_card(how, message):
    with pytest.raises(ConfigError, match=message):
        resolve_card(CardSection.model_validate({"make": {"x": how}}), relative_to=Path("/"))


MAKE = {
    "choices": {"items": "choices"},
    "video": {"text": "{{ videoID }}.mp4"},
    "answer": {"letter": "answer", "options": "choices"},
    "name": {"text": "v-{{ number }}"},
}


def test_samples_and_templates_see_made_columns(tmp_path):
    touch(tmp_path, "clips/a7.mp4")
    (tmp_path / "rows.tsv").write_text(
        "videoID\tnumber\tquestion\tchoices\tanswer\na7\t3\tWhich?\t['red', 'blue']\tblue\n"
    )
    columns = {"prompt": "question", "videos": "video", "id": "name"}
    card = {"make": MAKE, "columns": columns, "placeholders": "leading", "video_placeholder": None, "task": "choice"}
    template = "{{ prompt }}{% for option in choices %} / {{ option }}{% endfor %}"
    [sample] = read(tmp_path / "rows.tsv", card=card, root="clips", user_template=template)
    assert (sample.sample_id, sample.answer, sample.columns["choices"]) == ("v-3", "B", ["red", "blue"])
    assert sample.messages[0].parts[-1].text == "Which? / red / blue"
    assert str(sample.media[0].source).endswith("clips/a7.mp4")


def test_a_row_that_cannot_be_made_names_file_line_and_id(tmp_path):
    (tmp_path / "rows.tsv").write_text("id\tprompt\tanswer\nq1\ta\t1\nq2\tb\tone\n")
    card = {"make": {"answer": {"number": "answer"}}, "task": "count"}
    with pytest.raises(DataError, match=r"^rows\.tsv:3 \(id=q2\): make\.answer: column 'answer' must hold a number"):
        read(tmp_path / "rows.tsv", card=card)


def test_a_card_over_a_preset_makes_more_columns():
    card = CardSection.model_validate({"preset": "easyr1", "make": {"n": {"number": "answer"}}})
    reader = CardReader(
        resolve_card(card, relative_to=Path("/")), "d", "rows", Path("/"), Templates(None, None, {}, None, {})
    )
    row = {"problem": "2 + 2?", "answer": "4", "problem_type": "math"}
    assert reader.sample(row, number=0, origin="rows.jsonl:1").columns["n"] == 4


SRT = (
    "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Where is it?</i>\r\n- Here.\r\n"
    "\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n7\r\n"
)
VTT = (
    "WEBVTT\n\nNOTE made by hand\n\n00:01.000 --> 00:02.000 line:0\nHello.\n"
    "\nwith a name\n00:03.000 --> 00:04.000\n{\\an8}There.\n"
)


def subtitled(root: Path, **row: object):
    make = {"said": {"file": "subtitles/{{ clip }}.srt"}}
    card = resolve_card(
        CardSection.model_validate({"make": make, "task": "t", "columns": {"prompt": "said"}, "optional": ["answer"]}),
        relative_to=root,
    )
    reader = CardReader(card, "d", "rows", root, Templates(None, "{prompt}", {}, None, {}))
    return reader.sample({"id": "q", **row}, number=0, origin="rows.jsonl:1")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("a.srt", SRT, "Where is it?\n- Here.\n7"),
        ("a.vtt", VTT, "Hello.\nThere."),
        ("a.srt", "", ""),
        ("a.txt", "1\n00:01 --> 00:02\n", "1\n00:01 --> 00:02\n"),
    ],
)
def test_text_of_a_file_is_read_from_the_root(tmp_path, name, text, value):
    (tmp_path / name).write_bytes(text.encode())
    how = MadeColumn.model_validate({"file": "{{ name }}"})
    assert with_made({"name": name}, {"x": how}, root=tmp_path)["x"] == value
    assert with_made({"name": ""}, {"x": how}, root=tmp_path)["x"] is None


def test_subtitles_that_are_missing_are_an_error_and_never_empty(tmp_path):
    (tmp_path / "subtitles").mkdir()
    (tmp_path / "subtitles" / "a.srt").write_text(SRT)
    [part] = subtitled(tmp_path, clip="a").messages[0].parts
    assert part.text == "Where is it?\n- Here.\n7"
    with pytest.raises(MissingMediaError, match=r"rows\.jsonl:1 \(id=q\): make\.said: no file .*subtitles/b\.srt"):
        subtitled(tmp_path, clip="b")
    (tmp_path / "subtitles" / "c.srt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="it must be UTF-8 text"):
        subtitled(tmp_path, clip="c")
