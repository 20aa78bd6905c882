"""Text is searched for placeholders once, and only there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmrl.data.placeholders import Slot, check_counts, split_text
from mmrl.errors import DataError

TOKENS = {"<image>": "image", "<video>": "video", "<image>s": "geometry"}
IMAGE, VIDEO = Slot("image"), Slot("video")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [""]),
        ("no media", ["no media"]),
        ("<image>\nWhat?", ["", IMAGE, "\nWhat?"]),  # fault 16: the line break stays where it was
        ("a <image> b<video>", ["a ", IMAGE, " b", VIDEO, ""]),
        ("<image><image>", ["", IMAGE, "", IMAGE, ""]),
        ("<image>s", ["", Slot("geometry"), ""]),
        ("<Image> < image> <|image_pad|>", ["<Image> < image> <|image_pad|>"]),
    ],
)
def test_split(text, pieces):
    assert split_text(text, TOKENS) == pieces


def test_without_placeholders_text_stays_whole():
    assert split_text("<image>", {}) == ["<image>"]


@given(st.lists(st.sampled_from(["<image>", "<video>", "<", "image>", "x", "\n", "("])))
def test_nothing_is_lost(words):
    text, names = "".join(words), {"image": "<image>", "video": "<video>"}
    pieces = split_text(text, {token: kind for kind, token in names.items()})
    assert "".join(p if isinstance(p, str) else names[p.kind] for p in pieces) == text


@pytest.mark.parametrize(
    ("given_counts", "message"),
    [
        ({"image": 1, "video": 1}, "2 image placeholders but 1 image"),  # fault 15
        ({"image": 3, "video": 1}, "2 image placeholders but 3 images"),
        ({"image": 2}, "1 video placeholder but 0 videos; if the row has one, check the card's column"),
    ],
)
def test_counts_must_agree(given_counts, message):
    text = [["a", IMAGE, "b", IMAGE], [VIDEO]]
    check_counts(text, {"image": 2, "video": 1}, searched=("image", "video"))
    with pytest.raises(DataError, match=message):
        check_counts(text, given_counts, searched=("image", "video"))
