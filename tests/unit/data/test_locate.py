"""Strings that name media: what wins where a string may mean two things, and what is said where it means nothing."""

import base64
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from makers.media import picture_bytes, read_one, write_frames, write_pdf, write_picture, write_tar, write_zip

from mmrl.data.locate import Locator, MediaRules
from mmrl.data.locations import ArchiveMember, PdfPage, RawBytes, Url
from mmrl.errors import DataError, MissingMediaError

# Pieces of which file names, archive names, members and pages are put together, the separators among them.
PIECES = st.sampled_from(
    ["a", "b.zip", ".png", "::", ":", "#page=", "#page=2", "#", "x.pdf", "3", "=", " ", "é", "%20"]
)
NAMES = st.lists(PIECES, min_size=1, max_size=6).map("".join)


def reads(root, written, *, kind="image"):
    return read_one(written, root, kind=kind).source


def fresh(tmp_path_factory):
    return tmp_path_factory.mktemp("names")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES)
def test_an_existing_file_of_the_literal_name_wins(tmp_path_factory, name):
    root = fresh(tmp_path_factory)
    path = write_picture(root / name)
    assert reads(root, name) == path
    assert reads(root, f"file://{path}") == path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(archive=NAMES, member=NAMES)
def test_a_member_is_found_whatever_the_names(tmp_path_factory, archive, member):
    root = fresh(tmp_path_factory)
    path = write_zip(root / archive, {member: picture_bytes()})
    assert reads(root, f"{archive}::{member}") == ArchiveMember(path, member)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES, page=st.integers(1, 10**6))
def test_a_page_is_found_whatever_the_file_is_called(tmp_path_factory, name, page):
    root = fresh(tmp_path_factory)
    path = write_picture(root / name)  # what it is, opening it tells
    assert reads(root, f"{name}#page={page}") == PdfPage(path, page, 144)
    literal = write_picture(root / f"{name}#page={page}")
    assert reads(root, f"{name}#page={page}") == literal


@settings(max_examples=100, deadline=None)
@given(name=NAMES)
def test_a_name_that_leads_nowhere_is_always_a_missing_file(tmp_path_factory, name):
    locator = Locator("image", fresh(tmp_path_factory), MediaRules())
    with pytest.raises(MissingMediaError, match=r"^no such file: "):
        locator.locate(name, "images[0]")


def test_a_page_of_a_member(tmp_path):
    document = write_pdf(tmp_path / "x.pdf").read_bytes()
    archive = write_zip(tmp_path / "a.zip", {"d/x.pdf": document})
    assert reads(tmp_path, "a.zip::d/x.pdf#page=3") == PdfPage(ArchiveMember(archive, "d/x.pdf"), 3, 144)
    write_zip(tmp_path / "b.zip", {"x.pdf": document, "x.pdf#page=3": picture_bytes()})
    assert reads(tmp_path, "b.zip::x.pdf#page=3") == ArchiveMember(tmp_path / "b.zip", "x.pdf#page=3")
    urls = MediaRules(allow_urls=True)
    assert read_one("https://x/y.pdf#page=2", tmp_path, rules=urls).source == PdfPage(Url("https://x/y.pdf"), 2, 144)


def test_base64_is_recognised_by_what_it_holds_only(tmp_path):
    text = base64.b64encode(picture_bytes()).decode()
    broken_lines = "\n".join(text[start : start + 76] for start in range(0, len(text), 76))
    assert reads(tmp_path, text).data == reads(tmp_path, broken_lines).data == picture_bytes()
    write_picture(tmp_path / text[:80])
    assert reads(tmp_path, text[:80]) == tmp_path / text[:80]
    for no_base64 in ("aGVsbG8=", "iVBORw0KGgo=", "photos/dog", "A" * 200, "A" * 5000):
        with pytest.raises(MissingMediaError, match="no such file: "):
            reads(tmp_path, no_base64)


def test_a_megabyte_that_is_no_file_is_not_repeated_in_the_message(tmp_path):
    with pytest.raises(MissingMediaError) as caught:
        reads(tmp_path, "x/" * 500_000)
    assert str(caught.value).endswith("x/x... (1000000 characters)") or len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["\ud800", "a\0b", "x" * 300, "é" * 200])
