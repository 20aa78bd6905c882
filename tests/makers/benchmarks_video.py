"""Rows of the shipped benchmarks of clips."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from makers.benchmark_files import ROWS, write_jsonl, write_parquet
from makers.clips import ClipSpec, write_clip
from makers.media import picture_bytes


def _charades_sta(root: Path) -> None:
    (root / "Charades_v1_480").mkdir(parents=True)
    rows = []
    for n in range(ROWS):
        write_clip(root / "Charades_v1_480" / f"{n}.mp4", ClipSpec())
        rows.append({"video": f"{n}.mp4", "caption": "a person sits down", "timestamp": [0.0, 1.0]})
    write_jsonl(root / "charades_sta" / "test.jsonl", rows)


def _clip_at(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_clip(path, ClipSpec(frames=10))


def easyvideo_r1_file(file: str, folder: str, *rows: dict[str, Any]) -> Callable[[Path], None]:
    """A writer of one of EasyVideoR1's evaluation files, with what all its rows have, and of their clips."""

    def write(root: Path) -> None:
        whole = []
        for n, row in enumerate(rows):
            facts = {"problem_id": n, "problem": "What falls?", "problem_type": "multiple choice"}
            whole.append({**facts, "data_type": "video", "data_source": "made", "path": f"./videos/{n}.mp4", **row})
            _clip_at(root / folder / whole[-1]["path"])
            if "image_path" in row:
                (root / folder / row["image_path"]).write_bytes(picture_bytes(n))
        path = root / "valid_data" / file
        path.parent.mkdir(exist_ok=True)
        lines = [json.dumps(row) for row in whole]
        path.write_text("\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]")

    return write


def choice_rows(*counts: int, **columns: Any) -> list[dict[str, Any]]:
    """Rows with so many options each; the last is right."""
    texts = ("a cup", "a ball", "a cat", "a hat", "snow", "rain", "a leaf", "a man", "a toy", "night", "ink")
    texts += ("a door", "fog", "a bell")
    labelled = [[f"{letter}. {text}" for letter, text in zip("ABCDEFGHIJKLMN", texts, strict=True)][:n] for n in counts]
    return [{"options": of, "solution": f"<answer>{of[-1][0]}</answer>", **columns} for of in labelled]


def answered_row(answer: str, kind: str, **columns: Any) -> dict[str, Any]:
    return {"problem_type": kind, "options": [], "solution": f"<answer>{answer}</answer>", **columns}


def _with(rows: list[dict[str, Any]], column: str, *values: Any) -> list[dict[str, Any]]:
    return [{**row, column: value} for row, value in zip(rows, values, strict=True)]


def mlvu_file(part: str, *answers: tuple[str, str]) -> Callable[[Path], None]:
    """A writer of MLVU's rows, one for each task and right letter."""

    def write(root: Path) -> None:
        rows = []
        for n, (task, letter) in enumerate(answers):
            _clip_at(root / part / "videos" / f"{n}.mp4")
            question = "What falls?\n(A) a cup\n(B) a ball\n(C) a cat\n(D) a hat"
            rows.append({"video_name": f"{n}.mp4", "question": question, "answer": letter, "task_type": task})
        write_parquet(root / part / "test-00000-of-00001.parquet", rows)

    return write


def _tempcompass(root: Path, kind: str, question: str, *answers: str) -> None:
    rows = []
    for n, answer in enumerate(answers):
        _clip_at(root / "TempCompass" / "videos" / f"{n}.mp4")
        rows.append({"video_id": str(n), "question": question, "answer": answer, "dim": "action"})
    write_parquet(root / "TempCompass" / kind / "test-00000-of-00001.parquet", rows)


def _tempcompass_choice(root: Path) -> None:
    _tempcompass(root, "multi-choice", "What falls?\nA. a cup\nB. a ball", "A. a cup", "B. a ball", "A. a cup")


