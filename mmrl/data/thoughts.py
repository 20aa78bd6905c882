"""Thought dropout: demonstrations whose thought is left empty, so that a model learns to think or not (TON). Pure.

    <think>The map has two lines.</think><answer>2</answer>   ->   <think>\\n\\n</think><answer>2</answer>

A row is dropped with a given chance, the same way whenever it comes. TON (kokolerk/TON@22102c2, read in code: its
`two_mode` data, half of the rows, the empty thought two line ends) fixes it in the data; here rows stay whole and the
stage decides. GRPO with rewards that do not read the thought then chooses freely.
"""

from __future__ import annotations

import random
import re

EMPTY = "<think>\n\n</think>"
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


def without_thought(text: str) -> str:
    """The text with its first thought empty; as it is where there is none.

    >>> without_thought("<think>a</think><answer>b</answer>"), without_thought("b")
    ('<think>\\n\\n</think><answer>b</answer>', 'b')
    """
    return _THOUGHT.sub(lambda match: EMPTY, text, count=1)


def is_dropped(name: str, *, share: float) -> bool:
    """Whether the row of this name is among the share whose thoughts are dropped; with a larger share it stays so."""
    return random.Random(name).random() < share
