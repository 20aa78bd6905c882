"""SVG, LaTeX and HTML that reach for the machine, or never end: nothing comes of it, and in time."""

import base64
import gzip
import hashlib
import io
import resource
import shutil
import socket
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


def is_red(picture_HW3: np.ndarray) -> np.ndarray:
    return (picture_HW3 == [255, 0, 0]).all(axis=2)


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


def embedded(content: bytes, kind: str = "svg+xml") -> str:
    return f'<image width="64" height="64" href="data:image/{kind};base64,{base64.b64encode(content).decode()}"/>'


def laughing_picture() -> bytes:
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    return (f'<!DOCTYPE svg [<!ENTITY l0 "ha">{entities}]>' + SVG.format("<desc>&l9;</desc>")).encode()


def large_png() -> bytes:
    file = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(file, "PNG")
    return file.getvalue()


PATTERNS = "".join(
    f'<pattern id="p{i}" width="1" height="1"><rect width="9" height="9" fill="url(#p{i - 1})"/></pattern>'
    for i in range(1, 40)
)


@pytest.mark.parametrize(
    "content",
    [
        embedded(laughing_picture()),
        embedded(gzip.compress(b"<svg xmlns='http://www.w3.org/2000/svg'><desc>" + b"a" * 200_000_000)),
        embedded(large_png(), "png"),
        '<filter id="f">' + '<feMorphology operator="dilate" radius="60"/>' * 1000 + "</filter>"
        '<rect width="64" height="64" filter="url(#f)"/>',
        '<filter id="f"><feTurbulence numOctaves="100000" baseFrequency="0.1"/></filter>'
        '<rect width="64" height="64" filter="url(#f)"/>',
        '<g id="a"><use href="#a"/></g>',
        "<g>" * 100_000 + "</g>" * 100_000,
        PATTERNS + '<rect width="64" height="64" fill="url(#p39)"/>',
        '<path d="M0 0H1e9" stroke="red" stroke-dasharray="1e-6"/>',
    ],
    ids=["entities inside", "packed", "huge picture", "slow filter", "noise", "loop", "deep", "patterns", "dashes"],
)
def test_bombs_inside_an_svg_are_ended_in_time_and_take_no_memory_here(content):
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    picture = render_svg(SVG.format(content), width=64, time_limit_s=1.5)
    assert time.monotonic() - began < 4.5
    assert picture is None or picture.shape == (64, 64, 3)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_nothing_outside_is_included_in_an_svg(tmp_path):
    other = tmp_path / "other.svg"
    other.write_text(SVG.format('<rect id="x" width="64" height="64" fill="red"/>'))
    (tmp_path / "style.css").write_text("rect { fill: red }")
    for content in (
        f'<style>@import url("file://{tmp_path}/style.css");</style><rect width="64" height="64" fill="white"/>',
        f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file://{other}"/>',
        f'<use href="file://{other}#x"/><use href="http://127.0.0.1:1/other.svg#x"/>',
        f'<rect width="64" height="64" fill="url(file://{other}#x) white"/>',
    ):
        picture = render_svg(SVG.format(content), width=64)
        assert picture is not None and not is_red(picture).any(), content


def test_a_gigantic_canvas_gets_no_memory():
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="100000000"><rect width="1" height="1"/></svg>'
    assert render_svg(svg, width=256, time_limit_s=3.0) is None


@pytest.mark.parametrize(
    "element", ["<text>a</text>", "<svg:tspan/>", "</textPath>", "< text x='1'>", "<foreignObject/>", "<a.b:text>"]
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
    "body",
    [
        r"\message{[\pdffiledump offset 0 length 20 {FILE}]}",
        r"\message{[\pdfmdfivesum file {FILE}]}",
        r"\message{[\pdffilesize{FILE}]}",
        r"\message{[\pdffilemoddate{FILE}]}",
        r"\pdfcompresslevel0 \immediate\pdfobj stream file {FILE}\pdfrefobj\pdflastobj",
        r"\pdfximage{FILE}",
        r"\pdfmapfile{FILE}",
        r"\font\x=FILE \x",
        r"\makeatletter\@@input FILE",
        r"\openin5=FILE \read5 to\l\message{[\meaning\l]}",
        r"\catcode`\|=12 \openin5=|\"cat\space FILE\" \read5 to\l\message{[\meaning\l]}",
        r"\newwrite\f\immediate\openout\f=texmf.cnf \immediate\write\f{openin_any=a}\immediate\closeout\f \input{FILE}",
        r"\directlua{tex.print(io.open('FILE'):read('a'))}",
    ],
)
def test_no_command_of_tex_says_anything_of_a_file_outside(body, tmp_path):
    secret = tmp_path / "secret.tex"
    secret.write_text("SECRETTOKEN")
    result = tex_engine.compile_page("Text. " + body.replace("FILE", str(secret)))
    shown = result.files.get("page.log", b"") + result.files.get("page.pdf", b"") + result.stdout + result.stderr
    assert shown
    said = {b"SECRETTOKEN", b"SECRETTOKEN".hex().upper().encode(), hashlib.md5(b"SECRETTOKEN").hexdigest().encode()}
    assert not [word for word in said if word.lower() in shown.lower()]
    assert b"[11]" not in shown and b"[D:20" not in shown


