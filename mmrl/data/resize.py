"""The one resize of the framework: with antialias on uint8, what torchvision v2 `resize` computes.

Torchvision hands uint8 on a CPU to this very torch operator; calling it here gives the same bytes (tested), and
decoder processes need not import torchvision, which takes longer than everything else they import together.

Letters: F frames, H/W pixels.
"""

from __future__ import annotations

import numpy as np
import torch

from mmrl.data.vision import Resample


def resize_frame(rgb_HW3: np.ndarray, *, width: int, height: int, resample: Resample = "bicubic") -> torch.Tensor:
    """uint8 RGB (H, W, 3) to uint8 (3, height, width). A frame gets the same bytes alone as in a batch."""
    # Pixel-interleaved memory is the layout for which the operator has its fast path: no copy to planes first.
    frame_13HW = torch.from_numpy(np.require(rgb_HW3, requirements=["C", "W"])).permute(2, 0, 1).unsqueeze(0)
    return resize_tensor(frame_13HW[0], width=width, height=height, resample=resample)


def resize_tensor(frame_3HW: torch.Tensor, *, width: int, height: int, resample: Resample = "bicubic") -> torch.Tensor:
    """uint8 (3, H, W) to uint8 (3, height, width)."""
    if frame_3HW.shape[1:] == (height, width):
        return frame_3HW.contiguous()
    resized_13HW = torch.nn.functional.interpolate(
        frame_3HW[None], size=(height, width), mode=resample, align_corners=False, antialias=True
    )
    return resized_13HW[0].contiguous()
