"""Pictures of every mode become upright uint8 RGB on white; anything else is a MediaError with path and reason."""

import numpy as np
import pytest
from makers.shared import shared_media
from PIL import Image

from mmrl.data.image import open_image
from mmrl.errors import MediaError

RED, WHITE, BLACK = (255, 0, 0), (255, 255, 255), (0, 0, 0)


def saved(tmp_path, image, name, **options):
    path = tmp_path / name
    image.save(path, **options)
    return path


def two_pixels(mode, left, right):
    image = Image.new(mode, (2, 1), left)
    image.putpixel((1, 0), right)
    return image


@pytest.mark.parametrize(
    ("image", "name", "left", "right"),
    [
        (two_pixels("RGB", RED, BLACK), "a.png", RED, BLACK),
        (two_pixels("RGB", RED, BLACK), "a.tiff", RED, BLACK),
        (two_pixels("RGB", RED, BLACK), "a.gif", RED, BLACK),
        (two_pixels("L", 7, 200), "a.png", (7, 7, 7), (200, 200, 200)),
        (two_pixels("1", 0, 1), "a.tiff", BLACK, WHITE),
        # fault 24: transparent pixels are white, half-transparent black is middle gray
        (two_pixels("RGBA", (*RED, 255), (*RED, 0)), "a.png", RED, WHITE),
        (two_pixels("RGBA", (*RED, 255), (0, 0, 0, 128)), "a.png", RED, (127, 127, 127)),
        (two_pixels("RGBA", (*RED, 255), (*RED, 0)), "a.tiff", RED, WHITE),
        (two_pixels("LA", (9, 255), (9, 0)), "a.png", (9, 9, 9), WHITE),
        (two_pixels("CMYK", (0, 255, 255, 0), (0, 0, 0, 255)), "a.tiff", RED, BLACK),
    ],
)
def test_modes_become_rgb_on_white(tmp_path, image, name, left, right):
    rgb = open_image(saved(tmp_path, image, name))
    assert rgb.dtype == np.uint8 and rgb.shape == (1, 2, 3)
    assert tuple(rgb[0, 0]) == left and tuple(rgb[0, 1]) == right


@pytest.mark.parametrize("name", ["a.webp", "a.png", "a.tiff"])
def test_lossless_formats_are_exact(tmp_path, name):
    pixels = np.random.default_rng(0).integers(0, 256, (13, 17, 3), dtype=np.uint8)
    options = {"lossless": True} if name == "a.webp" else {}
    assert np.array_equal(open_image(saved(tmp_path, Image.fromarray(pixels), name, **options)), pixels)


def test_jpeg_with_transparent_neighbours_is_close(tmp_path):
    path = saved(tmp_path, Image.new("RGB", (16, 16), (200, 100, 50)), "a.jpg", quality=95)
    assert np.abs(open_image(path).astype(int) - (200, 100, 50)).max() <= 3


def test_palette_transparency_is_white(tmp_path):  # fault 24
    image = two_pixels("P", 0, 1)
    image.putpalette([*RED, *BLACK])
    rgb = open_image(saved(tmp_path, image, "a.png", transparency=1))
    assert tuple(rgb[0, 0]) == RED and tuple(rgb[0, 1]) == WHITE


def test_16_bit_gray_keeps_its_range(tmp_path):  # fault 25
    gray = np.array([[0, 257, 32768, 65535]], dtype=np.uint16)
    for name in ("a.png", "a.tiff"):
        rgb = open_image(saved(tmp_path, Image.fromarray(gray), name))
        assert rgb[0, :, 0].tolist() == [0, 1, 128, 255], name


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_pixels_without_a_range_are_refused(tmp_path, dtype):
    path = saved(tmp_path, Image.fromarray(np.ones((2, 2), dtype=dtype)), "a.tiff")
    with pytest.raises(MediaError, match=r"a\.tiff: .*pixels have no defined black and white"):
        open_image(path)


@pytest.mark.parametrize(("orientation", "corner"), [(1, (0, 0)), (3, (3, 5)), (6, (0, 3)), (8, (5, 0))])
def test_exif_orientation_is_applied(tmp_path, orientation, corner):  # fault 27
    image = Image.new("RGB", (6, 4), BLACK)
    image.putpixel((0, 0), RED)
    exif = Image.Exif()
    exif[0x0112] = orientation
    rgb = open_image(saved(tmp_path, image, "a.png", exif=exif))
    assert rgb.shape[:2] == ((6, 4) if orientation in (6, 8) else (4, 6))
    assert tuple(rgb[corner]) == RED


def test_first_frame_of_an_animation(tmp_path):
    frames = [Image.new("RGB", (4, 4), color) for color in (RED, BLACK)]
    path = saved(tmp_path, frames[0], "a.gif", save_all=True, append_images=frames[1:])
    assert tuple(open_image(path)[0, 0]) == RED


