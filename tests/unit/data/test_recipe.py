"""Recipes of the Qwen families, spelled out: a change of one letter would orphan every cached entry."""

import dataclasses
import json
from pathlib import Path

import pytest
from makers.processors import family_processor

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.opening import OpenJob
from mmrl.data.recipe import recipe_of
from mmrl.data.sample import MediaRef

PATCHES = {
    "qwen2_vl": (14, "qwen2", 180633600),
    "qwen2_5_vl": (14, "qwen2", 180633600),
    "qwen3_vl": (16, "qwen3", 4194304),
}


def recipe(kind, ref) -> dict:
    fields = recipe_of(OpenJob(ref, BudgetClass(), family_processor(kind).geometry), VideoSection()).fields
    assert fields.pop("resize").startswith("bicubic, antialias, uint8, torch 2.")
    fields.pop("reader")
    return fields


@pytest.mark.parametrize("kind", PATCHES)
def test_a_pictures_recipe(kind):
    budget = {"max_pixels": 1003520, "min_pixels": 3136}
    sizing = {"merge_size": 2, "patch_size": PATCHES[kind][0]}
    expected = {"broken_tail": None, "budget": budget, "format": 2, "kind": "image", "sizing": sizing}
    assert recipe(kind, MediaRef("image", Path("a.png"))) == expected


@pytest.mark.parametrize("kind", PATCHES)
def test_a_clips_recipe(kind):
    patch, rule, total = PATCHES[kind]
    sizing = {"merge_size": 2, "patch_size": patch, "temporal_patch_size": 2, "video_rule": rule}
    found = recipe(kind, MediaRef("video", Path("a.mp4")))
    assert found["sizing"] == sizing | {"default_total_pixels": total}
    assert found["budget"] == json.loads(BudgetClass().model_dump_json())
    assert set(found) == {"broken_tail", "budget", "format", "kind", "sizing"}


def test_tiles_are_part_of_the_recipe():
    geometry = family_processor("internvl").geometry
    other = dataclasses.replace(geometry, tile=448)
    keys = {
        recipe_of(OpenJob(MediaRef("image", Path("a.png")), BudgetClass(), g), VideoSection()).text
        for g in (geometry, other, family_processor("qwen2_5_vl").geometry)
    }
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("kind", "tile", "grid", "num_tokens"),
    [
        ("internvl", 56, (4, 1, 3), 4 * 4),  # three tiles and the whole picture, 4 tokens each
        ("smolvlm", 64, (3, 1, 2), 3 * 4),
        ("idefics3", 64, (3, 1, 2), 3 * 4),
        ("llava_onevision", 56, (4, 1, 3), 16 + 4 * 13),  # the whole picture, and 4 rows of 12 tokens with a line end
        ("gemma3", 56, (1, 1, 1), 4),  # squeezed into one
    ],
)
def test_tiles_and_the_whole_picture_beside_them_are_in_recipe_and_count(kind, tile, grid, num_tokens):
    """A picture of 300 x 100 with room for six tiles."""
    geometry = family_processor(kind).geometry
    budget = BudgetClass(min_pixels=tile**2, max_pixels=6 * tile**2)
    recipe = json.loads(recipe_of(OpenJob(MediaRef("image", Path("a.png")), budget, geometry), VideoSection()).text)
    assert (recipe["sizing"]["layout"], recipe["sizing"]["tile"]) == (f"{kind} tiles", tile)
    plan = geometry.plan_image(300, 100, budget)
    assert (plan.grid_thw, plan.num_tokens) == (grid, num_tokens)
