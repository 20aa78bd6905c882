"""Which ids were seen before, at about 20 bytes an id: hashes in a table, not the ids themselves. Pure."""

from __future__ import annotations

from array import array

_EMPTY = -1
_FIRST_SLOTS = 64


class SeenIds:
    """Ids by their place: the first that is added has place 0, the next 1.

    Only 64-bit hashes are kept, so `twins` names places whose id is almost surely, but not surely, the same.

    >>> seen = SeenIds()
    >>> for sample_id in ("a", "b"):
    ...     seen.add(sample_id)
    >>> seen.twins("b"), seen.twins("c")
    ([1], [])
    """

    def __init__(self) -> None:
        self._hashes = array("q")
        # Open addressing: an id's place stands in the first empty slot from its hash on.
        self._slots = array("i", [_EMPTY]) * _FIRST_SLOTS

    def twins(self, sample_id: str) -> list[int]:
        """Places of the ids with the hash of this one, in no particular order."""
        wanted, slots, hashes = hash(sample_id), self._slots, self._hashes
        last = len(slots) - 1
        slot, found = wanted & last, []
        while (place := slots[slot]) != _EMPTY:
            if hashes[place] == wanted:
                found.append(place)
            slot = (slot + 1) & last
        return found

    def add(self, sample_id: str) -> None:
        self._hashes.append(hash(sample_id))
        if 3 * len(self._hashes) > 2 * len(self._slots):
            self._slots = array("i", [_EMPTY]) * (2 * len(self._slots))
            for place in range(len(self._hashes)):
                self._enter(place)
        else:
            self._enter(len(self._hashes) - 1)

    def _enter(self, place: int) -> None:
        slots, last = self._slots, len(self._slots) - 1
        slot = self._hashes[place] & last
        while slots[slot] != _EMPTY:
            slot = (slot + 1) & last
        slots[slot] = place