def test_names_that_no_file_can_have(tmp_path, name):
    with pytest.raises(MissingMediaError, match="no such file: "):
        reads(tmp_path, name)


def test_percent_signs_in_file_urls(tmp_path):
    plain, escaped = write_picture(tmp_path / "a b.png"), tmp_path / "a%20b.png"
    assert reads(tmp_path, f"file://{tmp_path}/a%20b.png") == plain
    write_picture(escaped)
    assert reads(tmp_path, f"file://{tmp_path}/a%20b.png") == escaped
    assert reads(tmp_path, f"FILE://{tmp_path}/a b.png") == plain
    assert reads(tmp_path, "file://a b.png") == plain  # as qwen-vl-utils reads it


def test_data_uris(tmp_path):
    data = picture_bytes()
    text = base64.b64encode(data).decode()
    assert reads(tmp_path, f"data:image/png;charset=x;base64,{text}").data == data
    assert reads(tmp_path, "data:,%89PNG%0d").data == b"\x89PNG\r"
    assert isinstance(reads(tmp_path, f"data:application/octet-stream;base64,{text}", kind="video"), RawBytes)


@pytest.mark.parametrize(
    ("written", "kind", "message"),
    [
        ("data:text/html;base64,aGVsbG8=", "image", "media[0] is a data URI of type text/html, not image/..."),
        ("data:image/png;base64,aGVsbG8=", "video", "media[0] is a data URI of type image/png, not video/..."),
        ("data:image/png;base64,a$", "image", "media[0]: not valid base64: Only base64 data is allowed"),
        ("data:image/png;base64,", "image", "media[0]: holds no bytes"),
        (
            "https://x/a.jpg",
            "image",
            "media[0] is a URL (https://x/a.jpg); download it and name the file, or set data.allow_urls: true to fetch "
            "it into the cache",
        ),
        (
            "s3://bucket/a.jpg",
            "image",
            "media[0] is a URL (s3://bucket/a.jpg) and only http(s) is fetched; download it and name the file",
        ),
        ("x.pdf#page=0", "image", "{root}/x.pdf#page=0: pages are counted from 1"),
        (
            "x.pdf#page=1",
            "video",
            "{root}/x.pdf#page=1: a PDF page is a picture, not a clip; list it among the images",
        ),
        ("gone.pdf#page=1", "image", "no such file: {root}/gone.pdf"),
        (
            "a.zip::c/b.png",
            "image",
            "no such file: {root}/a.zip::c/b.png; {root}/a.zip holds 2 files, none called 'c/b.png'; did you mean "
            "'b/b.png'?",
        ),
        (
            "a.tar.gz::b.png",
            "image",
            "no such file: {root}/a.tar.gz::b.png; {root}/a.tar.gz: compressed as a whole, so its members cannot be "
            "read one by one; repack it as .zip or as an uncompressed .tar",
        ),
        (
            "x.pdf::b.png",
            "image",
            "no such file: {root}/x.pdf::b.png; {root}/x.pdf: not a readable archive (zip, or tar without "
            "compression): invalid header",
        ),
        ("gone.zip::b.png", "image", "no such file: {root}/gone.zip::b.png"),
        (
            "frames",
            "image",
            "no such file: {root}/frames; it is a folder, and only a clip may be a folder of frames",
        ),
        ("", "image", "media[0] must be a path, not an empty string"),
    ],
)
def test_errors(tmp_path, written, kind, message):
    write_pdf(tmp_path / "x.pdf")
    write_zip(tmp_path / "a.zip", {"b/b.png": b"1", "c.txt": b"2"})
    write_tar(tmp_path / "a.tar.gz", {"b.png": b"1"}, mode="w:gz")
    write_frames(tmp_path / "frames", 2)
    with pytest.raises(DataError) as caught:
        reads(tmp_path, written, kind=kind)
    assert str(caught.value) == message.format(root=tmp_path)


def test_messages_name_no_other_remedy_than_the_right_one(tmp_path):
    with pytest.raises(DataError, match=re.escape("only http(s) is fetched")):
        read_one("ftp://x/a.png", tmp_path, rules=MediaRules(allow_urls=True))
