"""A tiny vision-language model of a real architecture, made offline: for the quickstart, for trials, for tests.

Under a million random weights, a byte-level tokenizer trained on one sentence, the family's own processors and a chat
template, saved as an ordinary model folder. Random weights know nothing; a supervised warm start teaches the form of
the answers, reinforcement learning the rest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from mmrl.models.hub import without_progress_bars

TinyKind = Literal["qwen2_5_vl"]

# Wider than the usual 0.02: at a width of 128 the first attention layers would otherwise see next to nothing.
INITIALIZER_RANGE = 0.05

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

# All the text that the tokenizer ever sees. Its words become one or two tokens, digits stay one token each, and every
# other text falls back to bytes.
SENTENCE = (
    "user assistant system\nYou are a helpful assistant. In which quarter is the patch? A B C D. "
    "Where is the patch? When does the other clip play? The answer is 0 1 2 3 4 5 6 7 8 9."
)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{%- if message['content'] is string -%}{{ message['content'] }}"
    "{%- else -%}{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- elif part['type'] == 'video' -%}<|vision_start|><|video_pad|><|vision_end|>"
    "{%- else -%}{{ part['text'] }}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{{ '<|im_end|>\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


def make_tiny_model(out_dir: Path | str, *, kind: TinyKind = "qwen2_5_vl", seed: int = 0) -> Path:
    """Write the model folder and return its path; `AutoModelForImageTextToText` and `AutoProcessor` load it.

    The weights depend on `seed` alone and are float32. Existing files of the folder are overwritten.
    """
    import torch

    assert kind == "qwen2_5_vl"
    folder = Path(out_dir)
    tokenizer = _tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, processor = _qwen2_5_vl(tokenizer)
    model.generation_config = _generation_config(tokenizer)
    with without_progress_bars():
        model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _tokenizer() -> Any:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import Qwen2Tokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([SENTENCE], vocab_size=384, min_frequency=1, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    merges: Any = [tuple(merge) for merge in model["merges"]]  # declared as strings, taken as pairs
    tokenizer = Qwen2Tokenizer(
        vocab=model["vocab"],
        merges=merges,
        unk_token="<|endoftext|>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(SPECIAL_TOKENS),
    )
    tokenizer.model_max_length = 4096
    return tokenizer


def _qwen2_5_vl(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    config = hf.Qwen2_5_VLConfig(
        text_config=_text_config(tokenizer),
        vision_config=_vision_config(),
        tie_word_embeddings=False,
        **_media_token_ids(tokenizer),
    )
    size = {"shortest_edge": 28 * 28, "longest_edge": 512 * 512}
    images, clips = hf.Qwen2VLImageProcessor(size=size), hf.Qwen2VLVideoProcessor(size=size)
    processor = hf.Qwen2_5_VLProcessor(images, tokenizer, clips, chat_template=CHAT_TEMPLATE)
    return hf.Qwen2_5_VLForConditionalGeneration(config), processor


def _text_config(tokenizer: Any) -> dict[str, Any]:
    end, pad = _end_and_pad(tokenizer)
    return {
        "vocab_size": (len(tokenizer) + 63) // 64 * 64,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": INITIALIZER_RANGE,
        # The columns of a picture get the slowest third of the rotations; at the usual base of 10,000 they would turn
        # by a thousandth between neighbouring tokens, too little to tell left from right in a short prompt.
        "rope_parameters": {"rope_type": "default", "rope_theta": 10.0, "mrope_section": [4, 6, 6]},
        "bos_token_id": pad,
        "eos_token_id": end,
        "pad_token_id": pad,
    }


def _vision_config() -> dict[str, Any]:
    return {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [0, 1],
        "out_hidden_size": 128,
        "tokens_per_second": 2,
        "initializer_range": INITIALIZER_RANGE,
    }


def _media_token_ids(tokenizer: Any) -> dict[str, Any]:
    names = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    return {key: tokenizer.convert_tokens_to_ids(token) for key, token in names.items()}


def _end_and_pad(tokenizer: Any) -> tuple[int, int]:
    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    return end, pad


def _generation_config(tokenizer: Any) -> Any:
    from transformers import GenerationConfig

    end, pad = _end_and_pad(tokenizer)
    return GenerationConfig(eos_token_id=end, pad_token_id=pad, bos_token_id=pad)
