"""SVG, LaTeX and HTML that reach for the machine, or never end: nothing comes of it, and in time."""

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmrl.scoring import browser, tex_engine
from mmrl.scoring.svg import is_allowed, render_svg

SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 64 64">{}</svg>'
needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
needs_chromium = pytest.mark.skipif(browser.program() is None, reason="no Chromium on this machine")


@pytest.fixture
def red_picture(tmp_path: Path) -> Path:
    path = tmp_path / "red.png"
    Image.new("RGB", (64, 64), "red").save(path)
    return path


def is_white(picture_HW3: np.ndarray) -> bool:
    return int(picture_HW3.min()) == 255


def test_resvg_renders_what_it_is_given():
    picture = render_svg(SVG.format('<rect width="32" height="64" fill="red"/>'), width=64)
    assert picture is not None and picture.shape == (64, 64, 3)
    assert picture[10, 10].tolist() == [255, 0, 0] and picture[10, 50].tolist() == [255, 255, 255]


def test_svg_pictures_from_files_and_addresses_are_not_loaded(red_picture):
    """A picture beside it: the same renderer outside the sandbox loads the file."""
    for address in (str(red_picture), f"file://{red_picture}", "http://127.0.0.1:1/x.png", "https://example.org/x.png"):
        svg = SVG.format(f'<image width="64" height="64" href="{address}" xlink:href="{address}"/>')
        picture = render_svg(svg, width=64)
        assert picture is not None and is_white(picture), address

    import io

    import resvg_py

    outside = bytes(
        resvg_py.svg_to_bytes(svg_string=SVG.format(f'<image width="64" height="64" href="{red_picture}"/>'))
    )
    assert Image.open(io.BytesIO(outside)).convert("RGB").getpixel((5, 5)) == (255, 0, 0)


def test_billion_laughs_is_refused_and_cheap():
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    began = time.monotonic()
    assert render_svg(f'<!DOCTYPE svg [<!ENTITY l0 "ha">{entities}]>' + SVG.format("<desc>&l9;</desc>")) is None
    assert time.monotonic() - began < 0.5
    assert not is_allowed("<!DocType x>" + SVG.format(""))


def test_nested_uses_are_ended():
    """Ten copies of ten copies, twelve levels deep."""
    level = '<g id="a0"><rect width="1" height="1"/></g>'
    level += "".join(f'<g id="a{i}">{f"""<use href="#a{i - 1}"/>""" * 10}</g>' for i in range(1, 12))
    began = time.monotonic()
    assert render_svg(SVG.format(f'<defs>{level}</defs><use href="#a11"/>'), time_limit_s=1.5) is None
    assert time.monotonic() - began < 4.0


def test_a_gigantic_canvas_gets_no_memory():
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="100000000"><rect width="1" height="1"/></svg>'
    assert render_svg(svg, width=256, time_limit_s=3.0) is None


@pytest.mark.parametrize(
    "element", ["<text>a</text>", "<svg:tspan/>", "</textPath>", "< text x='1'>", "<foreignObject/>"]
)
def test_text_in_pictures_is_forbidden(element):
    assert not is_allowed(SVG.format(element))


@needs_tex
def test_latex_compiles_and_shell_escape_runs_nothing():
    result = tex_engine.compile_page(r"Hello.\immediate\write18{echo pwned > pwned.txt; id > page.aux.txt}")
    assert result.ok and "page.pdf" in result.files
    assert b"runsystem(echo pwned" in result.files["page.log"] and b"...disabled" in result.files["page.log"]


@needs_tex
@pytest.mark.parametrize(
    "body",
    [
        r"\input{/etc/passwd}",
        r"\input{../../../../../../etc/passwd}",
        r"\newread\f\openin\f=/etc/passwd \ifeof\f\errmessage{closed}\fi\read\f to\l\l",
        r"\input{|cat /etc/passwd}",
        r"\immediate\openout5=/tmp/mmrl-pwned.txt",
    ],
)
def test_latex_reads_and_writes_nothing_outside(body):
    result = tex_engine.compile_page("Text. " + body)
    assert not result.ok and b"root:" not in result.files.get("page.log", b"")
    assert not Path("/tmp/mmrl-pwned.txt").exists()


@needs_tex
@pytest.mark.parametrize(
    ("body", "by"),
    [
        (r"\def\a{\a}\a", "wall"),
        (r"\loop\iftrue\message{" + "x" * 200 + r"}\repeat", None),
        (r"\def\a{\immediate\write\f{" + "x" * 2000 + r"}\a}\newwrite\f\immediate\openout\f=big \a", None),
        (r"\def\a#1{\a{#1#1}}\a{xxxxxxxx}", None),
    ],
    ids=["endless loop", "endless messages", "endless file", "memory"],
)
def test_endless_latex_is_ended(body, by):
    began = time.monotonic()
    result = tex_engine.compile_page(body, time_limit_s=2.0)
    assert not result.ok and time.monotonic() - began < 5.0
    assert by is None or result.killed_by == by


@needs_chromium
def test_html_renders_with_scripts_and_loads_nothing(red_picture):
    page = f"""<body style="margin:0"><img src="file://{red_picture}"><img src="http://127.0.0.1:1/x.png">
    <iframe src="file:///etc/passwd" style="border:0"></iframe>
    <script>document.body.style.background = "rgb(0, 128, 0)"</script>"""
    picture = browser.render_html(page, width=200, height=100)
    assert picture is not None and picture.shape == (100, 200, 3)
    assert picture[-1, -1].tolist() == [0, 128, 0]
    assert not (picture == [255, 0, 0]).all(axis=2).any()


@needs_chromium
def test_endless_html_is_ended():
    began = time.monotonic()
    browser.render_html("<script>for (;;) {}</script>", width=200, height=100, time_limit_s=3.0)
    assert time.monotonic() - began < 6.0
