"""Checkpoints: written whole or not at all, found again, pruned.

A checkpoint is a folder `checkpoints/step-000120` with

    model/            an ordinary model folder (from_pretrained loads it)
    optimizer-0.pt    optimizer state of rank 0 (one file a rank), read back with weights_only; optimizer-NAME-0.pt:
                      that of a model beside the policy, whose folder is beside/NAME
    rng-0.json        random-number states of that rank
    stage-<rank>.json what the hooks of the other ranks remember of their prompts
    state.json        where the run stands: stage, step, loader position, hook state, scores, log sizes
    COMPLETE          written last

It is built under a temporary name, synced and renamed, so a folder with the marker is whole; anything else is
ignored and cleared at the next save.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from mmrl.errors import CheckpointError
from mmrl.training import distributed
from mmrl.training.zero import optimizer_state_classes

MARKER = "COMPLETE"


def checkpoint_name(step: int) -> str:
    return f"step-{step:06d}"


def find_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints of a run folder, oldest first. Half-written ones are not among them."""
    return sorted(p.parent for p in (folder / "checkpoints").glob(f"step-*/{MARKER}"))


def save_checkpoint(
    folder: Path,
    *,
    step: int,
    state: dict[str, Any],
    optimizer_state: dict[str, Any] | None,
    save_model: Callable[[Path], None],
    beside_states: Mapping[str, dict[str, Any]] | None = None,
) -> Path:
    """Write `checkpoints/step-N` atomically and return its path. Every rank calls this.

    optimizer_state: this rank's; None where the main rank's is that of all. beside_states: the same of models beside
    the policy. save_model: writes the model folder; called on the main rank only. What one rank cannot write is raised
    on all.
    """
    final = folder / "checkpoints" / checkpoint_name(step)
    building = final.with_name(f".building-{final.name}")
    distributed.on_main(lambda: _begin(building))
    states = {None: optimizer_state, **(beside_states or {})}
    distributed.together(lambda: _write_rank(building, state=state, optimizer_states=states))

    def write_rest() -> None:
        save_model(building / "model")
        _write_json(building / "state.json", state)
        _seal(building, final)

    distributed.on_main(write_rest)
    return final


def _begin(building: Path) -> None:
    for stale in building.parent.glob(".building-*"):
        shutil.rmtree(stale)
    building.mkdir(parents=True)


def _write_rank(
    building: Path, *, state: dict[str, Any], optimizer_states: Mapping[str | None, dict[str, Any] | None]
) -> None:
    """What only this rank knows: its part of the optimizers, its random states, what its hooks remember."""
    for name, optimizer_state in optimizer_states.items():
        if optimizer_state is not None:
            torch.save(optimizer_state, building / _optimizer_file(distributed.rank(), name))
    _write_json(building / f"rng-{distributed.rank()}.json", random_state())
    if not distributed.is_main():
        _write_json(building / f"stage-{distributed.rank()}.json", state.get("stage_state"))


def prune_checkpoints(folder: Path, *, keep_last: int, best: str | None) -> None:
    """Remove all but the last `keep_last` checkpoints and the best; point the links `latest` and `best` at them."""
    complete = find_checkpoints(folder)
    for old in complete[:-keep_last]:
        if old.name != best:
            shutil.rmtree(old)
    _link(folder / "checkpoints" / "latest", complete[-1].name)
    if best is not None:
        _link(folder / "checkpoints" / "best", best)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what reading a damaged file of a checkpoint raises into CheckpointError with the remedy."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError, SafetensorError) as error:
        folder = next((p for p in path.parents if p.name.startswith("step-")), path.parent)
        said = str(error)
        if isinstance(error, pickle.UnpicklingError):
            is_code = "global" in said.lower()
            said = "it holds more than tensors and plain values" if is_code else "not a file of tensors"
        reason = next(iter(said.splitlines()), type(error).__name__)
        raise CheckpointError(
            f"{path}: damaged ({reason}); remove {folder} to continue from the checkpoint before it"
        ) from error


def load_state(checkpoint: Path) -> dict[str, Any]:
    """state.json of a checkpoint; CheckpointError when the folder is not a complete checkpoint or is damaged."""
    if not (checkpoint / MARKER).is_file():
        raise CheckpointError(f"{checkpoint}: not a complete checkpoint (no {MARKER} file); name an older one")
    path = checkpoint / "state.json"
    with readable(path):
        return json.loads(path.read_text(encoding="utf-8"))


def load_stage_state(checkpoint: Path, state: dict[str, Any]) -> Any:
    """What this rank saved of the stage under way; a rank that the checkpoint knows nothing of has the main rank's."""
    path = checkpoint / f"stage-{distributed.rank()}.json"
    if not path.is_file():
        return state["stage_state"]
    with readable(path):
        return json.loads(path.read_text(encoding="utf-8"))


def _optimizer_file(part: int, name: str | None) -> str:
    return f"optimizer-{part}.pt" if name is None else f"optimizer-{name}-{part}.pt"


def load_optimizer_state(
    checkpoint: Path, *, part: int = 0, mapped: bool = False, name: str | None = None
) -> dict[str, Any]:
    """The optimizer state that rank `part` saved. The file may hold tensors, plain values and DeepSpeed's data classes,
    never code. mapped: values are read from the file when they are looked at. name: of a model beside the policy.
    """
    path = checkpoint / _optimizer_file(part, name)
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; remove {checkpoint} to continue from the checkpoint before it")
    with readable(path), torch.serialization.safe_globals(optimizer_state_classes()):
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)


def restore_random_state(checkpoint: Path) -> None:
    """This rank's; one that the checkpoint knows nothing of keeps its own."""
    path = checkpoint / f"rng-{distributed.rank()}.json"
    if not path.is_file() and not distributed.is_main():
        return
    with readable(path):
        state = json.loads(path.read_text(encoding="utf-8"))
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if torch.cuda.is_available() and state["cuda"]:
        torch.cuda.set_rng_state(torch.tensor(state["cuda"], dtype=torch.uint8))


def random_state() -> dict[str, Any]:
    """The states of all generators of this process as JSON values."""
    kind, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), *rest],
        "torch": torch.get_rng_state().tolist(),
        "cuda": torch.cuda.get_rng_state().tolist() if torch.cuda.is_available() else [],
    }


def _seal(building: Path, final: Path) -> None:
    """Sync everything, write the marker, rename. A checkpoint of the same step (a repeated save) is replaced."""
    for path in building.rglob("*"):
        _sync(path)
    (building / MARKER).touch()
    _sync(building)
    if final.exists():
        shutil.rmtree(final)
    building.rename(final)
    _sync(final.parent)


def _link(link: Path, target: str) -> None:
    """Make or move a symbolic link in one step."""
    fresh = link.with_name(f".{link.name}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
