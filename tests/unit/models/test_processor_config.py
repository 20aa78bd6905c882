"""Budgets in the processor files: transformers then sizes media as the training did (faults 20, 21)."""

import json
import shutil

import numpy as np
import pytest
from makers.processors import budget_of
from makers.tiny_models import tiny_model_dir

from mmrl.data.budget import plan_image, plan_video
from mmrl.errors import ConfigError
from mmrl.models.families import load_geometry
from mmrl.models.processor_config import write_budgets

KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
SIZES = ((640, 480), (90, 300), (1920, 1080), (33, 20))
BUDGETS = {
    "image": budget_of(min_pixels=4096, max_pixels=40_000),
    "video": budget_of(min_pixels=2048, max_pixels=20_000, total_pixels=90_000, max_frames=8, min_frames=2),
}


def two_file_layout(folder):
    """The older layout: a file for each processor."""
    settings = json.loads((folder / "processor_config.json").read_text())
    for kind, name in (("image", "preprocessor_config.json"), ("video", "video_preprocessor_config.json")):
        values = {"min_pixels": 1, "max_pixels": 12845056, **settings.pop(f"{kind}_processor")}
        (folder / name).write_text(json.dumps(values))
    (folder / "processor_config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("layout", ["one file", "two files"])
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_sizes_media_as_the_training_did(tmp_path, kind, layout):
    from transformers import AutoProcessor

    folder = shutil.copytree(tiny_model_dir(kind), tmp_path / "model")
    if layout == "two files":
        two_file_layout(folder)
    geometry = load_geometry(folder)
    write_budgets(folder, BUDGETS, geometry)
    processor = AutoProcessor.from_pretrained(folder)
    for width, height in SIZES:
        image = np.zeros((height, width, 3), np.uint8)
        grid = processor.image_processor([image], return_tensors="pt")["image_grid_thw"][0].tolist()
        assert tuple(grid) == plan_image(width, height, BUDGETS["image"], geometry).grid_thw
        clip = np.zeros((6, height, width, 3), np.uint8)
        outputs = processor.video_processor([clip], return_tensors="pt", do_sample_frames=False)
        plan = plan_video(6, width, height, BUDGETS["video"], geometry)
        assert tuple(outputs["video_grid_thw"][0].tolist()) == plan.grid_thw
    assert processor.video_processor.max_frames == 8 and processor.video_processor.fps == 2.0


def test_a_folder_without_processor_files(tmp_path):
    with pytest.raises(ConfigError, match=r"neither processor_config\.json nor preprocessor_config\.json"):
        write_budgets(tmp_path, BUDGETS, load_geometry(tiny_model_dir("qwen2_5_vl")))