@needs_tex
@pytest.mark.parametrize(
    ("body", "by"),
    [
        (r"\def\a{\a}\a", "wall"),
        (r"\loop\iftrue\message{" + "x" * 200 + r"}\repeat", None),
        (r"\def\a{\immediate\write\f{" + "x" * 2000 + r"}\a}\newwrite\f\immediate\openout\f=big \a", None),
        (r"\def\a#1{\a{#1#1}}\a{xxxxxxxx}", None),
        (r"\loop x\newpage\iftrue\repeat", None),
        (r"\pdfcompresslevel0 \def\a{\immediate\pdfobj stream{" + "x" * 5000 + r"}\a}\a", None),
    ],
    ids=["endless loop", "endless messages", "endless file", "memory", "endless pages", "endless objects"],
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
    assert not is_red(picture).any()


@needs_chromium
def test_endless_html_is_ended():
    began = time.monotonic()
    browser.render_html("<script>for (;;) {}</script>", width=200, height=100, time_limit_s=3.0)
    assert time.monotonic() - began < 6.0


@needs_chromium
def test_html_reaches_no_server_and_no_file():
    """By scripts, styles, frames, redirections, workers and downloads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        page = f"""<link rel="stylesheet" href="http://{address}/a.css"><style>@import "http://{address}/b.css";
        @font-face {{ font-family: x; src: url(http://{address}/c.woff) }} body {{ font-family: x }}</style>
        <img src="http://{address}/d.png"><iframe src="http://{address}/e"></iframe><object data="file:///etc/passwd">
        </object><script src="http://{address}/f.js"></script><script>
        fetch("http://{address}/g").catch(() => 0); navigator.sendBeacon("http://{address}/h", "x");
        new WebSocket("ws://{address}/i"); new EventSource("http://{address}/j");
        new RTCPeerConnection({{iceServers: [{{urls: "stun:{address}"}}]}}).createDataChannel("k");
        for (const path of ["/etc/passwd", "/proc/1/environ", "/proc/1/cmdline"])
          fetch("file://" + path).then(r => r.text()).then(() => document.body.style.background = "red");
        </script>text"""
        picture = browser.render_html(page, width=200, height=100)
        assert picture is not None and not is_red(picture).any()
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


@needs_chromium
@pytest.mark.parametrize("way", ["location = '{}'", "window.open('{}', '_self')", "document.write('<embed src={}>')"])
def test_a_page_that_goes_to_a_file_outside_does_not_see_it(way, tmp_path):
    (tmp_path / "red.html").write_text("<body style='background: rgb(255, 0, 0)'>")
    script = way.format(f"file://{tmp_path}/red.html")
    for page in (
        f"<script>{script}</script>",
        f'<meta http-equiv="refresh" content="0;url=file://{tmp_path}/red.html">',
    ):
        picture = browser.render_html(page, width=300, height=100)
        assert picture is None or not is_red(picture).any()


@needs_chromium
@pytest.mark.parametrize(
    "script",
    [
        "const a = []; for (;;) a.push(new Uint8Array(1e8).fill(1))",
        "for (let i = 0; i < 500; i++) new Worker(URL.createObjectURL(new Blob(['for (;;) {}'])))",
        "for (let i = 0; i < 50; i++) { const c = document.createElement('canvas'); c.width = c.height = 16000;"
        " c.getContext('2d').fillRect(0, 0, 16000, 16000); document.body.append(c) }",
        "for (let i = 0; i < 100; i++) window.open('page.html')",
        "for (let i = 0; i < 100; i++) { const a = document.createElement('a'); a.download = 'x' + i;"
        " a.href = URL.createObjectURL(new Blob([new Uint8Array(1e7)])); a.click() }",
        "alert(1)",
    ],
    ids=["memory", "workers", "canvases", "windows", "downloads", "dialog"],
)
def test_pages_that_want_everything_are_ended(script):
    began = time.monotonic()
    browser.render_html(f"<body><script>{script}</script>", width=200, height=100, time_limit_s=3.0)
    assert time.monotonic() - began < 6.0
