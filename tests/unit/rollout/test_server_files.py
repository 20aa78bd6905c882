"""The token of rollout servers, and the files in which weights reach servers of the same machine."""

import stat
from pathlib import Path

import pytest
import torch

from mmrl.errors import EngineError
from mmrl.rollout.server import weight_files
from mmrl.rollout.server.token import VARIABLE, matches, obtain_token, read_token
from mmrl.rollout.server.weight_files import read_weight_file, remove_left_files, weight_file


@pytest.fixture(autouse=True)
def without_variable(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_server_draws_a_token_that_only_its_owner_reads(tmp_path):
    path = tmp_path / "new" / "token"
    token, place = obtain_token(path)

    assert (stat.S_IMODE(path.stat().st_mode), place) == (0o600, str(path))
    assert len(token) >= 40
    assert read_token(path) == obtain_token(path)[0] == token
    assert list(path.parent.iterdir()) == [path]
    assert obtain_token(tmp_path / "other")[0] != token


def test_the_variable_goes_before_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "t" * 20)

    assert obtain_token(tmp_path / "token") == ("t" * 20, VARIABLE)
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("text", ["", "short", "with a space in it", "\x00" * 20])
def test_what_is_no_token_is_an_error(tmp_path, text: str):
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(EngineError, match="a token is at least 16 printable characters"):
        read_token(path)


def test_a_missing_token_and_one_that_others_can_read_name_the_remedy(tmp_path):
    with pytest.raises(EngineError, match=rf"`mmrl serve-rollouts` writes one there: .* set {VARIABLE}"):
        read_token(tmp_path / "token")
    obtain_token(tmp_path / "token")
    (tmp_path / "token").chmod(0o640)
    with pytest.raises(EngineError, match="others can read this token; `chmod 600"):
        read_token(tmp_path / "token")


def test_only_the_whole_token_matches():
    assert matches(b"Bearer abc", "abc")
    assert not any(matches(header, "abc") for header in (b"", b"abc", b"Bearer ab", b"Bearer abcd", b"bearer abc"))


def test_weights_travel_in_a_file_that_is_gone_afterwards():
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}
    with weight_file(tensors) as name:
        path = weight_files.FOLDER / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        read = read_weight_file(name)
    assert not path.exists()
    assert {name: tensor.dtype for name, tensor in read.items()} == {"a": torch.float32, "b": torch.bfloat16}
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())  # still mapped


def test_the_file_is_removed_when_the_trainer_fails():
    with pytest.raises(ZeroDivisionError), weight_file({"a": torch.zeros(1)}) as name:
        raise ZeroDivisionError
    assert not (weight_files.FOLDER / name).exists()


@pytest.mark.parametrize("name", ["/etc/passwd", "../etc/passwd", "mmrl-weights-1-../x.safetensors", ""])
def test_no_other_file_is_read(name: str):
    with pytest.raises(EngineError, match="is not the name of a file of weights"):
        read_weight_file(name)


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_files, "FOLDER", tmp_path)
    name = f"mmrl-weights-1-{'0' * 32}.safetensors"
    (tmp_path / name).symlink_to(Path("/etc/passwd"))
    with pytest.raises(EngineError, match="not a file of this user"):
        read_weight_file(name)


def test_files_of_killed_trainers_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_files, "FOLDER", tmp_path)
    dead, alive = (tmp_path / f"mmrl-weights-{pid}-{'0' * 32}.safetensors" for pid in (2**22 + 1, 1))
    for path in (dead, alive, tmp_path / "other"):
        path.touch()
    remove_left_files()

    assert sorted(path.name for path in tmp_path.iterdir()) == [alive.name, "other"]
