"""Rows of the shipped benchmarks of searched pictures, facts, games, conversations, instructions and captions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from makers.benchmark_files import ROWS, base64_picture, picture, write_jsonl, write_parquet
from makers.clips import ClipSpec, write_clip
from makers.media import picture_bytes
from makers.recipe_rows import prepared


def _visualprobe(root: Path, level: str) -> None:
    folder = root / f"VisualProbe_{level}"
    folder.mkdir()
    rows = []
    for n in range(ROWS):
        (folder / f"{n}.jpg").write_bytes(picture_bytes(n))
        facts = {"doc_id": f"d{n}", "data_source": f"visual_probe_{level.lower()}", "solution": "red"}
        rows.append({"images": [f"{folder.name}/{n}.jpg"], "problem": "<image>Which colour is it?", **facts})
    write_jsonl(folder / "val.jsonl", rows)


def _fvqa(root: Path) -> None:
    rows = [
        {"data_id": f"fvqa_{n}", "images": [picture(n)], "prompt": [{"role": "user", "content": "<image>Who made it?"}]}
        | {"reward_model": {"ground_truth": "Ada Byron", "candidate_answers": ["Lovelace"] if n else []}}
        for n in range(ROWS)
    ]
    write_parquet(root / "FVQA" / "test-00000-of-00001.parquet", rows)


def _gameqa(root: Path) -> None:
    rows = [
        {"game_name": "chess", "state": f"s{n}", "image": picture(n), "question": "Which?\nA. one\nB. two"}
        | {"answer": ("B", "12", "(1, 2)")[n]}
        for n in range(ROWS)
    ]
    write_parquet(root / "Game-QA-Lite" / "train-00000-of-00001.parquet", rows)


def _mm_mt_bench(root: Path) -> None:
    """A conversation of two turns, and one of one turn."""
    first = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which animal?"}]}
    turns = [first, {"role": "assistant", "content": "A dog."}]
    second = [{"role": "user", "content": "And behind it?"}, {"role": "assistant", "content": "A cat."}]
    rows = [
        {"image": picture(n), "conversation": json.dumps(of), "category": "vqa"}
        for n, of in enumerate((turns + second, turns))
    ]
    source = root / "MM-MT-Bench" / "eval-00000-of-00001.parquet"
    write_parquet(source, rows)
    prepared("mm_mt_bench", source, source.parent / "rows.jsonl")


def _mia_bench(root: Path) -> None:
    parts = {"components": ["Two sentences.", "They rhyme."], "component_weight": [6, 4]}
    rows = [
        {"image": picture(n), "instruction": "Describe it in two sentences that rhyme.", **parts}
        | {"component_type": ["length", "genre"], "num_of_component": 2}
        for n in range(ROWS)
    ]
    source = root / "MIA-Bench" / "test-00000-of-00001.parquet"
    write_parquet(source, rows)
    prepared("mia_bench", source, source.parent / "rows.jsonl")


def _constraint(key: str, value: str, **judge: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "judge": judge}


def _mm_ifeval(root: Path) -> None:
    """Constraints of all kinds, of rules alone and a question; and a question once more without a constraint."""
    short = {"func": "check_whether_response_word_count_in_range", "params": [1, 5]}
    rule = _constraint("length", "Write at most 5 words.", method="rule_based", verify_funcs=[short])
    judged = [
        _constraint("tone", "Be formal.", method="direct_gpt"),
        _constraint("role", "As a pilot.", method="cmp_gpt"),
    ]
    kinds = (("C-Level", [rule, *judged], None), ("C-Level", [rule], None), ("P-Level", None, ["3", "red"]))
    rows = [
        {"id": n, "image": base64_picture(n), "tag": tag, "question": "Describe it.", "instruction": "Describe it."}
        | {"constraints": constraints and json.dumps(constraints), "answer": answer and json.dumps(answer)}
        | {"infer_type": "main", "del_cons": None}
        for n, (tag, constraints, answer) in enumerate(kinds)
    ]
    rows.append({**rows[0], "infer_type": "aux_cmp_gpt", "del_cons": "role"})
    source = root / "MM-IFEval" / "test-00000-of-00001.parquet"
    write_parquet(source, rows)
    prepared("mm_ifeval", source, source.parent / "rows.jsonl")


def _captioning(root: Path) -> None:
    folder = root / "TempCompass" / "videos"
    folder.mkdir(parents=True, exist_ok=True)
    asked = "Which way does it turn?\nA. clockwise\nB. counter-clockwise"
    rows = []
    for n in range(ROWS):
        write_clip(folder / f"caption{n}.mp4", ClipSpec(frames=10))
        facts = {"video_id": f"caption{n}", "question": "Describe the clip.", "dim": "direction"}
        rows.append({**facts, "mc_question": asked, "mc_answer": "B. counter-clockwise", "answer": ""})
    write_parquet(root / "TempCompass" / "captioning" / "test-00000-of-00001.parquet", rows)


WRITERS: dict[str, Callable[[Path], None]] = {
    "visualprobe_easy": lambda root: _visualprobe(root, "Easy"),
    "visualprobe_medium": lambda root: _visualprobe(root, "Medium"),
    "visualprobe_hard": lambda root: _visualprobe(root, "Hard"),
    "fvqa": _fvqa,
    "gameqa_lite": _gameqa,
    "mm_mt_bench": _mm_mt_bench,
    "mia_bench": _mia_bench,
    "mm_ifeval": _mm_ifeval,
    "tempcompass_captioning": _captioning,
}
