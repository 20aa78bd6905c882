"""Every shipped reward survives completions no model should write: no exception, a value in bounds, in time."""

import pytest
from makers.ready import skip_unless_ready

from mmrl.plugins import shipped_names
from mmrl.scoring.fuzz import TIME_LIMIT_S, fuzz
from mmrl.scoring.pool import RewardPool

TRIALS, SECONDS = 24, 0.5


@pytest.fixture(scope="module")
def pool():
    with RewardPool(1, timeout_s=TIME_LIMIT_S) as started:
        yield started


@pytest.mark.parametrize("name", shipped_names("rewards"))
def test_fuzz(name, pool):
    skip_unless_ready(name)
    result = fuzz(name, pool, seconds=SECONDS, most=TRIALS)
    assert not result.violations, "\n".join(result.violations)
