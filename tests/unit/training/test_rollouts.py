"""Rewards score while the engine generates, and neither waits for the other."""

import time
from pathlib import Path

import pytest
from makers import slow_rewards
from makers.scoring import answered
from makers.scripted_engine import ScriptedEngine, prepared_with, scripted_run

from mmrl.config.schema import RewardsSection
from mmrl.scoring.router import Router
from mmrl.training.rollouts import generated, scored

FILE = slow_rewards.__file__
PATIENCE_S = 60


def router_with(function: str, folder: Path, **section) -> Router:
    part = {"reward": f"{FILE}:{function}", "options": {"folder": str(folder)}}
    return Router(RewardsSection.model_validate({"tasks": {"t": [part]}, "timeout_s": PATIENCE_S, **section}))


def wait_for(mark: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not mark.exists():
        assert time.monotonic() < end, f"{mark.name} was not scored meanwhile"
        time.sleep(0.01)


@pytest.mark.parametrize(("function", "n"), [("leaves_a_mark", 2), ("batch_leaves_marks", 64)])
def test_a_group_is_scored_before_the_next_one_is_finished(tmp_path, function, n):
    """The engine finishes a group only once the one before is scored: what is left at the end is the last group."""
    order = ["2", "0", "3", "1"]
    scored_at: dict[str | None, list[str]] = {}

    def before(name: str | None) -> None:
        done = order[: order.index(name)] if name else order[:-1]
        for earlier in done:
            wait_for(tmp_path / f"text {earlier}")
        scored_at[name] = done

    texts = {name: [f"text {name}"] * n for name in order}
    prepared, requests = prepared_with([answered("x", sample_id=f"s{i}") for i in range(4)], n=n)
    with router_with(function, tmp_path) as router:
        run = scripted_run(router, ScriptedEngine(texts, order, before))
        rolled = scored(run, generated(run, prepared, requests))
    assert scored_at[None] == ["2", "0", "3"]
    assert [group.request.request_id for group in rolled.groups] == ["0", "1", "2", "3"]
    assert rolled.scores.rewards == ((1.0,) * n,) * 4
    assert set(run.watch.take()) == {"rollout", "score"}


def test_a_reward_that_hangs_does_not_stop_generation(tmp_path):
    """The reward of the first group ends when the last group was generated, and not before."""
    prepared, requests = prepared_with([answered("x", sample_id=f"s{i}") for i in range(3)], n=1)

    def before(name: str | None) -> None:
        if name is None:
            (tmp_path / "go on").touch()

    engine = ScriptedEngine({name: ["a"] for name in "012"}, "012", before)
    with router_with("waits_for_a_mark", tmp_path) as router:
        run = scripted_run(router, engine)
        assert scored(run, generated(run, prepared, requests)).scores.rewards == ((1.0,),) * 3


def test_without_workers_rewards_run_when_generation_has_ended(tmp_path):
    prepared, requests = prepared_with([answered("x"), answered("x")], n=1)

    def before(name: str | None) -> None:
        assert not list(tmp_path.iterdir())

    engine = ScriptedEngine({"0": ["a"], "1": ["b"]}, "10", before)
    run = scripted_run(router_with("leaves_a_mark", tmp_path, workers=0), engine)
    assert scored(run, generated(run, prepared, requests)).scores.rewards == ((1.0,),) * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
