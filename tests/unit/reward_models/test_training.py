"""Training on pictures of one colour, whose vectors are written down: what is learnt, saved, loaded and refused."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from makers.rows import write_jsonl
from PIL import Image

from mmrl.data.sample import MediaRef, Message, Sample, TextPart
from mmrl.errors import ConfigError, DataError
from mmrl.reward_models.clips import tri_states
from mmrl.reward_models.config import load_reward_model_config
from mmrl.reward_models.files import Where, load_reward_model
from mmrl.reward_models.fit import train_reward
from mmrl.scoring.pool import RewardCall, run_call

SHADES = ("#000000", "#404040", "#808080", "#c0c0c0", "#ffffff")
VECTORS = {shade: [float(n == m) for m in range(len(SHADES))] for n, shade in enumerate(SHADES)}
TABLE = {"kind": "table", "vectors": VECTORS}
TASKS = {"kind": "table", "vectors": {"brighten": [1.0, 0.0], "darken": [0.0, 1.0]}}
CARD = {
    "columns": {"prompt": "prompt", "images": "images", "answer": "answer"},
    "placeholders": "leading",
    "task": "t",
    "optional": ["answer"],
}
HEAD = {"hidden": 32, "layers": 1, "heads": 2}
FIT = {"steps": 60, "batch_size": 16, "lr": 3e-3, "measure_every": 30}


@pytest.fixture
def shades(tmp_path) -> list[str]:
    files = []
    for shade in SHADES:
        level = int(shade[1:3], 16)
        files.append(str(tmp_path / f"{level:03}.png"))
        Image.fromarray(np.full((8, 8, 3), level, dtype=np.uint8)).save(files[-1])
    return files


def config(folder: Path, rows: list[dict], *, val: bool = True, **changes):
    write_jsonl(folder / "rows.jsonl", rows)
    data = {"train": [{"path": "rows.jsonl", "card": CARD}]} | (
        {"val": [{"path": "rows.jsonl", "card": CARD}]} if val else {}
    )
    tree = {"kind": "progress", "out": str(folder / "out"), "encoder": TABLE, "data": data, "head": HEAD, "fit": FIT}
    (folder / "model.yaml").write_text(json.dumps({**tree, **changes}))
    return load_reward_model_config(folder / "model.yaml")


def progress_rows(shades: list[str]) -> list[dict]:
    return [{"prompt": "brighten", "images": shades}, {"prompt": "darken", "images": shades[::-1]}]


def progress_config(folder: Path, shades: list[str], **changes):
    return config(folder, progress_rows(shades), **{"text_encoder": TASKS, **changes})


def sample(files: list[str], text: str) -> Sample:
    media = tuple(MediaRef("image", Path(file)) for file in files)
    return Sample("s-1", "t", "image", (Message("user", (TextPart(text),)),), media=media, origin="rows.jsonl:1")


def rewards(name: str, folder: Path, *samples: Sample, **options) -> list:
    call = RewardCall(name, None, {"reward_model": str(folder), **options}, tuple((s, ("", "x")) for s in samples))
    return run_call(call)


def test_progress_depends_on_what_is_asked_for(tmp_path, shades):
    said: list[str] = []
    made = progress_config(tmp_path, shades, fit={**FIT, "steps": 200, "measure_every": 100})
    fitted = train_reward(made, say=said.append)
    assert fitted.metrics["rank_correlation"] > 0.9 and fitted.metrics["end_mismatched"] < fitted.metrics["end"] - 0.3
    assert fitted.metrics["rank_correlation"] > fitted.metrics["shuffled_rank_correlation"] + 0.5
    up, up_too, down, down_too = rewards(
        "progress", tmp_path / "out", sample(shades, "brighten"), sample(shades[::-1], "brighten")
    )
    assert up == up_too and down == down_too  # completions are not read
    assert up.value > down.value + 0.3 and up.extra["gain"] > 0.3
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [100, 200] and lines[1]["loss"] < lines[0]["loss"]
    assert said[0].startswith("2 to train on, 2 held out")


def test_the_same_seed_gives_the_same_weights_and_leaves_torch_as_it_was(tmp_path, shades):
    before = torch.random.get_rng_state()
    heads = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        made = progress_config(tmp_path, shades, out=str(tmp_path / name), seed=seed, fit={**FIT, "steps": 3})
        heads.append(train_reward(made, say=lambda _: None).head.state_dict())
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(heads[0][key], heads[1][key]) for key in heads[0])
    assert not all(torch.equal(heads[0][key], heads[2][key]) for key in heads[0])


def test_progress_is_told_from_the_first_frame_and_the_last_alone(tmp_path, shades):
    """A head that counted frames would tell more at the end of a longer clip, and of one that stands still."""
    train_reward(progress_config(tmp_path, shades), say=lambda _: None)
    black, *_, white = shades
    ways = [[black, white], [black, *[black] * 6, white], [black, *shades[::-1], white], [black], [black] * 9]
    found = rewards("progress", tmp_path / "out", *(sample(way, "brighten") for way in ways))[::2]
    short, held, wandering, one, still = (outcome.value for outcome in found)
    assert [held, wandering] == pytest.approx([short] * 2, abs=1e-6) and still == pytest.approx(one, abs=1e-6)
    assert short > one and found[-1].extra["gain"] == pytest.approx(0.0, abs=1e-6)


def test_tri_states_are_learnt_and_progress_is_rebuilt(tmp_path, shades):
    ways = [[0, 1, 2, 3, 4], [0, 1, 1, 2, 3, 4], [0, 1, 2, 1, 2, 3, 4], [0, 1, 2, 3, 3, 4, 4]]
    short = [[0, 1, 2, 1], [0, 0, 1, 0]]
    rows = [way_row(shades, way, completed=way in ways) for way in [*ways, *short]]
    made = config(tmp_path, rows, kind="tri_state", fit={**FIT, "steps": 150})
    fitted = train_reward(made, say=lambda _: None)
    assert fitted.facts == {"mean_gain": 4.0}
    assert fitted.metrics["state_accuracy"] == 1.0 and fitted.metrics["completion_accuracy"] == 1.0
    assert fitted.metrics["progress_mse"] == pytest.approx(0.0, abs=1e-9)
    done, _, half, _ = rewards(
        "tri_state", tmp_path / "out", sample(shades, "x"), sample([shades[n] for n in (0, 1, 2, 1)], "x")
    )
    assert done.value == 1.0 and half.value == pytest.approx(0.25)


def way_row(shades: list[str], way: list[int], *, completed: bool) -> dict:
    states = [b - a for a, b in itertools.pairwise(way)]
    return {"prompt": "x", "images": [shades[n] for n in way], "answer": {"states": states, "completed": completed}}


def test_preferences_become_an_order(tmp_path, shades):
    pairs = [(a, b) for a in range(5) for b in range(5) if abs(a - b) == 1]
    rows = [{"prompt": "x", "images": [shades[a], shades[b]], "answer": int(b > a)} for a, b in pairs]
    rows += [{"prompt": "x", "images": [shades[0], shades[4]], "answer": -1}]  # unsure
    rows += [{"prompt": "x", "images": [shades[2], shades[2]], "answer": 1}]  # alike
    said: list[str] = []
    made = config(tmp_path, rows, kind="preference", fit={**FIT, "steps": 100})
    assert train_reward(made, say=said.append).metrics == {"pair_accuracy": 1.0}
    assert said[0].startswith("8 to train on")
    values = [o.value for o in rewards("preference_model", tmp_path / "out", *(sample([s], "x") for s in shades))[::2]]
    assert values == sorted(values) and -1 <= values[0] < values[-1] <= 1


def test_a_model_is_refused_with_another_encoder_kind_or_nothing_at_all(tmp_path, shades):
    made = progress_config(tmp_path, shades, fit={**FIT, "steps": 1})
    train_reward(made, say=lambda _: None)
    folder = tmp_path / "out"
    with pytest.raises(ConfigError, match="holds a reward model of kind 'progress', not 'tri_state'"):
        load_reward_model(Where(str(folder), "tri_state"))
    with pytest.raises(ConfigError, match="make one with `mmrl train-reward CONFIG`"):
        load_reward_model(Where(str(tmp_path), "progress"))
    card = json.loads((folder / "reward_model.json").read_text())
    card["config"]["encoder"]["vectors"]["#000000"] = [9.0, 0, 0, 0, 0]
    (folder / "reward_model.json").write_text(json.dumps(card))
    with pytest.raises(ConfigError, match="'encoder' are not those that the reward model was trained on"):
        load_reward_model(Where(str(folder), "progress"))
    (folder / "reward_model.json").write_text('{"version": 7}')
    with pytest.raises(ConfigError, match="train it again"):
        load_reward_model(Where(str(folder), "progress"))


def test_an_existing_folder_is_not_written_over(tmp_path, shades):
    made = progress_config(tmp_path, shades, fit={**FIT, "steps": 1})
    train_reward(made, say=lambda _: None)
    with pytest.raises(ConfigError, match="is not empty"):
        train_reward(made, say=lambda _: None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {}}, "'data.train' is empty"),
        ({"head": {"hidden": 30, "heads": 4}}, r"'head.hidden' \(30\) is no multiple of 'head.heads' \(4\)"),
        ({"head": {"frames": 1}}, "progress looks at 2 frames or more"),
        ({"text_encoder": None}, "there is no 'text_encoder'; add one or set it to 0"),
        ({"max_frames": 3}, "'max_frames' must be at least 4"),
        ({"fit": {"stepps": 3}}, "key 'fit.stepps' is unknown; did you mean 'fit.steps'"),
        ({"kind": "progres"}, "key 'kind'"),
    ],
)
def test_a_configuration_that_cannot_be_trained_is_refused(tmp_path, shades, changes, message):
    with pytest.raises(ConfigError, match=message):
        progress_config(tmp_path, shades, **changes)


def test_paths_start_beside_the_file_and_overrides_in_the_current_folder(tmp_path, shades, monkeypatch):
    progress_config(tmp_path, shades)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = load_reward_model_config(tmp_path / "model.yaml", ["fit.steps=7", "encoder.weights=w", "encoder.kind=timm"])
    assert found.fit.steps == 7 and found.data.train[0].path == str(tmp_path / "rows.jsonl")
    assert found.encoder.weights == str(tmp_path / "elsewhere" / "w")


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ("tri_state", {"answer": [1, 2]}, "no list of 1, 0 and -1 per interval"),
        ("tri_state", {"answer": [1, -1, 0, 0]}, "a net gain of 0 cannot end in success"),
        ("tri_state", {"answer": [1, 1, 1, 1, 1, 1]}, "6 intervals need 7 frames; it has 5"),
        ("preference", {"answer": 1}, "between 2 clips or pictures; the row has 5"),
        ("preference", {"answer": True}, "is not 0, 1 or -1"),
        ("progress", {"images": None}, "neither a clip nor pictures|is null"),
    ],
)
def test_a_bad_row_is_named(tmp_path, shades, kind, row, message):
    rows = [{"prompt": "x", "images": shades, "answer": None, **row}]
    made = config(
        tmp_path, [{k: v for k, v in r.items() if v is not None} for r in rows], kind=kind, fit={"mismatch": 0.0}
    )
    with pytest.raises(DataError, match=message) as caught:
        train_reward(made, say=lambda _: None)
    assert "rows.jsonl:1" in str(caught.value)


def test_bad_rows_may_be_left_out_up_to_a_share(tmp_path, shades):
    rows = [{"prompt": "x", "images": shades, "answer": [1, 1, 1, 1]} for _ in range(3)]
    rows.append({"prompt": "x", "images": shades, "answer": [5]})
    data = {"train": [{"path": "rows.jsonl", "card": CARD}], "bad_row": "skip", "max_skipped_fraction": 0.3}
    said: list[str] = []
    made = config(tmp_path, rows, kind="tri_state", data=data, fit={**FIT, "steps": 1})
    assert train_reward(made, say=said.append).metrics == {}
    assert said[0].startswith("3 to train on, 0 held out")


def test_tri_states_of_an_answer():
    row = Sample("s", "t", "image", (), answer={"states": [1, -1], "completed": False})
    assert tri_states(row) == ((1, -1), False)
