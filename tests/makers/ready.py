"""Rewards that need a program, a package or a sandbox: their tests are skipped, with the reason, where one lacks."""

import pytest

from mmrl.errors import ConfigError
from mmrl.scoring.cases import cases_of
from mmrl.scoring.reward import check_machine, resolve_reward


def skip_unless_ready(name: str) -> None:
    """Skip the test unless this machine has what the reward `name` needs with the options of its first case."""
    reward, first = resolve_reward(name), cases_of(name)[0]
    if first.brings_a_model:
        return
    try:
        check_machine(reward, first.options, timeout_s=1000.0, where=name)
    except ConfigError as error:
        pytest.skip(str(error))
