"""The stages of one configuration share one cache: what the first has opened, the second finds."""

import json
from pathlib import Path

from makers.tiny_run import STAGES, write_run

from mmrl.config.load import load_config
from mmrl.training.run import train


def test_a_second_stage_opens_nothing_anew(tmp_path: Path):
    """Nine rows, seven of them with a medium of their own: three steps of four prompts show each of them."""
    plain = ("checkpoint.best=null", "validation.before_first=false", "data.val=[]")
    assert train(load_config(write_run(tmp_path, stages=STAGES), list(plain))) == 0
    lines = (tmp_path / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()
    steps = [row for row in map(json.loads, lines) if "lr" in row]
    counts = {row["stage"]: (row["perf/cache_misses"], row["perf/cache_hits"]) for row in steps}
    assert counts["warmup"][0] == counts["rl"][0] == 7
    assert counts["rl"][1] > counts["warmup"][1]
