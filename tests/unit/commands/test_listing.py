"""`mmrl list`: every name a configuration can use, without running a plug-in."""

import json

import pytest

from mmrl.commands.listing import KINDS, _first_comment, list_command
from mmrl.plugins import shipped_names


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_says_what_it_is(kind):
    entries = list(KINDS[kind]())
    assert entries
    assert [entry for entry in entries if not (entry.name and entry.about and entry.file)] == []
    assert len({(entry.name, entry.file) for entry in entries}) == len(entries)  # recipes may share a task


def test_rewards_are_the_shipped_files():
    assert {entry.name for entry in KINDS["rewards"]()} == set(shipped_names("rewards"))


def test_known_entries():
    listed = {kind: {entry.name for entry in KINDS[kind]()} for kind in KINDS}
    assert {"advantage: grpo", "advantage: rloo", "policy_loss: ppo_clip", "plugins: opo"} <= listed["methods"]
    assert {"qwen2_vl", "qwen2_5_vl", "qwen3_vl"} <= listed["families"]
    assert {"quadrant", "box", "segment"} <= listed["tasks"]
    assert "easyr1" in listed["datasets"] and "pyav" in listed["readers"] and "quickstart.yaml" in listed["configs"]


def test_a_description_is_a_whole_sentence():
    abouts = {entry.name: entry.about for entry in KINDS["datasets"]()}
    assert abouts["quickstart"] == "Rows of datasets/quickstart/prepare.py"
    assert abouts["lerobot"] == "A LeRobot dataset folder (v2.0, v2.1)"
    assert abouts["llamafactory"].endswith("alpaca (instruction, input, output)")
    assert abouts["openai"].endswith("as OpenAI's chat API and Transformers' chat templates have them")


def test_a_sentence_may_run_over_lines(tmp_path):
    (tmp_path / "card.yaml").write_text(
        "# Rows of a tool,\n# in its form of v2.1:\n#   {}\n# Boxes are in pixels.\na: 1\n"
    )
    assert _first_comment(tmp_path / "card.yaml") == "Rows of a tool, in its form of v2.1"


def test_table_and_json(capsys):
    assert list_command("readers", as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("pyav ") and "PyAV" in line for line in lines)
    assert list_command("readers", as_json=True) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    assert rows[-1].keys() == {"name", "about", "file"}
