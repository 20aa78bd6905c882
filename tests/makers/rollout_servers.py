"""Rollout servers as a user starts them, in processes of their own, and the engine that asks them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from makers.vlm import TinyVlm

from mmrl.rollout.server.client import ClientOptions, Processes, ServerEngine
from mmrl.rollout.server.http import Patience, ServerHttp
from mmrl.rollout.server.push import Way
from mmrl.rollout.weight_names import expected_weights

START_S = 300
ALONE = Processes(is_main=True, count=1, together=lambda function: function(), shared=lambda value: value)


class StartedServer:
    """`mmrl serve-rollouts` in a process; port 0: a free one."""

    def __init__(self, config: Path, token_file: Path, *overrides: str, port: int = 0) -> None:
        self.log = config.parent / f"server-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "mmrl", "serve-rollouts", str(config), "--port", str(port)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, f"rollout.servers.token_file={token_file}", *overrides], stdout=log, stderr=log
            )

    @property
    def url(self) -> str:
        """The address it says; waits until it does."""
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            if said := re.search(r"at (http://\S+)\n", self.log.read_text()):
                return said[1]
            time.sleep(0.1)
        raise AssertionError(f"the server did not start: {self.log.read_text()[-2000:]}")

    def end(self, number: int) -> int:
        """Send a signal; the exit code."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        return self.process.wait(timeout=60)


def server_engine(
    vlm: TinyVlm,
    urls: Sequence[str],
    token: str,
    *,
    way: Way = "auto",
    start_s: float = 10,
    dtype: str = "float32",
) -> ServerEngine:
    """As `open_engine` makes it, with less patience."""
    options = ClientOptions(
        tuple(urls), health_interval_s=0.5, start_timeout_s=start_s, timeout_s=60, retries=2, weights=way
    )
    expected = expected_weights(vlm.processor.folder)
    http = ServerHttp(token, Patience(total_s=60, silence_s=20))
    return ServerEngine(vlm.processor, http, options, expected=expected, dtype=dtype, processes=ALONE)
