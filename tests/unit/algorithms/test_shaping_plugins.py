"""Shaping plug-ins: the worked numbers of their sources, neutral settings, and options that are wrong."""

import inspect
import math
from pathlib import Path

import pytest
import torch
from makers.batches import make_batch

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.hooks import load_plugin
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import ConfigError, RewardError
from mmrl.plugins import resolve_module, shipped_names

NAN = float("nan")


def shaped(name, rewards, *, parts=None, options=None, **columns):
    """The shaped rewards of one group. parts: name -> values of reward parts of weight 0."""
    parts = parts or {}
    lengths = columns.pop("lengths", [1] * len(rewards))
    batch = make_batch(
        lengths,
        reward_names=("r", *parts),
        weights_NK=torch.tensor([1.0] + [0.0] * len(parts)),
        **{
            "rewards_NK": torch.tensor([list(row) for row in zip(rewards, *parts.values(), strict=True)]),
            **columns,
        },
    )
    plugin = load_plugin(name, options=options)
    values_N, token_rewards = plugin.hooks["shape_rewards"](batch, torch.tensor(rewards, dtype=torch.float64))
    assert token_rewards is None
    return [round(value, 4) for value in values_N.tolist()]


RIGHT_FIRST = {"thinking": [0.8, 0.6, 0.4, 0.2]}
WRONG_FIRST = {"thinking": [0.2, 0.4, 0.7, 0.9]}


@pytest.mark.parametrize(
    ("rewards", "parts", "options", "step", "wanted"),
    [
        ([1, 1, 0, 0], RIGHT_FIRST, {}, 0, [1.24, 1.18, 0.12, 0.06]),
        ([1, 1, 0, 0], WRONG_FIRST, {}, 0, [1.0364, 1.0728, 0.1274, 0.1638]),
        ([1, 1, 0, 0], RIGHT_FIRST, {}, 500, [1.0883, 1.0662, 0.0441, 0.0221]),
        ([1, 1, 0, 0], WRONG_FIRST, {"official": True}, 0, [1.06, 1.12, 0.0, 0.0]),
        ([1, 1, 1, 1], RIGHT_FIRST, {}, 0, [1, 1, 1, 1]),
        ([0, 0, 0, 0], RIGHT_FIRST, {}, 0, [0, 0, 0, 0]),
        ([1, 1, 0, 0], RIGHT_FIRST, {"alpha": 0.0}, 0, [1, 1, 0, 0]),
    ],
)
def test_trust_grpo(rewards, parts, options, step, wanted):
    assert shaped("trust_grpo", rewards, parts=parts, options=options, step=step) == wanted


def test_trust_grpo_leaves_rows_without_thinking_as_they_are():
    assert shaped("trust_grpo", [1, 1, 0], parts={"thinking": [0.5, NAN, 0.1]}) == [1.15, 1.0, 0.03]


@pytest.mark.parametrize(
    ("benefit", "calls", "reward", "wanted"),
    [
        (0.5, 6, 1, 1.3),
        (0.5, 0, 1, 1.0406),
        (0.5, 3, 1, 1.182),
        (-0.4, 0, 1, 0.9675),
        (-0.4, 6, 1, 0.76),
        (0.4, 0, 1, 1.0325),
        (0.4, 3, 1, 1.1456),
        (0.4, 6, 1, 1.24),
        (-0.3, 0, 1, 0.9756),
        (-0.3, 3, 1, 0.8908),
        (-0.3, 6, 0, -0.18),
        (0.0, 4, 1, 1.0),
        (NAN, 4, 1, 1.0),
    ],
)
def test_tool_benefit(benefit, calls, reward, wanted):
    parts = {"tool_calls": [float(calls)], "tool_benefit": [benefit]}
    assert shaped("tool_benefit", [reward], parts=parts) == [wanted]


@pytest.mark.parametrize(
    ("correct", "confidence", "wanted"),
    [(1, 1, 1), (1, 0.5, 0.75), (1, 0, 0), (0, 0, 0), (0, 0.5, -0.25), (0, 1, -1), (1, -1, 0), (0, -1, 0)],
)
def test_rlcr(correct, confidence, wanted):
    parts = {"correct": [float(correct)], "confidence": [float(confidence)]}
    assert shaped("rlcr", [correct], parts=parts) == [wanted]


def test_rlcr_is_worth_most_at_the_true_chance():
    def worth(confidence):
        parts = {"correct": [1.0, 0.0], "confidence": [confidence] * 2}
        right, wrong = shaped("rlcr", [1, 0], parts=parts)
        return round(0.7 * right + 0.3 * wrong, 4)

    assert [worth(q) for q in (0.7, 0.5, 1.0)] == [0.49, 0.45, 0.4]


