"""Where a completion ends by what it says: an end token, or a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from mmrl.models.families import FamilyProcessor


def is_complete(ids: Sequence[int], stops: Sequence[str], processor: FamilyProcessor) -> bool:
    """Whether the last token is an end token, or completes a stop string: nothing may follow it."""
    return bool(ids) and (ids[-1] in processor.eos_ids or completes_stop(ids, stops, processor))


def completes_stop(ids: Sequence[int], stops: Sequence[str], processor: FamilyProcessor) -> bool:
    """Whether the last token completes one of the stop strings, as a whole or in its middle.

    A token of ordinary text is at least one byte and a character at most four, so a tail of the text is enough.
    """
    if not stops:
        return False
    special = set(processor.special_ids.values())
    if ids[-1] in special:
        return False
    window = 4 * max(map(len, stops)) + 1
    tail = [token for token in ids if token not in special][-window:]
    text = processor.decode(tail)
    before = processor.decode(tail[:-1]).rstrip("\N{REPLACEMENT CHARACTER}")
    return any(text.find(stop, max(0, len(before) - len(stop) + 1)) >= 0 for stop in stops)
