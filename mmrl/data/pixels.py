"""From stored uint8 frames to what the vision tower reads, bit for bit as the family's own processor does it.

Shape letters: F stored frames, H/W pixels, N patches (t * h * w), X values of a patch: 3 channels x temporal_patch_size
x patch_size x patch_size.
"""

from __future__ import annotations

import torch

from mmrl.data.rendered import MediaEntry
from mmrl.data.vision import VisionGeometry
from mmrl.models.qwen import QwenGeometry


def pixel_values(entry: MediaEntry, geometry: VisionGeometry) -> torch.Tensor:
    """What the family's vision tower reads of one medium, fp32, on the device of its frames.

    On a CPU bit-identical to the pixel_values of the processor (torchvision backend) given the same uint8 frames.
    """
    return geometry.pixel_values(entry)


def normalise(frames_F3HW: torch.Tensor, geometry: VisionGeometry) -> torch.Tensor:
    """(x * rescale - mean) / std per channel in fp32, as (x - mean / rescale) / (std / rescale).

    The processor folds the rescale into mean and std in this order; any other order differs in the last bit. On a CPU
    it is kept; elsewhere one fused step is enough (`normalise_fused`).
    """
    if frames_F3HW.device.type != "cpu":
        return normalise_fused(frames_F3HW, geometry)
    inverse = 1.0 / geometry.rescale_factor
    mean, std = (
        (torch.tensor(values, device=frames_F3HW.device) * inverse).view(3, 1, 1)
        for values in (geometry.image_mean, geometry.image_std)
    )
    return frames_F3HW.to(torch.float32).sub(mean).div_(std)


def normalise_fused(frames_F3HW: torch.Tensor, geometry: VisionGeometry) -> torch.Tensor:
    """x * scale + bias in fp32, in one pass that reads uint8; within 3e-7 of the processor's values.

    With its folded m = mean / rescale and s = std / rescale, which are float32: scale = 1 / s, bias = -m / s.
    """
    device, inverse = frames_F3HW.device, 1.0 / geometry.rescale_factor
    mean, std = ((torch.tensor(v) * inverse).double().view(3, 1, 1) for v in (geometry.image_mean, geometry.image_std))
    scale, bias = (1 / std).float(), (-mean / std).float()
    return torch.addcmul(bias.to(device), frames_F3HW, scale.to(device))


def patchify(frames_F3HW: torch.Tensor, geometry: QwenGeometry) -> torch.Tensor:
    """Frames of a Qwen family cut into patches (N, X); the patches of one merged token follow each other.

    The last frame is repeated until the temporal patch is full: a still becomes temporal_patch_size equal frames.
    """
    unit, patch, merge = geometry.temporal_patch_size, geometry.patch_size, geometry.merge_size
    num_frames, channels, height, width = frames_F3HW.shape
    patches_t = -(-num_frames // unit)
    filled = frames_F3HW[torch.arange(patches_t * unit, device=frames_F3HW.device).clamp(max=num_frames - 1)]
    tokens_h, tokens_w = height // (patch * merge), width // (patch * merge)
    cut = filled.view(patches_t, unit, channels, tokens_h, merge, patch, tokens_w, merge, patch)
    return cut.permute(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(-1, channels * unit * patch * patch)
