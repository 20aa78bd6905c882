"""What `rollout.engine: vllm_server` needs and cannot do, said with file and line before anything starts."""

from pathlib import Path

import pytest

from mmrl.config.checks import located
from mmrl.config.load import load_config
from mmrl.config.run_checks import check_run
from mmrl.errors import ConfigError

RUN = """\
model: {path: m}
data: {train: [{path: x.jsonl}]}
rewards: {tasks: {box: [{reward: box_iou}]}}
stages:
- {name: a, kind: grpo, steps: 5, prompts_per_step: 4}
rollout:
  engine: vllm_server
"""
TWO = "  servers: {urls: [http://127.0.0.1:8765, https://node-2:443]}\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", ":7: 'rollout.engine' is vllm_server but 'rollout.servers.urls' is empty; start servers with `mmrl serve"),
        ("  servers: {urls: [127.0.0.1:8765]}", ":8: 'rollout.servers.urls.0' '127.0.0.1:8765' is no address"),
        ("  servers: {urls: [http://node]}", "'http://node' is no address; write http://HOST:PORT"),
        ("  servers: {urls: ['http://node:x']}", "'http://node:x' is no address"),
        ("  servers: {urls: [http://node:1/v1]}", "has more than an address"),
        ("  servers: {urls: [http://a:1, 'http://a:1/']}", "'rollout.servers.urls.1' 'http://a:1/' is listed twice"),
        (f"{TWO}  temperature: 2.5", ":9: 'rollout.temperature' is 2.5, but vLLM takes 0.01 to 2;"),
    ],
)
def test_refused(tmp_path: Path, lines: str, expected: str):
    path = tmp_path / "run.yaml"
    path.write_text(f"{RUN}{lines}\n")
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert expected in str(refused.value)


def test_a_trainer_of_servers_needs_no_vllm(tmp_path: Path, monkeypatch):
    path = tmp_path / "run.yaml"
    path.write_text(RUN + TWO)
    (tmp_path / "x.jsonl").write_text('{"prompt": "a"}\n')
    monkeypatch.setattr("mmrl.config.rollout_checks.find_spec", lambda name: None)
    check_run(located(load_config(path)), training=True)
    with pytest.raises(ConfigError, match=r"'rollout.engine' is vllm, which is not installed"):
        check_run(located(load_config(path, ["rollout.engine=vllm"])), training=True)
