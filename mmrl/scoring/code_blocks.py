"""The code in a completion. Pure.

>>> extract_code("<think>```python\\nx\\n```</think>Here:\\n```python\\nprint(1)\\n```\\nDone.")
'print(1)'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n]*$", re.MULTILINE)


def extract_code(completion: str, *, languages: Sequence[str] = ("python", "py", "python3")) -> str | None:
    """The last closed fenced block of one of the languages, or of none named; else what stands in `<answer>` tags.

    Only what follows the last `</think>` counts. A block without a closing fence was cut off and is not code.
    None where there is neither, or nothing in it.
    """
    rest = completion.rpartition("</think>")[2]
    if "<think>" in rest:
        return None
    wanted = {language.casefold() for language in languages}
    blocks = [code for language, code in fenced_blocks(rest) if not language or language.casefold() in wanted]
    if blocks:
        return blocks[-1].strip("\n") or None
    before, closed, _ = rest.rpartition("</answer>")
    _, opened, content = before.rpartition("<answer>")
    if not (closed and opened) or _FENCE.search(content):
        return None
    return content.strip() or None


def fenced_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language (empty where none is named) and content of every closed fenced block, in order."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1][0] == opened[1][0] and len(fence[1]) >= len(opened[1]) and not fence[2]:
            yield opened[2], text[opened.end() + 1 : fence.start()]
            opened = None
