"""The `mmrl` command in this process: exit code and what it prints."""

import contextlib
import io
from dataclasses import dataclass

import pytest

from mmrl.cli import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    def line_with(self, *words: str) -> str:
        """The one line that has all of these words."""
        lines = [line for line in (self.out + self.err).splitlines() if all(word in line for word in words)]
        assert len(lines) == 1, (words, self.out, self.err)
        return lines[0]


def mmrl(*arguments: object) -> Said:
    """Run a command. Whatever it raises besides its exit reaches the test: no user error is a traceback."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return Said(stop.value.code, out.getvalue(), err.getvalue())
