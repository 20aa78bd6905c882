"""`mmrl evaluate --engine openai`: questions answered by servers on this machine, whole and with failures."""

import base64
import io
import json
import zlib
from functools import partial
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.chat_server import ChatServer, parts
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir
from PIL import Image

from mmrl.scoring.judge import endpoint

LETTERS = "ABC"


def letter(body: dict) -> str:
    """By a hash of the question."""
    return LETTERS[zlib.crc32(json.dumps(body["messages"]).encode()) % len(LETTERS)]


Server = partial(ChatServer, letter)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return write_benchmarks(tmp_path_factory.mktemp("benchmarks"), ["mmstar", "charades_sta"])


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr(endpoint, "_LONGEST_WAIT_S", 0.01)


def asked(files: Path, out: Path, *more: object):
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--workers", 1, "--engine", "openai", "--server-model", "tiny")
    where = ("--root", files, "--out", out, "--cache", files / "cache", "--limit", ROWS)
    return mmrl("evaluate", *model, *where, "--tasks", "mmstar,charades_sta", *more)


def rows(out: Path, task: str) -> dict[str, dict]:
    found = [json.loads(line) for line in (out / task / "samples.jsonl").read_text().splitlines()]
    assert len({row["key"] for row in found}) == len(found)
    return {row["key"]: row for row in found}


def test_two_servers_give_the_results_of_one(files, tmp_path):
    with Server() as one:
        assert asked(files, tmp_path / "one", "--server", one.url).code == 0
    with Server() as a, Server() as b:
        said = asked(files, tmp_path / "two", "--server", a.url, "--server", b.url, "--batch", 4)
        assert said.code == 0, said.err
        assert len(a.bodies) + len(b.bodies) == 2 * ROWS and a.bodies and b.bodies
    first, second = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("one", "two"))
    assert first["benchmarks"] == second["benchmarks"]
    for task in ("mmstar", "charades_sta"):
        assert rows(tmp_path / "one", task) == rows(tmp_path / "two", task)
    assert {row["completion"] for row in rows(tmp_path / "one", "mmstar").values()} <= set(LETTERS)
    assert first["benchmarks"]["charades_sta"]["n_unparsed"] == ROWS, "a letter is no span"


def test_pictures_and_frames_are_sent_as_the_cache_holds_them(files, tmp_path, monkeypatch):
    monkeypatch.setenv("THEIR_TOKEN", "secret")
    with Server() as server:
        assert asked(files, tmp_path / "out", "--server", server.url, "--token-env", "THEIR_TOKEN").code == 0
    assert set(server.tokens) == {"Bearer secret"}
    pictures = [body for body in server.bodies if "Options" in json.dumps(body)]
    clips = [body for body in server.bodies if body not in pictures]
    assert len(pictures) == len(clips) == ROWS
    for body in pictures:
        (picture,) = parts(body, "image_url")
        head, data = picture["image_url"]["url"].split(",")
        assert head == "data:image/png;base64"
        width, height = Image.open(io.BytesIO(base64.b64decode(data))).size
        assert width % 28 == height % 28 == 0 and width and height
        assert (body["temperature"], body["max_tokens"], body["model"]) == (0.0, 16, "tiny")
    for body in clips:
        frames, texts = parts(body, "image_url"), [part["text"] for part in parts(body, "text")]
        assert frames and all(f["image_url"]["url"].startswith("data:image/jpeg;base64,") for f in frames)
        assert sum("seconds>" in text for text in texts) == len(frames) and "<0.0 seconds>" in texts[0]


def test_a_failed_request_is_an_error_and_never_an_answer(files, tmp_path):
    out = tmp_path / "out"
    with Server(
        fails=lambda body: not parts(body, "image_url")[0]["image_url"]["url"].startswith("data:image/png")
    ) as s:
        said = asked(files, out, "--server", s.url)
    assert said.code == 1 and said.line_with("charades_sta: all questions failed")
    assert {row["status"] for row in rows(out, "mmstar").values()} == {"ok"}
    for row in rows(out, "charades_sta").values():
        assert (row["status"], row["completion"]) == ("error", "") and "status 500" in row["reason"]
    found = json.loads((out / "results.json").read_text())["benchmarks"]["charades_sta"]
    assert (found["score"], found["n_failed"], found["n_scored"], found["n_total"]) == (0.0, ROWS, 0, ROWS)


def test_what_one_server_fails_another_one_answers(files, tmp_path):
    with Server(fails=lambda body: True) as broken, Server() as well:
        assert asked(files, tmp_path / "out", "--server", broken.url, "--server", well.url, "--strict").code == 0
    assert broken.bodies and len(well.bodies) == 2 * ROWS


def test_a_server_that_is_not_there_or_lacks_the_model_is_said_at_the_start(files, tmp_path):
    said = asked(files, tmp_path / "a")
    assert said.code == 2 and said.line_with("--engine openai needs --server")
    with Server() as server:
        said = asked(files, tmp_path / "b", "--server", server.url, "--server-model", "tinny")
        assert said.code == 2 and said.line_with("has no model 'tinny'", "did you mean 'tiny'?")
        url = server.url
    said = asked(files, tmp_path / "c", "--server", url)
    assert said.code == 2 and said.line_with(f"the server at {url} does not answer")
