"""Rewards that need a program, a package or a sandbox: their tests are skipped, with the reason, where one lacks."""

import pytest

from mmrl.errors import ConfigError
from mmrl.scoring.reward import check_machine, resolve_reward


def skip_unless_ready(name: str) -> None:
    """Skip the test unless this machine has what the reward `name` needs with its default options."""
    reward = resolve_reward(name)
    if reward.asks_a_judge:
        return  # its cases bring a judge
    try:
        check_machine(reward, {}, timeout_s=1000.0, where=name)
    except ConfigError as error:
        pytest.skip(str(error))
