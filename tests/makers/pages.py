"""The pages of the documentation, cut into what a test can try: code blocks, commands, configurations, tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?:\$ )?(?:\S*/)?mmrl (?P<rest>.+)$")


@dataclass(frozen=True)
class Block:
    """A fenced or indented code block. language: `yaml`, `console`, ...; `` where none is named."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Fenced blocks, then the runs of lines that are indented by four spaces."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])
    plain = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in re.finditer(r"(?:^ {4}\S.*\n)+", plain, re.MULTILINE):
        yield Block(
            page, plain.count("\n", 0, match.start()) + 1, "", re.sub("^    ", "", match[0], flags=re.MULTILINE)
        )


def commands(block: Block) -> Iterator[list[str]]:
    """Arguments of every `mmrl ...` line of a block, without comment, redirection and pipe."""
    for line in block.text.splitlines():
        match = _COMMAND.match(line.strip())
        if match and block.language in ("", "console", "bash", "sh"):
            arguments = shlex.split(match["rest"], comments=True)
            ends = [arguments.index(sign) for sign in (">", "|", "&&") if sign in arguments]
            yield arguments[: min(ends, default=None)]


def output_of(block: Block, arguments: list[str]) -> str:
    """What a console block shows below a command, up to the next one."""
    shown: list[str] = []
    found = False
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            found = line.startswith("$ mmrl ") and shlex.split(line, comments=True)[2:] == arguments
        elif found:
            shown.append(line)
    return "".join(shown)


def trees(page: Path) -> Iterator[tuple[Block, dict[str, Any]]]:
    """The YAML blocks of a page that are mappings."""
    for block in blocks(page):
        if block.language == "yaml" and isinstance(tree := yaml.safe_load(block.text), dict):
            yield block, tree


def python_files() -> Iterator[tuple[str, str]]:
    """(name, text) of the Python blocks whose first line names a file: `# my_rewards.py`."""
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python" and (name := re.match(r"# (\w+\.py)\n", block.text)):
                yield name[1], block.text


def anchors(page: Path) -> set[str]:
    """What `#...` may name in a page: its headings as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
