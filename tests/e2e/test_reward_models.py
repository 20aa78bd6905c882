"""Reward models trained on real clips and photos with real frozen encoders, and measured on held-out ones.

Held out are stretches of time of a recording (progress), views of a recording (states), and photos (preferences). That
a progress model understands a scene it has never seen is not shown.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from makers.footage import (
    HELD_OUT,
    TRAINING,
    View,
    even_times,
    recordings,
    stretch_times,
    views,
    walk,
    write_clip,
    write_rows,
)
from makers.real_encoders import picture_encoder, sentence_encoder
from makers.shared import shared_media
from PIL import Image, ImageFilter
from skimage import data as photos

from mmrl.cli import main
from mmrl.data.sample import MediaRef, Message, Sample, TextPart
from mmrl.scoring.pool import RewardCall, run_call
from mmrl.scoring.reward import check_machine, resolve_reward

pytestmark = pytest.mark.slow
CARD = {"columns": {"prompt": "prompt"}, "placeholders": "leading", "task": "t", "optional": ["answer"]}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> dict:
    return picture_encoder(tmp_path_factory.mktemp("lite0"))


def train(folder: Path, rows: dict[str, list[dict]], *, columns: dict, **config) -> dict:
    """Train by the command; the last line of metrics.jsonl."""
    card = {**CARD, "columns": {**CARD["columns"], **columns}}
    data = {s: [{"path": write_rows(folder / f"{s}.jsonl", r), "source_fps": 2, "card": card}] for s, r in rows.items()}
    tree = {"out": str(folder / "out"), "data": data, "max_frames": 32, **config}
    (folder / "model.yaml").write_text(json.dumps(tree))  # JSON is YAML
    with pytest.raises(SystemExit) as stop:
        main(["train-reward", str(folder / "model.yaml")])
    assert stop.value.code == 0
    return json.loads((folder / "out" / "metrics.jsonl").read_text().splitlines()[-1])


def test_progress_follows_the_time_of_stretches_that_were_never_shown(tmp_path, encoder):
    """Of eight stretches of a recording every other one is trained on; the held-out clips are the others, from another
    part of the picture."""
    rows: dict[str, list[dict]] = {"train": [], "val": []}
    clips = dict(list(recordings(shared_media()).items())[1:5])  # without the two longest to decode and encode
    wanted = (*TRAINING, *HELD_OUT)
    times = [stretch_times(view, first=int(view in HELD_OUT)) for view in wanted]
    for text, clip in clips.items():
        for number, (view, frames) in enumerate(zip(wanted, views(clip, wanted, times=times), strict=True)):
            folder = write_clip(tmp_path / f"{clip.stem}-{number}", frames)
            rows["val" if view in HELD_OUT else "train"].append({"prompt": text, "videos": [folder]})
    metrics = train(
        tmp_path,
        rows,
        columns={"videos": "videos"},
        kind="progress",
        encoder=encoder,
        text_encoder=sentence_encoder(),
        head={"hidden": 96, "layers": 2, "heads": 4, "frames": 8},
        fit={"steps": 120, "batch_size": 24, "lr": 5e-4},
    )
    assert metrics["rank_correlation"] >= 0.7
    assert metrics["reversed_rank_correlation"] <= -0.7
    assert abs(metrics["shuffled_rank_correlation"]) <= 0.25
    assert metrics["end_reversed"] < metrics["end"] - 0.2
    assert metrics["end_mismatched"] < metrics["end"] - 0.2
    scores = progress_rewards(tmp_path / "out", rows["val"])
    assert scores["forward"] > max(scores["backward"], scores["other text"]) + 0.2


def progress_rewards(model: Path, rows: list[dict]) -> dict[str, float]:
    """Mean of the reward `progress` on clips as they are, played backwards, and under another clip's text."""
    options = {"reward_model": str(model)}
    check_machine(resolve_reward("progress"), options, timeout_s=1000.0, where="progress")
    texts = [row["prompt"] for row in rows]
    samples = {"forward": [], "backward": [], "other text": []}
    for row, other in zip(rows, texts[1:] + texts[:1], strict=True):
        files = sorted(Path(row["videos"][0]).iterdir())
        samples["forward"].append(shown(files, row["prompt"]))
        samples["backward"].append(shown(files[::-1], row["prompt"]))
        samples["other text"].append(shown(files, other))
    means = {}
    for name, several in samples.items():
        outcomes = run_call(RewardCall("progress", None, options, tuple((sample, ("",)) for sample in several)))
        assert not any(outcome.event for outcome in outcomes), outcomes
        means[name] = float(np.mean([outcome.value for outcome in outcomes]))
    return means


