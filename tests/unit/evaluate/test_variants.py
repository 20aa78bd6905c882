"""Prompt variants: which one a model is asked in, what it changes, that it is in the hash."""

from dataclasses import replace

import pytest
import yaml
from makers.processors import family_processor

from mmrl.data.template_library import shipped_templates
from mmrl.errors import ConfigError
from mmrl.evaluate.benchmark import Benchmark, load_benchmark, shipped_benchmarks
from mmrl.models.families import FAMILIES

FACTS = {
    "data": {
        "path": "rows.jsonl",
        "user_template": "own: {prompt}",
        "task_templates": {"a": "a: {prompt}", "b": "b: {prompt}"},
        "budgets": {"image": {"max_pixels": 1000}, "video": {"max_frames": 8}},
    },
    "score": [{"reward": "choice"}],
    "answers": {"max_new_tokens": 16, "stop": ["END"]},
    "provenance": {"source": "made"},
}
VARIANTS = {
    "qwen3_vl": {"user_template": "qwen3: {prompt}", "answers": {"max_new_tokens": 99}},
    "thinking": {"task_templates": {"a": "thinking a: {prompt}"}, "answers": {"temperature": 1.0, "top_k": 20}},
    "internvl": {"system_prompt": "Think.", "budgets": {"video": {"max_frames": 4}}},
}


def task(folder, variants: dict = VARIANTS) -> Benchmark:
    (folder / "mine.yaml").write_text(yaml.safe_dump({**FACTS, "variants": variants}))
    return load_benchmark(str(folder / "mine.yaml"))


def model(family: str, *, begins: str = ""):
    """begins: what its chat template begins a reply with."""
    processor = family_processor(family)
    return replace(processor, chat_template=processor.chat_template + f"{{{{ {begins!r} }}}}")


@pytest.mark.parametrize(
    ("family", "begins", "chosen"),
    [
        ("qwen3_vl", "", "qwen3_vl"),
        ("qwen3_vl", "<think>\n", "thinking"),
        ("qwen3_vl", "<think>\n\n</think>\n\n", "qwen3_vl"),
        ("qwen2_5_vl", "", "default"),
        ("qwen2_5_vl", "<think>", "thinking"),
        ("internvl", "", "internvl"),
    ],
)
def test_the_most_specific_variant_for_the_model_is_taken(tmp_path, family, begins, chosen):
    benchmark = task(tmp_path)
    assert benchmark.for_model(model(family, begins=begins)).variant == chosen


def test_a_variant_of_family_and_mode_is_more_specific_than_either(tmp_path):
    benchmark = task(tmp_path, {**VARIANTS, "qwen3_vl_thinking": {}})
    assert benchmark.for_model(model("qwen3_vl", begins="<think>")).variant == "qwen3_vl_thinking"
    assert benchmark.for_model(model("internvl", begins="<think>")).variant == "thinking"
    assert benchmark.for_model(replace(model("internvl"), enable_thinking=True)).variant == "thinking"


def test_a_variant_changes_what_it_says_and_leaves_the_rest(tmp_path):
    benchmark = task(tmp_path)
    own = benchmark.in_variant("qwen3_vl").section
    assert (own.data.user_template, own.data.task_templates) == ("qwen3: {prompt}", {}), "of all tasks"
    assert (own.answers.max_new_tokens, own.answers.stop, own.answers.temperature) == (99, ("END",), 0.0)
    thinking = benchmark.in_variant("thinking").section
    assert thinking.data.user_template == "own: {prompt}"
    assert thinking.data.task_templates == {"a": "thinking a: {prompt}", "b": "b: {prompt}"}
    assert (thinking.answers.max_new_tokens, thinking.answers.temperature, thinking.answers.top_k) == (16, 1.0, 20)
    internvl = benchmark.in_variant("internvl").section
    assert internvl.data.system_prompt == "Think."
    assert {name: (b.max_frames, b.max_pixels) for name, b in internvl.data.budgets.items()} == {
        "image": (benchmark.section.data.budgets["image"].max_frames, 1000),
        "video": (4, benchmark.section.data.budgets["video"].max_pixels),
    }
    assert benchmark.in_variant("default") == benchmark


def test_the_command_line_goes_before_the_variant(tmp_path):
    answers = task(tmp_path).in_variant("qwen3_vl").answered_by(max_new_tokens=7).section.answers
    assert answers.max_new_tokens == 7


def test_what_is_asked_is_hashed_and_what_is_not_is_not(tmp_path):
    benchmark = task(tmp_path)
    hashes = {name: benchmark.in_variant(name).hash for name in ("default", *VARIANTS)}
    assert len(set(hashes.values())) == 4
    changed = task(tmp_path, {**VARIANTS, "qwen3_vl": {"user_template": "another: {prompt}"}})
    assert changed.in_variant("qwen3_vl").hash != hashes["qwen3_vl"]
    for name in ("default", "thinking", "internvl"):
        assert changed.in_variant(name).hash == hashes[name]


def test_an_unknown_variant_is_answered_with_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"mine: no variant 'qwen3-vl'; known: default, internvl, qwen3_vl, thinking"):
        task(tmp_path).in_variant("qwen3-vl")
    with pytest.raises(ConfigError, match=r"screenspot_pro: no variant 'thinking'; known: default, qwen3_vl"):
        load_benchmark("screenspot_pro").in_variant("thinking")


def test_shipped_variants_are_of_families_that_there_are():
    known = {"thinking", *FAMILIES, *(f"{family}_thinking" for family in FAMILIES)}
    for name in shipped_benchmarks():
        assert set(load_benchmark(name).section.variants) <= known, name


def test_clicks_are_asked_as_the_families_give_them():
    pro = load_benchmark("screenspot_pro")
    named = {family: pro.for_model(model(family)).section.data.user_template for family in ("qwen3_vl", "qwen2_5_vl")}
    assert named["qwen3_vl"] == shipped_templates()["click_tool_call"].user
    assert named["qwen2_5_vl"] == shipped_templates()["point_json"].user, "the text, which results show and hashes hold"
    thinking = pro.for_model(model("qwen3_vl", begins="<think>\n")).section
    assert thinking.data.user_template == named["qwen3_vl"] and thinking.answers.max_new_tokens == 32768


def test_a_thinking_model_may_explain_itself_on_video_mme():
    benchmark = load_benchmark("videomme")
    plain, thinking = (benchmark.for_model(model("qwen3_vl", begins=b)).section for b in ("", "<think>\n"))
    assert plain.answers.max_new_tokens == 32 and plain.data.user_template.endswith('The best answer is:{{ " " }}')
    assert thinking.answers.max_new_tokens == 32768 and "the final answer is: $LETTER" in thinking.data.user_template
