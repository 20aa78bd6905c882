"""Media on the web: fetched once, whole or not at all, within limits, and named by their URL."""

import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from makers.clips import ClipSpec, write_clip
from makers.configs import media_rows, write_config
from makers.media import BUDGET, open_here, picture_bytes, read_one, write_pdf
from makers.openers import QWEN25, LocalOpener

from mmrl.config.load import load_config
from mmrl.data import downloads
from mmrl.data.cache import PixelCache
from mmrl.data.cache_cli import misses
from mmrl.data.downloads import download
from mmrl.data.locate import MediaRules
from mmrl.data.preprocess.run import preprocess
from mmrl.errors import MediaError

RULES = MediaRules(source_fps=5.0, allow_urls=True)


class Server(ThreadingHTTPServer):
    """Serves `files`; counts `asked`. Some paths misbehave."""

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.asked = files, []

    def url(self, name):
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        name = self.path.lstrip("/")
        self.server.asked.append(name)
        if name in ("to_file", "round"):
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname" if name == "to_file" else "/round")
            return self.end_headers()
        if name not in self.server.files:
            return self.send_error(404)
        data = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(data) + (10 if name == "cut.png" else 0)))
        self.end_headers()
        if name == "slow.png":
            for byte in data:
                time.sleep(0.05)
                self.wfile.write(bytes([byte]))
        self.wfile.write(data)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server(tmp_path):
    clip = write_clip(tmp_path / "v.mp4", ClipSpec(frames=24)).read_bytes()
    document = write_pdf(tmp_path / "x.pdf").read_bytes()
    files = {"a.png": picture_bytes(1), "v.mp4": clip, "x.pdf": document, "page.png": b"<html>sorry"}
    files |= {"cut.png": picture_bytes(), "slow.png": picture_bytes()}
    with Server(files) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def stored(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "downloads").iterdir())


def test_fetched_once_and_equal_to_the_file(tmp_path, server):
    (tmp_path / "a.png").write_bytes(picture_bytes(1))
    opener = LocalOpener()
    routes = [
        ("a.png", "a.png", "image"),
        ("v.mp4", "v.mp4", "video"),
        ("x.pdf#page=2", "x.pdf#page=2", "image"),
        ([["a.png", "a.png"]], None, "video"),
    ]
    for written, plain, kind in routes:
        value = [[server.url(name) for name in written[0]]] if plain is None else server.url(written)
        ref = read_one(value, tmp_path, kind=kind, rules=RULES)
        expected = open_here(read_one(plain or written, tmp_path, kind=kind, rules=RULES))
        for _ in range(2):
            cache = PixelCache(tmp_path / "cache")
            entry = cache.get(ref, BUDGET, QWEN25, opener)
            assert torch.equal(entry.frames_F3HW, expected.frames_F3HW)
        here = cache.get(read_one(plain or written, tmp_path, kind=kind, rules=RULES), BUDGET, QWEN25, opener)
        assert here.key == entry.key
    assert server.asked == ["a.png", "v.mp4", "x.pdf"] and opener.opened == 4
    names = sorted(hashlib.sha256(server.url(name).encode()).hexdigest() for name in ("a.png", "v.mp4", "x.pdf"))
    assert stored(tmp_path / "cache") == names


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone.png", "cannot be fetched: Not Found (status 404)"),
        ("cut.png", f"cut short: {len(picture_bytes())} of {len(picture_bytes()) + 10} bytes came"),
        ("to_file", "cannot be fetched: Found - Redirection to url 'file:///etc/hostname' is not allowed (status 302)"),
        ("page.png", "not a picture; it starts with b'<html>sorry'"),
    ],
)
def test_errors_name_the_url(tmp_path, server, name, reason):
    ref = read_one(server.url(name), tmp_path, rules=RULES)
    with pytest.raises(MediaError) as caught:
        PixelCache(tmp_path / "cache").get(ref, BUDGET, QWEN25, LocalOpener())
    assert str(caught.value) == f"{server.url(name)}: {reason}"
    assert stored(tmp_path / "cache") == ([] if name != "page.png" else stored(tmp_path / "cache"))


def test_redirections_end(tmp_path, server):
    with pytest.raises(MediaError, match=r"/round: cannot be fetched: .*infinite loop"):
        download(server.url("round"), tmp_path / "d/x")


def test_limits(tmp_path, server):
    target = tmp_path / "d/x"
    with pytest.raises(MediaError, match=r"a\.png: larger than the limit of 1000 bytes; download it and name the file"):
        download(server.url("a.png"), target, max_bytes=1000)
    started = time.monotonic()
    with pytest.raises(MediaError, match=r"slow\.png: took longer than 0\.3 s to fetch; download it and name the file"):
        download(server.url("slow.png"), target, limit_s=0.3)
    assert time.monotonic() - started < 5 and list(target.parent.iterdir()) == []


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(MediaError, match=r"^http://127\.0\.0\.1:9/a\.png: cannot be fetched: .*refused"):
        download("http://127.0.0.1:9/a.png", tmp_path / "x")
    with pytest.raises(MediaError, match=r"^http://\[/a\.png: cannot be fetched: "):
        download("http://[/a.png", tmp_path / "x")


def test_nothing_is_fetched_where_nothing_may_be_built(tmp_path, server):
    ref = read_one(server.url("a.png"), tmp_path, rules=RULES)
    with pytest.raises(MediaError) as caught:
        PixelCache(tmp_path / "cache", on_miss="error").get(ref, BUDGET, QWEN25, LocalOpener())
    folder = tmp_path / "cache" / downloads.FOLDER
    assert str(caught.value) == (
        f"{server.url('a.png')}: not fetched into {folder}, and cache.on_miss is error; run `mmrl preprocess`"
    )
    with pytest.raises(MediaError, match="not fetched yet; media on the web are opened through a cache"):
        open_here(ref)
    assert server.asked == []


def test_preprocess_fetches_and_explain_does_not(tmp_path, server, capsys):
    row = {"prompt": "<image>?", "answer": "a", "task": "t", "images": [server.url("a.png")]}
    path = write_config(tmp_path, [row, *media_rows(tmp_path, images=1)])
    assert preprocess(load_config(path)) == 1
    assert "set data.allow_urls: true to fetch it into the cache" in capsys.readouterr().err
    config = load_config(path, ["data.allow_urls=true"])
    assert [reason for _, reason in misses(config)] == [
        f"not fetched into {tmp_path}/cache/downloads, and cache.on_miss is error; run `mmrl preprocess`",
        None,
    ]
    assert preprocess(config) == 0 and server.asked == ["a.png"]
    assert next(misses(config)) == (f"train.jsonl:1 (id=train:1): {server.url('a.png')}", None)
