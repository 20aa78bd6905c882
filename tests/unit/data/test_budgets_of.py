"""Which budget class a medium has."""

from pathlib import Path

import pytest

from mmrl.config.schema import BudgetClass, DataSection, DatasetSection, RunConfig
from mmrl.data.budgets_of import dataset_section, resolve_budget
from mmrl.data.sample import MediaRef, Sample
from mmrl.errors import ConfigError

CONFIG = RunConfig.model_validate(
    {"model": {"path": "m"}, "budgets": {name: {"max_pixels": n} for name, n in (("image", 4000), ("gui", 5000))}}
)
PLAIN = DatasetSection.model_validate({"path": "a.jsonl"})
SHARP = DatasetSection.model_validate({"path": "b/a.jsonl", "budgets": {"image": {"max_pixels": 6000}}})


def sample(modality: str, budget: str | None = None) -> Sample:
    media = (MediaRef("image", Path("/x.png"), budget=budget),)
    return Sample(sample_id="7", task="t", modality=modality, messages=(), media=media, origin="a.jsonl:7")


@pytest.mark.parametrize(
    ("dataset", "modality", "own", "pixels"),
    [
        (PLAIN, "image", None, 4000),
        (PLAIN, "gui", None, 5000),
        (PLAIN, "gui", "image", 4000),
        (SHARP, "image", None, 6000),
        (SHARP, "gui", None, 5000),
        (SHARP, "gui", "image", 6000),
    ],
)
def test_the_medium_then_the_sample_names_it_and_the_dataset_comes_before_the_run(dataset, modality, own, pixels):
    row = sample(modality, own)
    assert resolve_budget(CONFIG, dataset, row, row.media[0]) == BudgetClass(max_pixels=pixels)


def test_no_class_stands_in_for_another():
    row = sample("ocr")
    with pytest.raises(ConfigError, match=r"a\.jsonl:7 \(id=7\): no budget class 'ocr' \(known: gui, image\)"):
        resolve_budget(CONFIG, SHARP, row, row.media[0])


def test_dataset_sections_by_name():
    data = DataSection(train=(PLAIN,), val=(PLAIN,))
    assert dataset_section(data, "a") is PLAIN
    with pytest.raises(ConfigError, match="no dataset 'b'"):
        dataset_section(data, "b")
    with pytest.raises(ConfigError, match="both have a dataset 'a', with different budgets"):
        dataset_section(DataSection(train=(PLAIN,), val=(SHARP,)), "a")
