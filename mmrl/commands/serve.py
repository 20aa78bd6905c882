"""`mmrl serve-rollouts`: vLLM with the model of a configuration, for trainings in other processes or machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mmrl.config.load import load_config


def serve_command(config: Path, overrides: Sequence[str], *, host: str, port: int) -> int:
    """Serve until SIGTERM (exit code 0) or Ctrl-C (130). The token is that of `rollout.servers.token_file`."""
    loaded = load_config(config, overrides)
    from mmrl.rollout.server.serve import Address, serve

    return serve(loaded, Address(host, port), token_file=Path(loaded.rollout.servers.token_file))
