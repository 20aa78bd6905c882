import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mmrl import __version__
from mmrl.cli import main, require_platform
from mmrl.errors import MmrlError
from mmrl.training.signals import ToldInterrupt

ROOT = Path(__file__).parents[2]


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return stop.value.code


def test_version(capsys):
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"mmrl {__version__}\n"


@pytest.mark.parametrize("command", ["train", "preprocess", "check"])
def test_a_user_error_is_one_line_and_exit_code_2(command, tmp_path, capsys):
    path = tmp_path / "a.yaml"
    path.write_text("model: {path: m}\nsead: 1\n")
    assert exit_code(command, str(path)) == 2
    assert capsys.readouterr().err == f"error: {path}:2: key 'sead' is unknown; did you mean 'seed'?\n"


@pytest.mark.parametrize("arguments", [("nothing",), ("train",), ("train", "a.yaml", "--resume", "--overwrite")])
def test_wrong_usage_is_exit_code_2(arguments):
    assert exit_code(*arguments) == 2


AGAIN = "give the same command again"


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("check", AGAIN),
        ("preprocess", "what it stored is kept, the same command goes on from there"),
        ("train", f"no training step was under way and checkpoints are as they were; {AGAIN}"),
        ("serve-rollouts", f"trainings go on with their other servers; {AGAIN}"),
    ],
)
def test_ctrl_c_is_exit_code_130_and_one_line_that_says_how_to_go_on(command, how, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmrl.config.load.load_config", interrupted)
    monkeypatch.setattr("mmrl.commands.serve.load_config", interrupted)
    assert exit_code(command, "a.yaml") == 130
    assert capsys.readouterr() == ("", f"interrupted: mmrl {command} was stopped; {how}\n")


def test_what_a_quiet_run_says_of_ctrl_c_is_the_line(monkeypatch, capsys):
    def quiet(*_):
        raise ToldInterrupt("interrupted: step 5 is lost; go on with `mmrl train ...`")

    monkeypatch.setattr("mmrl.config.load.load_config", quiet)
    assert exit_code("train", "a.yaml") == 130
    assert capsys.readouterr() == ("", "interrupted: step 5 is lost; go on with `mmrl train ...`\n")


def test_ctrl_c_that_was_told_of_is_not_told_again_and_of_several_processes_the_first_tells(monkeypatch, capsys):
    def told(*_):
        raise ToldInterrupt

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmrl.config.load.load_config", told)
    assert exit_code("check", "a.yaml") == 130
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("mmrl.config.load.load_config", interrupted)
    assert exit_code("check", "a.yaml") == 130
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_that_a_library_takes_for_a_missing_part_is_exit_code_130_too(monkeypatch, capsys):
    """As transformers does with what it imports late."""

    def importing(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ModuleNotFoundError("Could not import module 'AutoTokenizer'") from None

    monkeypatch.setattr("mmrl.config.load.load_config", importing)
    assert exit_code("check", "a.yaml") == 130
    assert capsys.readouterr().err == f"interrupted: mmrl check was stopped; {AGAIN}\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("command", ["train", "preprocess", "check", "score", "cache"])
def test_help_lists_every_command(command, capsys):
    assert exit_code("--help") == 0
    assert f" {command} " in capsys.readouterr().out
    assert exit_code(command, "--help") == 0


@pytest.mark.parametrize(
    ("platform", "missing"),
    [
        (("darwin", "arm64", (3, 12)), "Linux on x86_64 (this is darwin on arm64)"),
        (("linux", "aarch64", (3, 11)), "Linux on x86_64 (this is linux on aarch64)"),
        (("linux", "x86_64", (3, 13)), "Python 3.11 or 3.12 (this is 3.13)"),
        (
            ("win32", "AMD64", (3, 10)),
            "Linux on x86_64 (this is win32 on AMD64) and Python 3.11 or 3.12 (this is 3.10)",
        ),
    ],
)
def test_other_platforms_are_told_what_is_missing(platform, missing):
    with pytest.raises(MmrlError) as error:
        require_platform(*platform)
    assert str(error.value) == f"mmrl needs {missing}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.jsonl", "--strict"), "--strict needs --hack-report; with a FILE of completions it has no effect"),
        (("a.jsonl", "--seconds", "10"), "--seconds needs --fuzz; with a FILE of completions it has no effect"),
        (("a.jsonl", "--seed", "0"), "--seed needs --fuzz; with a FILE of completions it has no effect"),
        (("--selftest", "all", "--strict"), "--strict needs --hack-report; with --selftest it has no effect"),
        (("--hack-report", "fixtures", "--seed", "1"), "--seed needs --fuzz; with --hack-report it has no effect"),
        (("--fuzz", "choice", "--out", "b"), "--out needs a FILE of completions; with --fuzz it has no effect"),
        *(
            (
                ("--hack-report", target, "--config", "b.yaml"),
                "--config needs rows: a FILE of completions or --hack-report FILE.jsonl; with --hack-report it has no "
                "effect",
            )
            for target in ("fixtures", "run.yaml")
        ),
    ],
)
def test_options_of_another_job_of_score_are_refused(arguments, message, capsys):
    assert exit_code("score", *arguments) == 2
    assert capsys.readouterr().err == f"error: {message}, leave it out\n"


def test_options_of_the_asked_job_of_score_are_used(capsys):
    assert exit_code("score", "--fuzz", "choice", "--seconds", "0", "--seed", "3") == 0
    assert "choice" in capsys.readouterr().out
    assert exit_code("score", "no.jsonl", "--config", "no.yaml", "--out", "b.jsonl") == 2
    assert capsys.readouterr().err == "error: no.jsonl: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("command", ["ls", "verify", "prune", "explain"])
def test_every_cache_command_has_help(command):
    assert exit_code("cache", command, "--help") == 0


def test_cache_commands_reach_an_empty_cache(tmp_path, capsys):
    assert exit_code("cache", "ls", "--dir", str(tmp_path)) == 0
    assert exit_code("cache", "prune", "1GB", "--dir", str(tmp_path)) == 0
    assert exit_code("cache", "prune", "much", "--dir", str(tmp_path)) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_help_answers_at_once():
    """Within half a second of processor time; the clock on the wall says more about what else the machine does."""
    seconds = []
    for _ in range(3):
        before = os.times()
        done = subprocess.run([sys.executable, "-m", "mmrl", "--help"], cwd=ROOT, capture_output=True, check=True)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
        assert b"preprocess" in done.stdout
    assert min(seconds) < 0.5
