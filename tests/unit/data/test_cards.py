"""From the columns of a row to a Sample: what each card setting does, and the message of each bad row."""

from pathlib import Path

import pytest
from makers.rows import touch

from mmrl.config.schema import CardSection
from mmrl.data.cards import CardReader, resolve_card
from mmrl.data.sample import GeometryPart, MediaPart, Message, TextPart
from mmrl.data.templates import Templates
from mmrl.errors import ConfigError, DataError, MissingMediaError

NO_TEMPLATES = Templates(None, None, {}, None, {})
TEXT = {"prompt": "2 + 2?", "answer": "4", "task": "math"}


def sample(row: dict, root: Path = Path("/"), *, card: CardSection | str | dict | None = None, number: int = 0):
    if not isinstance(card, str):
        card = CardSection.model_validate(card or {})
    reader = CardReader(resolve_card(card, relative_to=root), "dogs", "train", root, NO_TEMPLATES)
    return reader.sample(row, number=number, origin=f"train.jsonl:{number + 1}")


def error_of(row: dict, root: Path = Path("/"), *, card: dict | str | None = None, kind: type = DataError) -> str:
    with pytest.raises(kind) as error:
        sample(row, root, card=card, number=380)
    assert str(error.value).startswith("train.jsonl:381")
    return str(error.value)


def user(*parts) -> tuple[Message, ...]:
    return (Message("user", parts),)


def test_easyr1_rows(tmp_path):
    touch(tmp_path, "a.jpg", "clips/v.mp4")
    row = {
        "problem": "<video> then <image>: same dog?",
        "answer": "yes",
        "images": ["a.jpg"],
        "videos": "clips/v.mp4",
        "problem_type": "yes/no",
        "problem_id": 17,
        "data_type": "video",
        "options": ["yes", "no"],
    }
    found = sample(row, tmp_path, card="easyr1")
    assert (found.sample_id, found.task, found.modality, found.answer) == ("17", "yes/no", "video", "yes")
    assert found.messages == user(MediaPart(0), TextPart(" then "), MediaPart(1), TextPart(": same dog?"))
    assert [(m.kind, m.source, m.budget) for m in found.media] == [
        ("video", tmp_path / "clips/v.mp4", "video"),
        ("image", tmp_path / "a.jpg", "image"),
    ]
    assert found.columns == {"data_type": "video", "options": ["yes", "no"]}
    assert found.where == "train.jsonl:1 (id=17)"


def test_easyr1_image_rows_without_type_or_videos(tmp_path):
    touch(tmp_path, "a.jpg")
    row = {"problem": "<image>Find x.", "answer": "3", "images": ["a.jpg"]}
    found = sample(row, tmp_path, card={"preset": "easyr1", "task": "math"}, number=4)
    assert (found.sample_id, found.task, found.modality) == ("train:5", "math", "image")
    assert "no task: the column 'problem_type' is absent or empty" in error_of(row, tmp_path, card="easyr1")


def test_text_row_without_card():
    found = sample({**TEXT, "level": 3, "demonstration": "It is 4."})
    assert (found.messages, found.media, found.modality) == (user(TextPart("2 + 2?")), (), "text")
    assert found.columns == {"level": 3, "demonstration": "It is 4."}


def test_mapped_demonstration_reaches_the_row_under_its_own_name():
    card = {"columns": {"demonstration": "cot"}}
    assert sample({**TEXT, "cot": "four", "k": 1}, card=card).columns == {"k": 1, "demonstration": "four"}


@pytest.mark.parametrize("answer", ["a <video> tag", {"html": "<video><image>"}, 0, False, [1, 2]])
def test_answers_are_never_searched(answer):  # fault 13
    assert sample({**TEXT, "answer": answer}).answer == answer


def test_special_tokens_in_a_question_stay_text(tmp_path):  # fault 14
    touch(tmp_path, "a.jpg")
    found = sample({**TEXT, "prompt": "What does <|image_pad|> mean in <image>?", "images": "a.jpg"}, tmp_path)
    assert found.messages == user(TextPart("What does <|image_pad|> mean in "), MediaPart(0), TextPart("?"))


def test_a_literal_placeholder_needs_another_placeholder_string(tmp_path):  # faults 13, 15
    touch(tmp_path, "a.jpg")
    row = {**TEXT, "prompt": "Explain the <image> tag. [[pic]]", "images": ["a.jpg"]}
    found = sample(row, tmp_path, card={"image_placeholder": "[[pic]]"})
    assert found.messages == user(TextPart("Explain the <image> tag. "), MediaPart(0))
    assert sample({**TEXT, "prompt": "<video>"}, card={"video_placeholder": None}).messages == user(TextPart("<video>"))


