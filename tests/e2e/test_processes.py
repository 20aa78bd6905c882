"""Training in two processes: the same numbers as in one, no hang whatever the rows show, and orderly ends.

Real processes over gloo on CPUs. One process is the reference for everything; the two do all their jobs in one start.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from makers.in_processes import EPS, LOSS_TOKENS, LR, PAIRS, rows_of, run_jobs, settings_of, train_section
from makers.rows import write_jsonl
from makers.tiny_run import write_run
from makers.vlm import tiny_vlm
from safetensors.torch import load_file

from mmrl.config.load import load_config
from mmrl.models.logprobs import LogprobModule
from mmrl.models.packing import pack
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train
from mmrl.training.schedule import build_optimizer, set_hyperparameters

PATIENCE_S = 240  # of a loaded machine
STAGES = [
    {"name": "warmup", "kind": "sft", "steps": 1, "prompts_per_step": 4, "lr": 1e-3},
    {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3},
]
COMMON = (f"train.eps={EPS}", "algorithm.ref_kl_coef=0.1", "checkpoint.every=1")
LORA = "model.lora={rank: 4, targets: [vision_tower, projector, language_model]}"
ZERO_PAIRS = {
    "stage0": {"family": "qwen2_5_vl", "pairs": {"zero_stage": 0}},
    "stage1": {"family": "qwen2_5_vl", "pairs": {"zero_stage": 1, "offload": "optimizer"}},
    "stage2": {"family": "qwen2_5_vl", "pairs": {"zero_stage": 2}},
    "stage3": {"family": "qwen3_vl", "pairs": {"zero_stage": 3}, "gradient_checkpointing": True},
    "stage3_offload": {"family": "qwen2_5_vl", "pairs": {"zero_stage": 3, "offload": "parameters"}, "every": 3},
}


@dataclasses.dataclass(frozen=True)
class Place:
    """A configuration, its runs, and what the jobs in two processes returned."""

    config: Path
    results: dict

    def run(self, name: str) -> Path:
        return self.config.parent / "runs" / name

    def arguments(self, name: str, *changes: str) -> list[str]:
        return [str(self.config), *COMMON, f"name={name}", *changes]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    folder = tmp_path_factory.mktemp("processes")
    config = write_run(folder, stages=STAGES)
    held_out = (folder / "val.jsonl").read_text().splitlines()
    write_jsonl(folder / "val.jsonl", [json.loads(line) for line in held_out[:5]])  # odd: shares of 3 and 2
    broken = write_run(folder / "broken", stages=STAGES[:1])
    (folder / "broken" / "1.png").write_bytes(b"no picture")
    here = Place(config, {})
    for name, changes in {"one": [], "one_lora": [LORA]}.items():
        assert train(load_config(config, here.arguments(name, *changes)[1:])) == 0
    for stage in (1, 2, 3):
        shutil.copytree(here.run("one"), here.run(f"grown{stage}"), symlinks=True)
        shutil.rmtree(find_checkpoints(here.run(f"grown{stage}"))[-1])
    zero3 = here.arguments("zero3", "train.zero_stage=3")
    bfloat = here.arguments("bfloat", "model.dtype=bfloat16", "train.zero_stage=2", "train.offload=optimizer")
    bad = [str(broken), "data.shuffle=false", "data.val=[]", "data.max_skipped_fraction=0.5"]
    jobs = [
        *({"name": name, **job} for name, job in ZERO_PAIRS.items()),
        {"name": "gather", "gather": "qwen2_5_vl"},
        {"name": "zero3", "train": zero3},
        {"name": "forget", "forget": str(here.run("zero3"))},
        {"name": "zero3_again", "train": [*zero3[:-2], "name=zero3", *zero3[-1:]], "resume": True},
        *({"name": f"shrunk{n}", "train": here.arguments(f"shrunk{n}", f"train.zero_stage={n}")} for n in (1, 2, 3)),
        *({"name": f"forget{n}", "forget": str(here.run(f"shrunk{n}"))} for n in (1, 2, 3)),
        *(
            {"name": f"grown{n}", "train": here.arguments(f"grown{n}", f"train.zero_stage={n}"), "resume": True}
            for n in (1, 2, 3)
        ),
        {"name": "lora", "train": here.arguments("lora", LORA, "train.zero_stage=3")},
        {"name": "bfloat", "train": bfloat},
        {"name": "forget_bfloat", "forget": str(here.run("bfloat"))},
        {"name": "raises", "fails": [*bad, "name=raises"]},
        {"name": "skips", "train": [*bad, "name=skips", "data.bad_media=skip"]},
    ]
    return Place(config, run_jobs(folder, jobs, processes=2))


def metrics(run: Path) -> list[dict]:
    """The rows of metrics.jsonl without what depends on the machine."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("perf/")} for row in rows]


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    [path] = (checkpoint / "model").glob("*.safetensors")
    return load_file(path)


