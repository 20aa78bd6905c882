"""SCS: what is sampled again of an answer, and what its agreement is worth."""

import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import end_step, plugin, shaped

from mmrl.algorithms.parts import joined


class Round:
    """Stands in for the trainer: what is sampled again says these texts, in turn."""

    def __init__(self, texts):
        self.texts, self.asked, self.looks = texts, [], []

    def changed(self, gid, name, *, frames):
        entry = type("Entry", (), {"frames_F3HW": torch.full((1, 3, 8, 8), 100, dtype=torch.uint8)})
        self.looks.append((gid, name, frames(entry).float().std().item()))
        return name

    def others(self, gids, prompts, *, n, prefix_ids):
        self.asked.append((list(gids), list(prompts), n, list(prefix_ids)))
        return make_batch([3] * (n * len(gids)), gid=[gid for gid in gids for _ in range(n)])

    def text(self, batch, row):
        return self.texts[row]


def looked(texts, rewards, lengths=None, **options):
    options = {"again": 4, **options}
    batch = make_batch(lengths or [10] * len(rewards), rewards=rewards)
    given, used = Round(texts), plugin("scs", **options)
    return used.hooks["second_round"](batch, given), given, used


@pytest.mark.parametrize(
    ("letters", "bonus"), [("BBBB", 1.2), ("BBAC", 0.6), ("ABCD", 0.3), ("----", 1.2), ("BB--", 0.9)]
)
def test_the_bonus_of_agreement(letters, bonus):
    found, _, used = looked([f"The answer is {letter}." for letter in letters], [0.0])
    assert shaped(used, found) == [bonus]
    assert end_step(used, found) == {"scs/bonus": pytest.approx(bonus)}


def test_texts_without_a_choice_may_differ():
    for texts, bonus in ((["none"] * 4, 0.3), (["B", "B", "none", "none"], 0.6), (["B"] * 4, 1.2)):
        found, _, used = looked(texts, [0.0], none_is_one=False)
        assert shaped(used, found) == [bonus]


def test_whole_rewards_of_the_source():
    """Accuracy 1 and format .5: right and consistent, right and scattered, wrong and consistent."""
    texts = [*"BBBB", *"ABCD", *"CCCC"]
    found, _, used = looked(texts, [1.5, 1.5, 0.5])
    assert shaped(used, found) == [2.7, 1.8, 1.7]


def test_eight_again_have_the_same_range():
    assert shaped(*reversed(looked(["B"] * 8, [0.0], again=8)[::2])) == [1.2]
    assert shaped(*reversed(looked([*"ABCDEFGH"], [0.0], again=8)[::2])) == [0.15]


def test_the_beginning_stays_and_the_picture_is_in_noise():
    found, given, _ = looked(["B"] * 8, [0.0, 1.0], lengths=[10, 3], kept=0.4)
    [(gids, prompts, n, prefixes)] = given.asked
    assert (gids, prompts, n) == ([0, 0], ["look0", "look1"], 4)
    assert prefixes == [(tuple(range(4)),) * 4, ((10,),) * 4]
    assert len(found) == 2
    assert all(1 < std < 102 for _, _, std in given.looks) and given.looks[0][2] != given.looks[1][2]


def test_rows_that_join_later_have_no_bonus():
    found, _, used = looked(["B"] * 4, [1.0])
    assert shaped(used, joined(found, make_batch([2], rewards=[0.5]))) == [2.2, 0.5]
