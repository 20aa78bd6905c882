"""Every reward file says what a user must know, and the table in rewards/README.md repeats it."""

import pytest
from makers.tools import load_tool

from mmrl.plugins import resolve_module, shipped_names
from mmrl.scoring.reward import resolve_reward

NAMES = shipped_names("rewards")
FIELDS = ("Formula:", "Bounds:", "Answer:", "Space:", "Source:", "Example:")


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_has_every_field_once(name):
    lines = (resolve_module(name, kind="rewards")[0].__doc__ or "").splitlines()
    assert [next(f for f in FIELDS if line.startswith(f)) for line in lines if line.startswith(FIELDS)] == list(FIELDS)


@pytest.mark.parametrize("name", NAMES)
def test_the_bounds_are_declared(name):
    reward = resolve_reward(name)
    assert reward.is_measure or reward.bounds != (None, None)


def test_the_tables_of_rewards_and_of_known_hacks_are_current():
    tool = load_tool("write_reward_table")
    for page, table in tool.TARGETS.items():
        text = page.read_text()
        assert tool.with_table(text, table()) == text, "run `python tools/write_reward_table.py`"
