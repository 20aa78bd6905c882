"""What is told at the start of a run and kept beside it: the hooks of a step in order, with what fills each."""

from __future__ import annotations

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.config.schema import RunConfig


def hook_order(config: RunConfig) -> list[str]:
    """What a step of the grpo stages calls, in order, with what fills each hook; empty without such a stage."""
    if not any(stage.kind == "grpo" for stage in config.stages):
        return []
    lines = build_algorithm(config.algorithm, max_new_tokens=config.rollout.max_new_tokens).resolved()
    ahead = config.rollout.steps_ahead
    late = f" (rollout.steps_ahead {ahead}: rows are drawn before the step under way is scored)" if ahead else ""
    return [f"{line}{late}" if line.startswith("draw: ") else line for line in lines]
