"""Bytes of weights, gradients and optimizer on one of N processes, as DeepSpeed 0.19.8 keeps them. Pure arithmetic.

With n weights of s bytes, t of them trained (bytes; stage 1, 2 and 3 share out over N processes):

    stage  weights   master    AdamW    gradients             in the step, without activations
    0      n s       4 t (a)   8 t      t s                   t s, and again t s (flattened) or 4 t (bfloat16)
    1      n s       4 t / N   8 t / N  t s, bucket           t s / N + 4 t / N
    2      n s       4 t / N   8 t / N  2 t s / N, bucket     t s / N + 4 t / N
    3      n s / N   4 t / N   8 t / N  2 t s (b), t s / N    4 t / N, and bucket and t s / N as all the time

(a) in bfloat16 only: plain AdamW in float32 steps the weights themselves. Under ZeRO also float32 runs keep masters.
(b) for at most 5e8 values: whole gradients before they are shared out, and the tensor they are sent in.

In the step AdamW makes two temporary tensors as large as what it steps at once on a CPU, one on a GPU: the largest
weight in stage 0, the whole share under ZeRO (on a GPU all of stage 0's too, for its kernels take lists). Stages 1 to 3
send gradients through a bucket of 5e8 values: on a GPU all of it is allocated, on a CPU as much as is filled. Under
ZeRO-3 weights of at most 1e5 values stay whole, and the largest module is gathered while it runs.

Worked: 25e6 weights in float32, all trained, one process, stage 0: 100 + 200 MB between steps, and 100 MB of gradients;
stage 1: 100 + 100 + 200 MB, in the step 100 + 100 of gradients and 200 of temporaries: 800 MB.
bfloat16, 3e9 weights, 8 GPUs, stage 2: 6 + 1.5 + 3 GB, gradients 1.5 GB, a bucket of 1 GB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

BUCKET_VALUES = 500_000_000
PERSISTENT_VALUES = 100_000
SUB_GROUP_VALUES = 1_000_000_000
_MOMENTS = {"adamw": 8, "adamw8bit": 2, "muon": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightCounts:
    """Numbers of values, adapters included. largest: of the largest weight; small: in weights of at most
    PERSISTENT_VALUES each.
    """

    total: int
    trained: int
    largest: int
    largest_trained: int
    small: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSettings:
    """value_bytes: s. processes: N. on_gpu: where DeepSpeed's buffers are allocated whole."""

    value_bytes: int
    stage: Literal[0, 1, 2, 3] = 0
    processes: int = 1
    optimizer: str = "adamw"
    offload: Literal["optimizer", "parameters"] | None = None
    on_gpu: bool = False
    reference: bool = False
    adapters: bool = False
    ema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes on a process's device, and on its host where something is offloaded from a GPU.

    weights, master, optimizer, standing, reference, ema: all the time. gradients, buckets: beside activations. step:
    beside the former in the optimizer's step, when there are no activations. standing: of ZeRO-3, its share of the
    gradients and its bucket. host: offloaded.
    """

    weights: int
    master: int
    optimizer: int
    gradients: int
    buckets: int
    step: int
    standing: int = 0
    reference: int = 0
    ema: int = 0
    host: int = 0

    @property
    def resting(self) -> int:
        """What a process holds all the time."""
        return self.weights + self.master + self.optimizer + self.standing + self.reference + self.ema


def states(counts: WeightCounts, settings: StateSettings) -> States:
    """See the module."""
    found = _zero_3(counts, settings) if settings.stage == 3 else _zero_0_to_2(counts, settings)
    s, share = settings.value_bytes, settings.processes if settings.stage == 3 else 1
    reference = 0
    if settings.reference:
        reference = counts.trained * s if settings.adapters else counts.total * s // share
    found = replace(found, reference=reference, ema=4 * counts.trained if settings.ema else 0)
    return _offloaded(found, counts, settings) if settings.offload is not None else found


def _zero_0_to_2(counts: WeightCounts, settings: StateSettings) -> States:
    s, t = settings.value_bytes, counts.trained
    own = t if settings.stage == 0 else -(-t // settings.processes)
    has_master = settings.stage > 0 or s < 4
    temporaries = _temporaries(own, counts, settings)
    if settings.stage == 0:
        gradients, buckets = t * s, 0
        exchanged = t * s + min(t, BUCKET_VALUES) * s  # flattened, by one process too
        step = max(t * s + (4 * t if s < 4 else 0) + temporaries, exchanged)
    else:
        gradients = t * s if settings.stage == 1 else 2 * own * s
        buckets, step = _bucket(t, settings), own * s + 4 * own + temporaries
    return States(
        weights=counts.total * s,
        master=4 * own if has_master else 0,
        optimizer=_MOMENTS[settings.optimizer] * own,
        gradients=gradients,
        buckets=buckets,
        step=step,
    )


def _zero_3(counts: WeightCounts, settings: StateSettings) -> States:
    """The share of the gradients and the bucket stand all the time. What is gathered is let go of before the step."""
    s, t, processes = settings.value_bytes, counts.trained, settings.processes
    own = -(-t // processes)
    gathered = (counts.small if processes > 1 else 0) + counts.largest
    exchanged = 2 * min(t, BUCKET_VALUES) * s
    return States(
        weights=counts.total * s // processes,
        master=4 * own,
        optimizer=_MOMENTS[settings.optimizer] * own,
        gradients=exchanged,
        buckets=gathered * s,
        step=max(4 * own + _temporaries(own, counts, settings), exchanged + gathered * s),
        standing=own * s + _bucket(t, settings),
    )


def _temporaries(own: int, counts: WeightCounts, settings: StateSettings) -> int:
    """Two tensors of what AdamW steps at once on a CPU, one on a GPU."""
    if settings.stage == 0:
        return 4 * counts.trained if settings.on_gpu else 2 * 4 * counts.largest_trained
    stepped = min(own, SUB_GROUP_VALUES) if settings.stage == 3 else own
    return (1 if settings.on_gpu else 2) * 4 * stepped


def _bucket(trained: int, settings: StateSettings) -> int:
    return (BUCKET_VALUES if settings.on_gpu else min(trained, BUCKET_VALUES)) * settings.value_bytes


def _offloaded(found: States, counts: WeightCounts, settings: StateSettings) -> States:
    """Master weights, moments and float32 gradients in host memory; there the step is taken too. Where the device is
    the host nothing is gained.
    """
    own = -(-counts.trained // settings.processes)
    gradients = 4 * own
    host = found.master + found.optimizer + gradients + own * settings.value_bytes + 2 * 4 * own
    if not settings.on_gpu:
        return replace(found, master=found.master + gradients, step=found.step + own * settings.value_bytes)
    weights = found.weights
    if settings.offload == "parameters":
        moved = counts.total * settings.value_bytes // settings.processes
        host, weights = host + moved, weights - moved
    beside = 2 * counts.largest_trained * settings.value_bytes
    return replace(found, weights=weights, master=0, optimizer=0, step=beside, gradients=found.gradients, host=host)
