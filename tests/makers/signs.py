"""A benchmark of our own with as many questions as a test needs: small pictures, scores that a random model moves."""

from __future__ import annotations

import json
from pathlib import Path

from makers.media import write_picture

TASK_FILE = """
data:
  path: {name}.jsonl
  card:
    columns: {{prompt: question, answer: answer, images: image, id: id}}
    placeholders: leading
    image_placeholder: null
score: [{{reward: ./letters.py:score}}]
answers: {{max_new_tokens: {tokens}}}
provenance: {{source: made here, layout: verified}}
"""
LETTERS = "def score(completion, sample):\n    return sum(c.islower() for c in completion) / max(1, len(completion))\n"


def write_signs(root: Path, *, count: int, tokens: int = 4, name: str = "signs", pictures: int = 4) -> Path:
    """The task file; its rows are `{name}{n}`, and share the pictures."""
    root.mkdir(parents=True, exist_ok=True)
    files = [write_picture(root / f"{n}.png", n) for n in range(pictures)]
    rows = [
        {"id": f"{name}{n}", "question": f"What is {n}?", "answer": "x", "image": str(files[n % pictures])}
        for n in range(count)
    ]
    (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "letters.py").write_text(LETTERS)
    task = root / f"{name}.yaml"
    task.write_text(TASK_FILE.format(name=name, tokens=tokens))
    return task
