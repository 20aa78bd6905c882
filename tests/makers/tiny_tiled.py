"""Tiny models of the families that see pictures in tiles; `tiny_models.tiny_model_dir` builds them.

Tiles are 56 pixels (InternVL), with 4 tokens each, so pictures of a few thousand pixels have several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MEAN = [0.5, 0.4, 0.6]
STD = [0.25, 0.3, 0.2]

_CHATML = (
    "{%- for message in messages -%}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{%- if message['content'] is string -%}{{ message['content'] }}"
    "{%- else -%}{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{ '%IMAGE%' }}"
    "{%- elif part['type'] == 'video' -%}{{ '%VIDEO%' }}"
    "{%- else -%}{{ part['text'] }}{%- endif -%}{%- endfor -%}{%- endif -%}"
    "{{ '<|im_end|>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


def chatml(image: str, video: str) -> str:
    """The form of InternVL and LLaVA-OneVision, with these marks for media."""
    return _CHATML.replace("%IMAGE%", image).replace("%VIDEO%", video)


def text_config(tokenizer: Any, model_type: str = "qwen2", **changes: Any) -> dict[str, Any]:
    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    return {
        "model_type": model_type,
        "vocab_size": (len(tokenizer) + 63) // 64 * 64,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": pad,
        "eos_token_id": end,
        "pad_token_id": pad,
        **changes,
    }


def named_tokens(tokenizer: Any, **names: str) -> Any:
    """The tokenizer with special tokens that are attributes of it, as some families' processors want them."""
    tokenizer.add_special_tokens({"extra_special_tokens": list(names.values())}, replace_extra_special_tokens=False)
    tokenizer._set_model_specific_special_tokens(names)
    return tokenizer


def _internvl(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    tokenizer = named_tokens(
        tokenizer,
        context_image_token="<IMG_CONTEXT>",
        start_image_token="<img>",
        end_image_token="</img>",
        video_token="<video>",
    )
    vision = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": [56, 56],
        "patch_size": [14, 14],
    }
    config = hf.InternVLConfig(
        vision_config=vision,
        text_config=text_config(tokenizer),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
        tie_word_embeddings=False,
    )
    pixels: Any = {"size": {"height": 56, "width": 56}, "image_mean": MEAN, "image_std": STD}
    processor = hf.InternVLProcessor(
        hf.GotOcr2ImageProcessor(**pixels),
        tokenizer,
        hf.InternVLVideoProcessor(**pixels),
        image_seq_length=4,
        chat_template=chatml("<IMG_CONTEXT>\n", "<video>\n"),
    )
    return hf.InternVLForConditionalGeneration(config), processor


_SMOL = (
    "{{- '<|im_start|>' -}}{%- for message in messages -%}{{ message['role'] | capitalize }}"
    "{{ ':' if message['content'][0]['type'] == 'image' else ': ' }}"
    "{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'text' -%}{{ part['text'] }}{%- else -%}{{ '<' + part['type'] + '>' }}{%- endif -%}"
    "{%- endfor -%}{{ '<end_of_utterance>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"
)


def _smol_tokens(tokenizer: Any) -> Any:
    places = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokens = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *places]
    tokenizer.add_special_tokens({"extra_special_tokens": tokens}, replace_extra_special_tokens=False)
    return tokenizer


def _smol_config(tokenizer: Any) -> dict[str, Any]:
    return {
        "vision_config": {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 16,
        },
        "text_config": text_config(tokenizer, "llama"),
        "image_token_id": tokenizer.convert_tokens_to_ids("<image>"),
        "scale_factor": 2,
        "tie_word_embeddings": False,
        "pad_token_id": tokenizer.convert_tokens_to_ids("<|endoftext|>"),
    }


_SMOL_PIXELS: dict[str, Any] = {"max_image_size": {"longest_edge": 64}, "image_mean": MEAN, "image_std": STD}


