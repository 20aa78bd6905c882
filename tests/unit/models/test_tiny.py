"""The tiny model is an ordinary folder: transformers and the framework load it, and its answers are short."""

import pytest

from mmrl.models.families import load_processor
from mmrl.models.tiny import make_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("tiny"), seed=3)


def test_transformers_loads_it(folder):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(folder)
    assert type(model).__name__ == "Qwen2_5_VLForConditionalGeneration"
    assert 500_000 < model.num_parameters() < 1_000_000
    assert AutoProcessor.from_pretrained(folder).tokenizer.eos_token == "<|im_end|>"


def test_digits_are_single_tokens(folder):
    processor = load_processor(folder)
    blank, *digits = processor.encode_text(" 0123456789")
    assert len(set(digits)) == 10
    assert processor.encode_text("2 4 4 6") == [digits[2], blank, digits[4], blank, digits[4], blank, digits[6]]


def test_any_text_survives_the_tokenizer(folder):
    processor = load_processor(folder)
    text = "Où est l'image? 漢字 <|im_end|>\n"
    assert processor.decode(processor.encode_text(text)) == text


def test_the_weights_depend_on_the_seed_alone(folder, tmp_path):
    weights = (folder / "model.safetensors").read_bytes()
    assert (make_tiny_model(tmp_path / "same", seed=3) / "model.safetensors").read_bytes() == weights
    assert (make_tiny_model(tmp_path / "other", seed=4) / "model.safetensors").read_bytes() != weights
