"""The built-in advantages and policy losses by name, and what the config checks must know about each.

The functions are named, not imported: a configuration is checked without importing torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A built-in: its function as `module:function`.

    group_relative: an advantage that is 0 for a group of one. sequence_level: a loss with one ratio per sequence, which
    only the modes of `SEQUENCE_MODES` aggregate faithfully. token_rewards: an advantage that reads
    batch.token_rewards_NC; the others get rewards of tokens summed per completion. needs: what it reads of the batch.
    constant_group: what it gives a group of equal rewards, where that is not 0.
    """

    function: str
    group_relative: bool = False
    sequence_level: bool = False
    token_rewards: bool = False
    needs: tuple[str, ...] = ()
    constant_group: str = ""


SEQUENCE_MODES = ("seq-mean-token-mean", "seq-mean-token-sum")
"""Aggregations for losses with one ratio per sequence; the second weighs sequences by length on purpose (LUSPO)."""

_OF_GROUPS = "mmrl.algorithms.advantages"
_OF_TOKENS = "mmrl.algorithms.token_advantages"
ADVANTAGES: dict[str, Entry] = {
    "grpo": Entry(f"{_OF_GROUPS}:grpo", group_relative=True),
    "dr_grpo": Entry(f"{_OF_GROUPS}:dr_grpo", group_relative=True),
    "rloo": Entry(f"{_OF_GROUPS}:rloo", group_relative=True),
    "pass_at_k": Entry(f"{_OF_GROUPS}:pass_at_k", group_relative=True),
    "gpg": Entry(f"{_OF_GROUPS}:gpg", group_relative=True),
    "reinforce_pp": Entry(
        f"{_OF_TOKENS}:reinforce_pp",
        token_rewards=True,
        constant_group="its reward less the mean of all tokens of the step",
    ),
    "reinforce_pp_baseline": Entry(
        f"{_OF_TOKENS}:reinforce_pp_baseline",
        constant_group="0 less the mean over the tokens of the step, which long and short completions share unevenly",
    ),
    "gae": Entry(
        f"{_OF_TOKENS}:gae",
        token_rewards=True,
        needs=("value",),
        constant_group="its reward less what the value head expected",
    ),
}

POLICY_LOSSES: dict[str, Entry] = {
    "ppo_clip": Entry("mmrl.algorithms.losses:ppo_clip"),
    "cispo": Entry("mmrl.algorithms.losses:cispo"),
    "sapo": Entry("mmrl.algorithms.losses:sapo"),
    "gpg": Entry("mmrl.algorithms.losses:gpg"),
    "gspo": Entry("mmrl.algorithms.sequence_losses:gspo", sequence_level=True),
    "gmpo": Entry("mmrl.algorithms.sequence_losses:gmpo", sequence_level=True),
    "vespo": Entry("mmrl.algorithms.sequence_losses:vespo"),
}