def test_rlcr_in_the_released_form():
    parts = {"correct": [1.0, 0.0], "confidence": [0.8, 0.8]}
    assert shaped("rlcr", [1.0, 0.5], parts=parts, options={"split": True}) == [1.48, 0.68]


def test_conf_clip():
    confidence = [0.9, 0.3, 0.7, 0.2, 0.99, 0.05]
    old_NC = torch.tensor([[math.log(c)] * 2 for c in confidence])
    rewards = [1, 1, 0, 0, 1, 0]
    assert shaped("conf_clip", rewards, lengths=[2] * 6, old_NC=old_NC) == [0.8, 0.3, -0.7, -0.2, 0.8, -0.2]
    options = {"low": 1.0, "high": 1.0}
    assert shaped("conf_clip", rewards, lengths=[2] * 6, old_NC=old_NC, options=options) == [1, 1, -1, -1, 1, -1]


def test_advantages_of_conf_clip():
    old_NC = torch.tensor([[math.log(c)] for c in (0.9, 0.3, 0.7, 0.2)])
    batch = make_batch([1] * 4, rewards=[1.0, 1.0, 0.0, 0.0], old_NC=old_NC)
    algorithm = build_algorithm(AlgorithmSection(plugins=("conf_clip",)), max_new_tokens=10)
    advantage_NC = algorithm.advantage(algorithm.shape_rewards(batch).rewards_N, batch)
    assert advantage_NC[:, 0].tolist() == pytest.approx([1.1619, 0.3873, -1.1619, -0.3873], abs=1e-3)


def test_evol_rl_puts_the_majority_above_everybody_else():
    parts = {"answer_class": [0.0] * 5 + [1.0, 2.0, 1.0], "novelty": [0, 0.25, 0.5, 0.75, 1, 0, 0.5, 1]}
    wanted = [0.5, 0.625, 0.75, 0.875, 1.0, -1.0, -0.75, -0.5]
    assert shaped("evol_rl", [0.0] * 8, parts=parts) == wanted


@pytest.mark.parametrize(
    ("classes", "novelty", "wanted"),
    [
        ([0, 0, 1, -1], [0.3, 0.3, 0.9, 0.0], [0.75, 0.75, -0.5, -1.0]),
        ([0, 0, 0], [0.15, 0.35, 0.25], [0.5, 1.0, 0.75]),
        ([0, 1], [0.1, 0.2], [1.0, -0.5]),
        ([-1, -1], [0.1, 0.2], [-1.0, -1.0]),
        ([NAN, 0], [NAN, 0.2], [0.0, 1.0]),
    ],
)
def test_evol_rl_in_small_groups(classes, novelty, wanted):
    parts = {"answer_class": [float(c) for c in classes], "novelty": novelty}
    assert shaped("evol_rl", [0.0] * len(classes), parts=parts) == wanted


def test_repetition_costs_what_is_above_the_allowed_share():
    ids_NC = torch.tensor([[1, 2, 1, 2, 1, 2], [1, 2, 3, 4, 5, 6]])
    options = {"size": 2, "coef": 0.9, "allowed": 0.1}
    assert shaped("repetition_penalty", [1, 1], lengths=[6, 6], ids_NC=ids_NC, options=options) == [0.5, 1.0]


def test_diversity_adds_to_right_answers_alone():
    ids_NC = torch.tensor([[1, 2, 3], [1, 2, 3], [7, 8, 9], [4, 5, 6]])
    options = {"size": 2, "coef": 0.3}
    found = shaped("diversity_bonus", [1, 1, 1, 0], lengths=[3] * 4, ids_NC=ids_NC, options=options)
    assert found == [1.2, 1.2, 1.3, 0.0]


def test_length_penalty_by_group_and_by_target():
    lengths = [10, 20, 30, 10, 30]
    found = shaped("length_penalty", [1, 1, 1, 0, 0], lengths=lengths, options={"coef": 1.0})
    assert found == [1.5, 1.0, 0.5, 0.0, -0.5]
    assert shaped("length_penalty", [1, 0], lengths=[7, 7]) == [1, 0]
    options = {"coef": 1.0, "target": 20}
    assert shaped("length_penalty", [1, 1, 1], lengths=[10, 20, 30], options=options) == [0.5, 1.0, 0.5]


def test_the_end_is_worth_a_bonus():
    assert shaped("end_bonus", [1.5, 0.7], truncated_N=torch.tensor([False, True])) == [2.5, 0.7]


