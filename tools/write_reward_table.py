"""Write the table of rewards/README.md from the reward files: `python tools/write_reward_table.py`.

A test keeps the two equal.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import needs_mmrl  # noqa: F401

from mmrl.plugins import shipped_names
from mmrl.scoring.reward import Reward, resolve_reward

TARGET = Path(__file__).resolve().parent.parent / "rewards" / "README.md"
HEAD = ("reward", "what it scores", "bounds", "chance", "place", "options")
RULE = "|" + "---|" * len(HEAD)


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
    if reward.chance is None:
        return ""
    return "by row" if callable(reward.chance) else f"{reward.chance:g}"


def table() -> str:
    return "\n".join([_line(*HEAD), RULE, *(row(name) for name in shipped_names("rewards"))])


def with_table(text: str) -> str:
    """The page with its table replaced: the lines from the head down to the last row."""
    lines = text.splitlines()
    start = lines.index(_line(*HEAD))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return "\n".join([*lines[:start], table(), *lines[end:]]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(with_table(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
    print(TARGET)
