"""Opening a picture: whatever the file holds becomes upright uint8 RGB, or a MediaError that says why not.

Nothing is guessed or repaired: a file that ends early fails (Pillow's LOAD_TRUNCATED_IMAGES stays off), so does a JPEG
whose data are damaged, and pixels whose range is unknown (float, 32-bit) are refused.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from mmrl.data.file_bytes import on_disk, read_bytes
from mmrl.data.locations import FileSource, PdfPage
from mmrl.data.pdf import render_page
from mmrl.data.source import check_file, first_bytes, first_bytes_of, media_errors
from mmrl.errors import MediaError

MAX_SOURCE_PIXELS = 178_956_970
"""Pixels of the largest picture that is opened (about 13,400 x 13,400): twice Pillow's warning level."""

_WHITE = (255, 255, 255)
_TURNED = frozenset({5, 6, 7, 8})
"""EXIF orientations whose picture lies on its side."""

_NO_RANGE = {"F": "float pixels", "I": "32-bit integer pixels"}


def open_image(source: FileSource | PdfPage | str | np.ndarray) -> np.ndarray:
    """uint8 RGB (H, W, 3) of a picture file (PNG, JPEG, WebP, TIFF, GIF, ...), a PDF page or an array, upright.

    What a file is, its first bytes say; its name plays no part. EXIF orientation is applied; alpha and palette
    transparency are composited on white; 16-bit gray is scaled to 8 bits (v * 255 / 65535, rounded); gray, palette,
    CMYK and others become RGB; of several pages or frames the first. An array is (H, W, 3) uint8, or gray (H, W) uint8
    or uint16; the last axis is always the channel, so (1, 1000, 3) is a picture one pixel high. Raises MediaError with
    the path and the reason.
    """
    if isinstance(source, np.ndarray):
        return rgb_from_array(source)
    if isinstance(source, PdfPage):
        return render_page(source, max_pixels=MAX_SOURCE_PIXELS)
    source = Path(source) if isinstance(source, str) else source
    with _opened(source) as (image, file):
        image.load()
        if image.format in ("JPEG", "MPO"):
            _check_jpeg(file.read_bytes() if isinstance(file, Path) else file.getvalue(), source)
        return _to_rgb(ImageOps.exif_transpose(image), source)


def image_size(source: FileSource) -> tuple[int, int]:
    """(width, height) of a picture file, upright, from its header alone. Raises MediaError."""
    with _opened(source) as (image, _):
        turned = image.getexif().get(ExifTags.Base.Orientation) in _TURNED
        return (image.height, image.width) if turned else image.size


@contextmanager
def _opened(source: FileSource) -> Iterator[tuple[Image.Image, Path | io.BytesIO]]:
    """A picture whose header was read, and the file it is read from."""
    path = on_disk(source)
    if path is not None:
        check_file(path)
    with media_errors(source), warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # below the limit, so allowed
        try:
            file = path or io.BytesIO(read_bytes(source))
            with Image.open(file) as image:
                if image.width * image.height > MAX_SOURCE_PIXELS:
                    reason = f"{image.width}x{image.height} pixels, above the limit of {MAX_SOURCE_PIXELS}"
                    raise MediaError(source, reason)
                yield image, file
        except UnidentifiedImageError as error:
            raise _no_picture(source) from error
        except Image.DecompressionBombError as error:
            raise MediaError(source, f"above the limit of {MAX_SOURCE_PIXELS} pixels ({error})") from error


def _no_picture(source: FileSource) -> MediaError:
    path = on_disk(source)
    head = first_bytes(path) if path is not None else first_bytes_of(read_bytes(source))
    if head.startswith("b'%PDF-"):
        return MediaError(source, f"a PDF; name the page, such as {source}#page=1")
    return MediaError(source, f"not a picture; it starts with {head}")


def _check_jpeg(data: bytes, name: object) -> None:
    """Raise MediaError for a JPEG whose compressed data break the code they are written in.

    Pillow's libjpeg goes on behind such a place with gray or shifted pixels, and tells nobody. FFmpeg's decoder can be
    told to stop there. At an eighth of the size, its smallest, that adds 20 to 90 % to the time of opening a JPEG.
    What it merely does not support it reports otherwise, and that passes. So does damage that leaves valid codes: a
    JPEG has no checksum, and other pixels are all that such a change makes.
    """
    import av  # here: programs that open no JPEG need no FFmpeg
    from av.error import FFmpegError, InvalidDataError

    decoder = av.CodecContext.create("mjpeg", "r")
    decoder.options = {"err_detect": "explode", "lowres": "3"}
    decoder.thread_count = 1
    try:
        decoder.decode(av.Packet(data))
    except InvalidDataError as error:
        raise MediaError(name, "damaged JPEG: its compressed data hold an invalid code") from error
    except FFmpegError:
        return


def _to_rgb(image: Image.Image, name: object) -> np.ndarray:
    if image.mode in _NO_RANGE:
        raise MediaError(name, f"{_NO_RANGE[image.mode]} have no defined black and white; convert the file to 8 bits")
    if image.mode.startswith("I;16"):
        return rgb_from_array(np.asarray(image).astype(np.uint16))
    if image.has_transparency_data:
        return on_white(image.convert("RGBA"))
    return np.asarray(image.convert("RGB"))


def on_white(rgba: Image.Image) -> np.ndarray:
    """uint8 RGB (H, W, 3) of an RGBA picture seen against white."""
    white = Image.new("RGB", rgba.size, _WHITE)
    white.paste(rgba, mask=rgba.getchannel("A"))
    return np.asarray(white)


def rgb_from_array(array: np.ndarray) -> np.ndarray:
    """uint8 RGB (H, W, 3) of an array in memory; see `open_image` for what is accepted."""
    if array.ndim == 2 and array.dtype == np.uint16:
        array = ((array.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    if array.ndim == 2 and array.dtype == np.uint8:
        array = np.repeat(array[:, :, None], 3, axis=2)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        raise MediaError(
            f"image in memory, shape {array.shape}, {array.dtype}",
            "expected uint8 (H, W, 3) with the channels last, or gray (H, W) in uint8 or uint16",
        )
    return array
