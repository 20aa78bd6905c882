"""Bands: each row once a pass, moves between bands, state."""

import json
import random
from collections import Counter

import numpy as np

from mmrl.algorithms.bands import NONE, Bands, distinct


def drawn(bands, band, count, seed=0):
    chance = random.Random(seed)
    return [bands.draw(band, chance) for _ in range(count)]


def test_every_row_of_a_band_comes_once_a_pass():
    bands = Bands(np.array([0, 1, 0, 0, NONE]), count=2)
    rows = drawn(bands, 0, 6)
    assert sorted(rows[:3]) == sorted(rows[3:]) == [0, 2, 3]
    assert bands.sizes == [3, 1]


def test_a_row_that_moved_counts_as_drawn_where_it_is():
    bands = Bands(np.array([0, 0, 0, 1, 1]), count=2)
    bands.move(2, 1)
    assert (bands.sizes, bands.band_of(2)) == ([2, 3], 1)
    assert sorted(drawn(bands, 1, 2)) == [3, 4]
    assert sorted(drawn(bands, 1, 3)) == [2, 3, 4]
    bands.move(2, NONE)
    assert bands.sizes == [2, 2]
    assert sorted(drawn(bands, 0, 2)) == [0, 1]


def test_moves_keep_what_is_left_of_a_pass():
    rng = random.Random(3)
    bands = Bands(np.array([row % 3 for row in range(60)]), count=3)
    where = {row: row % 3 for row in range(60)}
    for _ in range(2000):
        row, band = rng.randrange(60), rng.randrange(3)
        bands.move(row, band)
        where[row] = band
        if bands.sizes[0]:
            assert where[bands.draw(0, rng)] == 0
    assert bands.sizes == [Counter(where.values())[band] for band in range(3)]
    assert all(bands.band_of(row) == band for row, band in where.items())


def test_state_goes_on_with_the_same_draws():
    bands, resumed = (Bands(np.array([0, 1] * 10), count=2) for _ in range(2))
    drawn(bands, 0, 4)
    bands.move(1, 0)
    resumed.load_state_dict(json.loads(json.dumps(bands.state_dict())))
    assert drawn(bands, 0, 20, seed=5) == drawn(resumed, 0, 20, seed=5)
    assert resumed.sizes == [11, 9] and resumed.band_of(1) == 0


def test_rows_are_distinct_where_there_are_enough():
    rng = random.Random(0)
    assert len(set(distinct(lambda: rng.randrange(4), 4, tries=100))) == 4
    assert distinct(lambda: 7, 3) == [7, 7, 7]
