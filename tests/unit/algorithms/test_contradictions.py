"""Methods that contradict each other are refused with the reason; the order of hooks that is left is told."""

import pytest
from makers.configs import write_config
from makers.rows import text_rows

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.hook_order import hook_order
from mmrl.config.checks import located
from mmrl.config.load import load_config
from mmrl.config.run_checks import check_algorithm
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import ConfigError, PluginError


def build(**settings):
    return build_algorithm(AlgorithmSection(**settings), max_new_tokens=16)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"policy_loss": "gspo"},
            r"one ratio per sequence, but 'algorithm.aggregation' is 'token-mean', which",
        ),
        (
            {"policy_loss": "gmpo", "aggregation": "seq-sum-token-sum-norm"},
            r"set it to seq-mean-token-mean, or to seq-mean-token-sum for LUSPO",
        ),
        (
            {"advantage": "gae", "plugins": ("opo",)},
            r"'algorithm.advantage' is 'gae', but the plug-in 'opo' has",
        ),
        ({"policy_loss": "sapo", "plugins": ("rover",)}, r"'algorithm.policy_loss' is 'sapo', but the plug-in 'rover'"),
        (
            {"aggregation": "seq-mean-token-sum", "plugins": ("dcpo",)},
            r"'algorithm.aggregation' is 'seq-mean-token-sum', but the plug-in 'dcpo' has its own 'aggregate'",
        ),
        (
            {"old_logprobs": "sampler", "rollout_correction": "truncate"},
            r"'algorithm.rollout_correction' truncate beside 'algorithm.old_logprobs' sampler: .*weighted twice",
        ),
        (
            {"old_logprobs": "sampler", "rollout_rejection": "token_k1"},
            r"'algorithm.rollout_rejection' token_k1 beside 'algorithm.old_logprobs' sampler",
        ),
        ({"policy_loss": "vespo", "rollout_correction": "mask"}, r"whose weight of the whole completion stands in its"),
        ({"policy_loss_options": {"delta": 4.0}}, r"delta beside 'algorithm.dual_clip' 3: both bound the loss"),
        ({"ref_kl_target": 0.1}, r"'algorithm.ref_kl_target' steers 'algorithm.ref_kl_coef', which is 0"),
        (
            {"ref_kl_coef": 0.1, "ref_kl_in": "reward", "ref_kl_estimator": "k2"},
            r"'algorithm.ref_kl_estimator' is of the divergence in the loss; in the reward it is k1",
        ),
        (
            {"ref_kl_coef": 0.1, "ref_kl_in": "reward", "ref_kl_importance": True},
            r"'algorithm.ref_kl_importance' is of the divergence in the loss",
        ),
        ({"advantage_options": {"scale": "all"}}, r"'algorithm.advantage_options' of 'grpo': .*scale"),
        ({"advantage_options": {"scal": "group"}}, r"unknown option 'scal'; it has: scale"),
        ({"policy_loss": "sapo", "policy_loss_options": {"tau": 1.0}}, r"unknown option 'tau'; it has: tau_positive"),
    ],
)
def test_a_contradiction_is_refused_with_the_reason(settings, reason):
    with pytest.raises(ConfigError, match=reason):
        build(**settings)


def test_two_plugins_with_one_single_hook_are_refused():
    with pytest.raises(PluginError, match=r"plug-ins 'opo' and 'rover' both define 'advantage'; keep one"):
        build(plugins=("opo", "rover"))


def test_all_contradictions_are_told_at_once():
    with pytest.raises(ConfigError) as found:
        build(policy_loss="gspo", ref_kl_target=0.1)
    assert len(str(found.value).splitlines()) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"policy_loss": "gspo", "aggregation": "seq-mean-token-sum"},
        {"policy_loss_options": {"delta": 4.0}, "dual_clip": None},
        {"old_logprobs": "sampler"},
        {"plugins": ("opo",), "policy_loss": "sapo"},
    ],
)
def test_what_goes_together_is_not_refused(settings):
    build(**settings)


def config_of(tmp_path, *overrides):
    stages = [{"name": "rl", "kind": "grpo", "steps": 1, "prompts_per_step": 1}]
    rewards = {"tasks": {"text": [{"reward": "format"}]}}
    path = write_config(tmp_path, text_rows(2), stages=stages, rewards=rewards)
    return load_config(path, overrides)


def test_the_check_before_a_run_names_the_key(tmp_path):
    config = config_of(tmp_path, "algorithm.ref_kl_target=0.1")
    [problem] = check_algorithm(located(config))
    assert problem.startswith("override 'algorithm.ref_kl_target=0.1': 'algorithm.ref_kl_target' steers")


@pytest.mark.parametrize(("key", "known"), [("by_task", "text"), ("by_dataset", "train")])
def test_weights_of_an_unknown_task_or_dataset_are_refused(tmp_path, key, known):
    with pytest.raises(ConfigError, match=rf"'algorithm.{key}' names 'nobody', which no row has; known: {known}"):
        config_of(tmp_path, f"algorithm.{key}.nobody.loss_weight=2")


def test_the_order_of_hooks(tmp_path):
    config = config_of(
        tmp_path,
        *("algorithm.plugins=[length_penalty, kl_cov, success_filter]", "algorithm.ref_kl_coef=0.1"),
        *("algorithm.ref_kl_in=reward", "algorithm.advantage=gae", "algorithm.overlong_buffer=4"),
        "algorithm.rollout_correction=truncate",
    )
    assert hook_order(config) == [
        "shape_rewards: overlong_buffer, ref_kl, length_penalty",
        "keep: success_filter",
        "advantage: gae",
        "token_weight: rollout_correction",
        "columns: kl_cov",
        "policy_loss: ppo_clip",
        "regulariser: value, kl_cov",
        "aggregate: token-mean",
        "needs: old, ref, value",
        "trained pass: value",
    ]
    assert hook_order(config.model_copy(update={"stages": ()})) == []
