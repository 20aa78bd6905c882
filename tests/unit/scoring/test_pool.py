"""One bad completion costs itself and nothing else (fault 69)."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from makers import slow_rewards
from makers.scoring import answered

from mmrl.scoring.pool import RewardCall, RewardPool

FILE = slow_rewards.__file__


def call(function, *completions, groups=None):
    groups = groups or ((answered("a"), tuple(completions)),)
    return RewardCall(f"{FILE}:{function}", None, {}, tuple(groups))


def shown(outcomes):
    return [o.event or o.value for o in outcomes]


@pytest.fixture(scope="module")
def pool():
    with RewardPool(2, timeout_s=1.0, spellings=(f"{FILE}:score",)) as started:
        yield started


@pytest.mark.parametrize("workers", [0, 1])
def test_every_failure_is_an_event_and_the_others_keep_their_scores(workers):
    completions = ("ok", "raise", "nan", "bad answer", "text", "none", "three")
    with RewardPool(workers, timeout_s=20) as own:
        (outcomes,) = own.run([call("score", *completions)])
    assert shown(outcomes) == [2.0, "raised", "not_finite", "bad_answer", "bad_result", "bad_result", 5.0]
    assert outcomes[1].message == "KeyError: 'boom' (slow_rewards.py:19)"
    assert "rows.jsonl:7" in outcomes[3].message
    assert all(math.isnan(o.value) for o in outcomes if o.event)


def test_an_integer_beyond_floats_is_an_event():
    (outcomes,) = RewardPool(0, timeout_s=20).run([call("huge", "reward", "extra")])
    assert shown(outcomes) == ["not_finite", "not_finite"]


def test_a_hang_a_death_and_an_exit_cost_only_their_own_completion(pool):  # fault 69
    start = time.monotonic()
    first, second = pool.run([call("score", "a", "hang", "bb", "die", "exit", "ccc"), call("score", "dddd")])
    assert shown(first) == [1.0, "timeout", 2.0, "died", "died", 3.0]
    assert shown(second) == [4.0]
    assert time.monotonic() - start < 20


def test_it_works_outside_the_main_thread(pool):  # fault 69
    found = []
    thread = threading.Thread(target=lambda: found.extend(pool.run([call("score", "a", "hang")])))
    thread.start()
    thread.join()
    assert shown(found[0]) == [1.0, "timeout"]
    assert found[0][1].message == "took longer than 1 s (rewards.timeout_s)"


def test_batch_and_group_forms(pool):
    groups = ((answered("x"), ("a", "bb")), (answered("y", note=1), ("ccc",)))
    batch, group, few = pool.run([call(f, groups=groups) for f in ("batch", "group", "too_few")])
    assert shown(batch) == [1.0, 2.0, 4.0]
    assert shown(group) == [0.0, 1.0, 1.0]
    assert shown(few) == ["bad_result", "bad_result", 1.0]


def test_a_hanging_group_costs_its_group(pool):
    groups = ((answered("x"), ("a", "hang")), (answered("y"), ("ccc",)))
    (outcomes,) = pool.run([call("group", groups=groups)])
    assert shown(outcomes) == ["timeout", "timeout", 1.0]
    assert outcomes[0].message == "took longer than 2 s (rewards.timeout_s)", "one second a completion"


def test_a_dict_gives_the_part_s_value_and_numbers_for_the_log(pool):
    parts, bad = pool.run([call("with_parts", "abc"), call("no_reward_key", "abc")])
    assert (parts[0].value, parts[0].extra) == (0.5, {"length": 3.0})
    assert bad[0].event == "bad_result"


def test_a_worker_killed_between_two_runs_is_replaced():
    with RewardPool(1, timeout_s=20) as own:
        ((before,),) = own.run([call("pid", "a")])
        os.kill(int(before.value), signal.SIGKILL)
        time.sleep(0.5)
        ((after,),) = own.run([call("pid", "a")])
    assert after.event is None and after.value != before.value


def test_calls_that_wait_when_their_worker_is_killed_are_made_by_another():
    """More is sent than the pipe to the workers holds, before the pool finds out that there is none."""
    with RewardPool(1, timeout_s=20) as own:
        ((before,),) = own.run([call("pid", "a")])
        os.kill(int(before.value), signal.SIGKILL)
        sent = [own.send(call("pid", "x" * 100_000)) for _ in range(20)]
        outcomes = [own.collect(one)[0] for one in sent]
    assert {outcome.event for outcome in outcomes} == {None}
    assert before.value not in {outcome.value for outcome in outcomes}


def test_a_call_that_the_pool_forgot_is_made_again():
    with RewardPool(1, timeout_s=20) as own:
        sent = [own.send(call("nap", "a")), own.send(call("score", "bb"))]
        own._processes.stop()  # as one that breaks: calls that are not yet passed on get no answer
        assert [shown(own.collect(one)) for one in sent] == [[1.0], [2.0]]


def test_what_was_sent_before_a_close_is_still_scored():
    with RewardPool(1, timeout_s=20) as own:
        sent = [own.send(call("nap", "a")), own.send(call("score", "bb"))]
        own.close()
        assert [shown(own.collect(one)) for one in sent] == [[1.0], [2.0]]


def test_a_reward_that_takes_too_much_memory_costs_only_its_own_completion():
    with RewardPool(1, timeout_s=20, memory_gb=1.0) as own:
        ((before,),) = own.run([call("pid", "a")])
        (outcomes,) = own.run([call("allocates", "1", "100000", "2")])
        ((after,),) = own.run([call("pid", "a")])
    assert [o.event for o in outcomes] == [None, "memory", None]
    assert outcomes[1].message == "needed more memory than rewards.worker_memory_gb = 1 allows"
    assert len({before.value, outcomes[0].value, after.value}) == 3  # each time it was replaced


def test_a_group_over_its_memory_is_an_event_of_the_group():
    groups = ((answered("x"), ("1", "100000")), (answered("y"), ("1",)))
    with RewardPool(1, timeout_s=20, memory_gb=1.0) as own:
        (outcomes,) = own.run([call("group_allocates", groups=groups)])
    assert [o.event for o in outcomes] == ["memory", "memory", None]


def test_a_reward_that_never_gives_memory_back_gets_a_new_worker_and_loses_nothing():
    with RewardPool(1, timeout_s=20, memory_gb=1.0) as own:
        outcomes = [own.run([call("allocates", "keep 300")])[0][0] for _ in range(6)]
    assert [o.event for o in outcomes] == [None] * 6
    assert 2 <= len({o.value for o in outcomes}) < 6


def test_without_workers_a_lack_of_memory_is_the_same_event():
    (outcomes,) = RewardPool(0, timeout_s=20).run([call("allocates", "1", "1000000000")])
    assert [o.event for o in outcomes] == [None, "memory"]


def test_close_leaves_no_process():
    with RewardPool(1, timeout_s=20) as own:
        ((outcome,),) = own.run([call("pid", "a")])
    assert not Path(f"/proc/{int(outcome.value)}").exists()


# A shell starts background jobs with SIGINT ignored, and programs inherit that: the handler is put back.
ORPHAN = """
import signal
import sys
import time
signal.signal(signal.SIGINT, signal.default_int_handler)
from makers.scoring import answered
from mmrl.scoring.pool import RewardCall, RewardPool
if __name__ == "__main__":
    pool = RewardPool(1, timeout_s=100)
    one = lambda f, c: RewardCall(f"{sys.argv[1]}:{f}", None, {}, ((answered("a"), (c,)),))
    print(int(pool.run([one("pid", "a")])[0][0].value), flush=True)
    sent = [pool.send(one("score", "hang")) for _ in range(3)]
    if sys.argv[2] == "generating":
        time.sleep(100)
    pool.collect(sent[0])
"""


@pytest.mark.parametrize("state", ["waiting", "generating"])
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_the_program_even_while_a_reward_hangs(tmp_path, signal_number, state):
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    path = os.pathsep.join([str(Path(FILE).parents[1]), *sys.path])
    command = [sys.executable, str(script), FILE, state]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}, text=True
    ) as program:
        assert program.stdout is not None
        worker = Path(f"/proc/{int(program.stdout.readline())}")
        time.sleep(0.5)
        program.send_signal(signal_number)
        try:
            program.wait(timeout=30)
        finally:
            program.kill()
    deadline = time.monotonic() + 10
    while worker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not worker.exists()
