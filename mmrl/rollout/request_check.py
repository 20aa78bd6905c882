"""What no engine can serve, whatever it is."""

from __future__ import annotations

from collections.abc import Sequence

from mmrl.errors import EngineError
from mmrl.rollout.types import Request


def check_request(request: Request, *, banned_ids: Sequence[int]) -> str:
    """Raise EngineError for a request that contradicts itself. Returns how errors name it."""
    where = f"request {request.request_id} ({request.prompt.sample_id})"
    sampling, prefixes = request.sampling, request.prefix_ids
    if request.n < 1 or sampling.max_new_tokens < 1:
        raise EngineError(f"{where}: n {request.n} and max_new_tokens {sampling.max_new_tokens} must be at least 1")
    if prefixes and len(prefixes) != request.n:
        raise EngineError(f"{where}: {len(prefixes)} prefixes for {request.n} completions; give one each, or none")
    if (longest := max(map(len, prefixes), default=0)) > sampling.max_new_tokens:
        raise EngineError(f"{where}: a prefix of {longest} tokens, max_new_tokens is {sampling.max_new_tokens}")
    if banned := {i for prefix in prefixes for i in prefix} & set(banned_ids):
        raise EngineError(f"{where}: forced tokens {sorted(banned)} are banned from generation")
    return where
