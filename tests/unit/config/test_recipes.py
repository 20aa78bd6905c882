"""Every shipped recipe loads, and means what it says on models of the published sizes (built without weights)."""

import functools
from pathlib import Path

import pytest
import yaml
from makers.published import PUBLISHED_CONFIGS, published_model

from mmrl.commands.listing import KINDS
from mmrl.config.load import load_config, read_tree
from mmrl.data.cards import resolve_card
from mmrl.data.templates import resolve_templates
from mmrl.models.families import FAMILIES
from mmrl.models.freeze import freeze, module_group
from mmrl.models.lora import check_names
from mmrl.plugins import shipped_dir

CONFIGS = shipped_dir("configs")
BASES = sorted((CONFIGS / "base").rglob("*.yaml"))
RECIPES = sorted((CONFIGS / "tasks").rglob("*.yaml"))
# Recipes of a model and a machine for the user's own rows; the others are of a task and its dataset.
OF_MODELS = [path for path in RECIPES if path.stem.startswith(("qwen2_5_vl_", "qwen3_vl_"))]
OF_TASKS = [path for path in RECIPES if path not in OF_MODELS]
OF_WAYS = ("methods/", "stages/")  # of training; the end-to-end tests train them
# Parameters of the published weights, in units of 1e7.
PARAMETERS = {
    "Qwen/Qwen2.5-VL-3B-Instruct": 375,
    "Qwen/Qwen2.5-VL-7B-Instruct": 829,
    "Qwen/Qwen3-VL-4B-Instruct": 444,
    "Qwen/Qwen3-VL-8B-Instruct": 877,
}

model_of = functools.cache(published_model)


def shown(path: Path) -> str:
    return str(path.relative_to(CONFIGS))


def test_every_file_is_a_base_or_a_recipe():
    others = set(CONFIGS.rglob("*.yaml")) - {*BASES, *RECIPES}
    assert {shown(path) for path in others if not shown(path).startswith(OF_WAYS)} == {"quickstart.yaml"}
    for path in others:
        load_config(path)


@pytest.mark.parametrize("path", BASES, ids=shown)
def test_a_base_holds_known_keys_only(path, tmp_path):
    """A base may lack the model or the data; beside a model it loads."""
    over = tmp_path / "over.yaml"
    model = read_tree(path).child("model")
    named = {} if model is not None and model.child("path") is not None else {"model": {"path": "Qwen/any"}}
    over.write_text(yaml.safe_dump({"base": str(path), "data": {"train": [{"path": "rows.jsonl"}]}, **named}))
    assert load_config(over).model.path.startswith("Qwen/")


@pytest.mark.parametrize("hub_id", PUBLISHED_CONFIGS)
def test_the_sizes_are_the_published_ones(hub_id):
    count = sum(parameter.numel() for parameter in model_of(hub_id).parameters())
    assert round(count / 1e7) == PARAMETERS[hub_id]
    [base] = [path for path in BASES if f"path: {hub_id}" in path.read_text()]
    assert f"{PARAMETERS[hub_id] / 100:.2f}e9 parameters, {count * 2 / 1e9:.1f} GB in bfloat16" in base.read_text()


@pytest.mark.parametrize("hub_id", PUBLISHED_CONFIGS)
def test_module_groups_cover_every_parameter(hub_id):
    model, family = model_of(hub_id), FAMILIES[PUBLISHED_CONFIGS[hub_id]["model_type"]]
    assert {module_group(name, family) for name, _ in model.named_parameters()} == set(family.module_groups)


@pytest.mark.parametrize("path", RECIPES, ids=shown)
def test_recipe(path):
    config = load_config(path, ["data.train.0.path=rows.jsonl", "data.val.0.path=held_out.jsonl"])
    assert config.name == "_".join(path.relative_to(CONFIGS / "tasks").with_suffix("").parts)
    model, family = model_of(config.model.path), FAMILIES[PUBLISHED_CONFIGS[config.model.path]["model_type"]]
    if config.model.lora is not None:
        layers = check_names(model, config.model.lora, family=family)
        depth = PUBLISHED_CONFIGS[config.model.path]["text_config"]["num_hidden_layers"]
        assert len(layers) == 7 * depth  # q, k, v, o, gate, up, down
    else:
        trainable = freeze(model, config.model.freeze, family=family)
        assert {group for group, count in trainable.items() if not count} == set(config.model.freeze)


@pytest.mark.parametrize("path", OF_TASKS, ids=shown)
def test_a_task_recipe_states_its_data_budget_and_prompt(path):  # tests/e2e/test_recipes.py trains it
    config, modality = load_config(path), path.parent.name
    assert f"configs/tasks/{modality}/{path.name}" in (CONFIGS.parent / "docs" / "recipes.md").read_text()
    for section in (*config.data.train, *config.data.val):
        card = resolve_card(section.card, relative_to=CONFIGS)
        assert (card.modality or modality) == modality
        assert card.task is None or card.task in config.rewards.tasks
        templates = resolve_templates(section, data=config.data)
        assert all(templates.user(task) for task in ([card.task] if card.task else config.rewards.tasks))
    assert config.budgets[modality].max_pixels < 2.1e6
    assert config.data.max_prompt_tokens + config.rollout.max_new_tokens <= config.train.micro_batch_tokens


@pytest.mark.parametrize("modality", ["image", "video", "gui", "ocr", "driving", "vla"])
def test_every_modality_has_two_task_recipes(modality):
    assert sum(path.parent.name == modality for path in OF_TASKS) >= 2


@pytest.mark.parametrize("path", OF_MODELS, ids=shown)
def test_recipe_of_its_folder_model_and_machine(path):
    config = load_config(path)
    modality, name = path.parent.name, path.stem
    assert config.model.path.lower().replace("-", "_").replace(".", "_").startswith(f"qwen/{name[:10]}")
    assert config.data.train[0].card.answer_space == {"image": "original_px", "video": "seconds"}[modality]
    assert (config.model.lora is None) == ("_full_" in name)
    assert (config.model.quantization is not None) == ("_qlora_" in name)
    # Two copies of the weights and, with full fine-tuning, gradients: 24 GB have no room for vLLM's.
    assert config.rollout.engine == ("hf" if name.endswith(("_full_1x24gb", "_qlora_1x24gb")) else "vllm")
    longest = config.data.max_prompt_tokens + config.rollout.max_new_tokens
    assert longest <= config.train.micro_batch_tokens


def test_the_listing_shows_each_with_its_comment():
    listed = {entry.name: entry.about for entry in KINDS["configs"]()}
    assert set(listed) == {shown(path) for path in CONFIGS.rglob("*.yaml")}
    about = "Qwen3-VL-8B on clips: LoRA over 4-bit weights, one GPU of 24 GB"
    assert listed["tasks/video/qwen3_vl_8b_qlora_1x24gb.yaml"] == about
    for path in RECIPES:
        assert listed[shown(path)] == path.read_text().partition("\n")[0].removeprefix("# ").removesuffix(".")
