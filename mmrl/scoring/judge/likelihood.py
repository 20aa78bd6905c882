"""How likely a model behind an endpoint finds a reference answer, after a thought and without one.

The endpoint reports the log-probs of the prompt's own tokens (vLLM's `prompt_logprobs` of chat completions): nothing is
generated but one token, which the interface demands.

    PPL(y | x)    = exp(-mean of log p(token))            of the reference y after the question x
    improvement   = 100 (1 - PPL(y | x, z) / PPL(y | x))  in percent, by the thought z (VR-CLI)
    p(y | x, z)   = exp(sum of log p(token))              (VeriFree)

>>> round(improvement([-0.5, -0.5], [-1.0, -1.0]), 4)  # PPL e^0.5 against e
39.3469
>>> round(probability([-0.5, -0.5]), 6)
0.367879
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from mmrl.data.sample import Sample, TextPart
from mmrl.errors import RewardError
from mmrl.scoring.judge.endpoint import Answer, Endpoint

MARK = "<answer>"


@dataclass(frozen=True, slots=True)
class Continuation:
    """A conversation, how the model's turn begins (up to MARK), and the reference whose log-probs are asked."""

    turns: tuple[tuple[str, str], ...]
    lead: str
    reference: str

    def body(self, endpoint: Endpoint) -> dict[str, Any]:
        turns = [*self.turns, ("assistant", self.lead + self.reference)]
        return {
            "messages": [{"role": role, "content": text} for role, text in turns],
            "add_generation_prompt": False,
            "continue_final_message": True,
            "prompt_logprobs": 0,
            "max_tokens": 1,
        }

    def again(self) -> Self:
        return self

    def answer(self, response: Any) -> Answer:
        """The log-probs of the tokens behind the last MARK; a token that holds the mark's end and more counts."""
        told = [next(iter(entry.values())) for entry in response["prompt_logprobs"] if entry]
        texts = [str(token["decoded_token"]) for token in told]
        left = len("".join(texts)) - "".join(texts).rindex(MARK) - len(MARK)
        logprobs: list[float] = []
        for text, token in zip(reversed(texts), reversed(told), strict=True):
            if left <= 0:
                break
            logprobs.insert(0, min(float(token["logprob"]), 0.0))
            left -= len(text)
        if not logprobs:
            raise ValueError("no token stands behind the mark")
        return Answer("", logprobs=tuple(logprobs))


def thought_of(completion: str) -> str:
    """What stands before the answer: up to the last `<answer>`, or where there is none through the last `</think>`.

    Chat control tokens are broken up, so that none ends the turn.

    >>> thought_of("<think>6 by 7.</think><answer>41</answer>"), thought_of("42")
    ('<think>6 by 7.</think>', '')
    """
    before, marked, _ = completion.rpartition(MARK)
    if not marked:
        before, closed, _ = completion.rpartition("</think>")
        before += closed
    return re.sub(r"<(?=\|)", "< ", before)


def conversation(sample: Sample) -> tuple[tuple[str, str], ...]:
    """Role and text of each message. RewardError for a row with media or places, which the endpoint would not see."""
    parts = [part for message in sample.messages for part in message.parts]
    if not all(isinstance(part, TextPart) for part in parts):
        raise RewardError(f"{sample.where}: the row has media or places; the likelihood is measured on text alone")
    return tuple(
        (message.role, "".join(part.text for part in message.parts if isinstance(part, TextPart)))
        for message in sample.messages
    )


def improvement(with_thought: Sequence[float], without: Sequence[float]) -> float:
    """By how many percent a thought lowers the perplexity; from log-probs of the reference's tokens."""
    gain = sum(with_thought) / len(with_thought) - sum(without) / len(without)
    return 100 * (1 - math.exp(min(-gain, 700.0)))


def probability(logprobs: Sequence[float]) -> float:
    """Of all tokens together."""
    return math.exp(sum(logprobs))
