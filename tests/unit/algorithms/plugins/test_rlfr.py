"""RLFR: scores of the flow, what they cost, and how the flow learns; its velocities against numpy."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import advantages, end_step, per_token, plugin

from mmrl.algorithms.flow import FlowTrainer
from mmrl.algorithms.plugins.rlfr import LAYERS, kept_scores
from mmrl.errors import ConfigError

SHAPE = {"size": 4, "width": 8, "blocks": 2, "layers": 3}


def with_states(batch, *, size=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (*batch.mask_NC.shape, size)
    states = {name: torch.randn(shape, generator=generator) * batch.mask_NC[..., None] for name in LAYERS}
    return replace(batch, meta={**batch.meta, **states})


def test_worked_scores():
    error_NC = torch.tensor([[0.2, 0.5, 0.9, 0.4], [0.3, 0.3, 0.3, 0.0]], dtype=torch.float64)
    given_NC = torch.tensor([[True] * 4, [True] * 3 + [False]])
    score_NC = 0.8 / (1 - 0.8) * error_NC
    assert score_NC[0].tolist() == pytest.approx([0.8, 2.0, 3.6, 1.6])
    low = kept_scores(score_NC, given_NC, floor=0.0, top=15)
    assert low[0].tolist() == pytest.approx([0.0, 0.4286, 1.0, 0.2857], abs=1e-4)
    assert low[1].tolist() == [0.0] * 4  # equal scores
    assert kept_scores(score_NC, given_NC, floor=0.6, top=15)[0].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert kept_scores(score_NC, given_NC, floor=0.0, top=2)[0].tolist() == pytest.approx([0, 0.4286, 1, 0], abs=1e-4)


def test_a_token_costs_from_the_beginning_up_to_itself(monkeypatch):
    batch = with_states(make_batch([5, 5], rewards=[1.0, 1.0]))
    used = plugin("rlfr", warmup_steps=0)
    errors = torch.tensor([0.2, 0.5, 0.9, 0.4, 0.3, 0.3, 0.3, 0.3], dtype=torch.float64)
    monkeypatch.setattr(used.holder, "_errors", lambda of: errors)
    found = per_token(advantages(used, batch), batch)
    assert found == [[-0.01, -0.01, -0.01, 0.0, 0.0], [0.0] * 5]


def test_the_error_is_that_of_the_velocity():
    trainer = FlowTrainer(SHAPE, time=0.8, lr=0.1, seed=0)
    generator = torch.Generator().manual_seed(1)
    h, c = torch.randn(6, 4, generator=generator), torch.randn(6, 4, generator=generator)
    noise = torch.randn(4, generator=generator)
    # The velocity begins at zero: the error is the mean square of h - e.
    expected = ((h.numpy() - noise.numpy()) ** 2).mean(1)
    np.testing.assert_allclose(trainer.errors(h, c, 1, noise).numpy(), expected, rtol=1e-5)
    for _ in range(3):
        trainer.learn([(h, c)] * 3, generator)
    np.testing.assert_allclose(
        trainer.errors(h, c, 1, noise).numpy(), _numpy_error(trainer.flow, h, c, noise, layer=1), rtol=1e-4
    )


def _numpy_error(flow, h, c, noise, *, layer):
    """The flow anew, in numpy."""
    w = {name: value.numpy().astype(np.float64) for name, value in flow.state_dict().items()}
    h, c, noise = (value.numpy().astype(np.float64) for value in (h, c, noise))

    def linear(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def silu(x):
        return x / (1 + np.exp(-x))

    def norm(name, x):
        return w[f"{name}.norm.weight"] * x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6)

    given = linear("condition", c) + w["layer.weight"][layer]
    x = linear("input", 0.8 * h + 0.2 * noise)
    for block in ("blocks.0", "blocks.1"):
        shift, scale, gate = np.split(linear(f"{block}.modulation", silu(given)), 3, axis=1)
        inner = norm(block, x) * (1 + scale) + shift
        x = x + gate * linear(f"{block}.mlp.2", silu(linear(f"{block}.mlp.0", inner)))
    shift, scale = np.split(linear("output.modulation", silu(given)), 2, axis=1)
    velocity = linear("output.linear", norm("output", x) * (1 + scale) + shift)
    return ((velocity - (h - noise)) ** 2).mean(1)


def test_the_flow_learns_right_answers_alone_and_then_finds_wrong_ones_unlike_them():
    batch = make_batch([9] * 8, rewards=[1.0, 0.0] * 4)
    states = {}
    for name in LAYERS:
        right = torch.zeros(8, 9, 4)
        right[0::2, :, 0] = 3.0
        right[1::2, :, 1] = 3.0
        states[name] = right + 0.01 * torch.randn(right.shape, generator=torch.Generator().manual_seed(2))
    batch = replace(batch, meta=states)
    used = plugin("rlfr", width=16, blocks=1, lr=0.01, warmup_steps=0)
    errors = [end_step(used, batch)["rlfr/error"] for _ in range(150)]
    assert errors[-1] < 0.5 * errors[0]
    found_NC = used.holder._errors(batch).reshape(8, 8)
    assert found_NC[1::2].mean() > 2 * found_NC[0::2].mean()


def test_it_only_learns_while_it_warms_up_and_never_without_right_answers():
    batch = with_states(make_batch([4, 4, 4], rewards=[1.0, 1.0, 1.0]))
    used = plugin("rlfr", warmup_steps=1, floor=0.0)
    assert (advantages(used, batch) == 0).all()
    end_step(used, batch)
    assert (advantages(used, batch) != 0).any()
    assert "rlfr/error" not in end_step(plugin("rlfr"), with_states(make_batch([4], rewards=[0.0])))


def test_its_state_is_json_and_goes_on():
    batch = with_states(make_batch([4, 6, 5], rewards=[1.0, 0.0, 1.0]))
    going, resumed = (plugin("rlfr", warmup_steps=0, width=8, blocks=2, floor=0.0) for _ in range(2))
    for _ in range(2):
        end_step(going, batch)
    resumed.load_state_dict(json.loads(json.dumps(going.state_dict())))
    assert end_step(going, batch) == end_step(resumed, batch)
    torch.testing.assert_close(advantages(going, batch), advantages(resumed, batch), rtol=0, atol=0)
    assert going.state_dict() == resumed.state_dict()


def test_time_lies_inside():
    with pytest.raises(ConfigError, match=r"rlfr: time \(1\) must lie between 0 and 1"):
        plugin("rlfr", time=1.0)
