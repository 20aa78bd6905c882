"""Visual Jigsaw in 3D: numbered points of an RGB-D picture, to be put in order from near to far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mmrl.data.image import open_image
from mmrl.data.make_tasks.puzzle import Making, Puzzle, Source, UnusableError
from mmrl.data.source import media_errors
from mmrl.errors import MediaError

NEAREST_M, FARTHEST_M, LEAST_GAP_M = 0.1, 10.0, 0.2
LEAST_DISTANCE_PX = 40.0
RADIUS_PX = 12
_DRAWS = 4000
_RED, _WHITE = (255, 0, 0), (255, 255, 255)


class DepthOrder:
    """The points' numbers by depth. Source: Visual Jigsaw (0.1 to 10 m, 40 pixels and more than 0.2 m apart)."""

    def __init__(self, pieces: int, depth_scale: float) -> None:
        self.pieces, self.depth_scale = pieces, depth_scale

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        assert source.depth is not None  # the folder's reader pairs them
        picture_HW3 = open_image(source.path)
        depth_HW = read_depth_m(source.depth, scale=self.depth_scale)
        points = separated_points(depth_HW, picture_HW3.shape[:2], pieces=self.pieces, rng=making.rng)
        depths_m = [depth for _, _, depth in points]
        places = [(x, y) for x, y, _ in points]
        path = making.media.picture(f"{source.name}/points-v{making.version}", with_points(picture_HW3, places))
        numbers = [place + 1 for place in sorted(range(len(points)), key=depths_m.__getitem__)]
        prompt = (
            f"<image>The picture has {self.pieces} numbered red circles. Write their numbers by distance from the "
            "camera, the nearest first, separated by commas."
        )
        columns = {"points_px": places, "depths_m": [round(d, 4) for d in depths_m], "source": source.name}
        yield Puzzle(prompt, ", ".join(map(str, numbers)), images=[path], columns=columns)


def read_depth_m(path: Path, *, scale: float) -> np.ndarray:
    """(H, W) in metres of a one-channel picture or .npy array. Integers are multiplied by `scale`, floats are metres.

    0 and what is not finite mean that no depth was measured. Raises MediaError.
    """
    if path.suffix.lower() == ".npy":
        with media_errors(path):
            depth = np.load(path, allow_pickle=False)
    else:
        with media_errors(path), Image.open(path) as image:
            depth = np.asarray(image)
    if depth.ndim != 2 or depth.dtype.kind not in "uif":
        raise MediaError(
            path, f"a depth picture has one channel of numbers, this has shape {depth.shape}, {depth.dtype}"
        )
    metres_HW = depth.astype(np.float64) * (1.0 if depth.dtype.kind == "f" else scale)
    return np.where(np.isfinite(metres_HW), metres_HW, 0.0)


def separated_points(
    depth_HW: np.ndarray, size: tuple[int, int], *, pieces: int, rng: np.random.Generator
) -> list[tuple[int, int, float]]:
    """`pieces` random (x, y, metres) in pixels of the picture that are apart in the picture and in depth.

    size: (height, width) of the picture; the depth may have another resolution of the same view. UnusableError where
    no such set was found.
    """
    height, width = size
    if min(height, width) <= 2 * RADIUS_PX:
        raise UnusableError(f"{width}x{height} pixels have no room for circles of radius {RADIUS_PX}")
    xs = rng.integers(RADIUS_PX, width - RADIUS_PX, _DRAWS)
    ys = rng.integers(RADIUS_PX, height - RADIUS_PX, _DRAWS)
    depths = depth_HW[ys * depth_HW.shape[0] // height, xs * depth_HW.shape[1] // width]
    chosen: list[tuple[int, int, float]] = []
    for x, y, depth in zip(xs.tolist(), ys.tolist(), depths.tolist(), strict=True):
        if NEAREST_M <= depth <= FARTHEST_M and all(_apart((x, y, depth), other) for other in chosen):
            chosen.append((x, y, depth))
        if len(chosen) == pieces:
            return chosen
    raise UnusableError(
        f"only {len(chosen)} points lie {LEAST_DISTANCE_PX:g} pixels and {LEAST_GAP_M:g} m apart, {pieces} needed"
    )


def _apart(first: tuple[int, int, float], second: tuple[int, int, float]) -> bool:
    far = np.hypot(first[0] - second[0], first[1] - second[1]) >= LEAST_DISTANCE_PX
    return bool(far) and abs(first[2] - second[2]) > LEAST_GAP_M


def with_points(picture_HW3: np.ndarray, points: Sequence[tuple[int, int]]) -> np.ndarray:
    """The picture with red circles, numbered from 1; their white edge tells them from what is red in the picture."""
    image = Image.fromarray(picture_HW3)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=RADIUS_PX * 1.4)
    for number, (x, y) in enumerate(points, start=1):
        draw.circle((x, y), RADIUS_PX, fill=_RED, outline=_WHITE)
        draw.text((x, y), str(number), fill=_WHITE, font=font, anchor="mm")
    return np.asarray(image)
