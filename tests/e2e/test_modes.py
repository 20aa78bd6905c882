"""Two steps of training in each mode that a configuration can ask for: what the mode promises, seen from outside."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from makers.rows import text_rows, write_jsonl
from makers.tiny_models import Kind, tiny_model_dir
from makers.tiny_run import CARD, write_run
from safetensors.torch import load_file

from mmrl.algorithms.hooks import load_plugin
from mmrl.config.load import load_config
from mmrl.config.schema import DatasetSection, RunConfig
from mmrl.errors import MediaError, MmrlError
from mmrl.plugins import shipped_names
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

STAGES = [{"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 2, "lr": 1e-3}]
QUICK = ("data.val=[]", "data.shuffle=false", "data.max_skipped_fraction=0.5")


def load(folder: Path, *overrides: str, kind: Kind = "qwen2_5_vl") -> RunConfig:
    """A fresh configuration. The tests' pictures and clips are the same, so they share one cache."""
    path = write_run(folder, kind=kind, stages=STAGES)
    return load_config(path, [*QUICK, f"cache.dir={folder.parent / 'cache'}", *overrides])


def run(folder: Path, *overrides: str, kind: Kind = "qwen2_5_vl") -> Path:
    """Train and return the run folder."""
    assert train(load(folder, *overrides, kind=kind)) == 0
    return folder / "runs" / "tiny"


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def steps(run_folder: Path) -> list[dict]:
    """The metrics row of each step, without what depends on the machine."""
    rows = lines(run_folder / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith("perf/")} for row in rows]


def weights(run_folder: Path) -> dict[str, torch.Tensor]:
    return load_file(find_checkpoints(run_folder)[-1] / "model" / "model.safetensors")


def base_weights() -> dict[str, torch.Tensor]:
    return load_file(tiny_model_dir("qwen2_5_vl") / "model.safetensors")


def replace_first_row(folder: Path, **row: object) -> None:
    """Put another row in the place of the first one: without shuffling it is drawn at the first step."""
    path = folder / "train.jsonl"
    first, *rest = lines(path)
    write_jsonl(path, [{**first, **row}, *rest])


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen3_vl"])
def test_every_family_trains_on_pictures_and_clips_and_samples_what_it_trains(tmp_path, kind):
    rows = steps(run(tmp_path, "stages.0.prompts_per_step=5", kind=kind))  # 5 pictures, then 2 clips and 2 texts
    assert [row["step"] for row in rows] == [1, 2]
    # The engine's log-probs are those of the training pass; text, pictures and clips alike.
    assert all(row["policy/rollout_gap"] < 1e-5 for row in rows)
    assert all(row["grad_norm"] > 0 for row in rows)


def test_several_updates_on_a_batch_measure_drift_from_the_policy_that_sampled(tmp_path):
    folder = run(tmp_path, "algorithm.updates_per_batch=2", "algorithm.epochs_per_batch=2")
    assert all(row["policy/old_kl"] != 0 for row in steps(folder))
    optimizer = torch.load(find_checkpoints(folder)[-1] / "optimizer-0.pt", weights_only=True)
    assert {int(state["step"]) for state in optimizer["state"].values()} == {2 * 2 * 2}


def test_kl_to_the_reference_starts_at_zero(tmp_path):
    folder = run(tmp_path, "algorithm.ref_kl_coef=0.1")
    first, second = steps(folder)
    assert first["policy/ref_kl"] == pytest.approx(0, abs=1e-9)
    assert second["policy/ref_kl"] > 1e-7
    reference = load_file(folder / "reference" / "rl" / "model.safetensors")
    assert all(reference[name].equal(tensor) for name, tensor in base_weights().items())


def test_dynamic_sampling_without_any_signal_ends_with_a_reason(tmp_path):
    changes = ("algorithm.dynamic_sampling=true", "algorithm.max_generation_rounds=2")
    config = load(tmp_path, *changes)
    (tmp_path / "reward.py").write_text("def score(completion, sample):\n    return 0.5\n")
    with pytest.raises(MmrlError, match="after 2 rounds of generation only 0 of 2 groups have rewards that differ"):
        train(config)


