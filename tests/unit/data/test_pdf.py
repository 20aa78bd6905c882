"""Pages of PDFs as pictures."""

import numpy as np
import pytest
import torch
from makers.media import BUDGET, open_here, picture_bytes, read_one, write_pdf, write_zip
from makers.openers import QWEN25, LocalOpener
from makers.shared import shared_media

from mmrl.config.schema import VideoSection
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.image import MAX_SOURCE_PIXELS, open_image
from mmrl.data.locate import MediaRules
from mmrl.data.locations import PdfPage
from mmrl.data.opening import OpenJob
from mmrl.errors import MediaError


def error_of(source):
    with pytest.raises(MediaError) as caught:
        open_image(source)
    return str(caught.value)


def test_each_page_is_drawn_at_the_dpi(tmp_path):
    path = write_pdf(tmp_path / "x.pdf", pages=3, size=(144, 72))
    for page in (1, 2, 3):
        pixels = open_image(PdfPage(path, page, 72))
        assert pixels.shape == (72, 144, 3) and pixels.dtype == np.uint8 and pixels.flags.owndata
        assert (pixels == 50 * page).all()
    assert open_image(PdfPage(path, 1, 200)).shape == (200, 400, 3)


def test_a_page_by_every_route_and_one_entry_a_page_and_dpi(tmp_path):
    data = write_pdf(tmp_path / "x.pdf").read_bytes()
    write_zip(tmp_path / "a.zip", {"d/x.pdf": data})
    plain = open_here(read_one("x.pdf#page=2", tmp_path))
    assert plain.source_size == (288, 144) and plain.reader.startswith("pypdfium2 ")
    opener, cache = LocalOpener(), PixelCache(tmp_path / "cache")

    def key_of(written, rules=None):
        ref = read_one(written, tmp_path, rules=rules)
        if "page=2" in str(ref.source):
            assert torch.equal(open_here(ref).frames_F3HW, plain.frames_F3HW) or rules
        return cache.get(ref, BUDGET, QWEN25, opener).key

    keys = {
        key_of(written)
        for written in (
            "x.pdf#page=2",
            f"file://{tmp_path}/x.pdf#page=2",
            "a.zip::d/x.pdf#page=2",
            {"bytes": data, "page": 2},
            {"image": "x.pdf", "page": 2, "dpi": 144},
        )
    }
    assert len(keys) == 1 and opener.opened == 1
    others = {key_of("x.pdf#page=1"), key_of("x.pdf#page=3"), key_of("x.pdf#page=2", MediaRules(pdf_dpi=72))}
    assert len(keys | others) == 4
    recipe = cache.request(OpenJob(read_one("x.pdf#page=2", tmp_path), BUDGET, QWEN25), VideoSection()).recipe.fields
    assert (recipe["page"], recipe["dpi"], recipe["reader"]) == (2, 144, plain.reader)


def test_a_page_is_drawn_in_a_decoder_process(tmp_path):
    ref = read_one({"bytes": write_pdf(tmp_path / "x.pdf").read_bytes(), "page": 3}, tmp_path)
    with MediaOpener(VideoSection(), workers=1) as opener:
        found = opener.open(ref, BUDGET, QWEN25)
        assert len(opener._processes) == 1
        with pytest.raises(MediaError, match=r"x\.pdf#page=4: the PDF has 3 pages, counted from 1"):
            opener.open(read_one("x.pdf#page=4", tmp_path), BUDGET, QWEN25)
    assert torch.equal(found.frames_F3HW, open_here(ref).frames_F3HW)


def test_errors(tmp_path):
    path = write_pdf(tmp_path / "x.pdf", pages=1)
    assert error_of(PdfPage(path, 2, 72)) == f"{path}#page=2: the PDF has 1 page, counted from 1"
    assert error_of(path) == f"{path}: a PDF; name the page, such as {path}#page=1"
    assert error_of(PdfPage(path, 1, 100_000)) == (
        f"{path}#page=1: 200000x100000 pixels at 100000 dpi, above the limit of {MAX_SOURCE_PIXELS}; lower the dpi"
    )
    picture = tmp_path / "a.png"
    picture.write_bytes(picture_bytes())
    assert error_of(PdfPage(picture, 1, 72)).startswith(f"{picture}#page=1: not a readable PDF: ")
    path.write_bytes(b"")
    assert error_of(PdfPage(path, 1, 72)) == f"{path}: the file is empty"


# A PDF whose text is encrypted with a password, by the standard handler: the smallest part that a reader looks at.
ENCRYPTED = b"""%%PDF-1.4
1 0 obj
<< /Type /Catalog /Pages 2 0 R >>
endobj
2 0 obj
<< /Type /Pages /Kids [] /Count 0 >>
endobj
3 0 obj
<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>
endobj
trailer
<< /Root 1 0 R /Encrypt 3 0 R /ID [<00><00>] /Size 4 >>
%%%%EOF
""" % (b"11" * 32, b"22" * 32)


def test_encrypted(tmp_path):
    path = tmp_path / "x.pdf"
    path.write_bytes(ENCRYPTED)
    assert error_of(PdfPage(path, 1, 72)) == f"{path}#page=1: the PDF is encrypted; save it without a password"


def test_real_pages():
    path = shared_media() / "ocr/olmocr_olmo2-pg4.pdf"
    pixels = open_image(PdfPage(path, 1, 72))
    assert pixels.shape == (792, 612, 3) and 200 < pixels.mean() < 255  # dark text on white
