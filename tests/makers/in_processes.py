"""Jobs that several processes do together, one after another: starting processes costs more than most of them.

    run_jobs(folder, [{"name": "z3", "train": ["config.yaml", "train.zero_stage=3"]}], processes=2)

Kinds of jobs: `pairs` trains on every pair of modalities, `train` runs `mmrl train`, `fails` runs one that raises and
gives the type of error in each process, `gather` walks through the whole weights of a model under ZeRO-3, `forget`
moves the newest checkpoint of a run out of `checkpoints/`. What a job returns is in the dictionary of results, under
its name.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from makers.rendered import random_completions
from makers.vlm import TinyVlm, tiny_vlm

from mmrl.algorithms.batch import Row
from mmrl.config.schema import ModelSection, TrainSection
from mmrl.models.packing import group_row
from mmrl.training.distributed import ALONE
from mmrl.training.step import LogprobSettings

MODALITIES = ("text", "image", "video", "mixed")
PAIRS = tuple(itertools.product(MODALITIES, MODALITIES))
LOSS_TOKENS = 11  # of both processes in every pair: 3 + 2 of each, and one of the second process's text
LR, EPS = 1e-3, 1e-2  # a large epsilon: Adam's first steps would else blow rounding up to the size of a step


def run_jobs(folder: Path, jobs: Sequence[dict[str, Any]], *, processes: int) -> dict[str, Any]:
    """Results by job name. Raises with the processes' output where one of them failed."""
    asked, answered = folder / "jobs.json", folder / "results.json"
    asked.write_text(json.dumps(jobs))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"]
    environment = {key: value for key, value in os.environ.items() if key != ALONE}
    found = [*Path(__file__).resolve().parents[1:3], environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(map(str, found))
    done = subprocess.run(
        [*command, __file__, str(asked), str(answered)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(answered.read_text())


def rows_of(vlm: TinyVlm, pair: tuple[str, str], process: int) -> list[Row]:
    """What a process trains on: unequal numbers of rows, tokens and loss tokens."""
    seed = 10 + process
    parts: dict[str, list] = {
        "text": [[5, 6, 7]],
        "image": [[5], vlm.image(seed), [7]],
        "video": [[5], vlm.clip(seed), [7, 8]],
        "mixed": [[5], vlm.image(seed), vlm.clip(seed), [7]],
    }
    rows = [group_row(vlm.prompt(*parts[pair[process]]), random_completions([3, 2], seed=seed), [0, 1])]
    if process == 1:
        rows.append(group_row(vlm.prompt([9]), random_completions([1], seed=3), [2]))
    return rows


def settings_of(vlm: TinyVlm) -> LogprobSettings:
    """Micro-batches of one row."""
    banned = vlm.processor.banned_ids
    return LogprobSettings(vlm.processor, temperature=1.0, banned_ids=banned, chunk=2, micro_batch_tokens=1)


def train_section(**changes: Any) -> TrainSection:
    return TrainSection.model_validate({"eps": EPS, **changes})


def _train_on_pairs(job: dict[str, Any], out: Path) -> list[dict[str, float]]:
    """One step on each pair; the loss and gradient norm of each. Whole weights go to `<name>.safetensors`."""
    from safetensors.torch import save_file

    from mmrl.training import distributed, zero
    from mmrl.training.schedule import build_optimizer, set_hyperparameters
    from mmrl.training.step import optimizer_step

    vlm, train = tiny_vlm(job["family"]), train_section(**job["pairs"])
    model = _copy_of(vlm)
    if job.get("gradient_checkpointing"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = build_optimizer(model, train)
    set_hyperparameters(optimizer, lr=LR, weight_decay=0.1)
    section = ModelSection(path="tiny", dtype="float32")
    engine = zero.build_engine(model, optimizer, zero.engine_config(model_section=section, train=train))

    def loss(grid_NC: torch.Tensor, sequences: torch.Tensor, extra: dict) -> tuple[torch.Tensor, dict[str, float]]:
        return -grid_NC.sum() / LOSS_TOKENS, {"rows": float(len(sequences))}

    stats = []
    for pair in PAIRS[:: job.get("every", 1)]:
        rows = rows_of(vlm, pair, distributed.rank())
        stats.append(optimizer_step(engine, rows, loss, settings=settings_of(vlm), num_tokens=3))
    weights = zero.collected_tensors(model.named_parameters())
    if distributed.is_main():
        save_file(weights, out / f"{job['name']}.safetensors")
    return stats


def _copy_of(vlm: TinyVlm) -> Any:
    import copy

    return copy.deepcopy(vlm.model).train()


def _train(arguments: Sequence[str], *, resume: bool) -> int:
    from mmrl.config.load import load_config
    from mmrl.training.run import train

    return train(load_config(Path(arguments[0]), arguments[1:]), resume=resume)


def _errors_of(arguments: Sequence[str]) -> list[str]:
    """What a run that must fail raises in each process: type and message."""
    from mmrl.errors import MmrlError
    from mmrl.training import distributed

    try:
        _train(arguments, resume=False)
    except MmrlError as error:
        return distributed.gather_objects(f"{type(error).__name__} {error}")
    raise AssertionError("the run went through")


def _gather(family: str) -> list[dict[str, Any]]:
    """Of each process: the shapes that passed a weight check, how many parameters were whole at once at most, and what
    the check says of parameters that were not gathered.
    """
    from mmrl.errors import EngineError
    from mmrl.rollout.weight_names import WeightCheck, expected_weights
    from mmrl.training import distributed, zero
    from mmrl.training.schedule import build_optimizer

    vlm, train = tiny_vlm(family), train_section(zero_stage=3)
    model = _copy_of(vlm)
    config = zero.engine_config(model_section=ModelSection(path="tiny", dtype="float32"), train=train)
    zero.build_engine(model, build_optimizer(model, train), config)
    expected, most, shapes = expected_weights(vlm.processor.folder), 0, {}
    check = WeightCheck(expected)
    for name, tensor in check.passing(zero.whole_tensors(model.named_parameters())):
        most = max(most, sum(parameter.numel() > 0 for parameter in model.parameters()))
        shapes[name] = list(tensor.shape)
    check.finish()
    ungathered = WeightCheck(expected)
    passed = len(list(ungathered.passing(model.named_parameters())))
    try:
        ungathered.finish()
        said = ""
    except EngineError as error:
        said = str(error)
    return distributed.gather_objects({"shapes": shapes, "most": most, "passed": passed, "said": said})


def _forget(run: Path) -> None:
    from mmrl.training import distributed
    from mmrl.training.checkpoint import find_checkpoints

    distributed.on_main(lambda: shutil.move(find_checkpoints(run)[-1], run))


def _do(job: dict[str, Any], out: Path) -> Any:
    if "pairs" in job:
        return _train_on_pairs(job, out)
    if "fails" in job:
        return _errors_of(job["fails"])
    if "gather" in job:
        return _gather(job["gather"])
    if "forget" in job:
        return _forget(Path(job["forget"]))
    return _train(job["train"], resume=job.get("resume", False))


def main(asked: Path, answered: Path) -> None:
    import faulthandler

    from mmrl.training import distributed

    faulthandler.dump_traceback_later(120, exit=True)  # a hang says where
    jobs = json.loads(asked.read_text())
    for job in jobs:
        if "family" in job or "gather" in job:
            tiny_vlm(
                job.get("family") or job["gather"]
            )  # in a process group transformers would write the model in one process only
    distributed.start_processes()
    results = {}
    for job in jobs:
        faulthandler.dump_traceback_later(120, exit=True)
        results[job["name"]] = _do(job, answered.parent)
    if distributed.is_main():
        answered.write_text(json.dumps(results))
    distributed.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