def test_shaped_rewards_are_logged_beside_those_of_the_router(tmp_path):
    shaping = ("algorithm.overlong_buffer=2", "algorithm.plugins=[length_penalty]")
    folder = run(tmp_path, *shaping, "algorithm.plugin_options={length_penalty: {coef: 0.5, target: 8}}")
    for row in steps(folder):
        changes = {key: value for key, value in row.items() if key.startswith("reward_shaped/change/")}
        assert changes.keys() == {f"reward_shaped/change/t/{name}" for name in ("overlong_buffer", "length_penalty")}
        # 4 tokens at most: those that are cut cost the whole factor, and 4 of 8 wanted tokens 0.25.
        assert changes["reward_shaped/change/t/overlong_buffer"] <= -row["completion/truncated"]
        assert changes["reward_shaped/change/t/length_penalty"] <= -0.25
        assert row["reward_shaped/mean"] == row["reward_shaped/task/t"]
        assert row["reward_shaped/mean"] == pytest.approx(row["reward/mean"] + sum(changes.values()))


MEASURED = [
    {"reward": "./reward.py:score", "name": "letters"},
    {"reward": "./reward.py:score", "name": "thinking", "weight": 0},
    {"reward": "tag_count", "name": "tool_calls", "weight": 0},
    {"reward": "column_value", "name": "tool_benefit", "weight": 0, "options": {"column": "benefit"}},
    {"reward": "exact_text", "name": "correct", "weight": 0},
    {"reward": "confidence", "weight": 0},
    {"reward": "answer_class", "weight": 0},
    {"reward": "novelty", "weight": 0, "options": {"encoder": {"kind": "table", "vectors": {"a": [1.0, 0.0]}}}},
    {"reward": "shortcut", "name": "trip_answers", "weight": 0, "options": {"kind": "repeated"}},
]
"""Every part that one of them reads, each under the name that the plug-in looks for."""


def test_plug_ins_that_shape_work_together_in_a_run(tmp_path):
    """Those that do nothing else, or only log; each of the others has its run in test_methods.py."""
    hooks = {name: set(load_plugin(name).hooks) for name in shipped_names("algorithms")}
    names = [name for name, of in hooks.items() if {"shape_rewards"} <= of <= {"shape_rewards", "on_step_end"}]
    path = write_run(tmp_path, stages=STAGES, rewards={"workers": 0, "tasks": {"t": MEASURED}})
    rows = lines(tmp_path / "train.jsonl")
    write_jsonl(tmp_path / "train.jsonl", [{**row, "benefit": 0.5} for row in rows])
    config = load_config(path, [*QUICK, f"algorithm.plugins=[{', '.join(names)}]", "algorithm.aggregation=token-mean"])
    assert train(config) == 0
    for row in steps(tmp_path / "runs" / "tiny"):
        changes = {name: row[f"reward_shaped/change/t/{name}"] for name in names}
        assert row["reward_shaped/mean"] == pytest.approx(row["reward/mean"] + sum(changes.values()), abs=1e-6)
        assert changes["rlcr"] != 0 and changes["conf_clip"] != 0 and changes["evol_rl"] != 0
        assert row["reward/unscored"] == 0 and row["trip_wires/any"] == 0 and row["grad_norm"] >= 0


def test_a_frozen_tower_keeps_its_weights_bit_for_bit(tmp_path):
    base, trained = base_weights(), weights(run(tmp_path, "model.freeze=[vision_tower]"))
    tower = {name for name in base if "visual." in name and "merger" not in name}
    moved = {name for name in base if not trained[name].equal(base[name])}
    assert tower and not moved & tower
    assert {name for name in moved if "layers" in name} and {name for name in moved if "merger" in name}


