import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as v2

from mmrl.data.resize import resize_frame

SIZES = [
    ((37, 53), (28, 56)),
    ((360, 640), (126, 224)),
    ((20, 30), (84, 112)),
    ((28, 28), (28, 28)),
    ((1, 90), (28, 84)),
]


def clip_of(size, frames=3):
    return np.random.default_rng(0).integers(0, 256, (frames, *size, 3), dtype=np.uint8)


@pytest.mark.parametrize(("source", "target"), SIZES)
def test_equals_torchvision_alone_and_in_a_batch(source, target):
    frames = clip_of(source)
    batch_F3HW = torch.from_numpy(frames).permute(0, 3, 1, 2).contiguous()
    expected = v2.resize(batch_F3HW, list(target), interpolation=InterpolationMode.BICUBIC, antialias=True)
    for frame, of_batch in zip(frames, expected, strict=True):
        alone = v2.resize(
            torch.from_numpy(frame).permute(2, 0, 1), list(target), InterpolationMode.BICUBIC, antialias=True
        )
        ours = resize_frame(frame, width=target[1], height=target[0])
        assert ours.dtype == torch.uint8 and ours.is_contiguous() and ours.shape == (3, *target)
        assert torch.equal(ours, of_batch) and torch.equal(ours, alone)


def test_rotated_and_read_only_input():
    frame = clip_of((40, 60), frames=1)[0]
    turned = np.rot90(frame)
    turned.flags.writeable = False
    expected = resize_frame(np.ascontiguousarray(np.rot90(frame)), width=28, height=56)
    assert torch.equal(resize_frame(turned, width=28, height=56), expected)