def _tempcompass_yes_no(root: Path) -> None:
    _tempcompass(root, "yes_no", "Does a cup fall?", "yes", "no", "yes")


def _nextgqa(root: Path) -> None:
    lines = ["video_id,frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4"]
    for n in range(ROWS):
        _clip_at(root / "NExT-GQA" / "videos" / f"{n}.mp4")
        lines.append(f"{n},10,80,48,what falls at the start,snow,{n},TC,a cup,a ball,snow,rain,a hat")
    (root / "NExT-GQA" / "test.csv").write_text("\n".join(lines) + "\n")


def _tvgbench(root: Path) -> None:
    rows = []
    for n in range(ROWS):
        _clip_at(root / "TVGBench" / "videos" / f"{n}.mp4")
        facts = {"start": None, "end": None, "duration": 1.0, "qsemtype": "Human Pose", "source": "made"}
        path = f"./dataset/timer1/videos/tvgbench_data/{n}.mp4"
        rows.append({"path": path, "question": "a cup falls.", "answer": "0.1-0.9", **facts})
    (root / "TVGBench" / "tvgbench.json").write_text(json.dumps(rows))


FOUR, SIX = choice_rows(4, 4, 4), choice_rows(6, 6, 6)

_SPAN = '<think>{"time": [0.2, 0.8], "boxes": {}}</think><[PLHD21_never_used_51bce0c785ca2f68081bfa7d91973934]>'
_TUBES = (
    '{"time": [0.0, 0.9], "boxes": {"0": [10, 5, 40, 30]}}',
    '{"time": [0.1, 0.5], "boxes": {}}',
    '{"time": [0.0, 0.5], "boxes": {"0": [0, 0, 80, 48]}}',
)
_OPEN = answered_row("A cup.", "open-ended")
_MMVU = [*choice_rows(5, 5), _OPEN, *choice_rows(5), _OPEN, _OPEN]
_VCR = [_OPEN, *choice_rows(4, 5, 3), _OPEN, _OPEN]
_REASON = [
    answered_row(gold, "open-ended", path=f"card/{n}.mp4") for n, gold in enumerate(("1st: 6 of Hearts", "2", "a"))
]
_DIRECTION = "object_rel_direction"
_VSI = [
    {**answered_row("4", "regression"), "options": None, "original_question_type": "object_counting"},
    *_with(choice_rows(2, 4), "original_question_type", f"{_DIRECTION}_easy", f"{_DIRECTION}_hard"),
]
_OVO = [
    {**choice_rows(2)[0], "ovo_task": "EPM", "ovo_category": "backward", "ovo_id": 0},
    answered_row("3", "REC", ovo_task="REC", ovo_category="forward", ovo_id=1, ovo_test_idx=0),
    answered_row("Yes", "SSR", ovo_task="SSR", ovo_category="forward", ovo_id=2, ovo_test_idx=0, ovo_type=1),
]
_MMMU = [
    *choice_rows(11, image_path="./videos/0.png"),
    {**answered_row("360", "numerical", image_path="./videos/1.png"), "options": None},
    *choice_rows(3),
]
_MATH = [
    {**row, "problem_id": f"q-{n % 2}", "category": "Chart", "length": "long", "steps": "{}"}
    for n, row in enumerate(choice_rows(5, 5, 5, *[2] * 8))
]
for _n, _row in enumerate(_MATH[3:]):
    _row["mbinary_id"] = _n
_SPORTS = _with(_with(FOUR, "q_type_livesports", "What", "Who", "When"), "ocr_livesports", 0, 1, 0)
_ODV = [{**row, "odv_task": "Static", "odv_subtask": f"{n}"} for n, row in enumerate(FOUR)]
_MME = [{**row, "duration": "short", "task_type": "Counting", "videoID": "x"} for row in FOUR]

