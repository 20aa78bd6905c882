"""What executing rewards check before a run starts: walls, time limits, programs, packages."""

import contextlib
import shutil
import time
from pathlib import Path

import pytest

from mmrl.config.schema import RewardsSection
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError
from mmrl.scoring.pool import RewardCall, RewardPool
from mmrl.scoring.reward import check_machine, resolve_reward
from mmrl.scoring.router import Router
from mmrl.scoring.sandbox import preflight, walls


def router(reward: str, *, timeout_s: float = 10.0, **options) -> Router:
    part = {"reward": reward, "options": options}
    return Router(RewardsSection.model_validate({"workers": 0, "timeout_s": timeout_s, "tasks": {"code": [part]}}))


@pytest.fixture
def no_walls(monkeypatch):
    """A machine that has none of the three."""
    monkeypatch.setattr(walls, "layers", lambda: ())
    walls.isolation.cache_clear()
    yield
    walls.isolation.cache_clear()


def test_without_walls_an_executing_reward_does_not_start(no_walls):
    with pytest.raises(ConfigError) as raised:
        router("code_tests").validate()
    message = str(raised.value)
    assert "rewards.tasks.code[0] (code_tests)" in message and "files, network, processes" in message
    assert "bubblewrap" in message and "allow_weak_sandbox: true" in message


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "bubblewrap is not installed (apt-get install bubblewrap)"),
        (
            "echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
            "(No permissions to create new namespace;",
        ),
        ("exit 7", "bubblewrap may not make namespaces here (exit code 7;"),
    ],
)
def test_the_error_says_why_bubblewrap_is_not_used(no_walls, monkeypatch, tmp_path, script, said):
    if script is not None:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bwrap").chmod(0o755)
    (tmp_path / "rm").symlink_to(shutil.which("rm"))  # with which the sandbox removes its folder
    monkeypatch.setenv("PATH", str(tmp_path))
    walls.bubblewrap_problem.cache_clear()
    try:
        with pytest.raises(ConfigError) as raised:
            walls.require_isolation(allow_weak=False, what="it")
    finally:
        walls.bubblewrap_problem.cache_clear()
    assert said in str(raised.value)
    assert "sysctl" in str(raised.value) or script is None


def test_a_weak_sandbox_is_used_where_the_configuration_says_so(no_walls):
    assert scores_of(router("code_tests", allow_weak_sandbox=True)) == [1.0, 0.0]


def test_with_walls_it_starts():
    assert scores_of(router("code_tests")) == [1.0, 0.0]


def scores_of(found: Router) -> list[float]:
    """Of a right program and a wrong one, after the checks."""
    found.validate()
    sample = Sample("a", "code", "image", (), answer=["assert f(1) == 2"])
    [scores] = found.score([(sample, [f"```python\ndef f(x): return x + {n}\n```" for n in (1, 2)])]).rewards
    return list(scores)


def test_the_sandbox_must_end_before_the_pool_does():
    with pytest.raises(
        ConfigError, match=r"may take 8 s .* rewards.timeout_s is 8 s; set rewards.timeout_s to at least 9"
    ):
        router("code_tests", timeout_s=8.0).validate()
    router("code_tests", timeout_s=8.0, time_limit_s=6.5).validate()


def test_a_missing_program_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=r"needs pdflatex, .* apt-get install texlive-latex-base .* latex_static"):
        router("texocr").validate()


def test_a_missing_package_is_named_with_its_remedy():
    with pytest.raises(ConfigError, match=r"needs the Python package 'no_such_package'; pip install it"):
        preflight.require_package("no_such_package", what="it", install="pip install it")
    with pytest.raises(ConfigError, match="'no-such-package' is not installed here"):
        router("code_tests", packages=["no-such-package"]).validate()


def test_a_reward_without_needs_is_ready():
    check_machine(resolve_reward("choice"), {}, timeout_s=0.1, where="here")


def test_defaults_complete_the_options_that_are_checked():
    with pytest.raises(ConfigError, match="must stay below 1"):
        router("sql_result", rows_credit=0.7, schema_credit=0.3).validate()
    router("sql_result", rows_credit=0.7).validate()


def test_what_runs_ends_with_the_worker_that_started_it(tmp_path):
    """The pool kills a worker that exceeds rewards.timeout_s: its program goes with it."""
    mark = f"outlives-{tmp_path.name}"
    plugin = tmp_path / "sleeper.py"
    plugin.write_text(
        "from mmrl.scoring.sandbox import Job, Limits, python_command, run\n"
        "BOUNDS = (0.0, 1.0)\n"
        "def score(completion, sample):\n"
        f"    run(Job(python_command('import time; time.sleep(60)  # {mark}'), limits=Limits(wall_s=50.0)))\n"
        "    return 1.0\n"
    )
    call = RewardCall(f"{plugin}:score", None, {}, ((Sample("a", "code", "image", ()), ("x",)),))
    with RewardPool(1, timeout_s=3.0) as pool:
        ((outcome,),) = pool.run([call])
    assert outcome.event == "timeout"
    until = time.monotonic() + 5.0
    while processes_with(mark) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes_with(mark) == []


def processes_with(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                found += [line] if text in line else []
    return found
