"""Finding, choosing and cropping the pages that answer a question, from the recorded steps of a trajectory.

Formula: 0.6 judge + 0.1 NDCG + 0.1 select + 0.1 region + 0.1 format. Format is 1 where `<search>`, `<select>`,
`<information>` and `<answer>` all occur, 0.5 without the answer (then there is no judge term), else the reward is 0.
NDCG: gain 1 per gold page, discount 1 / log2(rank + 1), over the pages of all searches without repetition (all first
results, then all second ones, ...), divided by the ideal of all gold pages.
Select: mean over the selections of whether the first gold page among those retrieved was chosen (the first page, where
none is gold).
Region: mean over the selected pages of the F1 of cropped boxes and gold boxes, found at IoU >= 0.5; 1 where there is
nothing to crop and nothing is cropped, 0 where only one side has boxes.
Bounds: 0 to 1.
Answer: the tags of the trajectory. What the tools did is the column `trajectory` of the row: {searches: [[page, ...],
...], selections: [{retrieved: [page, ...], chosen: page}, ...], crops: {page: [box, ...]}}; the gold is the column
`gold`: {pages: [page, ...], boxes: {page: [box, ...]}}. The judge's verdict (0 or 1) is the column `judge_column`.
Space: boxes of both columns in one space, whatever it is: the tools' page.
Source: UniDoc-RL. Its released NDCG compares single characters of file names, so it is always 0: `official`.
Example: everything found but ranked second, one search: 0.963093; without an answer 0.313093; no tags 0.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.geometry import box_iou

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
_WHY = "what the tools did stands in the row, so every text with the tags earns it"
KNOWN_HACKS = {"constant": _WHY, "repeated": _WHY}
_TAGS = ("search", "select", "information")
_LIST, _MAP = (list, tuple), (dict,)


def score(
    completion: str, sample: Sample, *, judge_column: str = "judge", official: bool = False
) -> float | dict[str, float]:
    """`judge_column`: where the row holds the verdict on the answer, of 0 to 1. `official`: without NDCG."""
    trajectory, gold = _column(sample, "trajectory"), _column(sample, "gold")
    pages = _entry(sample, gold, "gold", "pages", _LIST)
    if not pages:
        raise RewardError(f"{sample.where}: gold.pages is empty; name at least one page")
    searches = _entry(sample, trajectory, "trajectory", "searches", _LIST)
    selections = _entry(sample, trajectory, "trajectory", "selections", _LIST)
    _check(sample, trajectory, gold)
    verdict = _verdict(sample, judge_column)
    if not all(f"<{tag}>" in completion and f"</{tag}>" in completion for tag in _TAGS):
        return 0.0
    is_answered = "<answer>" in completion and "</answer>" in completion
    parts = {
        "judge": verdict if is_answered else 0.0,
        "ndcg": 0.0 if official else ndcg(_merged(searches), pages),
        "select": _mean([_is_best(selection, pages) for selection in selections]),
        "region": _mean([_region(selection["chosen"], trajectory, gold) for selection in selections]),
        "format": 1.0 if is_answered else 0.5,
    }
    return {"reward": sum((0.6 if name == "judge" else 0.1) * value for name, value in parts.items()), **parts}


def ndcg(ranked: Sequence[str], gold: Sequence[str]) -> float:
    """Normalised discounted cumulative gain of a ranking without repetition, gain 1 for each gold page."""
    gain = sum(1 / math.log2(rank + 1) for rank, page in enumerate(ranked, start=1) if page in gold)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, len(set(gold)) + 1))


def _merged(searches: Sequence[Sequence[str]]) -> list[str]:
    """The pages of all searches, by rank, each at its first place."""
    ranked = (page for rank in zip_longest(*searches) for page in rank if page is not None)
    return list(dict.fromkeys(ranked))


def _is_best(selection: Mapping[str, Any], gold: Sequence[str]) -> float:
    retrieved = selection["retrieved"]
    best = next((page for page in retrieved if page in gold), retrieved[0] if retrieved else None)
    return float(selection["chosen"] == best)


def _region(page: str, trajectory: Mapping[str, Any], gold: Mapping[str, Any]) -> float:
    cropped, wanted = (source.get(key, {}).get(page, []) for source, key in ((trajectory, "crops"), (gold, "boxes")))
    if not cropped or not wanted:
        return float(not cropped and not wanted)
    found = sum(max(box_iou(tuple(crop), tuple(box)) for crop in cropped) >= 0.5 for box in wanted)
    return 2 * found / (len(cropped) + len(wanted))


def _check(sample: Sample, trajectory: Mapping[str, Any], gold: Mapping[str, Any]) -> None:
    """RewardError for searches, selections, crops and boxes that hold something else than they must."""
    if not all(isinstance(search, _LIST) for search in trajectory["searches"]):
        raise RewardError(f"{sample.where}: trajectory.searches must be a list of lists of pages, one list a search")
    if not all(map(_is_selection, trajectory["selections"])):
        raise RewardError(
            f"{sample.where}: trajectory.selections must be mappings of `retrieved`, a list, and `chosen`"
        )
    for name, source, key in (("trajectory", trajectory, "crops"), ("gold", gold, "boxes")):
        if not _are_boxes_by_page(source.get(key, {})):
            raise RewardError(f"{sample.where}: {name}.{key} must map pages to lists of boxes of four numbers")


def _is_selection(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("retrieved"), _LIST) and "chosen" in value


def _are_boxes_by_page(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(boxes, _LIST) and all(isinstance(box, _LIST) and len(box) == 4 for box in boxes)
        for boxes in value.values()
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _column(sample: Sample, name: str) -> Mapping[str, Any]:
    value = sample.columns.get(name)
    if not isinstance(value, dict):
        raise RewardError(f"{sample.where}: the column {name!r} is {value!r}, not a mapping")
    return value


def _entry(sample: Sample, source: Mapping[str, Any], name: str, key: str, kinds: tuple[type, ...]) -> Any:
    if not isinstance(source.get(key), kinds):
        raise RewardError(f"{sample.where}: {name}.{key} is {source.get(key)!r}, not a list")
    return source[key]


def _verdict(sample: Sample, column: str) -> float:
    verdict = sample.columns.get(column)
    if isinstance(verdict, bool) or not isinstance(verdict, int | float) or not 0 <= verdict <= 1:
        raise RewardError(f"{sample.where}: the column {column!r} is {verdict!r}, not a verdict of 0 to 1")
    return float(verdict)
