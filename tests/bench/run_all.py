"""Run the benchmarks, one after the other, and put their tables in tests/bench/results: `make bench`.

    python tests/bench/run_all.py [NAME ...] [--list]

Without names all of them run, the short ones first; that takes hours, and the figures mean something on an otherwise
idle machine only. `trl` needs the two environments that tools/install_bench.sh makes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
CHECKOUT = BENCH.parents[1]
TRL = ("--trl-python", ".venv-bench/trl/bin/python", "--mmrl-python", ".venv-bench/mmrl/bin/python")

# What each is called with, beside `--out`.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "rows": (),
    "cache": (),
    "draws": (),
    "made_rows": (),
    "feature_types": (),
    "logprob_memory": (),
    "overlapped_scoring": (),
    "shared_prefix": (),
    "long_rows": (),
    "formula_layout": (),
    "hooks": (),
    "data_stall": (),
    "cache_levels": (),
    "preprocess": (),
    "long_video": (),
    "work_stealing": (),
    "plan": (),
    "trl": TRL,
    "step_curves": (),
    "spec_rl_wall": (),
    "weight_sync": (),
    "server_weights": (),
    "vllm_engine": (),
    "rewards": (),
    "evaluate": ("timed", "hf", "samples"),
    "quickstart": ("--seeds", "0", "1", "2", "3", "4"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of these only; see --list")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    options = parser.parse_args()
    if options.list:
        print(*ARGUMENTS, sep="\n")
        return
    unknown = sorted(set(options.names) - set(ARGUMENTS))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; known: {', '.join(ARGUMENTS)}")
    failed = [name for name in ARGUMENTS if name in (options.names or ARGUMENTS) and not ran(name)]
    if failed:
        sys.exit(f"failed, their tables are as they were: {', '.join(failed)}")


def ran(name: str) -> bool:
    """Run one and store its table: what it writes by `--out`, or prints where it has none. False: it failed."""
    script, table = BENCH / f"bench_{name}.py", BENCH / "results" / f"{name}.md"
    writes = '"--out"' in script.read_text(encoding="utf-8")
    command = [sys.executable, str(script), *ARGUMENTS[name], *(["--out", str(table)] if writes else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'tests'}"
    started = time.monotonic()
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(f"{name}: exit code {done.returncode} after {time.monotonic() - started:.0f} s", flush=True)
    if done.returncode == 0 and not writes:
        table.write_text(done.stdout.rstrip("\n") + "\n", encoding="utf-8")
    return done.returncode == 0


if __name__ == "__main__":
    main()
