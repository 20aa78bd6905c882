"""What a judge is asked about: a text, or texts with pictures between them.

Pictures travel inside the request, as data: URLs of the OpenAI chat format: a judge opens no file and no address.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from PIL import Image

from mmrl.data.fingerprint import hash_pixels

PictureFormat = Literal["png", "jpeg"]
_SAVED: dict[PictureFormat, dict[str, Any]] = {"png": {}, "jpeg": {"quality": 95, "subsampling": 0}}


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture. key: its format and the hash of its pixels, by which it is compared. url: the `data:` URL."""

    key: str
    url: str = field(compare=False, repr=False)


Material = str | tuple[str | Picture, ...]


def encoded(pixels_HW3: np.ndarray, form: PictureFormat) -> Picture:
    """uint8 RGB (H, W, 3) as a file of that format: png holds the pixels exactly, jpeg at quality 95."""
    file = io.BytesIO()
    Image.fromarray(pixels_HW3).save(file, form, **_SAVED[form])
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return Picture(f"{form}:{hash_pixels(pixels_HW3).sha256}", f"data:image/{form};base64,{data}")


def parts_of(material: Material) -> tuple[str | Picture, ...]:
    return (material,) if isinstance(material, str) else material


def pictures_of(material: Material) -> tuple[Picture, ...]:
    return tuple(part for part in parts_of(material) if isinstance(part, Picture))


def joined(parts: Iterable[str | Picture]) -> Material:
    """Parts in their order, texts that touch made one; a text where there are no pictures.

    >>> picture = Picture("png:0", "data:image/png;base64,")
    >>> joined(["a", "b", picture, "c"]), joined(["a", "b"])
    (('ab', Picture(key='png:0'), 'c'), 'ab')
    """
    merged: list[str | Picture] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    match merged:
        case []:
            return ""
        case [str(text)]:
            return text
    return tuple(merged)


def chat_content(material: Material) -> str | list[dict[str, Any]]:
    """The content of a chat message. An `image_url` is the Picture, which `json.dumps` writes by its `default`."""
    if isinstance(material, str):
        return material
    return [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image_url", "image_url": part}
        for part in material
    ]


def as_sent(picture: Picture) -> dict[str, str]:
    """For `json.dumps(default=...)`: what a server reads."""
    return {"url": picture.url}


def as_key(picture: Picture) -> str:
    """For `json.dumps(default=...)`: what verdicts are remembered by."""
    return picture.key
