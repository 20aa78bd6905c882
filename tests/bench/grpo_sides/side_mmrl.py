"""mmrl's side of bench_trl.py: `side_mmrl.py RUN.yaml RESULT.json` is `mmrl train RUN.yaml` with the clock on.

RESULT gets the seconds of every step, from the end of the one before (its line of metrics written) to its own end.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from mmrl.config.load import load_config
from mmrl.training import run as loop
from mmrl.training.journal import Journal


class TimedJournal(Journal):
    ends: list[float] = []  # noqa: RUF012 - one run a process
    lengths: list[float] = []  # noqa: RUF012

    def record_step(self, section: Any, metrics: dict[str, float]) -> None:
        super().record_step(section, metrics)
        self.ends.append(time.perf_counter())
        self.lengths.append(metrics["completion/length"])


def main(run_file: str, result_file: str) -> None:
    torch.set_num_threads(1)
    loop.Journal = TimedJournal
    code = loop.train(load_config(Path(run_file)), overwrite=True)
    ends, lengths = TimedJournal.ends, TimedJournal.lengths
    result = {
        "seconds": [b - a for a, b in itertools.pairwise(ends)],
        "mean_length": sum(lengths) / len(lengths),
        "version": f"mmrl, transformers {transformers.__version__}, torch {torch.__version__}",
    }
    Path(result_file).write_text(json.dumps(result))
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
