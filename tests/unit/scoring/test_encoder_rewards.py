"""Rewards that use encoders: what is refused before a run starts, where frames come from, what cannot be used."""

import json

import numpy as np
import pytest
import yaml
from makers.clips import ClipSpec, write_clip
from makers.rows import write_jsonl
from makers.tiny_encoders import tiny_encoder

from mmrl.config.load import load_config
from mmrl.data.sample import MediaRef, Message, Sample, TextPart
from mmrl.errors import ConfigError, RewardError
from mmrl.scoring.cases import Case, cases_of
from mmrl.scoring.encoders import encoder_of
from mmrl.scoring.pool import RewardCall, run_call
from mmrl.scoring.reward import check_machine, resolve_reward
from mmrl.scoring.router import Router
from mmrl.scoring.subjects import Footage, instruction_of, words_of

TABLE = {"kind": "table", "vectors": {"a": [1.0, 0.0], "b": [0.0, 1.0]}}


def problem(name: str, **options) -> str:
    with pytest.raises(ConfigError) as caught:
        check_machine(resolve_reward(name), options, timeout_s=1000.0, where="rewards.tasks.t[0]")
    return str(caught.value)


def test_weights_that_are_missing_stop_a_run_before_it_starts(tmp_path):
    """Relative paths start beside the configuration; the error names the part and the remedy."""
    part = {"reward": "text_similarity", "options": {"encoder": {"kind": "sentence", "weights": "models/minilm"}}}
    write_jsonl(tmp_path / "rows.jsonl", [{"problem": "x", "answer": "y"}])
    (tmp_path / "run.yaml").write_text(
        yaml.safe_dump({"model": {"path": "model"}, "rewards": {"tasks": {"t": [part]}, "workers": 0}})
    )
    section = load_config(tmp_path / "run.yaml").rewards
    assert section.tasks["t"][0].options["encoder"]["weights"] == str(tmp_path / "models" / "minilm")
    with Router(section) as router, pytest.raises(ConfigError) as caught:
        router.validate(["t"])
    text = str(caught.value)
    assert text.startswith("rewards.tasks.t[0]") and f"there is no {tmp_path}/models/minilm; nothing is" in text


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("language_goals", {"encoder": TABLE}, "with form 'clg' needs the option 'good'"),
        ("language_goals", {"encoder": TABLE, "form": "lord", "good": "a"}, "with form 'lord' needs the option 'bad'"),
        ("demonstration_steps", {"encoder": TABLE, "demonstrations": []}, "at least one clip"),
        ("demonstration_steps", {"encoder": TABLE, "demonstrations": ["x.mp4"]}, "there is no file x.mp4"),
        ("demonstration_steps", {"encoder": TABLE, "demonstrations": ["x"], "steps": 1}, "at least 2 steps"),
        ("progress", {"reward_model": "nowhere"}, "nowhere holds no reward model"),
        ("goal_image", {"encoder": {"kind": "table"}}, "vectors of a table are one or more"),
        ("text_similarity", {"encoder": {}}, "encoder.kind is missing"),
    ],
)
def test_options_that_cannot_work_are_refused_at_start(name, options, message):
    assert message in problem(name, **options)


def test_an_encoder_of_pictures_alone_cannot_score_captions(tmp_path):
    assert "encoder must read texts" in problem("clip_similarity", encoder=tiny_encoder("timm", tmp_path))


def test_a_group_is_one_forward_of_pictures_and_one_of_words(tmp_path):
    """Eight captions of two rows: two pictures and seven different texts, encoded together, and once."""
    options = {"encoder": tiny_encoder("clip", tmp_path)}
    seen: list[tuple[str, int]] = []
    net = encoder_of(options["encoder"]).model.net
    hooks = [
        part.register_forward_pre_hook(
            lambda _, args, kw, n=name, k=key: seen.append((n, len(kw[k]))), with_kwargs=True
        )
        for name, part, key in (("pictures", net.vision_model, "pixel_values"), ("texts", net.text_model, "input_ids"))
    ]
    rows = [
        Sample("s", "t", "image", (), media=(MediaRef("image", np.full((32, 32, 3), level, dtype=np.uint8)),))
        for level in (40, 200)
    ]
    captions = ("a cat", "the mat", "a red square", "a blue square"), ("a cat", "the cat", "on the mat", "sits")
    call = RewardCall("clip_similarity", None, options, tuple(zip(rows, captions, strict=True)))
    first = run_call(call)
    assert sorted(seen) == [("pictures", 2), ("texts", 7)]
    again = run_call(call)
    assert [o.value for o in again] == [o.value for o in first] and len(seen) == 2  # remembered
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize(
    ("name", "options", "forwards"),
    [
        ("image_similarity", {"measure": "layers", "draws": "svg"}, [6]),
        ("image_similarity", {"measure": "layers", "draws": "svg", "batch": 4}, [4, 2]),
        ("image_similarity", {"draws": "svg"}, [3, 1]),
        ("goal_image", {}, [5]),
    ],
)
def test_pictures_of_all_completions_are_computed_together(tmp_path, name, options, forwards):
    options = dict(options)
    encoder = {**tiny_encoder("timm", tmp_path), "batch_size": options.pop("batch", 32)}
    sizes: list[int] = []
    stem = encoder_of(encoder).model.net.conv1
    hook = stem.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    levels = (0, 60, 120, 180, 240)
    media = tuple(MediaRef("image", np.full((32, 32, 3), level, dtype=np.uint8)) for level in levels)
    drawings = tuple(f"<svg viewBox='0 0 8 8'><rect width='{w}' height='8' fill='red'/></svg>" for w in (2, 4, 6))
    rows = [(Sample("s", "t", "image", (), media=media[:1]), drawings)]
    if name == "goal_image":
        rows = [(Sample(str(n), "t", "image", (), media=(media[0], media[n], media[n + 1])), ("",)) for n in (1, 2, 3)]
    outcomes = run_call(RewardCall(name, None, {"encoder": encoder, **options}, tuple(rows)))
    assert not any(outcome.event for outcome in outcomes), outcomes
    assert sizes == forwards
    hook.remove()


