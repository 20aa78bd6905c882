"""Media in every shape in which a dataset may carry them: archives, PDFs, folders of frames."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from makers.clips import numbered_frame
from makers.openers import QWEN25
from PIL import Image

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.locate import MediaRules
from mmrl.data.media_cell import read_media_cell
from mmrl.data.opening import OpenedMedia, OpenJob, open_medium
from mmrl.data.sample import MediaKind, MediaRef

BUDGET = BudgetClass(min_pixels=28 * 28, max_pixels=112 * 84, max_frames=8, sample_fps=2.0)


def read_one(
    value: object, root: Path, *, kind: MediaKind = "image", field: str = "media", rules: MediaRules | None = None
) -> MediaRef:
    """The one medium that a cell names."""
    (ref,) = read_media_cell(value, kind, field=field, root=root, budget=None, rules=rules)
    return ref


def open_here(ref: MediaRef, *, reader: str = "pyav", budget: BudgetClass = BUDGET) -> OpenedMedia:
    return open_medium(OpenJob(ref, budget, QWEN25), VideoSection.model_validate({"reader": reader}))


def picture_bytes(seed: int = 0, *, size: tuple[int, int] = (100, 80), format: str = "PNG") -> bytes:
    """A picture of noise (width, height)."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format)
    return buffer.getvalue()


def write_picture(path: Path, seed: int = 0, **more) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture_bytes(seed, **more))
    return path


def write_zip(path: Path, members: Mapping[str, bytes], *, deflate: bool = True) -> Path:
    method = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def write_tar(path: Path, members: Mapping[str, bytes], *, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_frames(folder: Path, count: int, *, name: str = "{}.png", first: int = 0) -> list[Path]:
    """Pictures that show their place in the clip, numbered in their names."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name.format(first + index) for index in range(count)]
    for index, path in enumerate(paths):
        Image.fromarray(numbered_frame(index)).save(path)
    return paths


def write_pdf(path: Path, pages: int = 3, *, size: tuple[float, float] = (144.0, 72.0)) -> Path:
    """A PDF of gray pages: page n (from 1) has the level 50 * n. size: width and height in points."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(pages))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>")
    for n in range(pages):
        drawn = f"{50 * (n + 1) / 255:.6f} g 0 0 {size[0]} {size[1]} re f"
        box = f"/MediaBox [0 0 {size[0]} {size[1]}]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {4 + 2 * n} 0 R /Resources << >> >>")
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    body, offsets = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    path.write_bytes(body + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode())
    return path
