import json
import math
from dataclasses import replace

import pytest
import torch
from makers.batches import make_batch
from makers.method_steps import algorithm_of

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.hook_order import hook_order
from mmrl.config.load import load_config
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import CheckpointError, ConfigError, MmrlError, PluginError, RewardError
from mmrl.plugins import shipped_dir, shipped_names


def build(*plugins, relative_to=None, **settings):
    section = AlgorithmSection(plugins=plugins, **settings)
    return build_algorithm(section, max_new_tokens=10, relative_to=relative_to)


def plugin(tmp_path, text, name="p.py"):
    (tmp_path / name).write_text("import torch\n" + text)
    return {"relative_to": tmp_path}


def learn(algorithm, batch, policy_NC=None):
    """Loss, gradient and statistics of one on-policy step over the whole batch."""
    policy_NC = (batch.rollout_NC.clone() if policy_NC is None else policy_NC).requires_grad_()
    rewards_N = algorithm.shape_rewards(batch).rewards_N
    advantage_NC = algorithm.advantage(rewards_N, batch)
    weight_NC = algorithm.token_weight(advantage_NC, batch)
    denom = algorithm.denominator(batch)
    loss, stats = algorithm.loss(policy_NC, batch, advantage_NC, weight_NC, denom=denom)
    loss.backward()
    assert policy_NC.grad is not None
    return loss.item(), policy_NC.grad, stats


BATCH = make_batch([2, 4, 1, 3], rewards=[1.0, 0.0, 0.0, 1.0])


def test_without_plugins_it_is_grpo():
    algorithm = build()
    loss, grad, stats = learn(algorithm, BATCH)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0])[:, None] * BATCH.mask_NC
    torch.testing.assert_close(grad, -signs * math.sqrt(0.75) / 10, atol=1e-5, rtol=0)
    assert loss == pytest.approx(0.0, abs=1e-6)  # 5 tokens of each sign
    assert stats["policy/clipfrac_high"] == 0
    assert algorithm.needs == frozenset()
    assert algorithm.sampler(["a", "b"], torch.Generator()).tolist() == [0, 1]
    assert algorithm.budget(["a", "b"], 4).tolist() == [4, 4]
    assert algorithm.second_round(BATCH, lambda: BATCH) is BATCH
    assert algorithm.keep(BATCH, torch.ones(4)).all()
    assert algorithm.replay(BATCH, torch.ones(4))[0] is BATCH
    assert algorithm.state_dict() == {}


def test_without_old_the_on_policy_step_is_the_same_as_with_it():
    with_old = learn(build(), BATCH)
    without = learn(build(), replace(BATCH, old_NC=None))
    assert with_old[0] == without[0]
    assert torch.equal(with_old[1], without[1])


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        ({}, set()),
        ({"updates_per_batch": 2}, {"old"}),
        ({"epochs_per_batch": 2}, {"old"}),
        ({"ref_kl_coef": 0.1}, {"ref"}),
    ],
)
def test_needs_only_what_is_used(settings, needs):
    assert build(**settings).needs == needs


def test_kl_is_added_unweighted_with_its_coefficient(tmp_path):
    batch = replace(BATCH, ref_NC=BATCH.rollout_NC - 0.5 * BATCH.mask_NC)
    where = plugin(tmp_path, "def token_weight(advantage_NC, batch):\n    return torch.zeros_like(advantage_NC)\n")
    loss, _, stats = learn(build("./p.py", ref_kl_coef=0.1, **where), batch)
    assert stats["policy/ref_kl"] == pytest.approx(0.1065, abs=5e-5)
    assert loss == pytest.approx(0.01065, abs=5e-6)
    assert stats["policy/policy_loss"] == 0


# DAPO's four switches, each on its own (and mask_truncated, its optional fifth)


def test_switch_clip_higher_moves_only_the_upper_bound():
    policy = BATCH.rollout_NC + math.log(1.25) * BATCH.mask_NC
    stats = {high: learn(build(clip_high=high), BATCH, policy.clone())[2] for high in (0.2, 0.28)}
    assert stats[0.2]["policy/clipfrac_high"] == pytest.approx(0.5)
    assert stats[0.28]["policy/clipfrac_high"] == 0


def test_switch_dynamic_sampling_drops_groups_without_signal():
    rates = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0], [math.nan] * 4]
    rewards = torch.tensor([float(r) for group in rates for r in group])
    batch = make_batch([1] * 20, gid=[g for g in range(5) for _ in range(4)])
    kept = build(dynamic_sampling=True).keep(batch, rewards)
    assert batch.gid_N[kept].unique().tolist() == [1, 3]
    assert build().keep(batch, rewards).all()