def assert_same_training(run: Path, reference: Path) -> None:
    """Every metric and, relative to the largest value of each tensor, every weight to 1e-5."""
    for row, expected in zip(metrics(run), metrics(reference), strict=True):
        assert row.pop("stage") == expected.pop("stage")
        assert row == pytest.approx(expected, rel=1e-5, abs=1e-6), expected["step"]
    assert_same_weights(weights(find_checkpoints(run)[-1]), weights(find_checkpoints(reference)[-1]))


def assert_same_weights(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    off = {n: ((found[n] - t).abs().max() / t.abs().max().clamp(min=1e-3)).item() for n, t in expected.items()}
    assert max(off.values()) < 1e-5, max(off.items(), key=lambda item: item[1])


@pytest.mark.parametrize("name", ZERO_PAIRS)
def test_every_pair_of_modalities_gives_the_gradients_of_one_process(place, name):  # faults 53, 54, 55
    job = ZERO_PAIRS[name]
    vlm = tiny_vlm(job["family"])
    trained = _in_one_process(vlm, place.results[name], PAIRS[:: job.get("every", 1)])
    assert_same_weights(load_file(place.config.parent / f"{name}.safetensors"), trained)


def _in_one_process(vlm, found: list[dict[str, float]], pairs) -> dict[str, torch.Tensor]:
    """Plain torch on the rows of both processes, one row a pass. Compares the statistics and returns the weights."""
    import copy

    model = LogprobModule(copy.deepcopy(vlm.model).train())
    optimizer = build_optimizer(model.model, train_section())
    set_hyperparameters(optimizer, lr=LR, weight_decay=0.1)
    for pair, stats in zip(pairs, found, strict=True):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        loss = 0.0
        for row in [*rows_of(vlm, pair, 0), *rows_of(vlm, pair, 1)]:
            result = settings_of(vlm).run(model, pack([row], vlm.processor))
            share = -result.logprobs_L.sum() / LOSS_TOKENS
            share.backward()
            loss += share.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        assert stats.pop("rows/padding_saved") >= 0
        assert stats == pytest.approx({"loss/total": loss, "rows": 5.0, "grad_norm": norm}, rel=1e-5), pair
    return {name: parameter.detach() for name, parameter in model.model.named_parameters()}


def test_zero_3_weights_are_gathered_one_by_one_for_an_engine(place):  # fault 56
    """The reported sync passed `torch.Size([0])` on. Such a tensor is refused by name, and with both shapes."""
    own = {name: list(p.shape) for name, p in tiny_vlm("qwen2_5_vl").model.named_parameters()}
    for found in place.results["gather"]:
        assert found["shapes"] == own
        assert found["most"] == 1
        assert found["passed"] == 0
        first = next(iter(own))
        assert found["said"] == f"weight {first}: the trainer sent (0,), the engine has {tuple(own[first])}"


def test_two_processes_under_zero_3_train_as_one_does(place):  # faults 56, 57, 77
    """Both stages, rollouts, the reference, validation over an odd number of rows, and whole weights in checkpoints."""
    assert (place.results["zero3"], place.results["zero3_again"]) == (
        0,
        0,
    )  # and a resume from the last checkpoint but one
    assert_same_training(place.run("zero3"), place.run("one"))
    [first, *_] = metrics(place.run("one"))
    assert set(first) >= {"val/mean", "val/task/t"}


def test_adapters_under_zero_3_train_as_in_one_process(place):
    assert place.results["lora"] == 0
    assert_same_training(place.run("lora"), place.run("one_lora"))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_run_of_two_processes_is_continued_by_one_as_if_it_had_been_one(place, stage, capsys):
    arguments = place.arguments(f"shrunk{stage}", f"train.zero_stage={stage}", "log.console=true")
    assert train(load_config(place.config, arguments[1:]), resume=True) == 0
    assert "saved for another layout (processes 2 -> 1) and is laid out anew" in capsys.readouterr().out
    assert_same_training(place.run(f"shrunk{stage}"), place.run("one"))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_run_of_one_process_is_continued_by_two_under_another_stage(place, stage):
    assert place.results[f"grown{stage}"] == 0
    assert_same_training(place.run(f"grown{stage}"), place.run("one"))


def test_bfloat16_goes_on_from_its_float32_weights_and_moments(place, capsys):
    """The last step of two processes with offload, done again by one: a tenth of the step, at most, is rounding."""
    run = place.run("bfloat")
    before, whole = weights(find_checkpoints(run)[-1]), weights(run / "step-000003")
    bfloat = ("model.dtype=bfloat16", "train.zero_stage=2", "log.console=true")
    assert train(load_config(place.config, place.arguments("bfloat", *bfloat)[1:]), resume=True) == 0
    assert "(processes 2 -> 1) and is laid out anew" in capsys.readouterr().out
    again = weights(find_checkpoints(run)[-1])
    assert {tensor.dtype for tensor in again.values()} == {torch.bfloat16}
    step, off = (
        sum((t.float() - to[n].float()).abs().sum().item() for n, t in again.items()) for to in (before, whole)
    )
    assert 0 < off < 0.1 * step


def test_weights_of_another_type_continue_with_fresh_moments_and_say_so(place, capsys):
    shutil.rmtree(find_checkpoints(place.run("bfloat"))[-1])
    config = load_config(place.config, place.arguments("bfloat", "log.console=true")[1:])
    assert train(config, resume=True) == 0
    said = capsys.readouterr().out
    changes = "processes 2 -> 1, zero_stage 2 -> 0, dtype bfloat16 -> float32"
    assert f"the optimizer starts anew: its state was saved for another layout ({changes})" in said
    assert [row["step"] for row in metrics(place.run("bfloat")) if "lr" in row] == [1, 2, 3]


def test_an_error_of_one_process_ends_all_and_is_said_by_one(place):
    first, second = place.results["raises"]
    assert second.startswith("MediaError ") and "train.jsonl:2 (id=train:2): " in second and "1.png" in second
    assert first == f"EchoedError process 1: {second.removeprefix('MediaError ')}"


def test_rows_that_any_process_skips_are_listed(place):
    lines = (place.config.parent / "broken" / "runs" / "skips" / "skipped.jsonl").read_text().splitlines()
    assert [json.loads(line)["sample_id"] for line in lines] == ["train:2"]


@contextlib.contextmanager
def launched(place: Place, name: str, *changes: str):
    """`mmrl launch --nproc 2 train`, and the processes below it, which must all be gone in the end."""
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "mmrl", "launch", "--nproc", "2", "train", *place.arguments(name, *changes)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, env=environment, start_new_session=True)
    yield process
    deadline = time.monotonic() + 30
    while left := _processes_of(name):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.1)