def test_truncated_file(tmp_path):  # fault 28
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for name in ("a.jpg", "a.png", "a.webp"):
        path = saved(tmp_path, Image.fromarray(pixels), name)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(MediaError, match=name.replace(".", r"\.")):
            open_image(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "the file is empty"), (b"<html>404</html>", r"not a picture; it starts with b'<html>404</html>'")],
)
def test_empty_and_mislabelled_files(tmp_path, content, reason):  # fault 28
    path = tmp_path / "photo.jpg"
    path.write_bytes(content)
    with pytest.raises(MediaError, match=rf"photo\.jpg: {reason}"):
        open_image(path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(MediaError, match=r"none\.png: No such file"):
        open_image(tmp_path / "none.png")
    with pytest.raises(MediaError, match="a folder"):
        open_image(tmp_path)


def test_over_limit_names_the_file(tmp_path):  # fault 29
    path = saved(tmp_path, Image.new("1", (13_400, 13_400)), "scan.png")
    with pytest.raises(MediaError, match=r"scan\.png: .*limit of 178956970") as caught:
        open_image(path)
    assert caught.value.path == str(path)


def test_large_but_allowed_scan_gives_no_warning(tmp_path, recwarn):  # fault 29
    path = saved(tmp_path, Image.new("1", (9_500, 9_500)), "scan.png")
    assert open_image(path).shape == (9_500, 9_500, 3)
    assert not list(recwarn)


@pytest.mark.parametrize("name", ["图片 ünï.png", "a b\tc.png", "日本/语.png"])
def test_unicode_and_blanks_in_paths(tmp_path, name):  # fault 30
    (tmp_path / name).parent.mkdir(exist_ok=True)
    assert open_image(saved(tmp_path, Image.new("RGB", (3, 2), RED), name)).shape == (2, 3, 3)


def test_the_last_axis_is_the_channel():  # fault 26
    assert open_image(np.zeros((1, 1000, 3), np.uint8)).shape == (1, 1000, 3)
    assert open_image(np.zeros((3, 3, 3), np.uint8)).shape == (3, 3, 3)
    with pytest.raises(MediaError, match=r"shape \(3, 64, 64\).*channels last"):
        open_image(np.zeros((3, 64, 64), np.uint8))


def test_gray_arrays():  # fault 25
    assert open_image(np.full((2, 2), 9, np.uint8))[0, 0].tolist() == [9, 9, 9]
    assert open_image(np.full((2, 2), 65535, np.uint16))[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize(
    "array", [np.zeros((2, 2, 3), np.float32), np.zeros((2, 2, 4), np.uint8), np.zeros((0, 2, 3), np.uint8)]
)
def test_other_arrays_are_refused(array):
    with pytest.raises(MediaError, match="expected uint8"):
        open_image(array)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tc_corrupt.jpg", "broken data stream when reading image file"),
        ("tc_bad_huffman.jpg", "damaged JPEG: its compressed data hold an invalid code"),
    ],
)
def test_damaged_jpegs_of_the_shared_media(name, reason):  # fault 28
    path = shared_media() / "video_bad" / name
    with pytest.raises(MediaError) as caught:
        open_image(path)
    assert str(caught.value) == f"{path}: {reason}"


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (45, 61, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("RGB", {"quality": 100, "subsampling": 0}),
        ("RGB", {"progressive": True}),
        ("RGB", {"restart_marker_blocks": 3}),
        ("L", {}),
        ("CMYK", {}),
        ("RGB", {"format": "MPO", "save_all": True, "append_images": [NOISE]}),
    ],
)
def test_sound_jpegs_open_and_damaged_ones_do_not(tmp_path, mode, options):  # fault 28
    path = saved(tmp_path, NOISE.convert(mode), "a.jpg", **options)
    data = path.read_bytes()
    for appended in (b"", b"text behind the picture", bytes(50)):
        path.write_bytes(data + appended)
        assert open_image(path).shape == (45, 61, 3)
    # A code of sixteen ones is kept free in every JPEG; a zero byte follows each 0xff that is no marker.
    middle = data.index(b"\xff\xda") + 200
    path.write_bytes(data[:middle] + b"\xff\x00" * 8 + data[middle + 16 :])
    with pytest.raises(MediaError, match=r"a\.jpg: (damaged JPEG|broken data)"):
        open_image(path)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("image/coins.png", (303, 384, 3)),
        ("ocr/tess_phototest.tif", (480, 640, 3)),
        ("image/dog.jpg", (576, 768, 3)),
        ("driving/solidYellowCurve.jpg", (540, 960, 3)),
        ("ocr/sign_greek_no_parking.jpg", (711, 474, 3)),
    ],
)
def test_shared_pictures(name, shape):
    assert open_image(shared_media() / name).shape == shape