WRITERS: dict[str, Callable[[Path], None]] = {
    "charades_sta": _charades_sta,
    "charades_sta_easyvideo": easyvideo_r1_file(
        "charades_sta.json",
        "Charades_sta/Charades_v1_480",
        *[{"problem_type": "temporal grounding", "options": [], "solution": _SPAN}] * 3,
    ),
    "livesports3k_qa": easyvideo_r1_file("livesports3k_qa.json", "LiveSports-3K-QA/clips", *_SPORTS),
    "longvideo_reason": easyvideo_r1_file("longvideoreason.json", "longvila_videos", *choice_rows(4, 5, 8)),
    "longvideobench": easyvideo_r1_file("longvideobench.json", "LongVideoBench", *choice_rows(5, 4, 3)),
    "lvbench": easyvideo_r1_file("lvbench.json", "LVBench", *FOUR),
    "minerva": easyvideo_r1_file("minerva.json", "Minderva", *choice_rows(5, 5, 5)),
    "mlvu_dev": mlvu_file("MLVU_dev", ("plotQA", "A"), ("count", "B"), ("plotQA", "C")),
    "mlvu_dev_rows": easyvideo_r1_file("mlvu-dev.json", "MLVU_dev/MLVU_dev", *FOUR),
    "mlvu_test": mlvu_file("MLVU_Test", ("plotQA", "A"), ("tutorialQA", "F"), ("order", "C")),
    "mlvu_test_rows": easyvideo_r1_file("mlvu-test.json", "MLVU_Test", *SIX),
    "mmvu": easyvideo_r1_file("mmvu-all.json", "MMVU", *_MMVU),
    "mmvu_mc": easyvideo_r1_file("mmvu-all.json", "MMVU", *_MMVU),
    "mmvu_open": easyvideo_r1_file("mmvu-all.json", "MMVU", *_MMVU),
    "motionbench": easyvideo_r1_file(
        "motionbench.json",
        "MotionBench-official/MotionBench",
        *choice_rows(4, 3, 1, original_question_type="Camera Motion"),
    ),
    "mvbench": easyvideo_r1_file("mvbench.json", "MVBench", *choice_rows(4, 3, 2)),
    "nextgqa_choice": _nextgqa,
    "odvbench": easyvideo_r1_file("odvbench.json", "ODV-Bench/clips", *_ODV),
    "ovobench": easyvideo_r1_file("ovobench.json", "OVO-Bench/chunked_videos", *_OVO),
    "stvg": easyvideo_r1_file(
        "stvg.json", "ST-Align-Benchmark", *[answered_row(tube, "spatial-temporal grounding") for tube in _TUBES]
    ),
    "tempcompass": easyvideo_r1_file("tempcompass.json", "TempCompass", *choice_rows(4, 2, 3)),
    "tempcompass_choice": _tempcompass_choice,
    "tempcompass_yes_no": _tempcompass_yes_no,
    "tvgbench": _tvgbench,
    "vcrbench": easyvideo_r1_file("vcrbench.json", "VCR-Bench/v1/videos", *_VCR),
    "vcrbench_mc": easyvideo_r1_file("vcrbench.json", "VCR-Bench/v1/videos", *_VCR),
    "vcrbench_open": easyvideo_r1_file("vcrbench.json", "VCR-Bench/v1/videos", *_VCR),
    "video_holmes": easyvideo_r1_file("holmes.json", "Video-Holmes", *SIX),
    "videomathqa_binary": easyvideo_r1_file("videomathqa.jsonl", "VideoMathQA", *_MATH),
    "videomathqa_mcq": easyvideo_r1_file("videomathqa.jsonl", "VideoMathQA", *_MATH),
    "videoreasonbench": easyvideo_r1_file("videoreasonbench.json", "VideoReasonBench/videos", *_REASON),
    "videomme": easyvideo_r1_file("videomme.json", "Video-MME", *_MME),
    "videommmu": easyvideo_r1_file("videommmu_with_image.json", "VideoMMMU", *_MMMU),
    "vsibench": easyvideo_r1_file("vsibench.json", "VSI-Bench", *_VSI),
}
