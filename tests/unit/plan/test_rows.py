"""Counts from headers are those of rendered prompts over opened media, in every family; and what is listed of them."""

from pathlib import Path

import numpy as np
import pytest
from makers.clips import ClipSpec, write_clip
from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir
from PIL import Image

from mmrl.config.checks import located
from mmrl.config.schema import RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.prepare import Preparer
from mmrl.data.readers import read_dataset
from mmrl.data.skipped import SkippedLog
from mmrl.models.load import processor_of
from mmrl.plan.machine import planned_machine
from mmrl.plan.plan import make_plan
from mmrl.plan.report import plan_json
from mmrl.plan.rows import RowPlanner
from mmrl.scoring.router import Router

WITH_CLIPS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm", "llava_onevision")
WITHOUT_CLIPS = ("idefics3", "gemma3")
SIZES = ((90, 60), (300, 200), (64, 250), (33, 31))


def picture(folder: Path, name: str, width: int, height: int, *, turned: bool = False) -> str:
    image = Image.fromarray(np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6 if turned else 1  # lies on its side
    image.save(folder / name, exif=exif)
    return name


def rows_of(folder: Path, *, clips: bool) -> list[dict]:
    """Text, one to three pictures, one on its side, several turns, and clips: whole, cut, odd, as files of frames."""
    names = [picture(folder, f"{n}.png", *size) for n, size in enumerate(SIZES)]
    sideways = picture(folder, "sideways.jpg", 120, 40, turned=True)
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "<image> and <image> What?"},
        {"role": "assistant", "content": "A <b> square."},
        {"role": "user", "content": "<image> And here, <|image_pad|>?"},
    ]
    rows = [
        {"prompt": "Hi there", "answer": "a"},
        *({"prompt": "<image> What?", "answer": "a", "images": [name]} for name in (*names, sideways)),
        {"prompt": turns, "answer": "a", "images": [names[1], names[0], names[1]]},
    ]
    if clips:
        for number, frames in enumerate((30, 7, 61)):
            write_clip(folder / f"{number}.mp4", ClipSpec(frames=frames))
        span = {"path": "2.mp4", "start_s": 0.5, "end_s": 1.5}
        frame_names = [picture(folder, f"frame{n}.png", 70, 50) for n in range(5)]
        rows += [
            *({"prompt": "<video> What?", "answer": "a", "videos": [f"{n}.mp4"]} for n in range(3)),
            {"prompt": "<video><image> Both?", "answer": "a", "videos": [span], "images": [names[2]]},
            {"prompt": "<video> Frames?", "answer": "a", "videos": [{"frames": frame_names, "source_fps": 2}]},
        ]
    return [{**row, "task": "t"} for row in rows]


def config_of(folder: Path, family: str, rows: list[dict], **more: object) -> RunConfig:
    dataset = {"path": str(write_jsonl(folder / "train.jsonl", rows)), "card": {}}
    return RunConfig.model_validate(
        {
            "model": {"path": str(tiny_model_dir(family)), "dtype": "float32"},  # type: ignore[arg-type]
            "budgets": {
                "image": {"min_pixels": 784, "max_pixels": 200 * 200},
                "video": {"min_pixels": 784, "max_pixels": 128 * 128, "max_frames": 9, "sample_fps": 2.5},
            },
            "data": {"train": [dataset], "decode_workers": 1},
            "cache": {"dir": str(folder / "cache"), "level": "pixels"},
            "rewards": {"workers": 0, "tasks": {"t": [{"reward": "exact_text"}]}},
            "stages": [{"name": "rl", "kind": "grpo", "steps": 6, "prompts_per_step": 4}],
            "rollout": {"group_size": 2, "max_new_tokens": 16},
            **more,
        }
    )


def opened(config: RunConfig) -> list:
    """The prompts of training, over media that were opened."""
    data, log = config.data, SkippedLog(None, max_fraction=1.0)
    samples = read_dataset(data.train[0], data=data, relative_to=Path.cwd(), skipped=log)
    with MediaOpener(data.video, workers=1) as opener:
        preparer = Preparer(
            cache=PixelCache(Path(config.cache.dir)),
            opener=opener,
            processor=processor_of(config.model),
            config=config,
            data=data,
            skipped=log,
            geometry_kind=lambda _: None,
        )
        return [item.prompt for item in preparer.prepare(samples)]