def test_placeholder_counts(tmp_path):  # fault 15
    touch(tmp_path, "a.jpg")
    row = {**TEXT, "id": "geo-17", "images": ["a.jpg"]}
    two = error_of({**row, "prompt": "<image><image>?"}, tmp_path)
    assert two == "train.jsonl:381 (id=geo-17): 2 image placeholders but 1 image"
    none = error_of(row, tmp_path)
    assert "0 image placeholders but 1 image; put the card's image_placeholder into the prompt" in none
    lost = error_of({**TEXT, "prompt": "<video>?", "video": "a.mp4"}, tmp_path)  # fault 48: a column of another name
    assert "1 video placeholder but 0 videos; if the row has one, check the card's column" in lost


def test_leading_media_leave_the_text_alone(tmp_path):
    touch(tmp_path, "a.jpg", "b.jpg", "v.mp4")
    row = {**TEXT, "prompt": "Is <image> a tag?", "images": ["a.jpg", "b.jpg"], "videos": ["v.mp4"]}
    found = sample(row, tmp_path, card={"placeholders": "leading"})
    assert found.messages == user(MediaPart(0), MediaPart(1), MediaPart(2), TextPart("Is <image> a tag?"))
    assert [m.source.name for m in found.media] == ["a.jpg", "b.jpg", "v.mp4"]


def test_messages_are_split_in_user_turns_only(tmp_path):
    touch(tmp_path, "a.jpg")
    prompt = [
        {"role": "system", "content": "Write <image> for a picture."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "<video>"},
        {"role": "user", "content": "<image>?"},
    ]
    found = sample({**TEXT, "prompt": prompt, "images": "a.jpg"}, tmp_path)
    assert [(m.role, m.parts) for m in found.messages] == [
        ("system", (TextPart("Write <image> for a picture."),)),
        ("user", (TextPart("hi"),)),
        ("assistant", (TextPart("<video>"),)),
        ("user", (MediaPart(0), TextPart("?"))),
    ]


def test_system_column():
    assert sample({**TEXT, "system": "Be brief."}).messages[0] == Message("system", (TextPart("Be brief."),))


def test_geometry_in_a_prompt(tmp_path):
    touch(tmp_path, "a.jpg")
    card = {"geometry_placeholder": "<box>", "geometry_column": "boxes", "answer_space": "0..1000"}
    row = {**TEXT, "prompt": "<image> <box> or <box>?", "images": "a.jpg", "boxes": [[1, 2, 3, 4], [5, 6, 7, 8]]}
    parts = sample(row, tmp_path, card=card).messages[0].parts
    assert [p for p in parts if isinstance(p, GeometryPart)] == [
        GeometryPart("box", (1.0, 2.0, 3.0, 4.0), "0..1000"),
        GeometryPart("box", (5.0, 6.0, 7.0, 8.0), "0..1000"),
    ]
    assert "2 geometry placeholders but 1 geometry value" in error_of(
        {**row, "boxes": [1, 2, 3, 4]}, tmp_path, card=card
    )
    assert "list of numbers" in error_of({**row, "boxes": "1 2 3 4"}, tmp_path, card=card)
    lost = error_of({**row, "prompt": "<box> or <box>?", "images": None}, tmp_path, card=card)
    assert "column 'boxes' holds values, but the row has no medium" in lost


def test_declared_modality_names_the_budget(tmp_path):
    touch(tmp_path, "a.png")
    row = {**TEXT, "prompt": "<image>Click.", "images": "a.png"}
    found = sample(row, tmp_path, card={"modality": "gui"})
    assert (found.modality, found.media[0].budget) == ("gui", None)
    assert sample({**row, "modality": "ocr"}, tmp_path, card={"modality": "gui"}).modality == "ocr"


