"""Rewards that return lists beside their value."""

from typing import Any

from mmrl.data.sample import Sample


def score(completion: str, sample: Sample) -> dict[str, Any]:
    """Words as spans, valued by their length, and the lengths as steps."""
    words, spans, start = completion.split(), [], 0
    for word in words:
        start = completion.index(word, start)
        spans.append([start, start + len(word), len(word)])
        start += len(word)
    return {"reward": 1.0, "words": len(words), "word": spans, "length": [len(word) for word in words]}


def wrong(completion: str, sample: Sample) -> dict[str, Any]:
    return {"reward": 1.0, "word": [[3, 1, 0.5]]}
