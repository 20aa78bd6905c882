"""The built-in advantages and policy losses by name, and what the config checks must know about each.

The functions are named, not imported: a configuration is checked without importing torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A built-in: its function as `module:function`.

    group_relative: an advantage that is 0 for a group of one. sequence_level: a loss with one ratio per sequence, which
    only seq-mean-token-mean aggregates faithfully.
    """

    function: str
    group_relative: bool = False
    sequence_level: bool = False


ADVANTAGES: dict[str, Entry] = {
    "grpo": Entry("mmrl.algorithms.advantages:grpo", group_relative=True),
    "dr_grpo": Entry("mmrl.algorithms.advantages:dr_grpo", group_relative=True),
    "rloo": Entry("mmrl.algorithms.advantages:rloo", group_relative=True),
}

POLICY_LOSSES: dict[str, Entry] = {
    "ppo_clip": Entry("mmrl.algorithms.losses:ppo_clip"),
}
