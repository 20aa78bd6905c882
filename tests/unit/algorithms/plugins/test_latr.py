"""LATR: where a trunk branches, which branches stay, and how a group is filled."""

import pytest
import torch
from makers.forked import Engine, batch_of
from makers.plugin_values import end_step, plugin

NAN = float("nan")
FLAT = [10, 11, NAN, NAN, *torch.tensor([0.9, 0.06]).log().tolist(), NAN, NAN]
OPEN = [20, 21, 22, 23, *torch.tensor([0.45, 0.3, 0.2, 0.05]).log().tolist()]


def trunks(places, sampled=20, gid=None):
    """One group per row of places, each place flat or open; a trunk's tokens are the likeliest."""
    rows = [[int(place[0]) if place is FLAT else sampled for place in row] for row in places]
    meta = {"alternatives": torch.tensor(places).double()}
    return batch_of(rows, [0.0] * len(rows), gid=gid or list(range(len(rows))), meta=meta)


@pytest.mark.parametrize(
    ("sampled", "width", "others"), [(20, 2, [21]), (21, 2, [20]), (20, 3, [21, 22]), (20, 1, []), (23, 2, [20])]
)
def test_alternatives_that_are_likely_and_near_the_likeliest_branch(sampled, width, others):
    """Of .45, .3, .2, .05 the fourth is too rare; the third, .25 from the first, is just too far at a gap of .2."""
    engine = Engine()
    plugin("latr", capacity=1 + len(others), width=width, gap=0.26).hooks["second_round"](
        trunks([[FLAT, OPEN]], sampled=sampled), engine
    )
    assert [prefix for _, prefix in engine.asked] == [(10, token) for token in others]
    engine = Engine()
    plugin("latr", capacity=2, width=3, gap=0.2).hooks["second_round"](trunks([[FLAT, OPEN]]), engine)
    assert [prefix for _, prefix in engine.asked] == [(10, 21)]


def test_branches_begin_at_the_front_until_the_group_is_full_and_the_rest_is_plain():
    engine = Engine()
    found = plugin("latr", capacity=3).hooks["second_round"](trunks([[OPEN, FLAT, OPEN, OPEN], [FLAT] * 4]), engine)
    assert engine.asked == [(0, (21,)), (0, (20, 10, 21)), (1, ()), (1, ())]
    assert found.gid_N.tolist() == [0, 1, 0, 0, 1, 1]


def test_a_branch_that_goes_on_like_its_sibling_makes_room_for_the_next():
    class Copying(Engine):
        """Its first completion ends as the trunk does."""

        def __call__(self, gids, *, n=1, prefix_ids=()):
            found = super().__call__(gids, n=n, prefix_ids=prefix_ids)
            if self._made == 1:
                found.ids_NC[0, 1:3] = torch.tensor([20, 20])
            return found

    engine, used = Copying(), plugin("latr", capacity=2)
    found = used.hooks["second_round"](trunks([[OPEN] * 3]), engine)
    assert engine.asked == [(0, (21,)), (0, (20, 21))]
    assert found.ids_NC[1, :2].tolist() == [20, 21] and len(found) == 2
    metrics = end_step(used, found)
    assert (metrics["latr/branches"], metrics["latr/pruned"]) == (1.0, 1.0)


def test_the_share_of_the_tree_falls_with_the_steps():
    used, sizes = plugin("latr", capacity=9), {}
    batch = batch_of([[1]], [0.0])
    for step in range(301):
        if step in (0, 99, 100, 200, 300):
            sizes[step] = used.hooks["budget"](["a", "b"], 8).tolist()
        end_step(used, batch)
    assert sizes == {0: [1, 1], 99: [1, 1], 100: [3, 3], 200: [5, 5], 300: [7, 7]}
    resumed = plugin("latr", capacity=9)
    resumed.load_state_dict(used.state_dict())
    assert resumed.hooks["budget"](["a"], 8).tolist() == [7]
    assert plugin("latr", capacity=0).hooks["budget"](["a"], 8).tolist() == [8]
