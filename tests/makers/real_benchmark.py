"""A benchmark of the real pictures and clips that live beside the checkout, from their annotations:

    PYTHONPATH=tests python -m makers.real_benchmark MEDIA FOLDER

FOLDER gets a copy of the media, rows.jsonl and two task files: real.yaml, and taught.yaml, in which boxes, spans and
letters are asked in the words that the quickstart's model was trained on. Ten kinds of questions: boxes, labelled
boxes, clicks, spans, letters, numbers, words that stand in pictures, whole pages, short answers, orders.
"""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import av
from makers.chat_server import parts
from PIL import Image

TASK_FILE = """\
# Real pictures and clips, ten kinds of questions; the score is the mean of the kinds.
data:
  path: rows.jsonl
  card:
    make: {scored_as: {text: "{{ kind }}"}}
    columns:
      {prompt: question, answer: answer, answer_space: space, images: images, videos: videos, task: scored_as, id: id}
    placeholders: leading
    image_placeholder: null
    video_placeholder: null
  user_template: "{prompt}"
  task_templates:
    boxes: "{{ prompt }}\\nGive the box as [x1, y1, x2, y2] in {{ box_space }}."
    objects: "{{ prompt }}\\nGive a list of {\\"bbox_2d\\": [x1, y1, x2, y2], \\"label\\": ...} in {{ box_space }}."
    clicks: "{{ prompt }}\\nGive the point to click as [x, y] in {{ point_space }}."
    spans: "{{ prompt }}\\nGive the start and the end as [start, end] in {{ time_space }}."
    letters: "{prompt}\\nAnswer with the letter only."
    numbers: "{prompt}\\nAnswer with one number."
score:
  boxes: [{reward: box_iou, name: score, options: {threshold: 0.5}}, {reward: box_iou, name: iou, weight: 0}]
  objects: [{reward: detection, name: score, options: {measure: ap50}}]
  clicks: [{reward: point_in_box, name: score}]
  spans: [{reward: temporal_iou, name: score, options: {several: first, ends: sorted}}]
  letters: [{reward: choice, name: score}]
  numbers: [{reward: numeric, name: score}]
  words: [{reward: anls, name: score}]
  pages: [{reward: ocr_cer, name: score}]
  answers: [{reward: exact_text, name: score, options: {punctuation: false}}]
  orders: [{reward: order, name: score}]
answers: {max_new_tokens: 64}
report: [kind]
average: {groups: kind}
also: {iou of boxes: {only: {kind: boxes}, part: iou}}
cluster: media
provenance: {source: real pictures and clips with annotations of our own, layout: verified}
"""
# What the quickstart's model was taught to answer: boxes, spans and letters. It knows no other words.
TAUGHT = {
    "boxes": "Where is the patch?",
    "spans": "When does the other clip play?",
    "letters": "In which quarter is the patch?",
}
PIXELS, SECONDS = "original_px", "seconds"
# Kind and, where it is not the annotation's, the answer of every question that is asked.
ASKED: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("img-dog-1", "img-dog-2", "img-dog-3", "img-stop-1", "rob-1"), ("boxes", None)),
    "img-giraffe-1": ("objects", None),
    **dict.fromkeys(("gui-1", "gui-2", "gui-3", "gui-4", "gui-7", "gui-8", "gui-9"), ("clicks", None)),
    **dict.fromkeys(("vid-nasa-1", "vid-cock-1"), ("spans", None)),
    **dict.fromkeys(("img-giraffe-2", "vid-cock-3", "drv-3"), ("letters", None)),
    **dict.fromkeys(("chart-qwen-1", "chart-qwen-3", "vid-nasa-4", "drv-6", "rob-4"), ("numbers", None)),
    **dict.fromkeys(("img-stop-2", "chart-qwen-2", "ocr-5"), ("words", None)),
    "rotv-1": ("words", ["J, K, L", "JKL"]),
    "ocr-1": ("pages", None),
    **dict.fromkeys(("img-dog-4", "drv-1", "rob-3", "rob-6"), ("answers", None)),
    "vid-nasa-3": ("answers", ["orange", "red"]),
    "vid-plant-1": ("answers", ["a plant", "plant", "tree", "ficus"]),
    "rob-2": ("answers", ["a bottle", "bottle"]),
    "vid-cock-2": ("orders", None),
}
# Pages with a text beside them that no annotation names.
PAGES = {
    "ocr/tess_eurotext.tif": "Transcribe the page of several languages.",
    "ocr/tess_8087_054.3B.tif": "Read the page.",
}
_OPTION = re.compile(r"\b([A-C])\. (.*?)(?= [A-C]\. |$)")


