"""No shipped reward pays for answers given without looking, except what its KNOWN_HACKS gives a reason for."""

import pytest
from makers.ready import skip_unless_ready

from mmrl.plugins import shipped_names
from mmrl.scoring.hack_data import fixture_targets, pays_by_rule
from mmrl.scoring.hack_report import TIME_LIMIT_S, hack_result, lines
from mmrl.scoring.pool import RewardPool


@pytest.fixture(scope="module")
def pool():
    with RewardPool(1, timeout_s=TIME_LIMIT_S) as started:
        yield started


@pytest.mark.parametrize("name", filter(pays_by_rule, shipped_names("rewards")))
def test_no_trick_scores_above_chance(name, pool):
    skip_unless_ready(name)
    (target,) = fixture_targets(name)
    result = hack_result(target, pool)
    assert not result.findings, "\n".join(lines([result]))
