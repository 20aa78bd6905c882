"""The published sizes of the models that the recipes name, as their config.json on the hub states them."""

from __future__ import annotations

from typing import Any

_QWEN25_VISION = {
    "model_type": "qwen2_5_vl",
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "tokens_per_second": 2,
    "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31],
}
_QWEN25_ROPE = {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]}
_QWEN3_VISION = {
    "model_type": "qwen3_vl",
    "num_heads": 16,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "num_position_embeddings": 2304,
}
_QWEN3_ROPE = {
    "rope_type": "default",
    "rope_theta": 5000000.0,
    "mrope_section": [24, 20, 20],
    "mrope_interleaved": True,
}
_QWEN3_TEXT = {
    "model_type": "qwen3_vl_text",
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "rope_parameters": _QWEN3_ROPE,
}

# Hub id -> what makes the size of the model.
PUBLISHED_CONFIGS: dict[str, dict[str, Any]] = {
    "Qwen/Qwen2.5-VL-3B-Instruct": {
        "model_type": "qwen2_5_vl",
        "tie_word_embeddings": True,
        "text_config": {
            "model_type": "qwen2_5_vl_text",
            "hidden_size": 2048,
            "intermediate_size": 11008,
            "num_hidden_layers": 36,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "vocab_size": 151936,
            "max_position_embeddings": 128000,
            "tie_word_embeddings": True,
            "rope_parameters": _QWEN25_ROPE,
        },
        "vision_config": {**_QWEN25_VISION, "out_hidden_size": 2048},
    },
    "Qwen/Qwen2.5-VL-7B-Instruct": {
        "model_type": "qwen2_5_vl",
        "tie_word_embeddings": False,
        "text_config": {
            "model_type": "qwen2_5_vl_text",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
            "max_position_embeddings": 128000,
            "tie_word_embeddings": False,
            "rope_parameters": _QWEN25_ROPE,
        },
        "vision_config": {**_QWEN25_VISION, "out_hidden_size": 3584},
    },
    "Qwen/Qwen3-VL-4B-Instruct": {
        "model_type": "qwen3_vl",
        "tie_word_embeddings": True,
        "text_config": {**_QWEN3_TEXT, "hidden_size": 2560, "intermediate_size": 9728, "tie_word_embeddings": True},
        "vision_config": {
            **_QWEN3_VISION,
            "depth": 24,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "out_hidden_size": 2560,
            "deepstack_visual_indexes": [5, 11, 17],
        },
    },
    "Qwen/Qwen3-VL-8B-Instruct": {
        "model_type": "qwen3_vl",
        "tie_word_embeddings": False,
        "text_config": {**_QWEN3_TEXT, "hidden_size": 4096, "intermediate_size": 12288, "tie_word_embeddings": False},
        "vision_config": {
            **_QWEN3_VISION,
            "depth": 27,
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "out_hidden_size": 4096,
            "deepstack_visual_indexes": [8, 16, 24],
        },
    },
}


def published_model(hub_id: str) -> Any:
    """The model of that size on the meta device: names and shapes, no numbers."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    values = dict(PUBLISHED_CONFIGS[hub_id])
    with torch.device("meta"):
        return AutoModelForImageTextToText.from_config(AutoConfig.for_model(values.pop("model_type"), **values))
