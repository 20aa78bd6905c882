"""Properties of every shipped plug-in, at its neutral options and at its defaults.

A plug-in file declares NEUTRAL (options with which it is plain GRPO, or None) and, where a group of equal rewards gets
advantages other than 0 from it, CONSTANT_GROUP (a sentence saying which).
"""

import json
import random
from dataclasses import replace

import pytest
import torch
from makers.batches import widened
from makers.method_steps import (
    CONSTANT,
    LENGTHS,
    MIXED,
    algorithm_of,
    batch_for,
    module_of,
    parts_of,
    policy_for,
    run_step,
)
from makers.rows import read, text_rows, write_jsonl

from mmrl.algorithms.hooks import load_plugin
from mmrl.data.pool import Pool
from mmrl.plugins import shipped_names

NAMES = shipped_names("algorithms")
NEUTRAL = [name for name in NAMES if getattr(module_of(name), "NEUTRAL", None) is not None]
every_plugin = pytest.mark.parametrize("name", NAMES)


def assert_same(step, other, *, order=None):
    """All of a step equals another's, whose rows are in the given order."""
    rows = torch.arange(len(LENGTHS)) if order is None else order
    torch.testing.assert_close(other.loss, step.loss, atol=1e-6, rtol=1e-5)
    for grid in ("gradient_NC", "advantage_NC", "weight_NC"):
        mine, theirs = getattr(step, grid)[rows], getattr(other, grid)
        torch.testing.assert_close(theirs, mine, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(other.rewards_N, step.rewards_N[rows], equal_nan=True)
    assert other.kept_N.tolist() == step.kept_N[rows].tolist()


@every_plugin
def test_the_file_says_what_is_neutral_and_what_a_constant_group_gives(name):
    module = module_of(name)
    assert hasattr(module, "NEUTRAL"), f"{name}.py lacks NEUTRAL: options with which it is GRPO, or None"
    assert module.NEUTRAL is None or isinstance(module.NEUTRAL, dict)
    assert module.NEUTRAL is not None or "neutral" in (module.__doc__ or "").lower()
    assert len(getattr(module, "CONSTANT_GROUP", "a sentence says what")) > 10


@pytest.mark.parametrize("name", NEUTRAL)
def test_at_its_neutral_options_it_is_grpo(name, tmp_path):
    neutral = algorithm_of(name, options=module_of(name).NEUTRAL)
    base = algorithm_of(aggregation=neutral.settings.aggregation)
    for seed in (0, 1):
        batch = batch_for(name, seed=seed)
        assert_same(run_step(base, batch, policy_for(batch)), run_step(neutral, batch, policy_for(batch)))
    names, generator = [f"d/{n}" for n in range(5)], torch.Generator().manual_seed(0)
    assert neutral.sampler(names, generator).tolist() == [0, 1, 2, 3, 4]
    assert neutral.budget(names, 4).tolist() == [4] * 5
    if neutral.draw is not None:
        pool = Pool(read(write_jsonl(tmp_path / "rows.jsonl", text_rows(6))), lambda count: [5, 1, 4, 0, 3, 2][:count])
        assert list(neutral.draw(pool, 4, random.Random(0))) == [5, 1, 4, 0]

    def generate(*args, **kwargs):
        raise AssertionError("nothing more is generated")

    batch = batch_for(name)
    assert neutral.second_round(batch, generate) is batch
    merged, rewards_N = neutral.replay(batch, torch.tensor(MIXED))
    assert len(merged) == len(batch)
    torch.testing.assert_close(rewards_N, torch.tensor(MIXED), equal_nan=True)


@every_plugin
def test_padding_changes_nothing(name):
    batch = batch_for(name)
    step = run_step(algorithm_of(name), batch, policy_for(batch))
    wide = run_step(algorithm_of(name), widened(batch, 3), torch.nn.functional.pad(policy_for(batch), (0, 3)))
    assert (wide.gradient_NC[:, 5:] == 0).all()
    assert (wide.advantage_NC[:, 5:] == 0).all()
    cut = {grid: getattr(wide, grid)[:, :5] for grid in ("gradient_NC", "advantage_NC", "weight_NC")}
    assert_same(step, replace(wide, **cut))
    assert wide.stats == pytest.approx(step.stats, abs=1e-6)


@every_plugin
def test_the_order_of_rows_does_not_matter(name):
    batch, order = batch_for(name), torch.tensor([4, 2, 0, 7, 5, 1, 6, 3])
    step = run_step(algorithm_of(name), batch, policy_for(batch))
    assert_same(step, run_step(algorithm_of(name), batch.select(order), policy_for(batch)[order]), order=order)


@every_plugin
@pytest.mark.parametrize("slices", [[[n] for n in range(8)], [[5, 0], [1, 2, 3, 4, 6, 7]]])
def test_any_split_into_micro_batches_gives_the_same_step(name, slices):
    batch = batch_for(name)
    step = run_step(algorithm_of(name), batch, policy_for(batch))
    parts = run_step(algorithm_of(name), batch, policy_for(batch), slices=slices)
    assert_same(step, parts)
    assert parts.stats == pytest.approx(step.stats, abs=1e-6)


@every_plugin
def test_a_constant_group_gets_what_the_file_says(name):
    """After a step on mixed groups, so that a plug-in with history has some."""
    algorithm, mixed = algorithm_of(name), batch_for(name)
    run_step(algorithm, mixed, policy_for(mixed))
    batch = batch_for(name, CONSTANT, seed=1, constant=True)
    step = run_step(algorithm, batch, policy_for(batch))
    assert bool((step.advantage_NC != 0).any()) == hasattr(module_of(name), "CONSTANT_GROUP")


@every_plugin
def test_only_the_policy_gets_a_gradient(name):
    algorithm, batch = algorithm_of(name), batch_for(name)
    grids = ("old_NC", "ref_NC", "rollout_NC", "entropy_NC")
    frozen = {grid: getattr(batch, grid).clone().requires_grad_() for grid in grids}
    run_step(algorithm, replace(batch, **frozen), policy_for(batch))
    assert all(tensor.grad is None for tensor in frozen.values())


@every_plugin
def test_its_state_goes_on_where_it_was_saved(name):
    """Also that of a plug-in without `state_dict`, which so is shown to need none."""
    going, resumed = algorithm_of(name), algorithm_of(name)
    for seed in (0, 1):
        batch = batch_for(name, seed=seed)
        run_step(going, batch, policy_for(batch, seed=seed))
    resumed.load_state_dict(json.loads(json.dumps(going.state_dict())))
    batch = batch_for(name, CONSTANT, seed=2)
    assert_same(run_step(going, batch, policy_for(batch)), run_step(resumed, batch, policy_for(batch)))
    assert going.state_dict() == resumed.state_dict()


@every_plugin
@pytest.mark.parametrize("shift", [50.0, -50.0])
@pytest.mark.parametrize("rewards", [MIXED, (float("nan"),) * 8])
def test_extreme_inputs_stay_finite(name, shift, rewards):
    batch = batch_for(name, rewards)
    step = run_step(algorithm_of(name), batch, batch.rollout_NC + shift)
    assert step.loss.isfinite()
    assert step.gradient_NC.isfinite().all()
    assert step.advantage_NC.isfinite().all()
    assert all(value == value and abs(value) < float("inf") for value in step.stats.values())


@every_plugin
def test_the_batch_has_what_the_file_asks_for(name):
    """That the tests above run the plug-in at work, not one that finds none of its parts."""
    assert load_plugin(name).hooks
    assert set(parts_of(name)) < set(batch_for(name).reward_names)
