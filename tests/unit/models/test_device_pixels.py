"""Pixels on the way to a device: uint8 travels, and one fused step normalises it there."""

from dataclasses import replace

import pytest
import torch
from makers.processors import family_processor
from makers.rendered import make_image
from torch.utils._python_dispatch import TorchDispatchMode

from mmrl.data.pixels import normalise, normalise_fused
from mmrl.models.encode import _on_device

SETTINGS = {
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
EVERY_VALUE = torch.arange(256, dtype=torch.uint8).expand(1, 3, 4, 256)


class Operations(TorchDispatchMode):
    """What the operations of the block make."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, torch.dtype, str, tuple[int, ...]]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.made.append((func.overloadpacket.__name__, out.dtype, out.device.type, tuple(out.shape)))
        return out


@pytest.mark.parametrize("name", SETTINGS)
def test_the_fused_step_is_within_3e7_of_the_processors_order_for_every_value(name: str):
    mean, std = SETTINGS[name]
    geometry = replace(family_processor("qwen2_5_vl").geometry, image_mean=mean, image_std=std)
    fused = normalise_fused(EVERY_VALUE, geometry)

    assert fused.dtype == torch.float32
    torch.testing.assert_close(fused, normalise(EVERY_VALUE, geometry), atol=3e-7, rtol=0)


def test_off_the_cpu_normalising_is_one_operation_that_reads_uint8():
    """The meta device stands for a GPU: it knows the operations, not the values."""
    geometry = family_processor("qwen2_5_vl").geometry
    entry = make_image("qwen2_5_vl", seed=0)
    shape = tuple(entry.frames_F3HW.shape)
    with Operations() as seen:
        moved = _on_device(entry, torch.device("meta"))
        pixels = normalise(moved.frames_F3HW, geometry)

    whole = [made for made in seen.made if made[3] == shape]
    assert moved.frames_F3HW.dtype == torch.uint8
    assert whole == [("_to_copy", torch.uint8, "meta", shape), ("addcmul", torch.float32, "meta", shape)]
    assert pixels.shape == shape


def test_on_the_cpu_nothing_is_copied():
    entry = make_image("qwen2_5_vl", seed=0)

    assert _on_device(entry, torch.device("cpu")) is entry
