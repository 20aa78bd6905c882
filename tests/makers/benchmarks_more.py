"""Rows of shipped benchmarks of clips and pictures that are read from their own files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from makers.benchmark_files import ROWS, picture, write_jsonl, write_parquet
from makers.clips import ClipSpec, write_clip
from makers.media import picture_bytes
from makers.recipe_rows import prepared


def _clips(folder: Path, *names: str, frames: int = 10) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_clip(folder / name, ClipSpec(frames=frames))


def videomme_rows() -> list[dict[str, Any]]:
    facts = {"domain": "Knowledge", "sub_category": "Law", "task_type": "OCR Problems", "duration": "short"}
    options = ["A. a cup", "B. a ball", "C. a cat", "D. a hat"]
    return [
        {"video_id": f"00{n}", "videoID": f"clip{n}", "question_id": f"00{n}-1", "question": "What falls?"}
        | {"options": options, "answer": "ABC"[n], **facts}
        for n in range(ROWS)
    ]


def _videomme(root: Path) -> None:
    _clips(root / "Video-MME" / "data", *[f"clip{n}.mp4" for n in range(ROWS)])
    write_parquet(root / "Video-MME" / "videomme" / "test-00000-of-00001.parquet", videomme_rows())


def _videomme_subtitles(root: Path) -> None:
    _videomme(root)
    folder = root / "Video-MME" / "subtitle"
    folder.mkdir()
    for n in range(ROWS):
        said = f'1\n00:00:00,000 --> 00:00:01,500\n<font color="white">word {n}</font>\n'
        (folder / f"clip{n}.srt").write_text(said)


def _videomme_v2(root: Path) -> None:
    _clips(root / "Video-MME-v2" / "videos", "000.mp4")
    options = "\n".join(f"{letter}. thing {n}" for n, letter in enumerate("ABCDEFGH"))
    facts = {"group_type": "relevance", "group_structure": "None", "second_head": "x", "third_head": "y"}
    rows = [
        {"video_id": "000", "question_id": f"000-{n + 1}", "question": "Which?", "options": options, "answer": "HAC"[n]}
        | {"level": n % 2 + 1, **facts}
        for n in range(ROWS)
    ]
    write_parquet(root / "Video-MME-v2" / "test.parquet", rows)


MVBENCH = ("action_sequence", "episodic_reasoning", "object_shuffle")


def mvbench_files(root: Path, *, tasks: tuple[str, ...]) -> Path:
    """The files of questions, one question in each of these tasks, and their clips: whole, frames and whole."""
    from mmrl.plugins import load_module, shipped_dir

    script = load_module(shipped_dir("datasets") / "mvbench" / "prepare.py")
    folder = root / "MVBench"
    (folder / "json").mkdir(parents=True)
    question = {"question": "What falls?", "candidates": ["a cup", "a ball", "snow"], "answer": "a ball"}
    for task in script.FOLDERS:
        bounds = {"start": 0.5, "end": 2.5} if task in ("action_sequence", "episodic_reasoning") else {}
        video = "show/01" if task == "episodic_reasoning" else f"{task}.mp4"
        rows = [{"video": video, **question, **bounds}] if task in tasks else []
        (folder / "json" / f"{task}.json").write_text(json.dumps(rows))
    _clips(
        folder / "video", "star/Charades_v1_480/action_sequence.mp4", "perception/videos/object_shuffle.mp4", frames=90
    )
    frames = folder / "video" / "tvqa" / "frames_fps3_hq" / "show" / "01"
    frames.mkdir(parents=True)
    for n in range(12):
        (frames / f"{n + 1:05}.jpg").write_bytes(picture_bytes(n))
    return folder


def _mvbench(root: Path) -> None:
    folder = mvbench_files(root, tasks=MVBENCH)
    prepared("mvbench", folder / "json", folder / "rows.jsonl", videos=folder / "video")


def chart_rows() -> list[dict[str, Any]]:
    """A year, a conversation of two questions, and a fact to check."""
    facts = [
        {"Question": ["Which year?"], "Answer": ["2010"], "Question Type": "Factoid", "Year": ["YES"], "Paragraph": ""},
        {"Question": ["How many?", "And now?"], "Answer": ["3", "100"], "Question Type": "Conversational"}
        | {"Year": ["NO", "NO"], "Paragraph": "Of dogs."},
        {
            "Question": ["It grew."],
            "Answer": ["True"],
            "Question Type": "Fact Checking",
            "Year": ["NO"],
            "Paragraph": "",
        },
    ]
    return [{**row, "image": picture_bytes(n)} for n, row in enumerate(facts)]


def _chartqa_pro(root: Path) -> None:
    write_parquet(root / "ChartQAPro" / "data" / "test-00000-of-00001.parquet", chart_rows())


def _countqa(root: Path) -> None:
    facts = {"objects": ["spoon", "fork"], "categories": ["kitchen"], "is_focused": True}
    rows = [
        {"image": picture(0), "questions": ["How many spoons?", "How many forks?"], "answers": ["7", "12"], **facts},
        {"image": picture(1), "questions": ["How many cups?"], "answers": ["3"], **facts},
    ]
    source = root / "CountQA" / "data" / "test-00000-of-00001.parquet"
    write_parquet(source, rows)
    prepared("countqa", source, root / "CountQA" / "rows.jsonl")


def _nextgqa(root: Path) -> None:
    folder = root / "NExT-GQA"
    lines = ["video_id,frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4"]
    spans = {}
    for n in range(ROWS):
        _clips(folder / "videos", f"{n}.mp4")
        lines.append(f"{n},10,80,48,what falls at the start,snow,{n},TC,a cup,a ball,snow,rain,a hat")
        spans[str(n)] = {"duration": 1, "fps": 10, "location": {str(n): [[0.1, 0.4], [0.6, 0.8]]}}
    lines.append("0,10,80,48,which has no span,snow,9,TC,a cup,a ball,snow,rain,a hat")
    (folder / "questions.csv").write_text("\n".join(lines) + "\n")
    (folder / "gsub_test.json").write_text(json.dumps(spans))
    places = {"spans": folder / "gsub_test.json", "videos": folder / "videos"}
    prepared("nextgqa", folder / "questions.csv", folder / "rows.jsonl", **places)


def _tempcompass_captions(root: Path) -> None:
    question = "Which caption matches the video better?\nCaption A: It falls.\nCaption B: It rises."
    _clips(root / "TempCompass" / "videos", *[f"{n}.mp4" for n in range(ROWS)])
    answers = ("Caption A: It falls.", "Caption B: It rises.", "Caption A: It falls.")
    rows = [
        {"video_id": str(n), "question": question, "answer": answer, "dim": "action"}
        for n, answer in enumerate(answers)
    ]
    write_parquet(root / "TempCompass" / "caption_matching" / "test-00000-of-00001.parquet", rows)


def _perceptiontest(root: Path) -> None:
    _clips(root / "PerceptionTest_Val" / "videos", *[f"video_{n}.mp4" for n in range(ROWS)])
    facts = {"question": "What falls?", "options": ["a cup", "a ball", "snow"], "area": "physics", "reasoning": "x"}
    rows = [
        {"video_name": f"video_{n}", "question_id": n, "answer_id": str(n), "tag": ["motion"], **facts}
        for n in range(ROWS)
    ]
    write_parquet(root / "PerceptionTest_Val" / "mc_question_val" / "validation-00000-of-00001.parquet", rows)


def _slake_zh(root: Path) -> None:
    (root / "SLAKE" / "imgs" / "xmlab0").mkdir(parents=True, exist_ok=True)
    (root / "SLAKE" / "imgs" / "xmlab0" / "0.png").write_bytes(picture_bytes(0))
    facts = {"img_id": 0, "img_name": "xmlab0/0.png", "modality": "CT", "content_type": "Organ", "question": "是吗？"}
    answers = (("是", "CLOSED"), ("左肺", "OPEN"), ("肝脏", "OPEN"))
    rows = [
        {"qid": 100 + n, "answer": said, "q_lang": "zh", "answer_type": kind, **facts}
        for n, (said, kind) in enumerate(answers)
    ]
    path = root / "SLAKE" / "test.json"
    others = [row for row in json.loads(path.read_text()) if row["q_lang"] == "en"] if path.exists() else []
    path.write_text(json.dumps([*others, *rows], ensure_ascii=False))


def _evochart(root: Path) -> None:
    rows = [{"question": "How many?", "answer": "12", "image": picture(n)} for n in range(ROWS)]
    write_parquet(root / "EvoChart-QA" / "data" / "train-00000-of-00001.parquet", rows)


def _aerialvg(root: Path) -> None:
    (root / "AerialVG" / "images").mkdir(parents=True)
    rows = []
    for n in range(ROWS):
        (root / "AerialVG" / "images" / f"{n}.jpg").write_bytes(picture_bytes(n))
        region = {"bbox": [10, 10, 40, 30], "phrase": "the red car", "realation": "left of the bus"}
        grounding = {"caption": "A street.", "regions": [region]}
        rows.append({"filename": f"{n}.jpg", "width": 100, "height": 80, "grounding": grounding})
    write_jsonl(root / "AerialVG" / "test.jsonl", rows)


def _timelens(root: Path, split: str) -> None:
    folder = root / "TimeLens"
    _clips(folder, *[f"{split}/{n}.mp4" for n in range(ROWS)])
    rows = [
        {"video_path": f"{split}/{n}.mp4", "query": "a cup falls", "span": [[0.1, 0.9]], "duration": 1.0}
        for n in range(ROWS)
    ]
    write_parquet(folder / "data" / f"{split}-00000-of-00001.parquet", rows)


WRITERS: dict[str, Callable[[Path], None]] = {
    "videomme_hf": _videomme,
    "videomme_hf_subtitles": _videomme_subtitles,
    "videomme_v2": _videomme_v2,
    "mvbench_tasks": _mvbench,
    "chartqa_pro": _chartqa_pro,
    "countqa": _countqa,
    "nextgqa": _nextgqa,
    "tempcompass_caption_matching": _tempcompass_captions,
    "perceptiontest_val": _perceptiontest,
    "slake_zh": _slake_zh,
    "evochart": _evochart,
    "aerialvg": _aerialvg,
    "activitynet_timelens": lambda root: _timelens(root, "activitynet"),
    "charades_timelens": lambda root: _timelens(root, "charades"),
    "qvhighlights_timelens": lambda root: _timelens(root, "qvhighlights"),
}