def test_switch_token_mean_or_sequence_mean():
    rows = [build(aggregation=mode) for mode in ("token-mean", "seq-mean-token-mean")]
    per_token, per_sequence = (learn(algorithm, BATCH)[1] for algorithm in rows)
    assert per_token[0, 0] == per_token[3, 0]
    assert per_sequence[0, 0] == pytest.approx(per_sequence[3, 0].item() * 3 / 2)


def test_switch_soft_overlong_shapes_the_reward():
    shaped = build(overlong_buffer=8, overlong_factor=0.5).shape_rewards(BATCH)
    assert shaped.rewards_N.tolist() == [1.0, -0.125, 0.0, 1.0 - 0.0625]
    assert {name: change_N.tolist() for name, change_N in shaped.changes.items()} == {
        "overlong_buffer": [0.0, -0.125, 0.0, -0.0625]
    }
    assert shaped.token_rewards_NC is None
    plain = build().shape_rewards(BATCH)
    assert plain.rewards_N.tolist() == [1.0, 0.0, 0.0, 1.0] and plain.changes == {}


def test_switch_mask_truncated_keeps_the_statistics_and_shrinks_the_count():
    batch = replace(BATCH, truncated_N=torch.tensor([False, True, False, False]))
    algorithm = build(mask_truncated=True)
    advantage = algorithm.advantage(torch.tensor([1.0, 0.0, 0.0, 1.0]), batch)
    assert advantage[:, 0].tolist() == pytest.approx([0.8660, 0.0, -0.8660, 0.8660], abs=5e-5)
    assert (algorithm.denominator(batch).tokens, algorithm.denominator(batch).sequences) == (6, 3)
    assert build().denominator(batch).tokens == 10


def test_generation_that_never_fills_the_batch_ends_with_a_reason():  # fault 66
    algorithm = build(dynamic_sampling=True, max_generation_rounds=3)
    assert algorithm.missing_groups(2, wanted=8, rounds=2) == 6
    assert algorithm.missing_groups(8, wanted=8, rounds=3) == 0
    assert algorithm.missing_groups(9, wanted=8, rounds=1) == 0
    with pytest.raises(
        MmrlError, match=r"after 3 rounds of generation only 2 of 8 groups .* 'algorithm.max_generation_r"
    ):
        algorithm.missing_groups(2, wanted=8, rounds=3)


def test_an_infinite_reward_names_the_sample():
    batch = make_batch([1, 1], rewards=[math.inf, 0.0])
    with pytest.raises(RewardError, match=r"id=s0: the reward is infinite"):
        build().shape_rewards(batch)


def test_norm_modes_use_the_completion_limit_or_the_configured_length():
    assert build().denominator(BATCH).length == 10
    assert build(aggregation="seq-sum-token-sum-norm", aggregation_length=7).denominator(BATCH).length == 7


# plug-ins


def test_shipped_opo_reproduces_its_worked_numbers():
    batch = make_batch([10, 30, 20, 40])
    advantage = build("opo").advantage(torch.tensor([1.0, 0.0, 1.0, 0.0]), batch)
    assert advantage[:, 0].tolist() == pytest.approx([0.7, -0.3, 0.7, -0.3])
    equal = build("opo").advantage(torch.tensor([1.0, 0.0, math.nan, 1.0]), make_batch([3] * 4))
    assert equal[:, 0].tolist() == pytest.approx([1 / 3, -2 / 3, 0.0, 1 / 3])
    assert build("opo").advantage(torch.ones(2), make_batch([0, 1])).tolist() == [[0.0], [0.0]]


def test_every_shipped_plugin_loads():
    assert "opo" in shipped_names("algorithms")
    for name in shipped_names("algorithms"):
        assert algorithm_of(name).plugins[0].name == name


