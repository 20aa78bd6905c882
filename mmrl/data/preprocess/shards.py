"""Which media are whose, where several processes or machines fill one cache without talking to each other."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from mmrl.errors import ConfigError

# (number of this process, how many there are): torchrun and mmrl launch, then Slurm's job arrays, then its tasks.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `index`, from 0, of `count`. Every name belongs to one part, the same on all machines."""

    index: int = 0
    count: int = 1

    def holds(self, name: str) -> bool:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.count == self.index

    def file_name(self, stem: str) -> str:
        """`failures.jsonl`; of one part among several `failures.1-of-4.jsonl`."""
        return f"{stem}.jsonl" if self.count == 1 else f"{stem}.{self.index}-of-{self.count}.jsonl"


WHOLE = Shard()


def parse_shard(text: str, environment: Mapping[str, str] = os.environ) -> Shard:
    """`2/8` is the third of eight; `auto` asks the variables of torchrun and Slurm. Raises ConfigError."""
    if text == "auto":
        return _from_environment(environment)
    index, slash, count = text.partition("/")
    if not (slash and index.isascii() and index.isdecimal() and count.isascii() and count.isdecimal()):
        raise ConfigError(f"--shard is {text!r}; write i/n, such as 0/4 to 3/4, or auto")
    return _checked(int(index), int(count), text)


def _from_environment(environment: Mapping[str, str]) -> Shard:
    for rank, world in _VARIABLES:
        if environment.get(rank, "").isdecimal() and environment.get(world, "").isdecimal():
            index = int(environment[rank])
            if rank == "SLURM_ARRAY_TASK_ID":
                index -= int(environment.get("SLURM_ARRAY_TASK_MIN", "0"))
            return _checked(index, int(environment[world]), f"auto ({rank}={environment[rank]})")
    known = ", ".join(f"{rank} and {world}" for rank, world in _VARIABLES)
    raise ConfigError(f"--shard auto finds none of these pairs of variables: {known}; write i/n")


def _checked(index: int, count: int, text: str) -> Shard:
    if not 0 <= index < count:
        raise ConfigError(f"--shard is {text}: of {count} parts there are 0/{count} to {max(count - 1, 0)}/{count}")
    return Shard(index, count)
