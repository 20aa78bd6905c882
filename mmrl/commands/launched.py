"""`python -m mmrl.commands.launched WORD`: the command of `mmrl launch` on one of several machines.

On its way there a command line is joined with blanks and read by the shell of every machine, which would split
`name="my run"` and expand `model.lora={rank: 4}`. So it travels as one word that no shell changes.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Sequence
from typing import Any


def pack(arguments: Sequence[str], *, launcher: Sequence[str]) -> str:
    """The command and the words of the launcher as one word of letters, digits, `-`, `_` and `=`.

    >>> unpack(pack(["train", "a b.yaml"], launcher=["launch", "--nproc", "2"]))
    (['train', 'a b.yaml'], ['launch', '--nproc', '2'])
    """
    text = json.dumps([list(arguments), list(launcher)])
    return base64.urlsafe_b64encode(text.encode()).decode()


def unpack(word: str) -> tuple[Any, ...]:
    """(arguments, words of the launcher) that `pack` made a word of."""
    return tuple(json.loads(base64.urlsafe_b64decode(word)))


if __name__ == "__main__":
    from mmrl.cli import main
    from mmrl.training.distributed import LAUNCHER

    given, words = unpack(sys.argv[1])
    os.environ[LAUNCHER] = json.dumps(words)
    main(given)