def test_hooks_of_several_plugins_compose_in_order(tmp_path):
    where = plugin(
        tmp_path,
        "def shape_rewards(batch, rewards_N):\n    return rewards_N + 1, None\n"
        "def token_weight(advantage_NC, batch):\n    return torch.full_like(advantage_NC, 2.0)\n"
        "def keep(batch, rewards_N):\n    return rewards_N > 0\n",
    )
    plugin(
        tmp_path,
        "def shape_rewards(batch, rewards_N):\n    return rewards_N * 10, None\n"
        "def token_weight(advantage_NC, batch):\n    return torch.full_like(advantage_NC, 0.25)\n"
        "def keep(batch, rewards_N):\n    return rewards_N < 2\n",
        name="q.py",
    )
    algorithm = build("./p.py", "./q.py", **where)
    assert algorithm.shape_rewards(BATCH).rewards_N.tolist() == [20.0, 10.0, 10.0, 20.0]
    assert {name: change_N.tolist() for name, change_N in algorithm.shape_rewards(BATCH).changes.items()} == {
        "p": [1.0, 1.0, 1.0, 1.0],
        "q": [18.0, 9.0, 9.0, 18.0],
    }
    assert algorithm.token_weight(torch.zeros(1, 1), BATCH).item() == 0.5
    assert algorithm.keep(BATCH, torch.tensor([0.0, 1.0, 2.0, 1.5])).tolist() == [False, True, False, True]


def test_changes_of_shaping_are_told_of_a_hook_that_writes_into_the_rewards(tmp_path):
    where = plugin(tmp_path, "def shape_rewards(batch, rewards_N):\n    rewards_N -= 2\n    return rewards_N, None\n")
    batch = replace(BATCH, combined_N=torch.tensor([1.0, math.nan, 0.0, 1.0]))
    shaped = build("./p.py", overlong_buffer=8, overlong_factor=0.5, **where).shape_rewards(batch)
    assert shaped.changes["p"].nan_to_num(nan=9.0).tolist() == [-2.0, 9.0, -2.0, -2.0]
    total_N = torch.stack(list(shaped.changes.values())).sum(0)
    torch.testing.assert_close(shaped.rewards_N, torch.tensor([1.0, math.nan, 0.0, 1.0]) + total_N, equal_nan=True)


def test_advantage_and_loss_may_be_a_file_of_ones_own(tmp_path):
    where = plugin(
        tmp_path,
        "def mine(rewards_N: 'Unknown', batch, settings, *, factor=1.0):\n"
        "    return factor * rewards_N[:, None].float() * batch.mask_NC\n"
        "def policy_loss(inputs):\n    return -inputs.advantage_NC * inputs.policy_NC, {}\n",
    )
    loss, grad, _ = learn(build(advantage="./p.py:mine", policy_loss="./p.py", **where), BATCH)
    assert loss == pytest.approx(5 / 10)
    assert grad.sum().item() == pytest.approx(-0.5)


def test_a_function_of_ones_own_has_options(tmp_path):
    where = plugin(
        tmp_path,
        "def advantage(rewards_N, batch, settings, *, factor: float):\n"
        "    return factor * rewards_N[:, None].float() * batch.mask_NC\n",
    )
    doubled = build(advantage="./p.py", advantage_options={"factor": 2.0}, **where)
    assert doubled.advantage(torch.ones(4), BATCH)[0].tolist() == [2.0, 2.0, 0.0, 0.0]
    with pytest.raises(ConfigError, match=r"'algorithm.advantage_options' of './p.py': the option 'factor' must"):
        build(advantage="./p.py", **where)


STATEFUL = """
class Plugin:
    def __init__(self):
        self.visits = {}
    def shape_rewards(self, batch, rewards_N):
        return rewards_N - torch.tensor([self.visits.get(p, 0) for p in batch.prompt_id]), None
    def on_step_end(self, batch, rewards_N, metrics):
        for p in batch.prompt_id:
            self.visits[p] = self.visits.get(p, 0) + 1
        metrics["visits"] = sum(self.visits.values())
    def state_dict(self):
        return {"visits": dict(self.visits)}
    def load_state_dict(self, state):
        self.visits = dict(state["visits"])
"""


def test_state_survives_a_checkpoint_through_json(tmp_path):
    where = plugin(tmp_path, STATEFUL)
    first, second = build("./p.py", **where), build("./p.py", **where)
    assert first.state_dict() == {"p": {"visits": {}}}
    metrics = {}
    first.on_step_end(BATCH, torch.ones(4), metrics)
    assert metrics == {"visits": 4}
    assert second.shape_rewards(BATCH).rewards_N.tolist() == [1.0, 0.0, 0.0, 1.0]
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert torch.equal(first.shape_rewards(BATCH).rewards_N, second.shape_rewards(BATCH).rewards_N)
    assert second.shape_rewards(BATCH).rewards_N.tolist() == [-3.0, -4.0, -4.0, -3.0]
    with pytest.raises(CheckpointError, match=r"plug-ins \['p'\], but 'algorithm.plugins' is \[\]"):
        build().load_state_dict(first.state_dict())