def _processes_of(name: str) -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_text().replace("\0", " "))
    return [line for line in lines if f" name={name} " in line]


def wait_for_step(place: Place, name: str, step: int, process: subprocess.Popen) -> None:
    deadline, path = time.monotonic() + PATIENCE_S, place.run(name) / "metrics.jsonl"
    while not (path.is_file() and f'"step": {step}, "stage"' in path.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run did not get there"
        time.sleep(0.02)


def test_sigterm_to_the_launcher_writes_one_checkpoint_and_one_process_goes_on(place):  # faults 73, 74
    with launched(place, "terminated", "checkpoint.every=0", "validation.before_first=false") as process:
        wait_for_step(place, "terminated", 1, process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (75, 0), err  # 0: all three steps were done before the signal came through
    assert "Traceback" not in err
    changes = ["validation.before_first=false", "checkpoint.every=1"]
    if process.returncode == 75:
        assert train(load_config(place.config, place.arguments("terminated", *changes)[1:]), resume=True) == 0
    one, found = find_checkpoints(place.run("one"))[-1], find_checkpoints(place.run("terminated"))[-1]
    assert_same_weights(weights(found), weights(one))  # plain AdamW is whole in every process: moments continue too


def test_ctrl_c_ends_all_processes(place):
    with launched(place, "interrupted") as process:
        wait_for_step(place, "interrupted", 1, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    [said] = [line for line in err.splitlines() if line.startswith("interrupted: ")]
    assert "`mmrl launch --nproc 2 train " in said


def test_a_process_that_dies_ends_the_run_with_its_traceback_and_a_checkpoint(place):
    plugin = place.config.parent / "dies.py"
    plugin.write_text("""
import os
from pathlib import Path

class Death(BaseException):
    pass

def score(completion, sample):
    if os.environ["RANK"] == "1" and list(Path(__file__).parent.glob("runs/dies/checkpoints/step-000002/COMPLETE")):
        raise Death("of one process")
    return len(completion)
""")
    with launched(place, "dies", f"rewards.tasks.t.0.reward={plugin}:score") as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, err
    assert "Death: of one process" in err
    assert [path.name for path in find_checkpoints(place.run("dies"))] == ["step-000001", "step-000002"]
    assert train(load_config(place.config, place.arguments("dies")[1:]), resume=True) == 0
    assert find_checkpoints(place.run("dies"))[-1].name == "step-000003"


def test_a_run_folder_in_use_is_one_line_and_exit_code_2(place):
    before = metrics(place.run("one"))
    with launched(place, "one") as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert [line for line in err.splitlines() if "error" in line] == err.splitlines()
    assert err.count("already holds a run; continue it with resume (--resume)") == 1
    assert metrics(place.run("one")) == before


def test_the_launcher_refuses_what_every_process_would_refuse(place, tmp_path):
    from makers.command import mmrl

    said = mmrl("launch", "--nproc", "2", "train", place.config, "train.zero_stage=9")
    assert said.code == 2 and "zero_stage" in said.line_with("error:")
    said = mmrl("launch", "--nproc", "2", "--hostfile", tmp_path / "hosts", "train", place.config)
    assert said.code == 2 and "no such file" in said.line_with("error:")
    assert mmrl("launch", "--nproc", "2", "score", "x.jsonl").code == 2
    shutil.rmtree(tmp_path)
