"""Rows of the card `mvbench` from MVBench's 20 files of questions, one row a question:

    python datasets/mvbench/prepare.py MVBench/json --videos MVBench/video --out MVBench/rows.jsonl

Where questions name a start and an end, the clip is cut there, unless the folder holds clips that were cut already. A
clip that is in none of the folders keeps its row: it is a question that fails.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main
from mmrl.errors import DataError

FRAMES_PER_SECOND = 3  # of the clips of episodic_reasoning, which are folders of frames

# Task -> folders, of whole clips and of clips that were cut already.
_CHARADES = (("star/Charades_v1_480",), ("star/Charades_segment",))
_PERCEPTION = (("perception/videos",), ())
_CLEVRER = (("clevrer/video_validation",), ())
FOLDERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "action_sequence": _CHARADES,
    "action_prediction": _CHARADES,
    "action_antonym": (("ssv2_video", "ssv2_video_mp4"), ()),
    "fine_grained_action": (("Moments_in_Time_Raw/videos",), ()),
    "unexpected_action": (("FunQA_test/test",), ()),
    "object_existence": _CLEVRER,
    "object_interaction": _CHARADES,
    "object_shuffle": _PERCEPTION,
    "moving_direction": _CLEVRER,
    "action_localization": (("sta/sta_video",), ("sta/sta_video_segment",)),
    "scene_transition": (("scene_qa/video",), ()),
    "action_count": _PERCEPTION,
    "moving_count": _CLEVRER,
    "moving_attribute": _CLEVRER,
    "state_change": _PERCEPTION,
    "fine_grained_pose": (("nturgbd", "nturgbd_convert"), ()),
    "character_order": _PERCEPTION,
    "egocentric_navigation": (("vlnqa",), ()),
    "episodic_reasoning": (("tvqa/frames_fps3_hq",), ("tvqa/video_fps3_hq_segment",)),
    "counterfactual_inference": _CLEVRER,
}


def make(source: Path, folder: Path, *, videos: Path) -> Iterator[dict[str, Any]]:
    for task, folders in FOLDERS.items():
        file = source / f"{task}.json"
        if not file.is_file():
            raise DataError(f"no such file: {file}; the source is the folder of the {len(FOLDERS)} files of questions")
        for number, row in enumerate(json.loads(file.read_text(encoding="utf-8")), start=1):
            clip = _clip(row, folders, videos.absolute())
            yield {**row, "id": f"{task}:{number}", "sub_task": task, "clip": clip}


def _clip(row: Mapping[str, Any], folders: tuple[tuple[str, ...], tuple[str, ...]], videos: Path) -> dict[str, Any]:
    whole, cut = folders
    there = next((name for name in (*whole, *cut) if (videos / name / row["video"]).exists()), whole[0])
    path = videos / there / row["video"]
    place = {"video_start": row["start"], "video_end": row["end"]} if "start" in row and there in whole else {}
    if path.is_dir():
        return {"frames": str(path), "source_fps": FRAMES_PER_SECOND, **place}
    return {"video": str(path), **place}


if __name__ == "__main__":
    main(__doc__, make, options={"videos": {"type": Path, "required": True, "help": "folder of the clips' folders"}})
