"""Processors read from model folders; errors name what is missing."""

import json
import shutil

import pytest
import torch
from makers.processors import family_processor, hf_processor
from makers.tiny_models import KINDS, TILE_KINDS, tiny_model_dir
from transformers import AutoConfig, AutoModelForImageTextToText

from mmrl.errors import ConfigError
from mmrl.models.families import FAMILIES, _encoder_without_specials, load_processor
from mmrl.models.qwen import VISION_TOKENS

every_family = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def folder(tmp_path):
    """A copy of the Qwen3-VL folder without weights, free to be damaged."""
    copy = tmp_path / "model"
    shutil.copytree(tiny_model_dir("qwen3_vl"), copy, ignore=shutil.ignore_patterns("*.safetensors"))
    return copy


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@every_family
def test_geometry_equals_the_processors(kind):
    geometry, theirs = family_processor(kind).geometry, hf_processor(kind)
    for own in (theirs.image_processor, theirs.video_processor):
        assert geometry.patch_size == own.patch_size
        assert geometry.merge_size == own.merge_size
        assert geometry.temporal_patch_size == own.temporal_patch_size
        assert list(geometry.image_mean) == list(own.image_mean)
        assert list(geometry.image_std) == list(own.image_std)
        assert geometry.rescale_factor == own.rescale_factor
    assert geometry.tokens_per_second == (2 if kind == "qwen2_5_vl" else None)


@every_family
def test_token_ids(kind):
    processor, tokenizer = family_processor(kind), hf_processor(kind).tokenizer
    ids = tokenizer.convert_tokens_to_ids(["<|image_pad|>", "<|video_pad|>", "<|im_end|>", "<|endoftext|>"])
    assert [processor.image_token_id, processor.video_token_id, *processor.eos_ids] == ids
    assert processor.pad_token_id == ids[3]


@every_family
def test_banned_are_vision_tokens_and_ids_without_a_token_but_no_end_token(kind):
    processor, tokenizer = family_processor(kind), hf_processor(kind).tokenizer
    vision = set(tokenizer.convert_tokens_to_ids(list(VISION_TOKENS)))
    padding = set(range(len(tokenizer), processor.vocab_size))
    assert padding
    assert set(processor.banned_ids) == vision | padding
    assert not set(processor.banned_ids) & set(processor.eos_ids)


@pytest.mark.parametrize("kind", (*KINDS, *TILE_KINDS))
def test_typed_special_tokens_are_letters(kind):
    # fault 14
    processor = family_processor(kind)
    ids = processor.encode_text("a<|image_pad|>b<|im_end|>")
    assert not set(ids) & set(processor.special_ids.values())
    assert processor.decode(ids) == "a<|image_pad|>b<|im_end|>"
    plain = "What colour? <think>red</think>\n\n"
    assert processor.encode_text(plain) == hf_processor(kind).tokenizer(plain)["input_ids"]


@every_family
def test_ids_of_short_texts_are_kept_and_cannot_be_changed(kind):
    encoder = _encoder_without_specials(hf_processor(kind).tokenizer)
    texts = ["user\n", "a<|im_end|>", "", "user\n", "x" * 256, "x" * 256, "x" * 257, "x" * 257]
    first = [encoder.encode(text) for text in texts]
    assert first == [encoder._core.encode(text, add_special_tokens=False).ids for text in texts]
    kept = encoder._kept.cache_info()
    assert (kept.hits, kept.misses, kept.maxsize) == (2, 4, 2048)
    first[0].clear()
    assert encoder.encode("user\n") == first[3] != []


@pytest.mark.parametrize("kind", (*KINDS, *TILE_KINDS))
def test_module_groups_cover_every_parameter(kind):
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(tiny_model_dir(kind)))
    names = [name for name, _ in model.named_parameters()]
    groups = FAMILIES[kind].module_groups
    for group, prefixes in groups.items():
        assert any(name.startswith(prefixes) for name in names), group
    assert all(any(name.startswith(prefixes) for prefixes in groups.values()) for name in names)
    assert type(model).__name__ in FAMILIES[kind].architectures


def test_spaces_of_the_families():
    assert {name: (row.box_space, row.time_space) for name, row in FAMILIES.items()} == {
        "qwen2_vl": ("0..1000", "seconds"),
        "qwen2_5_vl": ("model_px", "seconds"),
        "qwen3_vl": ("0..1000", "seconds"),
        "internvl": ("0..1000", "seconds"),
        "idefics3": (None, "seconds"),
        "smolvlm": (None, "seconds"),
        "llava_onevision": ("0..1", "seconds"),
        "gemma3": (None, "seconds"),
    }


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("config.json", "config.json is missing"),
        ("processor_config.json", "processor_config.json and preprocessor_config.json are missing"),
        ("tokenizer.json", "tokenizer is missing"),
        ("chat_template.jinja", "no chat template"),
    ],
)
def test_a_missing_file_is_named(folder, missing, named):
    (folder / missing).unlink()
    with pytest.raises(ConfigError, match=named) as caught:
        load_processor(folder)
    assert str(folder) in str(caught.value)


def test_unknown_family_lists_the_known(folder):
    edit(folder / "config.json", model_type="gpt_9")
    with pytest.raises(ConfigError, match="'gpt_9' is no known family; known: qwen2_vl, qwen2_5_vl, qwen3_vl"):
        load_processor(folder)


def test_a_missing_key_is_named(folder):
    config = json.loads((folder / "config.json").read_text())
    del config["image_token_id"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"config\.json: image_token_id is missing"):
        load_processor(folder)


def test_unreadable_json(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        load_processor(folder)


def test_the_older_layout_of_processor_files_reads_the_same(folder):
    sections = json.loads((folder / "processor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps(sections["image_processor"]))
    (folder / "video_preprocessor_config.json").write_text(json.dumps(sections["video_processor"]))
    (folder / "processor_config.json").unlink()
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    older, newer = load_processor(folder), family_processor("qwen3_vl")
    assert (older.geometry, older.chat_template) == (newer.geometry, newer.chat_template)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("video_processor", "patch_size", 14),
        ("image_processor", "image_mean", [0.4] * 3),
        ("video_processor", "merge_size", 4),
    ],
)
def test_images_and_clips_must_agree(folder, section, key, value):
    path = folder / "processor_config.json"
    sections = json.loads(path.read_text())
    sections[section][key] = value
    path.write_text(json.dumps(sections))
    with pytest.raises(ConfigError, match=key):
        load_processor(folder)


def test_the_vision_tower_must_cut_the_same_patches(folder):
    config = json.loads((folder / "config.json").read_text())
    config["vision_config"]["patch_size"] = 14
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="patch_size is 16, but 14 in config"):
        load_processor(folder)


def test_end_tokens_without_a_generation_config(folder):
    (folder / "generation_config.json").unlink()
    assert load_processor(folder).eos_ids == (family_processor("qwen3_vl").eos_ids[0],)


def test_a_model_path_that_is_a_file_is_named(tmp_path):
    file = tmp_path / "model.yaml"
    file.touch()
    with pytest.raises(ConfigError, match=r"model\.yaml/config\.json: cannot be read"):
        load_processor(file)