@pytest.mark.parametrize("family", (*WITH_CLIPS, *WITHOUT_CLIPS))
def test_counts_are_those_of_opened_media(tmp_path, family):
    config = config_of(tmp_path, family, rows_of(tmp_path, clips=family in WITH_CLIPS))
    with Router(config.rewards) as router:
        planner = RowPlanner(config, processor_of(config.model), router)
        [planned] = planner.datasets(located(config).data_sections())
    assert not planned.problem and not planned.bad and not (tmp_path / "cache").exists()
    prompts = opened(config)
    assert len(prompts) == len(planned.rows) == (12 if family in WITH_CLIPS else 7)
    for row, prompt in zip(planned.rows, prompts, strict=True):
        assert (row.prompt_tokens, row.vision_tokens) == (len(prompt.prompt_ids_T), prompt.num_vision_tokens)
        assert [m.stored_bytes for m in row.media] == [entry.frames_F3HW.nbytes for entry in prompt.media]
        assert [m.grid_thw for m in row.media] == [entry.grid_thw for entry in prompt.media]


def test_a_plan_lists_what_is_too_long_and_what_is_kept(tmp_path):
    rows = rows_of(tmp_path, clips=True)
    config = config_of(tmp_path, "qwen2_5_vl", rows)
    config = config.model_copy(update={"data": config.data.model_copy(update={"max_prompt_tokens": 60})})
    plan = make_plan(config, planned_machine(8, 80))
    facts = plan_json(plan)
    [dataset] = facts["datasets"]
    lengths = [len(prompt.prompt_ids_T) for prompt in opened(config_of(tmp_path, "qwen2_5_vl", rows))]
    over = sorted((n - 60 for n in lengths if n > 60), reverse=True)
    assert [row["over"] for row in dataset["too_long"]] == over and over
    longest = lengths.index(max(lengths)) + 1
    assert dataset["too_long"][0]["where"] == f"train.jsonl:{longest} (id=train:{longest})"
    assert plan.exit_code == 1 and f"{len(over)} of 12 prompts are longer than 60 tokens" in plan.problems[0]
    # clips of 3.0, 0.7 and 6.1 s at 10 frames a second, one second of the last one, and 5 files of frames at 2 a second
    [clips] = [kept for kept in dataset["media"] if kept["kind"] == "video"]
    assert clips["source_frames"] == 30 + 7 + 61 + 10 + 5 and clips["media"] == 5
    assert 0 < clips["frames_kept"] < 1 and facts["cache"]["entries"] == len(
        {m.entry for r in plan.rows for m in r.media} | {m.entry for r in plan.datasets[0].rows for m in r.media}
    )


def test_some_rows_are_counted_when_asked_and_that_is_said(tmp_path):
    config = config_of(tmp_path, "qwen2_5_vl", rows_of(tmp_path, clips=False) * 4)
    plan = make_plan(config, planned_machine(None, None), rows=5)
    [dataset] = plan_json(plan)["datasets"]
    assert (dataset["rows"], dataset["counted"], dataset["sampled"]) == (28, 5, True)
    assert plan_json(plan)["stages"][0]["rows"] == 28
    assert plan_json(plan)["stages"][0]["steps_per_epoch"] == 7.0 and plan_json(plan)["stages"][0]["epochs"] == 24 / 28


def test_media_that_cannot_be_opened_are_bad_rows_and_stop_the_plan_as_they_would_the_run(tmp_path):
    rows = rows_of(tmp_path, clips=False)
    (tmp_path / "0.png").write_bytes(b"no picture")
    plan = make_plan(config_of(tmp_path, "qwen2_5_vl", rows), planned_machine(1, 80))
    [dataset] = plan_json(plan)["datasets"]
    assert dataset["bad"] == 2 and dataset["counted"] == 5 and plan.exit_code == 1
    assert "2 of 7 rows would be left out, more than data.max_skipped_fraction=0.05" in plan.problems[0]