def test_task_column_wins_over_the_card():
    assert sample(TEXT, card={"task": "other"}).task == "math"
    assert sample({"prompt": "q", "answer": 1}, card={"task": "other"}).task == "other"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": None}, "column 'prompt' (prompt) is null"),
        ({"prompt": " "}, "the prompt is empty"),
        ({"prompt": 3}, "must be a string or a list of messages, not a number"),
        (
            {"prompt": [{"role": "user", "content": [{"type": "text"}]}]},
            "a part must be {type: text, text: ...} or of type",
        ),
        ({"prompt": [{"role": "user", "content": 3}]}, "a message must be {role: system|user|assistant, content:"),
        ({"prompt": [{"from": "human", "value": "x"}]}, "a message must be {from: system|user|assistant, value:"),
        ({"prompt": [{"role": "tool", "content": "x"}]}, "another name of a role goes into the card's `roles`"),
        ({"prompt": [{"role": "user", "content": "x", "tool_calls": [{}]}]}, "a message of 'user' holds tool_calls"),
        ({"prompt": [{"role": "assistant", "content": "x"}]}, "has no message before the assistant's; it must end"),
        ({"prompt": [{"role": "system", "content": "x"}]}, "ends with a message of 'system'; it must end with one of"),
        ({"answer": None}, "column 'answer' (answer) is null; list answer in the card's `optional`"),
        ({"task": 3}, "task must be a string, not a number"),
        ({"id": 1.5}, "the id 1.5 must be a non-empty string or an integer"),
        ({"images": 3}, "images must be a path, a mapping, bytes, or a list of such, not a number"),
    ],
)
def test_bad_values(change, message):
    assert message in error_of({**TEXT, **change})


USER, REPLY = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "It is 4."}


def test_a_last_assistant_turn_is_the_demonstration():
    found = sample({**TEXT, "prompt": [USER, REPLY]})
    assert (found.messages, found.answer) == (user(TextPart("2 + 2?")), "4")
    assert found.columns == {"demonstration": "It is 4."}
    assert "keep one" in error_of({**TEXT, "prompt": [USER, REPLY], "demonstration": "four"})
    assert sample({**TEXT, "prompt": [USER, REPLY], "demonstration": ""}).columns == {"demonstration": "It is 4."}


def test_the_demonstration_is_the_answer_where_the_card_says_so():
    row, card = {"prompt": [USER, REPLY], "task": "math"}, {"answer_from_demonstration": True}
    assert "no column 'answer'" in error_of(row)
    assert sample(row, card=card).answer == "It is 4."
    assert sample({**row, "answer": "4"}, card=card).answer == "4"
    message = error_of({**row, "prompt": [USER]}, card=card)
    assert "no answer: neither a column 'answer' nor an assistant's turn after the prompt" in message


def test_dotted_and_alternative_columns():
    card = {"columns": {"answer": "reward_model.ground_truth", "prompt": ["question", "query"], "id": None}}
    row = {"query": "2 + 2?", "task": "math", "reward_model": {"style": "rule", "ground_truth": "4"}, "id": "twice"}
    found = sample(row, card=card)
    assert (found.answer, found.sample_id) == ("4", "train:1")
    assert found.columns == {"reward_model": row["reward_model"], "id": "twice"}
    assert sample({**row, "reward_model.ground_truth": "5"}, card=card).answer == "5"
    assert "columns question and query both hold the prompt; keep one" in error_of({**row, "question": "q"}, card=card)
    assert "no column 'question' or 'query' for the sample field prompt" in error_of({"a": 1}, card=card)
    assert "no column 'reward_model.ground_truth'" in error_of({**row, "reward_model": "rule"}, card=card)


def test_input_and_history_are_read_only_where_a_card_maps_them():
    row = {**TEXT, "input": "2 + 2", "history": [["Hi", "Hello"]]}
    assert sample(row).columns == {"input": "2 + 2", "history": [["Hi", "Hello"]]}
    found = sample(row, card={"columns": {"input": "input", "history": "history"}})
    assert [(m.role, m.parts) for m in found.messages] == [
        ("user", (TextPart("Hi"),)),
        ("assistant", (TextPart("Hello"),)),
        ("user", (TextPart("2 + 2?\n2 + 2"),)),
    ]


def test_a_medium_named_in_the_text(tmp_path):
    touch(tmp_path, "a b.jpg", "c.jpg")
    card = {"image_placeholder": ["<image>", "<img>{path}</img>"]}
    row = {**TEXT, "prompt": "1: <img>a b.jpg</img> 2: <image> <img></img>", "images": ["c.jpg"]}
    found = sample(row, tmp_path, card=card)
    assert found.messages == user(
        TextPart("1: "), MediaPart(0), TextPart(" 2: "), MediaPart(1), TextPart(" <img></img>")
    )
    assert [m.source.name for m in found.media] == ["a b.jpg", "c.jpg"]
    first = sample(row, tmp_path, card={**card, "placeholders": "leading"})
    assert first.messages == user(MediaPart(0), MediaPart(1), TextPart("1:  2: <image> <img></img>"))
    gone = error_of({**row, "prompt": "<img>d.jpg</img>", "images": None}, tmp_path, card=card, kind=MissingMediaError)
    assert "no such file" in gone


