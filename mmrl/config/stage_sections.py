"""What single kinds of stages have keys of their own for."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mmrl.config.section import NonNegativeFloat, PositiveFloat, PositiveInt, Probability, Section


class DpoSection(Section):
    """How a `dpo` stage learns from a better and a worse reply to each prompt."""

    loss: Literal["sigmoid", "ipo", "hinge"] = Field(default="sigmoid", description="loss of a pair, see training.md")
    beta: PositiveFloat = Field(default=0.1, description="scale of the margin; a larger one stays nearer the reference")
    reference_free: bool = Field(
        default=False, description="compare the policy's log-probs themselves, without a reference policy"
    )
    mean_logprobs: bool = Field(
        default=False, description="log-probs of a reply are means over its tokens, not sums: length does not count"
    )
    sft_weight: NonNegativeFloat = Field(
        default=0.0, description="adds this times the cross-entropy of the chosen replies, mean over their tokens"
    )


class SftSection(Section):
    """What an `sft` stage makes of demonstrations."""

    thought_dropout: Probability = Field(
        default=0.0, description="share of the rows whose <think>..</think> is learnt empty (TON: 0.5)"
    )


class SampleSection(Section):
    """What a `sample` stage keeps of the completions it samples, as rows for a later stage with `rows_from`."""

    rows: str = Field(
        default="correct",
        description="correct, format_pairs, damaged_pairs, reward_pairs, verify, judge, aggregate, reflect, questions "
        "or ./file.py:function; see training.md",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="keyword arguments of what makes the rows")
    n: PositiveInt | None = Field(default=None, description="completions of each prompt; null: rollout.group_size")
