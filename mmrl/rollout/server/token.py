"""The token that every request to a rollout server carries: from the environment or a file only its owner reads."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from mmrl.errors import EngineError

VARIABLE = "MMRL_ROLLOUT_TOKEN"
_LEAST_CHARACTERS = 16


def read_token(path: Path) -> str:
    """The token of MMRL_ROLLOUT_TOKEN, or else of the file. EngineError where there is none or others can read it."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _checked(given, VARIABLE)
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="ascii")
    except FileNotFoundError:
        raise EngineError(
            f"{path}: no token of the rollout servers; `mmrl serve-rollouts` writes one there: copy it to this "
            f"machine, or set {VARIABLE}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"{path}: the token cannot be read ({error})") from error
    if stat.S_IMODE(mode) & 0o077:
        raise EngineError(f"{path}: others can read this token; `chmod 600 {path}`")
    return _checked(text.strip(), str(path))


def obtain_token(path: Path) -> tuple[str, str]:
    """The token for a server and where it is from; a new one is drawn and written where there is none yet."""
    if VARIABLE not in os.environ and not path.exists():
        _write_new(path)
    return read_token(path), VARIABLE if VARIABLE in os.environ else str(path)


def matches(header: bytes, token: str) -> bool:
    """Whether an Authorization header carries the token; the time taken does not depend on where they differ."""
    return hmac.compare_digest(header, f"Bearer {token}".encode())


def _checked(token: str, where: str) -> str:
    if len(token) < _LEAST_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise EngineError(f"{where}: a token is at least {_LEAST_CHARACTERS} printable characters without spaces")
    return token


def _write_new(path: Path) -> None:
    """Whole or not at all; of servers that start together one writes, the others read what it wrote."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