def test_parts_name_media_or_take_those_of_the_columns(tmp_path):
    touch(tmp_path, "a.jpg", "b.jpg", "v.mp4")
    content = [
        {"type": "text", "text": "Is <image> "},
        {"type": "image"},
        {"type": "video", "video": "v.mp4"},
        {"type": "image_url", "image_url": {"url": "a.jpg", "detail": "low"}},
    ]
    row = {**TEXT, "prompt": [{"role": "user", "content": content}], "images": ["b.jpg"]}
    found = sample(row, tmp_path)
    assert found.messages == user(TextPart("Is <image> "), MediaPart(0), MediaPart(1), MediaPart(2))
    assert [m.source.name for m in found.media] == ["b.jpg", "v.mp4", "a.jpg"]
    assert "1 image placeholder but 2 images" in error_of({**row, "images": ["a.jpg", "b.jpg"]}, tmp_path)
    first = sample(row, tmp_path, card={"placeholders": "leading"})
    assert first.messages == user(MediaPart(0), MediaPart(1), MediaPart(2), TextPart("Is <image> "))
    assert [m.source.name for m in first.media] == ["b.jpg", "a.jpg", "v.mp4"]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "audio", "audio": "a.wav"}, "a part must be"),
        ({"type": "image", "image": "a.jpg", "url": "b.jpg"}, "names its medium twice, by image and url"),
        ({"type": "video", "fps": 2}, "a part of type video says fps but names no medium"),
    ],
)
def test_bad_parts(part, message):
    assert message in error_of({**TEXT, "prompt": [{"role": "user", "content": [part]}]})


def test_a_medium_is_the_users(tmp_path):
    touch(tmp_path, "a.jpg")
    row = {**TEXT, "prompt": [{"role": "system", "content": [{"type": "image", "image": "a.jpg"}]}, USER]}
    assert "a message of 'system' holds media (image); only those of 'user' may" in error_of(row, tmp_path)


def test_without_a_placeholder_media_come_first(tmp_path):
    touch(tmp_path, "a.jpg", "v.mp4")
    row = {**TEXT, "prompt": "<video> <image>", "images": ["a.jpg"], "videos": ["v.mp4"]}
    found = sample(row, tmp_path, card={"image_placeholder": None})
    assert found.messages == user(MediaPart(0), MediaPart(1), TextPart(" <image>"))
    assert [m.kind for m in found.media] == ["image", "video"]


def test_missing_column_names_those_present_and_the_remedy():
    assert error_of({"question": "2 + 2?", "answer": "4", "id": "geo-17"}) == (
        "train.jsonl:381 (id=geo-17): no column 'prompt' for the sample field prompt; columns present: question, "
        "answer, id. Set `columns: {prompt: ...}` in the card, or list prompt in its `optional`"
    )


def test_a_column_the_card_maps_over_a_preset_is_required(tmp_path):  # fault 48
    card = {"preset": "easyr1", "task": "t", "columns": {"videos": "video"}, "placeholders": "leading"}
    message = error_of({"problem": "q", "answer": "a", "videos": ["v.mp4"]}, tmp_path, card=card)
    assert "no column 'video' for the sample field videos" in message


def test_optional_adds_to_the_usual_list_and_the_presets():
    card = {"columns": {"answer_space": "space"}, "optional": ["answer_space", "answer"]}
    for preset in ({}, {"preset": "easyr1"}, {"preset": "trl"}):  # none of these rows has images, an id, a system turn
        prompt = "problem" if preset == {"preset": "easyr1"} else "prompt"
        found = sample({prompt: "2 + 2?"}, card={**preset, **card, "task": "math"})
        assert (found.answer, found.answer_space, found.sample_id) == (None, None, "train:1")