def test_needs_of_plugins_are_collected_and_enforced(tmp_path):
    where = plugin(
        tmp_path, "NEEDS = ('entropy',)\nNEEDS_EARLY = ('old',)\ndef keep(batch, rewards_N):\n    return 1\n"
    )
    algorithm = build("./p.py", **where)
    assert algorithm.needs == {"entropy", "old"}
    assert algorithm.needs_early == {"old"}
    with pytest.raises(AssertionError, match=r"entropy"):
        algorithm.advantage(torch.ones(4), BATCH)
    with pytest.raises(AssertionError, match=r"old"):
        algorithm.shape_rewards(replace(BATCH, old_NC=None))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def advantages(r, batch, settings):\n    return r\n",
            "'advantages' is no hook (helpers start with '_'); did you mean 'advantage'?",
        ),
        ("x = 1\n", "defines no hook; hooks: draw, sampler"),
        ("NEEDS = ('logits',)\ndef keep(b, r):\n    return r\n", "NEEDS names 'logits'; known: old, ref, entropy"),
        ("def keep(b, r:\n", "p.py:2: '(' was never closed"),
        ("import no_such_module\n", "cannot be imported: No module named 'no_such_module'"),
    ],
)
def test_a_malformed_plugin_is_refused(tmp_path, text, message):
    with pytest.raises(PluginError) as error:
        build("./p.py", **plugin(tmp_path, text))
    assert message in str(error.value)


def test_unknown_missing_repeated_and_conflicting_plugins(tmp_path):
    where = plugin(tmp_path, "def advantage(r, batch, settings):\n    return r\n")
    with pytest.raises(PluginError, match=r"unknown plug-in 'nope' in algorithms/; known: "):
        build("nope")
    with pytest.raises(PluginError, match=r"does not exist"):
        build("./nope.py", **where)
    with pytest.raises(PluginError, match=r"'./p.py' and 'opo' both define 'advantage'"):
        build("./p.py", "opo", **where)
    (tmp_path / "r.py").write_text("def keep(batch, rewards_N):\n    return rewards_N > 0\n")
    with pytest.raises(PluginError, match=r"lists 2 plug-ins called 'r'; keep or rename"):
        build("./r.py", "./r.py", **where)


def test_a_sequence_level_loss_needs_the_sequence_mean(tmp_path):
    text = "SEQUENCE_LEVEL = True\ndef policy_loss(inputs):\n    return inputs.policy_NC, {}\n"
    where = plugin(tmp_path, text)
    with pytest.raises(ConfigError, match=r"one ratio per sequence.*'token-mean'.*set it to seq-mean-token-mean"):
        build("./p.py", **where)
    build("./p.py", aggregation="seq-mean-token-mean", **where)


@pytest.mark.parametrize(
    ("ahead", "line"),
    [
        (0, "draw: hard_mining"),
        (1, "draw: hard_mining (rollout.steps_ahead 1: rows are drawn before the step under way is scored)"),
    ],
)
def test_a_draw_before_the_step_under_way_is_scored_is_said_at_start(ahead, line):
    path = shipped_dir("configs") / "methods" / "hard_mining.yaml"
    config = load_config(path, [f"rollout.steps_ahead={ahead}", "algorithm.rollout_correction=truncate"])
    assert [found for found in hook_order(config) if found.startswith("draw")] == [line]


BESIDE = """
from mmrl.algorithms.beside import ModelBeside


class Plugin:
    def __init__(self, *, lr: float | None = None) -> None:
        self.models, self.needs = {"judge": ModelBeside("folder", lr)}, ("ref",)

    def keep(self, batch, rewards_N):
        return rewards_N == rewards_N
"""


def test_models_beside_the_policy_are_needs_and_must_have_a_loss_to_learn_and_a_name_of_their_own(tmp_path):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(BESIDE)
    one, two = str(tmp_path / "one.py"), str(tmp_path / "two.py")
    algorithm = build_algorithm(AlgorithmSection(plugins=(one,)), max_new_tokens=8)
    assert algorithm.needs == {"model:judge", "ref"} and algorithm.models["judge"].path == "folder"
    with pytest.raises(PluginError, match="its model 'judge' is to learn, but it has no hook 'model_loss'"):
        build_algorithm(AlgorithmSection(plugins=(one,), plugin_options={"one": {"lr": 0.1}}), max_new_tokens=8)
    with pytest.raises(PluginError, match="2 plug-ins ask for a model called 'judge'"):
        build_algorithm(AlgorithmSection(plugins=(one, two)), max_new_tokens=8)