def _smolvlm(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    tokenizer = _smol_tokens(tokenizer)
    config = hf.SmolVLMConfig(**_smol_config(tokenizer))
    sampling = {"fps": 1, "max_frames": 8, "video_size": {"longest_edge": 128}}
    processor = hf.SmolVLMProcessor(
        hf.SmolVLMImageProcessor(size={"longest_edge": 256}, **_SMOL_PIXELS),
        tokenizer,
        hf.SmolVLMVideoProcessor(size={"longest_edge": 128}, video_sampling=sampling, **_SMOL_PIXELS),
        image_seq_len=4,
        chat_template=_SMOL,
    )
    return hf.SmolVLMForConditionalGeneration(config), processor


def _idefics3(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    tokenizer = _smol_tokens(tokenizer)
    config = hf.Idefics3Config(**_smol_config(tokenizer))
    images = hf.Idefics3ImageProcessor(size={"longest_edge": 256}, **_SMOL_PIXELS)
    processor = hf.Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=_SMOL)
    return hf.Idefics3ForConditionalGeneration(config), processor


def _llava_onevision(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    tokens = ["<image>", "<video>"]
    tokenizer.add_special_tokens({"extra_special_tokens": tokens}, replace_extra_special_tokens=False)
    image, video = tokenizer.convert_tokens_to_ids(tokens)
    canvases = [[56 * rows, 56 * columns] for rows in range(1, 5) for columns in range(1, 5)]
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
        "vision_use_head": False,
    }
    config = hf.LlavaOnevisionConfig(
        vision_config=vision,
        text_config=text_config(tokenizer),
        image_token_index=image,
        video_token_index=video,
        image_grid_pinpoints=canvases,
        vision_aspect_ratio="anyres_max_9",
        tie_word_embeddings=False,
    )
    pixels: Any = {"size": {"height": 56, "width": 56}, "image_mean": MEAN, "image_std": STD}
    processor = hf.LlavaOnevisionProcessor(
        hf.LlavaOnevisionImageProcessor(image_grid_pinpoints=canvases, **pixels),
        tokenizer,
        hf.LlavaOnevisionVideoProcessor(**pixels),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        vision_aspect_ratio="anyres_max_9",
        chat_template=chatml("<image>\n", "<video>\n"),
    )
    return hf.LlavaOnevisionForConditionalGeneration(config), processor


def _gemma3(tokenizer: Any) -> tuple[Any, Any]:
    import torch
    import transformers as hf

    names = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = named_tokens(tokenizer, **names)
    tokenizer.add_tokens(["\n", "\n\n", "\n\n\n", "\n\n\n\n"])  # one id each in the real vocabulary
    boi, eoi, image = tokenizer.convert_tokens_to_ids(list(names.values()))
    vision = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
        "vision_use_head": False,
    }
    # Of three layers the first two see 16 positions, so prompts are longer than the window.
    layers = ["sliding_attention", "sliding_attention", "full_attention"]
    text = text_config(tokenizer, "gemma3_text", num_hidden_layers=3, head_dim=32, layer_types=layers)
    config = hf.Gemma3Config(
        vision_config=vision,
        text_config=text | {"sliding_window": 16, "query_pre_attn_scalar": 32},
        mm_tokens_per_image=4,
        boi_token_index=boi,
        eoi_token_index=eoi,
        image_token_index=image,
        tie_word_embeddings=False,
    )
    pixels: Any = {"size": {"height": 56, "width": 56}, "image_mean": MEAN, "image_std": STD}
    processor = hf.Gemma3Processor(
        hf.Gemma3ImageProcessor(**pixels),
        tokenizer,
        image_seq_length=4,
        chat_template=chatml("<start_of_image>", ""),
    )
    model: Any = hf.Gemma3ForConditionalGeneration(config)
    # Made of zeros: without this no picture would be seen.
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight, std=0.2)
    return model, processor


BUILDERS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "internvl": _internvl,
    "smolvlm": _smolvlm,
    "idefics3": _idefics3,
    "llava_onevision": _llava_onevision,
    "gemma3": _gemma3,
}