def test_required_fields_must_be_in_every_row():
    assert "no column 'id' for the sample field id" in error_of(TEXT, card={"required": ["id"]})
    messages = {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
    assert sample(messages, card={"preset": "trl", "task": "t"}).answer == "4"
    card = {"preset": "trl", "task": "t", "required": ["answer"]}
    assert "no column 'answer' or 'solution' or 'ground_truth'" in error_of(messages, card=card)


def test_a_field_without_a_column_is_in_no_row():
    card = {"preset": "easyr1", "task": "t", "columns": {"answer": None, "id": None}}
    found = sample({"problem": "q", "answer": "a"}, card=card)
    assert (found.answer, found.columns) == (None, {"answer": "a"})


# --- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a b.jpg", "bilder/犬 – ñ.jpg", "../other/a.jpg"])
def test_relative_paths_from_any_folder(tmp_path, monkeypatch, name):  # faults 30, 31
    touch(tmp_path / "data", name)
    monkeypatch.chdir("/")
    found = sample({**TEXT, "prompt": "<image>", "images": name}, tmp_path / "data")
    assert found.media[0].source == tmp_path / "data" / name


def test_absolute_paths_stay(tmp_path):
    touch(tmp_path, "a.jpg")
    found = sample({**TEXT, "prompt": "<image>", "images": str(tmp_path / "a.jpg")}, Path("/nowhere"))
    assert found.media[0].source == tmp_path / "a.jpg"


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("b.jpg", "no such file: {root}/b.jpg"),
        ("sub\\a.jpg", "it is written with backslashes, write it with /"),
        ("images/a.jpg", "exists: `root` already ends in 'images', set it one folder higher"),
        ("here.jpg", "it exists below the current folder, but paths start from {root}"),
    ],
)
def test_missing_files_say_why(tmp_path, monkeypatch, written, hint):  # fault 31
    root = tmp_path / "images"
    touch(tmp_path, "images/a.jpg", "images/sub/a.jpg", "here.jpg")
    monkeypatch.chdir(tmp_path if written == "here.jpg" else "/")
    message = error_of({**TEXT, "prompt": "<image>", "images": written}, root, kind=MissingMediaError)
    assert hint.format(root=root) in message


# --- cards themselves ------------------------------------------------------------------------------------------------


def test_card_from_a_file_and_keys_over_a_preset(tmp_path):
    (tmp_path / "card.yaml").write_text("preset: easyr1\ntask: räumlich\ncolumns: {answer: gold}\n", encoding="utf-8")
    card = resolve_card("./card.yaml", relative_to=tmp_path)
    assert (card.task, card.columns["prompt"], card.columns["answer"]) == ("räumlich", "problem", "gold")


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ({"columns": {"promt": "q"}}, "unknown sample field 'promt'; known: prompt, .*; did you mean 'prompt'?"),
        ({"optional": ("pictures",)}, "card.optional: unknown sample field 'pictures'"),
        ({"required": ("pictures",)}, "card.required: unknown sample field 'pictures'"),
        ({"required": ("id",), "optional": ("id",)}, "id is both required and optional"),
        ({"required": ("input",)}, "input must be in every row, but has no column; set `columns: {input: ...}`"),
        ({"columns": {"prompt": None}}, "prompt must be in every row, but has no column"),
        ({"image_placeholder": "<m>", "video_placeholder": "<m>"}, "placeholders must be different"),
        ({"image_placeholder": ""}, "placeholders must be different, non-empty"),
        ({"image_placeholder": ["<m>", "<m>"]}, "placeholders must be different"),
        ({"image_placeholder": "<img>{path}"}, "needs text on both sides of one {path}"),
        ({"roles": {"human": "usr"}}, "card.roles: 'human' stands for 'usr'; a role is one of system, user, assistant"),
        ({"text_placeholder": "<ref>"}, "text_placeholder and text_column go together"),
        ({"geometry_placeholder": "<box>"}, "go together"),
        ({"geometry_placeholder": "<box>", "geometry_column": "b"}, "needs answer_space"),
        (
            {"preset": "easyr2"},
            "unknown card 'easyr2'; shipped: .*easyr1.*a file is named by .*; did you mean 'easyr1'\\?$",
        ),
        ("./none.yaml", "none.yaml"),
    ],
)
def test_bad_cards(tmp_path, card, message):
    with pytest.raises(ConfigError, match=message):
        resolve_card(CardSection.model_validate(card) if isinstance(card, dict) else card, relative_to=tmp_path)


def test_an_unknown_key_of_a_card_file_is_located(tmp_path):
    (tmp_path / "card.yaml").write_text("task: t\ncolumn: {prompt: q}\n")
    with pytest.raises(ConfigError, match=r"card.yaml:2: key 'column' is unknown; did you mean 'columns'"):
        resolve_card("./card.yaml", relative_to=tmp_path)


def test_a_written_preset_reads_back_the_same():
    card = CardSection.model_validate({"preset": "easyr1", "task": "t"})
    again = CardSection.model_validate(card.model_dump(mode="json"))
    assert resolve_card(again, relative_to=Path("/")) == resolve_card(card, relative_to=Path("/"))