@pytest.mark.parametrize(("dtype", "zero_stage"), [("bfloat16", 0), ("float32", 1), ("bfloat16", 2)])
def test_precision_and_zero_stages_train_and_resume_exactly(tmp_path, dtype, zero_stage):
    changes = (f"model.dtype={dtype}", f"train.zero_stage={zero_stage}", "checkpoint.every=1")
    config, folder = load(tmp_path, *changes), tmp_path / "runs" / "tiny"
    assert train(config) == 0
    whole = steps(folder), weights(folder)
    assert {tensor.dtype for tensor in whole[1].values()} == {getattr(torch, dtype)}
    assert all(row["grad_norm"] > 0 for row in whole[0])
    shutil.rmtree(find_checkpoints(folder)[-1])
    assert train(config, resume=True) == 0
    assert steps(folder) == whole[0]
    assert all(tensor.equal(whole[1][name]) for name, tensor in weights(folder).items())


def test_shared_prefixes_change_speed_and_nothing_else(tmp_path):
    cache = f"cache.dir={tmp_path.parent / 'cache'}"
    shared = steps(run(tmp_path / "shared", cache))
    separate = steps(run(tmp_path / "separate", cache, "train.shared_prefix=false"))
    for one, other in zip(shared, separate, strict=True):
        assert one.pop("rows/padding_saved") >= 0 and other.pop("rows/padding_saved") >= 0
        assert one == pytest.approx(other, abs=1e-5)


def test_shares_hold_in_every_batch(tmp_path):
    names = {"pears": 3.0, "plums": 1.0}  # weights
    config = load(tmp_path, "data.mixture=shares", "stages.0.prompts_per_step=4")
    paths = {name: str(write_jsonl(tmp_path / f"{name}.jsonl", text_rows(3, task="t"))) for name in names}
    datasets = [DatasetSection.model_validate({"path": paths[n], "weight": w, "card": CARD}) for n, w in names.items()]
    data = config.data.model_copy(update={"train": tuple(datasets)})
    assert train(config.model_copy(update={"data": data})) == 0
    drawn = [row["dataset"] for row in lines(tmp_path / "runs" / "tiny" / "rollouts.jsonl")]
    assert [sorted(drawn[:4]), sorted(drawn[4:])] == [["pears", "pears", "pears", "plums"]] * 2


def test_prompts_that_are_too_long_are_skipped_and_counted(tmp_path):  # faults 1, 2
    config = load(tmp_path, "data.too_long=skip", "data.max_prompt_tokens=200")
    replace_first_row(tmp_path, prompt="<image> " + "red " * 300)
    assert train(config) == 0
    [skipped] = lines(tmp_path / "runs" / "tiny" / "skipped.jsonl")
    assert (skipped["kind"], skipped["sample_id"]) == ("too_long", "train:1")
    assert "200" in skipped["reason"]


@pytest.mark.parametrize("policy", ["skip", "error"])
def test_a_picture_that_does_not_open(tmp_path, policy):
    config = load(tmp_path, f"data.bad_media={policy}")
    (tmp_path / "0.png").write_bytes((tmp_path / "0.png").read_bytes()[:500])
    if policy == "error":
        with pytest.raises(MediaError, match=r"train.jsonl:1 .*0\.png"):
            train(config)
        return
    assert train(config) == 0
    folder = tmp_path / "runs" / "tiny"
    [skipped] = lines(folder / "skipped.jsonl")
    assert (skipped["kind"], skipped["where"].split()[0]) == ("bad_media", "train.jsonl:1")
    assert len(lines(folder / "rollouts.jsonl")) == 4  # another row took its place


def test_a_reward_that_raises_leaves_rows_unscored_and_the_run_goes_on(tmp_path):
    config = load(tmp_path)
    (tmp_path / "reward.py").write_text("""
def score(completion, sample):
    if len(completion) % 2:
        raise KeyError("odd")
    return len(completion)
""")
    assert train(config) == 0
    rows = steps(tmp_path / "runs" / "tiny")
    assert sum(row.get("reward/event/letters/raised", 0) for row in rows) > 0
    assert 0 < sum(row["reward/unscored"] for row in rows) < 2
    assert all(row["loss/total"] == row["loss/total"] for row in rows)  # no NaN