def write_real_benchmark(media: Path, folder: Path) -> Path:
    """The task file; its rows and their media stand beside it, so `folder` is `--root`."""
    annotated = map(json.loads, (media / "annotations.jsonl").read_text(encoding="utf-8").splitlines())
    rows = [_row(a, *ASKED[a["id"]]) for a in annotated if a["id"] in ASKED]
    rows += [_page(media, path, question) for path, question in PAGES.items()]
    folder.mkdir(parents=True, exist_ok=True)
    for name in {name for row in rows for name in (*row["images"], *row["videos"])}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(media / name, folder / name)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "real.yaml").write_text(TASK_FILE)
    (folder / "taught.yaml").write_text(in_taught_words(TASK_FILE))
    return folder / "real.yaml"


def in_taught_words(task_file: str) -> str:
    own = re.compile(rf"^    (?:{'|'.join(TAUGHT)}): \".*\n", re.MULTILINE)  # templates of their own
    return own.sub("", task_file).replace("{prompt: question,", "{prompt: taught,")


def _row(annotated: Mapping[str, Any], kind: str, answer: Any) -> dict[str, Any]:
    names = annotated["media"] if isinstance(annotated["media"], list) else [annotated["media"]]
    videos = [name for name in names if name.endswith((".mp4", ".mov"))]
    row = {"id": annotated["id"], "kind": kind, "question": annotated["question"], "space": None}
    row |= {"answer": answer or annotated["answer"], "images": [n for n in names if n not in videos], "videos": videos}
    row["taught"] = TAUGHT.get(kind, row["question"])
    if kind == "letters":
        row["options"] = [f"{letter}. {text}" for letter, text in _OPTION.findall(row["question"])]
    if kind == "orders":
        row["answer"] = ", ".join(row["answer"])
    if kind == "spans":
        row |= {"answer": row["answer"]["span"], "space": SECONDS}
    if kind in ("boxes", "clicks"):
        row |= {"answer": row["answer"]["box"], "space": PIXELS}
    if kind == "objects":
        found = [{"bbox_2d": thing["box"], "label": thing["label"]} for thing in row["answer"]["boxes"]]
        row |= {"answer": found, "space": PIXELS}
    return row


def _page(media: Path, name: str, question: str) -> dict[str, Any]:
    text = (media / name).with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
    row = {"id": Path(name).stem, "kind": "pages", "question": question, "space": None}
    return {**row, "answer": text, "images": [name], "videos": [], "taught": question}


# --- an answerer who has read the annotations -----------------------------------------------------------------------


def oracle(folder: Path, *, boxes: float | None = None, times: float | None = None) -> Callable[[dict], str]:
    """What a server says to each question: the annotation, its places moved by arithmetic of its own.

    boxes: they are shares of this number; None: pixels of the picture as it was sent. times: they are shares of this
    number; None: seconds.
    """
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]

    def answer(body: dict) -> str:
        text = parts(body, "text")[-1]["text"]
        [row] = [row for row in rows if row["question"] in text]
        wanted = row["answer"]
        if row["space"] == SECONDS:
            ratio = 1.0 if times is None else times / _seconds(folder / row["videos"][0])
            return json.dumps([second * ratio for second in wanted])
        if row["space"] == PIXELS:
            width, height = Image.open(folder / row["images"][0]).size
            extent = _sent_size(body) if boxes is None else (boxes, boxes)
            return json.dumps(_places(row["kind"], wanted, (extent[0] / width, extent[1] / height)))
        return str(wanted[0] if isinstance(wanted, list) else wanted)

    return answer


def _places(kind: str, wanted: Any, ratios: tuple[float, float]) -> Any:
    if kind == "objects":
        return [{**thing, "bbox_2d": _places("boxes", thing["bbox_2d"], ratios)} for thing in wanted]
    x1, y1, x2, y2 = (value * ratio for value, ratio in zip(wanted, ratios * 2, strict=True))
    return [x1, y1, x2, y2] if kind == "boxes" else [(x1 + x2) / 2, (y1 + y2) / 2]


def _seconds(clip: Path) -> float:
    with av.open(str(clip)) as container:
        stream = container.streams.best("video")
        assert stream is not None and stream.duration is not None and stream.time_base is not None
        return float(stream.duration * stream.time_base)


def _sent_size(body: dict) -> tuple[int, int]:
    [picture] = parts(body, "image_url")
    return Image.open(io.BytesIO(base64.b64decode(picture["image_url"]["url"].split(",")[1]))).size


if __name__ == "__main__":
    print(write_real_benchmark(Path(sys.argv[1]), Path(sys.argv[2])))
