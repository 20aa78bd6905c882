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


def versions() -> str:
    """What a table of measurements must say about the machine."""
    import platform

    import transformers

    return f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