def test_a_caption_too_long_scores_nothing_and_a_long_answer_is_a_bad_row(tmp_path):
    options = {"encoder": tiny_encoder("clip", tmp_path)}
    picture = np.zeros((32, 32, 3), dtype=np.uint8)
    row = Sample("s", "t", "image", (), media=(MediaRef("image", picture),))
    long, short = run_call(RewardCall("clip_similarity", None, options, ((row, ("a red square " * 9, "a cat")),)))
    assert long.value == 0.0 and long.extra == {"compared": 0.0} and short.value > 0.0
    drawn = Sample("s", "t", "image", (), answer="a red square " * 9, origin="rows.jsonl:4")
    (outcome,) = run_call(RewardCall("clip_similarity", None, {**options, "draws": "svg"}, ((drawn, ("<svg/>",)),)))
    assert outcome.event == "bad_answer" and "rows.jsonl:4" in outcome.message and "long_text: cut" in outcome.message


def test_one_bad_row_does_not_spoil_the_batch():
    good, bad = Sample("g", "t", "image", (), answer="a"), Sample("b", "t", "image", (), answer={"x": 1})
    call = RewardCall("text_similarity", None, {"encoder": TABLE}, ((good, ("a", "b")), (bad, ("a",)), (good, ("a",))))
    outcomes = run_call(call)
    assert [o.value for o in outcomes if not o.event] == [1.0, 0.0, 1.0]
    assert [o.event for o in outcomes] == [None, None, "bad_answer", None]


def test_a_megabyte_is_no_sentence():
    row = Sample("g", "t", "image", (), answer="a")
    (outcome,) = run_call(RewardCall("text_similarity", None, {"encoder": TABLE}, ((row, ("a" * 1_000_000,)),)))
    assert outcome.value == 0.0


def test_frames_come_from_a_clip_or_pictures_evenly_with_both_ends(tmp_path):
    clip = write_clip(tmp_path / "c.mp4", ClipSpec(frames=20))
    row = Sample("s", "t", "video", (), media=(MediaRef("video", clip),), columns={"seen": str(clip)})
    assert len(Footage(most=5).frames(row)) == 5
    assert len(Footage("seen", most=64).frames(row)) == 20
    part = Sample("s", "t", "video", (), media=(MediaRef("video", clip, start_s=0.5, end_s=1.0),))
    assert len(Footage(most=64).frames(part)) == 5
    pictures = [np.full((4, 4, 3), level, dtype=np.uint8) for level in range(10)]
    several = Sample("s", "t", "image", (), media=tuple(MediaRef("image", picture) for picture in pictures))
    assert [int(f[0, 0, 0]) for f in Footage(most=4).frames(several)] == [0, 3, 6, 9]
    assert [int(f[0, 0, 0]) for f in Footage(most=2, skip=1).frames(several)] == [1, 9]


@pytest.mark.parametrize("value", [None, 3, [], [""], ["a.png", 4]])
def test_a_column_without_paths_is_named(value):
    row = Sample("s", "t", "image", (), columns={"seen": value}, origin="rows.jsonl:2")
    with pytest.raises(RewardError, match=r"rows.jsonl:2.*the column 'seen' is .*not a path"):
        Footage("seen").frames(row)


def test_words_and_instructions_of_a_row():
    row = Sample("s", "t", "image", (Message("user", (TextPart(" Open "), TextPart("it."))),), answer=" a cup ")
    assert words_of(row) == "a cup" and instruction_of(row) == "Open it."
    with pytest.raises(RewardError, match="the column 'task' is None"):
        instruction_of(row, column="task")
    with pytest.raises(RewardError, match="the row asks nothing"):
        instruction_of(Sample("s", "t", "image", ()))


def test_cases_name_packaged_media_anywhere_and_bring_their_model(tmp_path):
    case = next(case for case in cases_of("goal_image") if "frames" in case.sample.columns)
    assert [name.rsplit("/", 1)[1] for name in case.sample.columns["frames"]] == ["coins.png", "camera.png"]
    (demo,) = cases_of("demonstration_steps")[0].options["demonstrations"]
    assert all(name.endswith(".png") for name in demo)
    assert all(case.brings_a_model for case in cases_of("progress"))
    assert not Case(case.sample, ("",), (0.0,)).brings_a_model
    assert json.dumps(dict(cases_of("tri_state")[0].reward_model or {}))
