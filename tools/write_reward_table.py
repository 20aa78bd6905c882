"""Write the tables of rewards/README.md and docs/rewards.md: `python tools/write_reward_table.py`.

They come from the reward files; a test keeps them equal.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import needs_mmrl  # noqa: F401

from mmrl.plugins import shipped_names
from mmrl.scoring.reward import Reward, resolve_reward

ROOT = Path(__file__).resolve().parent.parent
HEAD = ("reward", "what it scores", "bounds", "chance", "place", "options")
HACKS_HEAD = ("reward", "trick", "why it may score above chance")


def row(name: str) -> str:
    """The table's line of one shipped reward.

    >>> row("box_iou")
    "| `box_iou` | Overlap of a predicted box with the answer's box. | 0 to 1 | | box | `answer`, `threshold` |"
    """
    reward = resolve_reward(name)
    summary = (ast.get_docstring(ast.parse(reward.file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    parameters = inspect.signature(reward.function).parameters.values()
    options = ", ".join(f"`{p.name}`" for p in parameters if p.kind is p.KEYWORD_ONLY)
    return _line(f"`{name}`", summary, _bounds(reward), _chance(reward), reward.geometry or "", options)


def _line(*cells: str) -> str:
    return ("|" + "|".join(f" {cell.replace('|', chr(92) + '|')} " if cell else " " for cell in cells) + "|").strip()


def _bounds(reward: Reward) -> str:
    low, high = reward.bounds
    if low is None and high is None:
        return "any number"
    if low is None or high is None:
        return f"at most {high:g}" if low is None else f"at least {low:g}"
    return f"{low:g} to {high:g}"


def _chance(reward: Reward) -> str:
    if reward.is_measure:
        return "measures"
    if reward.chance is None:
        return ""
    return "by row" if callable(reward.chance) else f"{reward.chance:g}"


def rewards_table() -> list[str]:
    """Every shipped reward."""
    return _table(HEAD, [row(name) for name in shipped_names("rewards")])


def hacks_table() -> list[str]:
    """Every trick that some shipped reward's `KNOWN_HACKS` lists."""
    known = ((name, *entry) for name in shipped_names("rewards") for entry in resolve_reward(name).known_hacks.items())
    return _table(HACKS_HEAD, [_line(f"`{name}`", trick, reason) for name, trick, reason in known])


def _table(head: tuple[str, ...], rows: list[str]) -> list[str]:
    return [_line(*head), "|" + "---|" * len(head), *rows]


def with_table(text: str, table: list[str]) -> str:
    """The page with its table of that head replaced, from the head down to the last row."""
    lines = text.splitlines()
    start = lines.index(table[0])
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("|")), len(lines))
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


TARGETS = {ROOT / "rewards" / "README.md": rewards_table, ROOT / "docs" / "rewards.md": hacks_table}


if __name__ == "__main__":
    for page, make in TARGETS.items():
        page.write_text(with_table(page.read_text(encoding="utf-8"), make()), encoding="utf-8")
        print(page)
