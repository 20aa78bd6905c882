"""Models and facts that benchmarks share."""

from typing import Any

import torch
from makers.tiny_models import tiny_model_dir

from mmrl.models.families import FamilyProcessor, load_processor


def medium_model(*, vocabulary: int | None = None) -> tuple[Any, FamilyProcessor]:
    """A random Qwen2.5-VL of about 25M parameters, fp32, train mode; `vocabulary` widens it."""
    from transformers import AutoConfig, AutoModelForImageTextToText

    folder = tiny_model_dir("qwen2_5_vl")
    config = AutoConfig.from_pretrained(folder)
    text, vision = config.text_config, config.vision_config
    text.hidden_size, text.intermediate_size = 512, 1536
    text.num_hidden_layers, text.layer_types = 6, ["full_attention"] * 6
    text.num_attention_heads, text.num_key_value_heads = 8, 4
    text.rope_parameters = {**text.rope_parameters, "mrope_section": [8, 12, 12]}
    text.vocab_size = vocabulary or text.vocab_size
    vision.hidden_size, vision.intermediate_size, vision.out_hidden_size = 256, 1024, 512
    vision.depth, vision.num_heads, vision.fullatt_block_indexes = 6, 4, [2, 5]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa")
    return model.float().train(), load_processor(folder)


def large_model(dtype: torch.dtype) -> tuple[Any, FamilyProcessor]:
    """A random Qwen2.5-VL of at least 400 MB in this type, train mode, with the heads' size of the published ones."""
    model, processor = model_of((1280, 3456, 6 if dtype == torch.float32 else 12, 10, 2, 320, 8), dtype=dtype)
    return model.train(), processor


def model_of(
    shape: tuple[int, int, int, int, int, int, int] | None, *, dtype: torch.dtype
) -> tuple[Any, FamilyProcessor]:
    """A random Qwen2.5-VL with heads of 128; None: the tiny one.

    shape: width, MLP width, layers, heads and key-value heads of the decoder, width and layers of the vision tower.
    """
    from transformers import AutoConfig, AutoModelForImageTextToText

    folder = tiny_model_dir("qwen2_5_vl")
    config = AutoConfig.from_pretrained(folder)
    text, vision = config.text_config, config.vision_config
    if shape is not None:
        text.hidden_size, text.intermediate_size, text.num_hidden_layers, text.num_attention_heads, *rest = shape
        text.num_key_value_heads, vision.hidden_size, vision.depth = rest
        text.layer_types = ["full_attention"] * text.num_hidden_layers
        text.rope_parameters = {**text.rope_parameters, "mrope_section": [16, 24, 24]}
        vision.out_hidden_size, vision.num_heads = text.hidden_size, vision.hidden_size // 80
        vision.intermediate_size = vision.hidden_size * 14 // 5
        vision.fullatt_block_indexes = [vision.depth // 2 - 1, vision.depth - 1]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa")
    return model.to(dtype), load_processor(folder)


def versions() -> str:
    """What a table of measurements must say about the machine."""
    import platform

    import transformers

    return f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
