"""SPO's draws by v (1 - v): worked chances, what training changes, and the state."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from makers.batches import make_batch
from makers.plugin_values import end_step, plugin
from makers.pools import drawing, loader_of, numbers

from mmrl.errors import ConfigError

# a and b of the tracker: v is .5, .9 and 1.
VALUES = {"0": [4.0, 4.0, 0.0], "1": [7.2, 0.8, 0.0], "2": [8.0, 0.0, 0.0]}


def test_rows_come_by_how_uncertain_they_are(tmp_path):
    used = plugin("spo_draw")
    used.load_state_dict({"tracker": VALUES, "total": 0.0})
    assert [used.holder._chance(row) for row in range(3)] == pytest.approx([1.0, 0.36, 0.01])
    loader = drawing(loader_of(tmp_path, [None] * 3), used.hooks["draw"])
    counts = Counter(numbers(loader.next(1))[0] for _ in range(3000))
    # 1 / 1.37, .36 / 1.37, .01 / 1.37
    assert [counts[row] / 3000 for row in range(3)] == pytest.approx([0.7299, 0.2628, 0.0073], abs=0.025)


def test_what_was_seen_changes_the_chances_and_is_saved(tmp_path):
    used, resumed = plugin("spo_draw"), plugin("spo_draw")
    loader = drawing(loader_of(tmp_path, [None] * 6), used.hooks["draw"])
    samples = loader.next(2)
    batch = make_batch([1] * 4, rewards=[1.0, 1.0, 1.0, 0.0], gid=[0, 0, 1, 1])
    batch = replace(batch, prompt_id=tuple(s.prompt_id for s in samples for _ in range(2)))
    metrics = end_step(used, batch)
    # v = (sum r + .5) / 3: .8333 and .5, so 4 v (1 - v) = .5556 and 1.
    first, second = numbers(samples)
    assert [used.holder._chance(row) for row in (first, second)] == pytest.approx([0.5556, 1.0], abs=1e-4)
    assert metrics["spo_draw/chance"] == pytest.approx(0.7778, abs=1e-4)
    again = drawing(loader_of(tmp_path, [None] * 6), resumed.hooks["draw"])
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert numbers(again.next(20)) == numbers(loader.next(20))


def test_without_a_floor_it_is_refused():
    with pytest.raises(ConfigError, match="least must be above 0"):
        plugin("spo_draw", least=0.0)
