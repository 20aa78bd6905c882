"""`mmrl launch --hostfile` on two machines: this one under two addresses, each reached by ssh, one process on each.

The test starts an ssh server of its own, with a key of its own, on a free port; nothing outside its folder is touched.
"""

import contextlib
import dataclasses
import getpass
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from makers.command import mmrl
from makers.tiny_run import write_run

from mmrl.commands.launched import pack, unpack
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.distributed import LAUNCHER, free_port
from mmrl.training.run_folder import command_to_go_on

ADDRESSES = ("127.0.0.1", "127.0.0.2")
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
NEEDED = {
    "ssh": shutil.which("ssh"),
    "pdsh": shutil.which("pdsh"),
    "sshd": SSHD,
    "ssh-keygen": shutil.which("ssh-keygen"),
}
STAGE = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}
SERVER = """Port {port}
ListenAddress 127.0.0.1
ListenAddress 127.0.0.2
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
"""
CLIENT = """Host *
  Port {port}
  User {user}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile {folder}/known
  LogLevel ERROR
"""


@dataclasses.dataclass(frozen=True)
class Machines:
    """Two machines that share a disk, and an `ssh` that reaches them without a password."""

    folder: Path
    environment: dict[str, str]

    @property
    def hosts(self) -> Path:
        return self.folder / "hosts"

    def launch(self, *arguments: object) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "mmrl", "launch", "--nproc", "1", "--hostfile", self.hosts, *arguments]
        words = list(map(str, command))
        return subprocess.run(
            words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=900, check=False
        )


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    missing = [name for name, path in NEEDED.items() if path is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder, port = tmp_path_factory.mktemp("machines"), free_port()
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    values = {"folder": folder, "port": port, "user": getpass.getuser()}
    (folder / "sshd_config").write_text(SERVER.format(**values))
    (folder / "ssh_config").write_text(CLIENT.format(**values))
    (folder / "hosts").write_text("".join(f"{address} slots=1\n" for address in ADDRESSES))
    wrapper = folder / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {NEEDED["ssh"]} -F {folder}/ssh_config "$@"\n')
    wrapper.chmod(0o755)
    with _serving(folder):
        root = str(Path(__file__).resolve().parents[2])
        path = {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
        pythonpath = {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
        (folder / ".deepspeed_env").write_text("DS_ACCELERATOR=cpu\nOMP_NUM_THREADS=1\nHF_HUB_OFFLINE=1\n")
        yield Machines(folder, {**os.environ, **path, **pythonpath})


@contextlib.contextmanager
def _serving(folder: Path):
    """An ssh server that answers on both addresses; skips with what it said where it cannot be started."""
    if os.geteuid() == 0:  # then sshd wants the folder that its service makes
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    assert SSHD is not None
    command = [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")]
    with (
        (folder / "sshd.log").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log) as server,
    ):
        try:
            deadline = time.monotonic() + 20
            while not all(_reached(folder, address) for address in ADDRESSES):
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.skip(f"sshd cannot be started here: {(folder / 'sshd.log').read_text().strip()}")
                time.sleep(0.2)
            yield
        finally:
            server.terminate()


def _reached(folder: Path, address: str) -> bool:
    done = subprocess.run([folder / "bin" / "ssh", address, "true"], capture_output=True, check=False)
    return done.returncode == 0


def test_two_machines_train_as_one_process_does(machines):
    """Also: arguments that a shell would split or expand reach the command as they are."""
    config = write_run(machines.folder / "of $HOME; {a,b}", stages=[STAGE])
    odd = ["model.lora={rank: 4, targets: [language_model, projector]}", "train.eps=0.01"]
    two = machines.launch("train", config, *odd, "train.zero_stage=2", "name=two")
    assert two.returncode == 0, two.stdout[-3000:] + two.stderr[-3000:]
    assert mmrl("train", config, *odd, "name=one").code == 0
    folders = [config.parent / "runs" / name for name in ("two", "one")]
    found, expected = ([json.loads(line) for line in (f / "metrics.jsonl").read_text().splitlines()] for f in folders)
    assert [row["step"] for row in found] == [row["step"] for row in expected]
    for row, of_one in zip(found, expected, strict=True):
        keys = [key for key in of_one if not key.startswith("perf/") and key != "stage"]
        assert {key: row[key] for key in keys} == pytest.approx({key: of_one[key] for key in keys}, rel=1e-4, abs=1e-5)
    newest = find_checkpoints(folders[0])[-1]
    assert sorted(path.name for path in newest.glob("optimizer-*")) == ["optimizer-0.pt", "optimizer-1.pt"]


def test_an_error_of_yours_ends_both_machines_with_its_exit_code(machines):
    config = write_run(machines.folder / "broken", stages=[STAGE])
    (config.parent / "1.png").write_bytes(b"no picture")
    said = machines.launch("train", config, "data.shuffle=false", "data.val=[]", "train.zero_stage=1")
    assert said.returncode == 2
    assert said.stderr.count("train.jsonl:2 (id=train:2): ") == 1


def test_a_host_that_does_not_answer_is_an_error(machines, tmp_path):
    config = write_run(tmp_path, stages=[STAGE])
    (tmp_path / "hosts").write_text("127.0.0.9 slots=1\n127.0.0.2 slots=1\n")
    said = Machines(tmp_path, machines.environment).launch("train", config)
    assert said.returncode == 2
    assert "error: 127.0.0.9" in said.stderr


def test_words_of_any_kind_travel_as_one_word():
    arguments = ["train", "a b.yaml", "name='x' \"y\" $Z", "model.lora={rank: 4}", 'stop=["\\n"]', "text=è"]
    word = pack(arguments, launcher=["launch", "--nproc", "8"])
    assert word.replace("-", "").replace("_", "").rstrip("=").isalnum()
    assert unpack(word) == (arguments, ["launch", "--nproc", "8"])


def test_a_run_goes_on_where_it_was_launched(monkeypatch):
    monkeypatch.setenv(LAUNCHER, json.dumps(["launch", "--nproc", "8", "--hostfile", "my hosts"]))
    said = command_to_go_on(Path("runs/x"), processes=16)
    assert said == "mmrl launch --nproc 8 --hostfile 'my hosts' train runs/x/resolved.yaml --resume"
