"""`mmrl check --plan`: fits or not, what to change, and what it says of models and arguments it cannot use."""

import json
import shutil

import pytest
import yaml
from makers.clips import ClipSpec, write_clip
from makers.plan_cases import Case, write_run
from makers.tiny_models import tiny_model_dir
from typer.testing import CliRunner

from mmrl.cli import app, main
from mmrl.config.load import load_config
from mmrl.plan.machine import planned_machine
from mmrl.plan.memory import Machine
from mmrl.plan.plan import make_plan
from mmrl.plan.report import plan_json


def run_of(folder, rows=("image:336", "image:200", "text:40"), **changes):
    """The YAML file of a run on the tiny Qwen2.5-VL with these sections changed."""
    path = write_run(folder, changes.pop("model_folder", tiny_model_dir("qwen2_5_vl")), Case("", rows))
    tree = yaml.safe_load(path.read_text())
    for name, section in changes.items():
        tree[name] = {**tree[name], **section} if isinstance(section, dict) else section
    path.write_text(yaml.safe_dump(tree))
    return path


def answer(*arguments):
    """Exit code and output of the command."""
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return result.exit_code, result.output


def said(capsys, *arguments):
    """Exit code and errors of the command as a user has them."""
    with pytest.raises(SystemExit) as ended:
        main(["check", *map(str, arguments)])
    return ended.value.code, capsys.readouterr().err


def test_a_run_that_fits(tmp_path):
    code, out = answer(run_of(tmp_path), "--plan", "--gpus", 8, "--gpu-mem", 80)
    assert code == 0 and "this fits" in out and "plan for 8 GPUs of 80 GB" in out
    code, out = answer(run_of(tmp_path), "--plan", "--gpus", 8, "--json")
    facts = json.loads(out)
    assert code == 0 and facts["fits"] and facts["machine"]["process_bytes"] == 80 * 2**30
    assert facts["model"]["weights"] == facts["model"]["trained"] == 651_712
    assert set(facts["memory"]) == {"zero_0", "zero_1", "zero_2", "zero_3"}
    assert answer(run_of(tmp_path), "--plan")[0] == 0  # this machine


def test_prompts_that_are_too_long_name_the_budget_that_makes_them_fit(tmp_path):
    path = run_of(tmp_path, ("image:336", "image:336", "text:40"), data={"max_prompt_tokens": 80})
    code, out = answer(path, "--plan", "--gpus", 1)
    assert code == 1 and "this does not fit" in out
    [change] = [line for line in out.splitlines() if line.startswith("change: ")]
    place, _, rest = change.removeprefix("change: lower ").partition(" from 112,896 to ")
    assert place == "budgets.image.max_pixels"
    value = int(rest.partition(":")[0].replace(",", ""))
    fits = make_plan(load_config(path, [f"{place}={value}"]), planned_machine(1, 80))
    more = make_plan(load_config(path, [f"{place}={value + 3 * 784}"]), planned_machine(1, 80))
    assert fits.exit_code == 0 and more.exit_code == 1
    longest = max(row.prompt_tokens for row in fits.rows)
    assert f"-> {longest} tokens" in change and longest <= 80


def test_clips_that_are_too_long_name_their_frames(tmp_path):
    write_clip(tmp_path / "a.mp4", ClipSpec(frames=60, width=168, height=168))
    path = run_of(tmp_path, ("clip:60",), data={"max_prompt_tokens": 400})
    plan = make_plan(load_config(path, ["budgets.video.min_pixels=28224"]), planned_machine(1, 80))
    assert plan.exit_code == 1 and plan.advice[0].change.startswith("lower budgets.video.max_frames from 64 to ")
    frames = plan.advice[0].change.rpartition(" ")[2]
    again = load_config(path, ["budgets.video.min_pixels=28224", f"budgets.video.max_frames={frames}"])
    assert make_plan(again, planned_machine(1, 80)).exit_code == 0


def test_memory_that_is_short_names_one_key_that_is_enough(tmp_path):
    config = load_config(run_of(tmp_path), ["train.micro_batch_tokens=100000"])
    needed = make_plan(config, Machine(1, 2**36, False, "")).rank
    assert needed is not None and needed.highest == "backward"
    short = Machine(1, int(needed.peak - 0.15 * (needed.peak - needed.base)), False, "a small machine")
    plan = make_plan(config, short)
    assert plan.exit_code == 1 and "a process needs " in plan.problems[0]
    assert plan.advice[0].change.startswith("lower train.micro_batch_tokens from 100,000 to ")
    tokens = plan.advice[0].change.rpartition(" ")[2].replace(",", "")
    changed = load_config(tmp_path / "run.yaml", [f"train.micro_batch_tokens={tokens}"])
    assert make_plan(changed, short).exit_code == 0 and plan.micro_batch == int(tokens)


def test_more_processes_and_stages_need_less_of_each(tmp_path):
    plan = make_plan(load_config(run_of(tmp_path)), planned_machine(8, 80))
    peaks = [plan.ranks[stage].states.resting for stage in (0, 1, 3)]
    assert peaks[1] < peaks[0] and plan.ranks[3].states.weights < plan.ranks[0].states.weights


def test_a_model_of_a_config_alone_has_memory_but_no_tokens(tmp_path):
    folder = tmp_path / "bare"
    folder.mkdir()
    shutil.copy(tiny_model_dir("qwen2_5_vl") / "config.json", folder)
    plan = make_plan(load_config(run_of(tmp_path, model_folder=folder)), planned_machine(1, 80))
    assert "prompt and vision tokens" in plan.unknown and not plan.datasets
    assert plan.facts.counts is not None and plan.facts.counts.total == 651_712
    assert plan.rank is not None and plan.rank.activations is not None and plan.exit_code == 0
    assert "max_prompt_tokens" in plan.unknown["lengths"]


def test_an_unknown_architecture_is_planned_by_its_headers(tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(tiny_model_dir("qwen2_5_vl"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "marvel_vl"}))
    plan = make_plan(load_config(run_of(tmp_path, model_folder=folder)), planned_machine(1, 80))
    assert {"activations", "trained weights", "prompt and vision tokens"} <= plan.unknown.keys()
    assert plan.facts.counts is not None and plan.facts.counts.total == 651_712
    assert plan_json(plan)["memory"]["zero_0"]["activations"] is None


def test_what_cannot_be_planned_is_a_users_error(tmp_path, capsys):
    path = run_of(tmp_path, model_folder=tmp_path / "nowhere")
    code, error = said(capsys, path, "--plan")
    assert code == 2 and "nowhere" in error and "config.json" in error
    good = run_of(tmp_path)
    assert said(capsys, good, "--plan", "--gpu-mem", "much")[0] == 2
    assert said(capsys, good, "--plan", "--gpu-mem", "-1")[0] == 2
    assert said(capsys, good, "--plan", "--rows", "0")[0] == 2
    code, error = said(capsys, good, "--gpus", "8")
    assert code == 2 and "belong to --plan" in error


def test_a_dataset_without_rows_does_not_fit(tmp_path):
    path = run_of(tmp_path)
    (tmp_path / "train.jsonl").write_text("")
    code, out = answer(path, "--plan", "--gpus", 1)
    assert code == 1 and "holds no rows" in out