def test_trip_wires_watch_and_can_punish():
    parts = {"trip_trap": [1.0, 0.0, 0.0, NAN], "trip_echo": [0.0, 1.0, 0.0, 0.0]}
    assert shaped("trip_wires", [1, 1, 1, 0], parts=parts) == [1, 1, 1, 0]
    assert shaped("trip_wires", [1, 1, 1, 0], parts=parts, options={"caught_reward": -1.0}) == [-1, -1, 1, 0]
    with pytest.raises(RewardError, match=r"trip wire 'trip_trap': 25% of the completions .* \(20%\)"):
        shaped("trip_wires", [1, 1, 1, 0], parts=parts, options={"limit": 0.2})
    with pytest.raises(ConfigError, match="no reward part begins with 'trip_'; there are: r"):
        shaped("trip_wires", [1.0])


def test_trip_wires_log_their_shares():
    plugin = load_plugin("trip_wires")
    batch = make_batch([1, 1], reward_names=("trip_trap",), rewards_NK=torch.tensor([[1.0], [0.0]]))
    plugin.hooks["shape_rewards"](batch, torch.zeros(2))
    metrics = {}
    plugin.hooks["on_step_end"](batch, torch.zeros(2), metrics)
    assert metrics == {"trip_wires/trip_trap": 0.5, "trip_wires/any": 0.5}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("trust_grpo", {"alfa": 1.0}, "unknown option 'alfa'.*did you mean 'alpha'"),
        ("trust_grpo", {"alpha": "much"}, "option 'alpha' is 'much'"),
        ("trip_wires", {"limit": "x"}, "option 'limit' is 'x'"),
        ("trip_wires", {"limit": 20.0}, "option 'limit' is 20.0: Input should be less than or equal to 1"),
        ("length_penalty", {"target": 0}, "option 'target' is 0: Input should be greater than 0"),
        ("repetition_penalty", {"allowed": 1.0}, "option 'allowed' is 1.0: Input should be less than 1"),
        ("diversity_bonus", {"size": 0}, "option 'size' is 0"),
        ("trust_grpo", {"decay_steps": 0.0}, "option 'decay_steps' is 0.0"),
        ("tool_benefit", {"most_calls": 0}, "option 'most_calls' is 0"),
        ("conf_clip", {"low": 0.9}, r"conf_clip: low \(0.9\) must be between 0 and high \(0.8\)"),
        ("opo", {"x": 1}, "has no class Plugin, so it takes no options"),
    ],
)
def test_wrong_options_are_named(name, options, message):
    with pytest.raises(ConfigError, match=message):
        load_plugin(name, options=options)


def test_a_part_that_no_task_has_is_named_with_the_remedy():
    with pytest.raises(ConfigError, match=r"rlcr's option 'confidence' is 'confidence', which no task has .*weight 0"):
        shaped("rlcr", [1.0], parts={"correct": [1.0]})


@pytest.mark.parametrize("name", shipped_names("algorithms"))
def test_unscored_rows_stay_unscored(name):
    plugin = load_plugin(name)
    if "shape_rewards" not in plugin.hooks or name == "verifree":
        return  # another kind of plug-in, or one whose rewards are not made of those that it gets
    named = ("r", "thinking", "tool_calls", "tool_benefit", "correct", "confidence", "answer_class", "novelty")
    rewards_N = torch.tensor([1.0, 0.0, NAN], dtype=torch.float64)
    parts_NK = torch.tensor([[1.0, *[0.5] * 8], [0.0, *[0.25] * 8], [NAN] * 9])
    columns = {"reward_names": (*named, "trip_x"), "rewards_NK": parts_NK, "weights_NK": torch.eye(9)[0]}
    found_N, _ = plugin.hooks["shape_rewards"](make_batch([3, 5, 4], **columns), rewards_N)
    assert found_N.isnan().tolist() == [False, False, True]


@pytest.mark.parametrize("name", shipped_names("algorithms"))
def test_the_page_names_every_plug_in_with_its_options(name):
    page = (Path(__file__).resolve().parents[3] / "docs" / "algorithms.md").read_text(encoding="utf-8")
    section = page.partition("## Shipped plug-ins")[2]
    lines = [line for line in section.replace("\n\n", "\0").replace("\n|", "\0|").split("\0") if f"`{name}`" in line]
    plugin = resolve_module(name, kind="algorithms")[0].__dict__.get("Plugin")
    options = inspect.signature(plugin).parameters if plugin else ()
    assert lines and all(f"`{option}`" in lines[0] for option in options)
