"""Every shipped reward survives completions no model should write: no exception, a value in bounds, in time."""

import time

import pytest
from makers.ready import skip_unless_ready

from mmrl.plugins import shipped_names
from mmrl.scoring.fuzz import TIME_LIMIT_S, fuzz
from mmrl.scoring.pool import RewardPool

TRIALS, SECONDS = 24, 0.5
HANGS = "import time\ndef score(completion, sample):\n    time.sleep(60)\n"
CASES = "- {completion: b, answer: a, reward: 0}\n"


@pytest.fixture(scope="module")
def pool():
    with RewardPool(1, timeout_s=TIME_LIMIT_S) as started:
        yield started


@pytest.mark.parametrize("name", shipped_names("rewards"))
def test_fuzz(name, pool):
    skip_unless_ready(name)
    result = fuzz(name, pool, seconds=SECONDS, most=TRIALS)
    assert not result.violations, "\n".join(result.violations)


def test_a_reward_that_hangs_ends_the_trials_with_the_one_under_way(tmp_path):
    """Fault: eight trials were sent and each waited for, eight limits long."""
    (tmp_path / "hangs.py").write_text(HANGS)
    (tmp_path / "hangs.cases.yaml").write_text(CASES)
    with RewardPool(1, timeout_s=3.0) as own:
        start = time.monotonic()
        result = fuzz(str(tmp_path / "hangs.py"), own, seconds=0.5)
    assert result.trials == 1 and time.monotonic() - start < 15, "eight limits are more than the start of a worker"
    assert "timeout: took longer than 3 s (rewards.timeout_s)" in result.violations[0]
