import importlib.util

import pytest
import torch

from mmrl.config.schema import RunConfig, StageSection, TrainSection
from mmrl.errors import ConfigError
from mmrl.training.schedule import (
    build_optimizer,
    checkpoint_due,
    learning_rate,
    reset_optimizer,
    set_hyperparameters,
    validation_due,
)


def stage(**changes) -> StageSection:
    return StageSection.model_validate(
        {"name": "s", "kind": "sft", "steps": 5, "prompts_per_step": 1, "lr": 1.0, **changes}
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [1.0, 1.0, 1.0, 1.0, 1.0]),
        ({"lr_schedule": "linear"}, [1.0, 0.75, 0.5, 0.25, 0.0]),
        ({"lr_schedule": "linear", "min_lr_ratio": 0.5}, [1.0, 0.875, 0.75, 0.625, 0.5]),
        ({"lr_schedule": "cosine"}, [1.0, 0.853553, 0.5, 0.146447, 0.0]),
        ({"warmup_steps": 3}, [0.25, 0.5, 0.75, 1.0, 1.0]),
        ({"warmup_steps": 2, "lr_schedule": "linear"}, [1 / 3, 2 / 3, 1.0, 0.5, 0.0]),
    ],
)
def test_learning_rate(changes, expected):
    section = stage(**changes)
    assert [learning_rate(section, step) for step in range(5)] == pytest.approx(expected, abs=1e-6)


def test_one_step_stage_has_its_full_rate():
    assert learning_rate(stage(steps=1, lr_schedule="cosine"), 0) == 1.0


@pytest.mark.parametrize(("every", "expected"), [(0, [5]), (2, [2, 4, 5]), (5, [5])])
def test_validations_and_checkpoints_come_every_so_often_and_at_the_end(every, expected):
    config = RunConfig.model_validate(
        {"model": {"path": "m"}, "validation": {"every": every}, "checkpoint": {"every": every}}
    )
    assert [done for done in range(1, 6) if validation_due(config, stage(), done=done)] == expected
    assert [done for done in range(1, 6) if checkpoint_due(config, stage(), done=done)] == expected


def test_weight_decay_leaves_biases_alone_and_frozen_parameters_are_not_trained():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    model[0].weight.requires_grad_(False)
    optimizer = build_optimizer(model, TrainSection())
    set_hyperparameters(optimizer, lr=0.5, weight_decay=0.1)
    shapes = [[tuple(p.shape) for p in group["params"]] for group in optimizer.param_groups]
    assert shapes == [[(1, 3)], [(3,), (1,)]]
    assert [(g["lr"], g["weight_decay"]) for g in optimizer.param_groups] == [(0.5, 0.1), (0.5, 0.0)]


def test_reset_optimizer_makes_the_next_step_a_first_step():
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = build_optimizer(model, TrainSection())
    set_hyperparameters(optimizer, lr=0.1, weight_decay=0.0)

    def step(gradient: float) -> float:
        before = model.weight.item()
        model.weight.grad = torch.tensor([[gradient]])
        optimizer.step()
        return before - model.weight.item()

    step(5.0)
    assert step(-1.0) > 0  # momentum of the large first gradient still wins
    reset_optimizer(optimizer)
    assert step(-1.0) == pytest.approx(-0.1, abs=1e-6)  # Adam's first step is lr in the gradient's direction


def test_muon_steps_matrices_by_their_orthogonal_part():
    """One step on a 2 x 2 weight with gradient diag(3, 4): momentum sums are orthogonalised to about the identity."""
    model = torch.nn.ModuleDict({"layer": torch.nn.Linear(2, 2), "embed": torch.nn.Embedding(2, 2)})
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = build_optimizer(model, TrainSection(optimizer="muon", muon_lr_ratio=10.0))
    set_hyperparameters(optimizer, lr=0.01, weight_decay=0.0)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model["layer"].weight.grad = torch.diag(torch.tensor([3.0, 4.0]))
    optimizer.step()
    moved = {name: before[name] - p.detach() for name, p in model.named_parameters()}
    assert torch.diag(moved["layer.weight"]).tolist() == pytest.approx(
        [0.1, 0.1], rel=0.35
    )  # five iterations are rough
    assert moved["layer.weight"].fill_diagonal_(0.0).abs().max() < 1e-3
    for name in ("layer.bias", "embed.weight"):  # AdamW: lr in the gradient's direction
        assert moved[name].flatten().tolist() == pytest.approx([0.01] * moved[name].numel(), rel=1e-3)


def test_the_optimizer_is_built_as_the_section_says(monkeypatch):
    model = torch.nn.Linear(2, 2)
    section = TrainSection.model_validate({"betas": (0.8, 0.95), "eps": 1e-6})
    [weights, bias] = build_optimizer(model, section).param_groups
    assert (weights["betas"], weights["eps"], bias["eps"]) == ((0.8, 0.95), 1e-6, 1e-6)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"train\.optimizer 'adamw8bit' needs .* 'mmrl\[quantized\]'"):
        build_optimizer(model, TrainSection(optimizer="adamw8bit"))
