"""Every shipped template: the reply it asks for gets reward 1 by the router, in the space of each model family."""

from pathlib import Path

import pytest
from makers.processors import family_processor
from makers.rendered import make_clip, make_image

from mmrl.config.schema import RewardsSection, RunConfig
from mmrl.data.render import render
from mmrl.data.sample import MediaPart, MediaRef, Message, Sample, TextPart
from mmrl.data.template_library import ShippedTemplate, shipped_templates
from mmrl.data.template_text import template_problem
from mmrl.data.templates import Templates, apply_templates, template_record
from mmrl.scoring.geometry import describe_space, to_model_space
from mmrl.scoring.parse import extract_prediction, has_format
from mmrl.scoring.router import Router

TEMPLATES = shipped_templates()
POINT = """
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.parse import extract_prediction, parse_geometry
GEOMETRY = "point"
def score(completion, sample, *, answer="auto"):
    text = extract_prediction(completion, answer=answer) or ""
    return float(parse_geometry(text, kind="point") == gold_geometry(sample, kind="point"))
"""


def asked(template: ShippedTemplate, family: str) -> tuple[Sample, str]:
    """The sample as a model of this family gets it, answer in its space, and the reply that the template asks for."""
    processor = family_processor(family)
    medium = make_clip(family, seed=0) if template.geometry == "time" else make_image(family, seed=0)
    messages = [Message("user", (MediaPart(0), TextPart("Where?")))]
    sample = Sample(
        sample_id="1",
        task="t",
        modality=medium.kind,
        messages=apply_templates(messages, Templates(None, template.user, {}, None, {}), task="t"),
        media=(MediaRef(medium.kind, Path("/a")),),
        answer=template.example["answer"],
        answer_space="seconds" if template.geometry == "time" else "original_px",
    )
    if template.geometry:
        spaces = {"box_space": processor.box_space, "time_space": processor.time_space}
        sample = to_model_space(sample, medium, kind=template.geometry, **spaces)
    answer = ", ".join(map(str, sample.answer)) if template.geometry else str(sample.answer)
    prompt = processor.decode(render(sample, [medium], processor).prompt_ids_T.tolist())
    if template.geometry:
        space = processor.time_space if template.geometry == "time" else processor.box_space
        assert describe_space(space, medium, kind=template.geometry) in prompt
    assert "Where?" in prompt
    return sample, template.example["reply"].replace("{answer}", answer)


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_reply_that_is_asked_for_is_worth_1(name: str, family: str, tmp_path: Path):  # faults 70, 72
    template = TEMPLATES[name]
    (tmp_path / "point.py").write_text(POINT)
    part = {"reward": template.example.get("reward", "./point.py:score"), "options": {"answer": template.answer}}
    section = RewardsSection.model_validate({"workers": 0, "tasks": {"t": [part]}})
    sample, reply = asked(template, family)
    with Router(section, relative_to=tmp_path) as router:
        router.validate(["t"])
        assert router.geometry_kind("t") == template.geometry
        assert router.score([(sample, [reply, "I do not know."])]).rewards == ((1.0, 0.0),)
    assert extract_prediction(reply, answer=template.answer)
    if template.style:
        assert has_format(reply, style=template.style)


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_shipped_template_is_one(name: str):
    assert template_problem(TEMPLATES[name].user) is None
    assert (TEMPLATES[name].geometry is None) == ("_space }}" not in TEMPLATES[name].user)


def test_the_two_families_are_asked_in_their_own_space():
    image, clip = make_image("qwen2_5_vl", seed=0), make_clip("qwen2_5_vl", seed=0)
    width, height = image.model_size
    in_pixels = f"pixels of the image, which is {width} wide and {height} high"
    in_shares = "numbers from 0, the left or top edge of the image, to 1000, its right or bottom edge"
    assert describe_space("model_px", image, kind="box") == in_pixels
    assert describe_space("0..1000", image, kind="box") == in_shares
    assert describe_space("seconds", clip, kind="time") == "seconds from the start of the video"


def test_the_record_holds_the_text_behind_a_name():
    config = RunConfig.model_validate({"model": {"path": "m"}, "data": {"user_template": "box_json"}})
    record = template_record(config)["data.user_template"]
    assert (record["name"], record["text"]) == ("box_json", TEMPLATES["box_json"].user)
