"""Hard mining: rows seen before come again by how seldom they were right; the rest is the loader's."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from makers.batches import make_batch
from makers.plugin_values import end_step, plugin
from makers.pools import drawing, loader_of, numbers


def trained(loader, used, rate_of):
    """One pass over the loader's rows, ten a step, each with the pass rate of its number."""
    seen = []
    for _ in range(len(loader) // 10):
        samples = loader.next(10)
        batch = make_batch([1] * 40, gid=[n // 4 for n in range(40)])
        rewards = [float(i < 4 * rate_of(number)) for number in numbers(samples) for i in range(4)]
        batch = replace(batch, prompt_id=tuple(s.prompt_id for s in samples for _ in range(4)))
        batch = replace(batch, rewards_NK=batch.rewards_NK.new_tensor(rewards)[:, None], combined_N=None)
        assert used.hooks["keep"](batch, batch.rewards_NK[:, 0]).all()
        end_step(used, batch)
        seen += numbers(samples)
    return seen


def test_mined_rows_are_those_that_failed(tmp_path):
    used = plugin("hard_mining", share=0.5)
    loader = drawing(loader_of(tmp_path, [None] * 10), used.hooks["draw"])
    trained(loader, used, lambda number: 0.0 if number < 7 else 0.75)
    # seven rows at level 0 (odds 31/32 each), three at level 12 (odds 7/32 each)
    counts = Counter(n < 7 for _ in range(2000) for n in numbers(loader.next(2))[:1])
    assert counts[True] / 2000 == pytest.approx(7 * 31 / (7 * 31 + 3 * 7), abs=0.02)


def test_solved_rows_and_with_least_hopeless_ones_are_not_mined(tmp_path):
    used = plugin("hard_mining", share=1.0, least=0.01)
    loader = drawing(loader_of(tmp_path, [None] * 10), used.hooks["draw"])
    rates = [0.0, 0.25, 1.0]
    trained(loader, used, lambda number: rates[number % 3])
    assert used.holder._rows.bands.sizes[4] == sum(used.holder._rows.bands.sizes) == 3
    assert {n % 3 for n in numbers(loader.next(3))} == {1}


def test_before_anything_was_seen_and_when_neutral_the_order_is_the_loaders(tmp_path):
    plain = numbers(loader_of(tmp_path, [None] * 10).next(20))
    for options in ({"share": 0.0}, {"share": 0.5}):
        loader = drawing(loader_of(tmp_path, [None] * 10), plugin("hard_mining", **options).hooks["draw"])
        assert numbers(loader.next(20)) == plain


def test_a_resumed_run_draws_the_same_rows(tmp_path):
    used, resumed = plugin("hard_mining"), plugin("hard_mining")
    loader = drawing(loader_of(tmp_path, [None] * 20), used.hooks["draw"])
    trained(loader, used, lambda number: number % 4 / 4)
    again = drawing(loader_of(tmp_path, [None] * 20), resumed.hooks["draw"])
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert numbers(again.next(30)) == numbers(loader.next(30))
