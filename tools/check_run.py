"""Say whether the held-out score of a run rose: `python tools/check_run.py runs/quickstart --rises 0.1`.

Reads metrics.jsonl. Exit code 1 when the last validation is not at least `--rises` above the last one before the final
stage, so a pipeline can rely on it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def stage_scores(metrics: Path) -> list[tuple[str, float]]:
    """(stage of the row, val/mean) of every validation, in order."""
    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    return [(row["stage"], row["val/mean"]) for row in rows if "val/mean" in row]


def gain_of_last_stage(scores: list[tuple[str, float]]) -> float:
    """Last score minus the last score of the stages before."""
    last_stage = scores[-1][0]
    earlier = [score for stage, score in scores if stage != last_stage] or [scores[0][1]]
    return scores[-1][1] - earlier[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rises", type=float, default=0.0, help="least gain of the last stage")
    arguments = parser.parse_args()
    gain = gain_of_last_stage(stage_scores(arguments.run / "metrics.jsonl"))
    print(f"the last stage raised the held-out score by {gain:+.3f} (wanted: at least {arguments.rises:+.3f})")
    return 0 if gain >= arguments.rises else 1


if __name__ == "__main__":
    sys.exit(main())
