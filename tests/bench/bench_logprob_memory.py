"""Peak memory of the log-prob pass at a vocabulary of 150,000: in chunks, against full logits.

    python tests/bench/bench_logprob_memory.py

Three passes: without gradient (old and reference log-probs), with gradient under gradient checkpointing (the default of
training), and with gradient and every activation kept, where the decoder's own activations weigh most of what is left.
Each runs in a process of its own; the peak is the highest resident memory during the pass (forward and, with gradient,
backward) above the resident memory before it, weights and their gradients already allocated. fp32, one thread.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import medium_model, versions
from makers.rendered import make_prompt, random_completions

from mmrl.algorithms.batch import MicroBatch
from mmrl.models.decoder import DecoderInputs, run_decoder
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack

VOCABULARY, GROUP, COMPLETION = 150_016, 8, 512
PASSES = ("no gradient", "gradient, checkpointing", "gradient, all activations kept")
CHUNKS = {"full logits": 0, "chunks of 1024": 1024, "chunks of 256 (default)": 256}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", nargs=2, metavar=("PASS", "FORM"), help="one figure, in this process")
    arguments = parser.parse_args()
    if arguments.measure:
        kind, form = arguments.measure
        print(*measure(kind, CHUNKS[form]))
        return
    print(f"{versions()}; vocabulary {VOCABULARY}, {GROUP * COMPLETION} loss tokens, fp32, 1 thread\n")
    print("| pass | logits | peak MiB above the weights | share of the full one | seconds |\n|---|---|---|---|---|")
    for kind in PASSES:
        full = 0.0
        for form in CHUNKS:
            command = [sys.executable, __file__, "--measure", kind, form]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            peak, seconds = map(float, output.split()[-2:])
            full = full or peak
            print(f"| {kind} | {form} | {peak:.0f} | {peak / full:.3f} | {seconds:.1f} |", flush=True)


def measure(kind: str, chunk: int) -> tuple[float, float]:
    """Peak MiB and seconds of one pass; chunk 0 is the naive form."""
    torch.set_num_threads(1)
    model, processor = medium_model(vocabulary=VOCABULARY)
    with_gradient = kind != "no gradient"
    if kind == "gradient, checkpointing":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for parameter in model.parameters() if with_gradient else ():
        parameter.grad = torch.zeros_like(parameter)
    prompt = make_prompt([list(range(32))], family="qwen2_5_vl", pad_ids={})
    micro = pack([group_row(prompt, random_completions((COMPLETION,) * GROUP, seed=0), range(GROUP))], processor)
    start = time.perf_counter()
    with PeakMemory() as memory, torch.set_grad_enabled(with_gradient):
        values = logprobs(model, micro, processor, chunk=chunk) if chunk else naive_logprobs(model, micro)
        if with_gradient:
            values.mean().backward()
    return memory.peak_mib, time.perf_counter() - start


def logprobs(model: Any, micro: MicroBatch, processor: Any, *, chunk: int) -> torch.Tensor:
    return token_logprobs(model, micro, processor, temperature=1.0, banned_ids=(), chunk=chunk).logprobs_L


def naive_logprobs(model: Any, micro: MicroBatch) -> torch.Tensor:
    """What trainers write first: logits of every position, their log-softmax, the targets picked out."""
    inputs = DecoderInputs(micro.ids_BT, micro.positions_3BT, micro.mask_B1TT)
    logits_BTV = model.lm_head(run_decoder(model, inputs).last_hidden_state)
    logprobs_BTV = logits_BTV.float().log_softmax(-1)
    return logprobs_BTV.flatten(0, 1)[micro.predict_L, micro.target_L]


class PeakMemory:
    """Highest resident memory inside the block, in MiB above that at its start; sampled every millisecond."""

    def __enter__(self) -> PeakMemory:
        self._stop = threading.Event()
        self._before = self._highest = resident_bytes()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def peak_mib(self) -> float:
        return (self._highest - self._before) / 2**20

    def _watch(self) -> None:
        while not self._stop.wait(0.001):
            self._highest = max(self._highest, resident_bytes())


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


if __name__ == "__main__":
    main()
