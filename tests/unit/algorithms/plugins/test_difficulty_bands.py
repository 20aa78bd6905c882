"""Difficulty bands: shares of the bands over training, rates that follow the model, the loader's order when neutral."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from makers.batches import make_batch
from makers.plugin_values import end_step, plugin
from makers.pools import drawing, loader_of, numbers

from mmrl.errors import ConfigError, DataError

RATES = [0.1] * 5 + [0.3] * 5 + [0.6] * 5 + [0.9] * 5


def shares(loader, *, progress, count=8000):
    loader.at(progress)
    counts = Counter(number // 5 for _ in range(count // 4) for number in numbers(loader.next(4)))
    return [counts[band] / count for band in range(4)]


@pytest.mark.parametrize(
    ("target", "expected"),
    [(1.0, [0.0017, 0.0351, 0.2590, 0.7042]), (0.5, [0.1345, 0.3655, 0.3655, 0.1345])],
)
def test_bands_near_the_target_are_drawn_most(target, expected):
    weights = plugin("difficulty_bands").holder._weights(target, 0.25)
    assert [round(weight / sum(weights), 4) for weight in weights] == expected


def test_the_target_moves_from_easy_to_hard(tmp_path):
    used = plugin("difficulty_bands", column="pass_rate", width=0.05)
    loader = drawing(loader_of(tmp_path, RATES), used.hooks["draw"])
    found = [shares(loader, progress=progress, count=400).index(1.0) for progress in (0.0, 0.375, 0.625, 1.0)]
    assert found == [3, 2, 1, 0]


def test_draws_follow_the_weights(tmp_path):
    loader = drawing(
        loader_of(tmp_path, RATES), plugin("difficulty_bands", column="pass_rate", width=1.0).hooks["draw"]
    )
    # weights exp(-(1 - m)^2 / 2): .6819, .8226, .9321, .9922
    assert shares(loader, progress=0.0) == pytest.approx([0.1989, 0.2399, 0.2718, 0.2894], abs=0.03)


def observed(loader, used, rewards):
    """A step in which the first prompt drawn has these rewards."""
    [sample] = loader.next(1)
    batch = replace(make_batch([1] * len(rewards), gid=[0] * len(rewards), rewards=rewards))
    batch = replace(batch, prompt_id=(sample.prompt_id,) * len(rewards))
    assert used.hooks["keep"](batch, batch.rewards_NK[:, 0]).all()
    end_step(used, batch)
    return sample


def test_a_row_moves_to_the_band_of_what_it_was_worth_of_late(tmp_path):
    used = plugin("difficulty_bands")
    loader = drawing(loader_of(tmp_path, RATES), used.hooks["draw"])
    sample = observed(loader, used, [0.0, 0.0, 0.0, 1.0])  # .5 * .5 + .5 * .25 = .375
    bands = used.holder._rows.bands
    assert bands.sizes == [0, 1, 19, 0] and bands.band_of(numbers([sample])[0]) == 1
    assert used.holder._rows._rates.rate_R[numbers([sample])[0]] == pytest.approx(0.375)


def test_stored_rates_stay_without_live(tmp_path):
    used = plugin("difficulty_bands", column="pass_rate", live=False)
    loader = drawing(loader_of(tmp_path, RATES), used.hooks["draw"])
    observed(loader, used, [0.0] * 4)
    assert used.holder._rows.bands.sizes == [5, 5, 5, 5]


def test_neutral_is_the_order_of_the_loader(tmp_path):
    plain, neutral = loader_of(tmp_path, RATES), loader_of(tmp_path, RATES)
    drawing(neutral, plugin("difficulty_bands", width=None).hooks["draw"])
    assert numbers(plain.next(50)) == numbers(neutral.next(50))


def test_a_resumed_run_draws_the_same_rows(tmp_path):
    used, resumed = plugin("difficulty_bands"), plugin("difficulty_bands")
    loader = drawing(loader_of(tmp_path, RATES), used.hooks["draw"])
    loader.next(7)
    observed(loader, used, [1.0, 0.0])
    again = drawing(loader_of(tmp_path, RATES), resumed.hooks["draw"])
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert resumed.state_dict() == used.state_dict()
    assert numbers(again.next(30)) == numbers(loader.next(30))


def test_what_does_not_fit_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"edges rise and lie between 0 and 1; they are \[0.5, 0.5\]"):
        plugin("difficulty_bands", edges=[0.5, 0.5])
    used = plugin("difficulty_bands", column="rate")
    with pytest.raises(DataError, match="no training row has a number in the column 'rate'"):
        drawing(loader_of(tmp_path, RATES), used.hooks["draw"]).next(1)