def shown(files: list[Path], text: str) -> Sample:
    media = tuple(MediaRef("image", file) for file in files)
    return Sample("s", "t", "image", (Message("user", (TextPart(text),)),), media=media)


def test_tri_states_are_told_on_held_out_views(tmp_path, encoder):
    clip = recordings(shared_media())["ride the bikes past the camera"]
    places, steps, rng = 8, 12, np.random.default_rng(0)
    more = (View(0.4, 0.75, 0.5), View(0.6, 0.9, 0.85), View(0.5, 0.85, 0.2))
    rows: dict[str, list[dict]] = {"train": [], "val": []}
    wanted = (*TRAINING, *more, *HELD_OUT)
    times = [even_times(view, frames=places) for view in wanted]
    for number, frames in enumerate(views(clip, wanted, times=times)):
        folder = Path(write_clip(tmp_path / f"view-{number}", frames))
        held_out = number == len(TRAINING) + len(more)
        for copy in range(10):
            states = walk(rng, places=places, steps=steps, completes=copy % 5 != 0)
            played = [str(folder / f"{at:03}.png") for at in np.cumsum([0, *states])]
            answer = {"states": states, "completed": copy % 5 != 0}
            rows["val" if held_out else "train"].append({"videos": [played], "answer": answer})
    for row in (row for split in rows.values() for row in split):
        row["prompt"] = "ride past"
    metrics = train(
        tmp_path,
        rows,
        columns={"videos": "videos", "answer": "answer"},
        kind="tri_state",
        encoder=encoder,
        head={"hidden": 96, "layers": 2, "heads": 4},
        fit={"steps": 200, "batch_size": 32, "lr": 5e-4},
    )
    assert metrics["state_accuracy"] >= 0.8  # always "progressing" would be right in about 0.6
    assert metrics["completion_accuracy"] >= 0.9
    assert metrics["progress_mse"] <= 0.05


def test_preferences_carry_over_to_other_photos(tmp_path, encoder):
    """Of a photo and its blurred copy the sharper one is preferred; some pairs are unsure, and left out."""
    names = {
        "train": ("astronaut", "coffee", "rocket", "chelsea", "coins", "camera", "moon", "page"),
        "val": ("hubble_deep_field", "retina", "brick", "grass"),
    }
    rows = {}
    for split, several in names.items():
        rows[split] = [row for name in several for row in sharpness_rows(tmp_path, name)]
        rows[split].append({**rows[split][0], "answer": -1})
    metrics = train(
        tmp_path,
        rows,
        columns={"images": "images", "answer": "answer"},
        kind="preference",
        encoder=encoder,
        head={"hidden": 64},
        fit={"steps": 150, "batch_size": 32, "lr": 5e-4},
    )
    assert metrics["pair_accuracy"] >= 0.85


def sharpness_rows(folder: Path, name: str) -> list[dict]:
    picture = Image.fromarray(np.asarray(getattr(photos, name)())).convert("RGB")
    picture.thumbnail((320, 320))
    rows = []
    for radius in (1, 3, 6):
        files = [folder / f"{name}-{radius}-{side}.png" for side in ("sharp", "blurred")]
        picture.save(files[0])
        picture.filter(ImageFilter.GaussianBlur(radius)).save(files[1])
        flip = radius == 3
        order = files[::-1] if flip else files
        rows.append({"prompt": "Which is sharper?", "images": [str(f) for f in order], "answer": int(flip)})
    return rows
