"""The public fault of robots' action statistics, through `mmrl score`."""

import json

from makers.command import mmrl
from makers.rows import write_jsonl

COVERED = {
    79: [
        "unit/scoring/test_robot_output.py::test_another_dataset_s_statistics_are_never_taken",
        "unit/scoring/test_robot_output.py::test_the_row_s_dataset_names_its_statistics",
        "faults/test_vla.py::test_an_action_is_decoded_by_the_statistics_that_are_named",
    ],
}
STATS = {"bridge": {"q01": [-0.02], "q99": [0.03]}, "fractal": {"q01": [-1.0], "q99": [1.0]}}


def scored(folder, **options):
    """What `mmrl score` says of the right token for 0.0125 in bridge's units, and the reward."""
    row = {"id": "r", "task": "t", "answer": [0.0125], "completion": "165", "action_stats": STATS}
    write_jsonl(folder / "rows.jsonl", [row])
    part = {"reward": "action_tokens", "options": options}
    config = folder / "score.yaml"
    config.write_text(json.dumps({"model": {"path": "m"}, "rewards": {"tasks": {"t": [part]}}}))
    said = mmrl("score", folder / "rows.jsonl", "--config", config, "--out", folder / "out.jsonl")
    return said, json.loads((folder / "out.jsonl").read_text())["reward"]


def test_an_action_is_decoded_by_the_statistics_that_are_named(tmp_path):  # fault 79
    said, right = scored(tmp_path, stats_key="bridge")
    assert said.code == 0 and round(right, 4) == 0.9806
    _, wrong = scored(tmp_path, stats_key="fractal")
    assert wrong < 0.1
    said, missing = scored(tmp_path, stats_key="bridge_orig")
    assert said.code == 1 and missing is None
    assert "no action statistics of 'bridge_orig'; there are: bridge, fractal" in said.line_with("bad_answer")
