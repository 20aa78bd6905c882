"""Tiny random vision-language models of the real classes, saved as ordinary model folders.

`tiny_model_dir("qwen2_5_vl")` builds a folder once per test session (0.6 to 0.9 million parameters, fp32, a byte-level
tokenizer of about 400 tokens, processors, chat template) and returns its path. Copy it before changing anything in it.

The saved processors hold generous pixel limits: tests state their own budgets.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from makers import tiny_tiled

Kind = Literal["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm", "idefics3", "llava_onevision", "gemma3"]
KINDS: tuple[Kind, ...] = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
TILE_KINDS: tuple[Kind, ...] = ("internvl", "smolvlm", "idefics3", "llava_onevision", "gemma3")

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
ADDED_WORDS = ("<think>", "</think>")  # like the real tokenizers: one id each, but ordinary text

CORPUS = (
    "What colour is the square? red green blue yellow",
    "left right up down <answer> the count is 1 2 3 4 </answer>",
    "user\n\nassistant\nsystem\nYou are a helpful assistant.",
    "at 0.5 seconds > box \\boxed{12} [10, 20, 30, 40]",
)

_MEDIA_FORM = """\
{%- if part['type'] == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- elif part['type'] == 'video' -%}<|vision_start|><|video_pad|><|vision_end|>
{%- else -%}{{ part['text'] }}{%- endif -%}"""
_TURNS = (
    "{%- for message in messages -%}"
    "%DEFAULT_SYSTEM%"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{%- if message['content'] is string -%}{{ message['content'] }}"
    "{%- else -%}{%- for part in message['content'] -%}" + _MEDIA_FORM + "{%- endfor -%}{%- endif -%}"
    "{{ '<|im_end|>\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)
_DEFAULT_SYSTEM = (
    "{%- if loop.first and message['role'] != 'system' -%}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{%- endif -%}"
)


def tiny_model_dir(kind: Kind) -> Path:
    """Folder of the tiny model of this family; built at the first call, removed when the process ends."""
    return _build(kind)


@functools.cache
def _build(kind: Kind) -> Path:
    import torch

    folder = Path(tempfile.mkdtemp(prefix=f"tiny_{kind}_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tokenizer = _tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, processor = _BUILDERS[kind](tokenizer)
    model.generation_config = _generation_config(tokenizer)
    model.float().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def chat_template(kind: Kind) -> str:
    """The Qwen form of a conversation; Qwen2 families open with a system turn where none is given."""
    return _TURNS.replace("%DEFAULT_SYSTEM%", "" if kind == "qwen3_vl" else _DEFAULT_SYSTEM)


def _tokenizer() -> Any:
    import json

    from tokenizers import AddedToken, ByteLevelBPETokenizer
    from transformers import Qwen2Tokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(CORPUS * 4, vocab_size=400, min_frequency=1, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=model["vocab"],
        merges=[tuple(merge) for merge in model["merges"]],
        unk_token="<|endoftext|>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(SPECIAL_TOKENS),
    )
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in ADDED_WORDS])
    tokenizer.model_max_length = 4096
    return tokenizer


def _generation_config(tokenizer: Any) -> Any:
    from transformers import GenerationConfig

    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    return GenerationConfig(eos_token_id=[end, pad], pad_token_id=pad, bos_token_id=pad)


def _text_config(tokenizer: Any, **changes: Any) -> dict[str, Any]:
    """A vocabulary rounded up to 64, so that some ids are padding, as in the real models."""
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]} | changes.pop("rope", {})
    return {
        "vocab_size": (len(tokenizer) + 63) // 64 * 64,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "rope_parameters": rope,
        **changes,
    }


def _end_ids(tokenizer: Any) -> dict[str, int]:
    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    return {"bos_token_id": pad, "eos_token_id": end, "pad_token_id": pad}


def _token_ids(tokenizer: Any) -> dict[str, Any]:
    names = ("image_pad", "video_pad", "vision_start", "vision_end")
    image, video, start, end = tokenizer.convert_tokens_to_ids([f"<|{name}|>" for name in names])
    return {
        "image_token_id": image,
        "video_token_id": video,
        "vision_start_token_id": start,
        "vision_end_token_id": end,
        "tie_word_embeddings": False,
    }


def _qwen2_vl(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    config = hf.Qwen2VLConfig(
        text_config=_text_config(tokenizer, **_end_ids(tokenizer)),
        vision_config={"depth": 2, "embed_dim": 64, "hidden_size": 128, "num_heads": 2, "mlp_ratio": 2},
        **_token_ids(tokenizer),
    )
    images, clips = _qwen2_processors()
    processor = hf.Qwen2VLProcessor(images, tokenizer, clips, chat_template=chat_template("qwen2_vl"))
    return hf.Qwen2VLForConditionalGeneration(config), processor


def _qwen2_5_vl(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "window_size": 112,
        "out_hidden_size": 128,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 2,
    }
    text = _text_config(tokenizer, **_end_ids(tokenizer))
    config = hf.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **_token_ids(tokenizer))
    images, clips = _qwen2_processors()
    processor = hf.Qwen2_5_VLProcessor(images, tokenizer, clips, chat_template=chat_template("qwen2_5_vl"))
    return hf.Qwen2_5_VLForConditionalGeneration(config), processor


def _qwen3_vl(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    vision = {
        "depth": 3,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "patch_size": 16,
        "out_hidden_size": 128,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0, 1],
    }
    text = _text_config(tokenizer, head_dim=32, rope={"mrope_interleaved": True})
    config = hf.Qwen3VLConfig(text_config=text, vision_config=vision, **_token_ids(tokenizer))
    half = [0.5, 0.5, 0.5]
    images = hf.Qwen2VLImageProcessor(
        size={"shortest_edge": 32 * 32, "longest_edge": 512 * 512}, patch_size=16, image_mean=half, image_std=half
    )
    clips = hf.Qwen3VLVideoProcessor(size={"shortest_edge": 32 * 32, "longest_edge": 256 * 256 * 64})
    processor = hf.Qwen3VLProcessor(images, tokenizer, clips, chat_template=chat_template("qwen3_vl"))
    return hf.Qwen3VLForConditionalGeneration(config), processor


def _qwen2_processors() -> tuple[Any, Any]:
    import transformers as hf

    size = {"shortest_edge": 28 * 28, "longest_edge": 512 * 512}
    return hf.Qwen2VLImageProcessor(size=size), hf.Qwen2VLVideoProcessor(size=size)


_BUILDERS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    **tiny_tiled.BUILDERS,
}
