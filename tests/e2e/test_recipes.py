"""Each task recipe on rows of real media: `mmrl check` passes, its budget and rewards apply, two GRPO steps train."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from makers.recipe_rows import ROWS
from makers.tiny_models import tiny_model_dir
from transformers import AutoTokenizer

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.data.budget import plan_image, plan_video
from mmrl.data.cache import PixelCache
from mmrl.data.check import check
from mmrl.data.decoder import MediaOpener
from mmrl.data.prepare import Prepared, Preparer
from mmrl.data.readers import read_dataset
from mmrl.data.sample import Sample
from mmrl.data.skipped import SkippedLog
from mmrl.errors import ConfigError
from mmrl.models.families import load_processor
from mmrl.plugins import shipped_dir
from mmrl.scoring.robot_output import action_stats, encode_bins
from mmrl.scoring.router import Router
from mmrl.training.run import train

SMALL = {"min_pixels": 784, "max_pixels": 84 * 84, "max_frames": 4, "sample_fps": 1.0}
FAST = (
    *("model.dtype=float32", "model.gradient_checkpointing=false", "model.lora.rank=2", "rollout.engine=hf"),
    *("rollout.group_size=2", "rollout.max_new_tokens=4", "rewards.workers=0"),
    *("stages.0.steps=2", "stages.0.warmup_steps=0", "stages.0.lr=1e-3", "train.micro_batch_tokens=4096"),
    *("validation.before_first=false", "log.console=false", "log.trackers=[]"),
)


def thought(answer: Any, tag: str = "answer") -> str:
    return f"<think>It can be seen.</think><{tag}>{answer}</{tag}>"


def as_box(sample: Sample) -> str:
    box = sample.answer["boxes"] if isinstance(sample.answer, dict) else sample.answer
    return thought(json.dumps({"bbox_2d": box}))


def as_time(sample: Sample) -> str:
    return thought(json.dumps({"time": sample.answer}))


def as_is(sample: Sample) -> str:
    return thought(sample.answer)


def as_action(sample: Sample) -> str:
    action = {"action": sample.answer["action"], "point": [-100, -100], "input_text": "no input text"}
    if "box" in sample.answer:
        x1, y1, x2, y2 = sample.answer["box"]
        action["point"] = [round((x1 + x2) / 2), round((y1 + y2) / 2)]
    return thought(json.dumps([action | {k: v for k, v in sample.answer.items() if k == "input_text"}]))


def as_page(sample: Sample) -> str:
    """A text that holds what the tests look for: what comes before, what comes after, and the rest."""
    order = [test for test in sample.answer if test["type"] == "order"]
    present = [test["text"] for test in sample.answer if test["type"] == "present"]
    return "\n\n".join([*(test["before"] for test in order), *(test["after"] for test in order), *present])


def as_region(sample: Sample) -> str:
    x1, y1, x2, y2 = sample.answer
    region = {"x": (x1 + x2) / 2, "y": (y1 + y2) / 2, "width": x2 - x1, "height": y2 - y1}
    return thought(json.dumps(region), "output")


def as_bins(sample: Sample) -> str:
    return " ".join(map(str, encode_bins(action_stats(sample, key=None, given=None).normalise(sample.answer))))


@dataclass(frozen=True)
class Expected:
    """What a task promises. gold: a reply with the right answer, worth `best`; another row's is worth at most `low`.

    space: that of the answer, as rewards get it; None: it is no place. asks: what the prompt says of the form.
    """

    gold: Callable[[Sample], str]
    best: float
    low: float
    space: str | None = None
    asks: str = "between <answer> and </answer>"
    tolerance: float = 1e-6


OUTPUT = "between <output> and </output>"
# recipe -> budget class, tasks
EXPECTED: dict[str, tuple[str, dict[str, Expected]]] = {
    "image/refcoco_grounding": ("image", {"referring expression": Expected(as_box, 2, 1.2, "model_px")}),
    "image/visual_jigsaw": ("image", {"image-jigsaw": Expected(as_is, 1.2, 0.4)}),
    "video/charades_grounding": ("video", {"temporal grounding": Expected(as_time, 2, 1.6, "seconds")}),
    "video/easyvideo_r1_mixture": (
        "video",
        {
            "temporal grounding": Expected(as_time, 1, 0.7, "seconds"),
            "spatial grounding": Expected(as_box, 1, 0.6, "0..1000"),
            "multiple choice": Expected(as_is, 1, 0.1),
        },
    ),
    "gui/screenspot_click": ("gui", {"click": Expected(as_box, 3, 1.5, "model_px")}),
    "gui/gui_r1_actions": ("gui", {"screen action": Expected(as_action, 1, 0.2, "model_px")}),
    "ocr/olmocr_pages": ("ocr", {"page": Expected(as_page, 1, 0.2, asks="in Markdown")}),
    "ocr/tables_and_fields": (
        "ocr",
        {
            "table": Expected(lambda sample: sample.answer, 1, 0.4, asks="as HTML"),
            "fields": Expected(lambda sample: json.dumps(sample.answer), 1, 0, asks="as one JSON object"),
        },
    ),
    # The reward of variety is 0.8 for each of two replies: 0.8 + 0.8 + 1.
    "driving/alphadrive_decisions": ("driving", {"driving decision": Expected(as_is, 2.6, 1.8)}),
    "driving/waypoint_planning": (
        "driving",
        {"planning": Expected(as_is, 1.1, 0.6), "scene planning": Expected(as_is, 1.1, 0.2)},
    ),
    "vla/vla_r1_places": (
        "vla",
        {
            "region": Expected(as_region, 1, 0.15, "0..1", asks=OUTPUT),
            "trajectory": Expected(
                lambda sample: thought(json.dumps(sample.answer), "output"), 1, 0.4, "0..1", asks=OUTPUT
            ),
        },
    ),
    # The middle of a bin is up to 1 / 255 away: exp(-0.0039 / 0.1) = 0.96.
    "vla/lerobot_action_tokens": ("vla", {"action": Expected(as_bins, 1, 0.5, asks="from 0 to 255", tolerance=0.05)}),
}


@dataclass(frozen=True)
class Recipe:
    """A recipe pointed at its made rows and a tiny model. real: with its own budgets; small: made fast."""

    name: str
    folder: Path
    real: RunConfig
    small: RunConfig

    @property
    def budget(self) -> str:
        return EXPECTED[self.name][0]

    @property
    def tasks(self) -> dict[str, Expected]:
        return EXPECTED[self.name][1]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Callable[[str], Recipe]:
    @cache
    def make(name: str) -> Recipe:
        folder = tmp_path_factory.mktemp(name.replace("/", "_"))
        path = shipped_dir("configs") / "tasks" / f"{name}.yaml"
        shipped, rows = load_config(path), ROWS[name](folder)
        kind = "qwen3_vl" if "Qwen3" in shipped.model.path else "qwen2_5_vl"
        own = [
            f"model.path={tiny_model_dir(kind)}",
            f"out_dir={folder / 'runs'}",
            f"cache.dir={folder / 'cache'}",
            "data.decode_workers=1",
        ]
        for split in ("train", "val"):
            for number in range(len(getattr(shipped.data, split))):
                own.append(f"data.{split}.{number}.path={rows.train[number]}")
                own += [f"data.{split}.{number}.root={rows.root}"] if rows.root else []
        real = load_config(path, own)
        own.append(f"stages.0.prompts_per_step={2 if len(rows.train) == 1 else 4}")
        own += [f"budgets.{key}.{k}={v}" for key in shipped.budgets for k, v in SMALL.items()]
        return Recipe(name, folder, real, load_config(path, [*own, *FAST]))

    return make


def prepared(config: RunConfig) -> Iterator[Prepared]:
    """Every training row as the model gets it."""
    try:
        with Router(config.rewards) as router:
            router.validate()
    except ConfigError as error:
        if "this machine has none" not in str(error):
            raise
        pytest.skip(str(error))
    log = SkippedLog(None, max_fraction=0.0)
    processor = load_processor(Path(config.model.path))
    if config.model.box_space is not None:
        processor = dataclasses.replace(processor, box_space=config.model.box_space)
    with Router(config.rewards) as router, MediaOpener(config.data.video, workers=1) as opener:
        cache = PixelCache(Path(config.cache.dir))
        preparer = Preparer(cache, opener, processor, config, config.data, log, router.geometry_kind)
        for section in config.data.train:
            rows = read_dataset(section, data=config.data, relative_to=Path.cwd(), skipped=log)
            yield from preparer.prepare(rows[:])


def test_every_task_recipe_is_here():
    models = ("qwen2_5_vl_", "qwen3_vl_")
    paths = (shipped_dir("configs") / "tasks").rglob("*.yaml")
    names = {f"{path.parent.name}/{path.stem}" for path in paths if not path.stem.startswith(models)}
    assert names == ROWS.keys() == EXPECTED.keys()
    assert {name.partition("/")[0] for name in names} == {"image", "video", "gui", "ocr", "driving", "vla"}


@pytest.mark.parametrize("name", ROWS)
def test_the_check_passes(made, name, capsys):
    recipe = made(name)
    next(prepared(recipe.real))  # skips where the machine lacks what a reward needs
    assert check(recipe.real, media="all") == 0, capsys.readouterr().out
    shown = capsys.readouterr().out
    assert all(task in shown for task in recipe.tasks)


@pytest.mark.parametrize("name", ROWS)
def test_the_budget_of_the_modality_and_the_space_of_answers_apply(made, name):
    recipe = made(name)
    geometry = load_processor(Path(recipe.real.model.path)).geometry
    classes = set()
    for item in prepared(recipe.real):
        classes.add(item.sample.modality)
        budget = recipe.real.budgets[item.sample.modality]
        for entry in item.prompt.media:
            if entry.kind == "image":
                plan = plan_image(*entry.source_size, budget, geometry)
            else:
                assert len(entry.frames_F3HW) <= budget.max_frames
                plan = plan_video(len(entry.frames_F3HW), *entry.source_size, budget, geometry)
            assert (entry.grid_thw, entry.num_tokens) == (plan.grid_thw, plan.num_tokens)
            assert entry.model_size[0] * entry.model_size[1] <= budget.max_pixels
        assert item.sample.answer_space == recipe.tasks[item.sample.task].space
    assert classes == {recipe.budget} | ({"image"} if name == "video/easyvideo_r1_mixture" else set())


@pytest.mark.parametrize("name", ROWS)
def test_the_prompt_asks_for_the_form_that_is_scored(made, name):
    recipe = made(name)
    tokenizer = AutoTokenizer.from_pretrained(recipe.real.model.path)
    for item in prepared(recipe.real):
        assert recipe.tasks[item.sample.task].asks in tokenizer.decode(item.prompt.prompt_ids_T)


@pytest.mark.parametrize("name", ROWS)
def test_the_right_answer_scores_the_most_and_that_of_another_row_little(made, name):
    recipe = made(name)
    of_task: dict[str, list[Sample]] = defaultdict(list)
    for item in prepared(recipe.real):
        of_task[item.sample.task].append(item.sample)
    assert of_task.keys() == recipe.tasks.keys()
    with Router(recipe.real.rewards.model_copy(update={"workers": 0, "on_error": "error"})) as router:
        for task, expected in recipe.tasks.items():
            first, last = of_task[task][0], of_task[task][-1]
            other = expected.gold(last) if last is not first else thought("B")
            [[gold, low]] = router.score([(first, [expected.gold(first), other])]).rewards
            assert gold == pytest.approx(expected.best, abs=expected.tolerance)
            assert low <= expected.low + 1e-6


@pytest.mark.parametrize("name", ROWS)
def test_two_steps(made, name):
    recipe = made(name)
    next(prepared(recipe.small))
    assert train(recipe.small) == 0
    run = recipe.folder / "runs" / recipe.small.name
    steps = [row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "lr" in row]
    assert [row["step"] for row in steps] == [1, 2]
    seen = {key: value for row in steps for key, value in row.items()}
    for task in recipe.tasks:
        for part in recipe.small.rewards.tasks[task]:
            place = f"{task}/{part.name or part.reward}"
            assert seen[f"reward/errors/{place}"] == seen[f"reward/timeouts/{place}"] == 0
            assert f"reward/part/{place}" in seen
    parts = {key.split("/")[2] for key in seen if key.startswith("reward/part/")}
    assert parts == recipe.tasks.keys()
    assert all(row["reward/unscored"] == 0 for row in steps)
    [checkpoint] = [path for path in (run / "checkpoints").iterdir() if path.name.startswith("step-")]
    budgets = json.loads((checkpoint / "model" / "mmrl.json").read_text())["budgets"]
    assert budgets[recipe.budget]["max_pixels"] == SMALL["max_pixels"]
