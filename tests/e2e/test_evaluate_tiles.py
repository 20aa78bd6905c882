"""Servers and families that cut pictures into tiles: the whole picture goes out, with how it is to be cut."""

import base64
import importlib.util
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from makers.chat_server import ChatServer, parts
from makers.command import mmrl
from makers.media import write_picture
from makers.signs import write_signs
from makers.tiny_models import tiny_model_dir
from PIL import Image

TILE = 56
SIZES = ((2 * TILE + 9, TILE + 3), (TILE, TILE), (TILE + 5, 2 * TILE + 11), (2 * TILE + 20, 2 * TILE + 30))


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    """Four pictures, of up to 4 tiles."""
    found = write_signs(tmp_path_factory.mktemp("signs"), count=4, tokens=12)
    for number, size in enumerate(SIZES):
        write_picture(found.parent / f"{number}.png", number, size=size)
    budget = f"  budgets: {{image: {{min_pixels: {TILE}, max_pixels: {4 * TILE**2}}}}}\n  card:"
    found.write_text(found.read_text().replace("  card:", budget))
    return found


def evaluate(task: Path, out: Path, *more: object, kind: str = "internvl"):
    model = ("--model", tiny_model_dir(kind), "--dtype", "float32", "--workers", 1)
    where = ("--tasks", task, "--root", task.parent, "--out", out, "--cache", task.parent / "cache")
    return mmrl("evaluate", *model, *where, *more)


def asked(task: Path, out: Path, url: str, *more: object, kind: str = "internvl"):
    return evaluate(task, out, "--engine", "openai", "--server", url, "--server-model", "tiny", *more, kind=kind)


def rows(out: Path) -> dict[str, dict]:
    found = map(json.loads, (out / "signs" / "samples.jsonl").read_text().splitlines())
    return {row["key"]: row for row in found}


def test_the_whole_picture_goes_out_and_another_number_of_tokens_is_no_answer(task, tmp_path):
    with ChatServer(lambda body: "B", prompt_tokens=7) as server:
        assert asked(task, tmp_path / "out", server.url, "--limit", 1).code == 1
    [row] = rows(tmp_path / "out").values()
    told = re.search(r"made 7 tokens of a prompt of (\d+): it cuts pictures otherwise", row["reason"])
    assert row["status"] == "error" and told is not None
    [body] = server.bodies
    assert body["mm_processor_kwargs"] == {"crop_to_patches": True, "min_patches": 1, "max_patches": 4}
    [picture] = parts(body, "image_url")
    sent = Image.open(io.BytesIO(base64.b64decode(picture["image_url"]["url"].split(",")[1])))
    assert sent.size == SIZES[0]
    assert sent.tobytes() == Image.open(task.parent / "0.png").convert("RGB").tobytes()
    with ChatServer(lambda body: "B", prompt_tokens=int(told[1])) as server:
        assert asked(task, tmp_path / "out", server.url, "--limit", 1, "--retry-failed").code == 0
    assert [(row["status"], row["completion"]) for row in rows(tmp_path / "out").values()] == [("ok", "B")]


def test_a_family_whose_tiles_no_request_can_set_is_refused(task, tmp_path):
    with ChatServer(lambda body: "B") as server:
        said = asked(task, tmp_path / "out", server.url, kind="llava_onevision")
    assert said.code == 2 and said.line_with("tiles of the llava_onevision family", "--engine hf or vllm")


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_a_vllm_server_answers_as_our_engine_does(task, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--port", str(port))
    model = ("--model", str(tiny_model_dir("internvl")), "--served-model-name", "tiny", "--dtype", "float32")
    limits = ("--max-model-len", "2048", "--enforce-eager", "--skip-mm-profiling", "--trust-request-mm-kwargs")
    with (tmp_path / "log").open("w") as log:
        environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        options = {"stdout": log, "stderr": log, "env": environment, "start_new_session": True}
        server = subprocess.Popen([*program, *model, *limits], **options)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", server)
        assert asked(task, tmp_path / "server", f"http://127.0.0.1:{port}/v1", "--strict").code == 0
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # its engine is a process of its own
        server.wait()
    assert evaluate(task, tmp_path / "hf").code == 0
    texts = [{key: row["completion"] for key, row in rows(tmp_path / name).items()} for name in ("server", "hf")]
    assert texts[0] == texts[1] and len(set(texts[0].values())) == len(SIZES)


def wait_for(url: str, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the server did not start")
