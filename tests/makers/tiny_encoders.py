"""Small random models of the real classes behind `encoder:`, as folders and files that the loaders read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import timm
import torch
from open_clip import CLIP, CLIPTextCfg, CLIPVisionCfg
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    BitImageProcessor,
    CLIPConfig,
    CLIPImageProcessor,
    CLIPModel,
    CLIPProcessor,
    Dinov2Config,
    Dinov2Model,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipImageProcessor,
    SiglipModel,
    SiglipProcessor,
)

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "red", "blue", "square", "cat", "sits", "on", "the", "mat")
TIMM = "test_resnet.r160_in1k"


def tiny_encoder(kind: str, folder: Path) -> dict[str, Any]:
    """Options of a random encoder: open_clip, clip, siglip, dinov2, sentence or timm."""
    torch.manual_seed(0)
    return _MAKERS[kind](folder)


def _open_clip(folder: Path) -> dict[str, Any]:
    vision = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    text = {"context_length": 12, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    model = CLIP(24, CLIPVisionCfg(**vision), CLIPTextCfg(**text))
    values = {"model_cfg": {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}, "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(values))
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "open_clip_model.safetensors")
    return {"kind": "open_clip", "weights": str(folder)}


def _timm(folder: Path) -> dict[str, Any]:
    save_file(timm.create_model(TIMM, pretrained=False).state_dict(), folder / "model.safetensors")
    return {"kind": "timm", "model": TIMM, "weights": str(folder / "model.safetensors")}


def _tokenizer(**special: str) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", **special
    )


_SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def _clip(folder: Path) -> dict[str, Any]:
    text = {**_SMALL, "vocab_size": len(WORDS), "max_position_embeddings": 12, "eos_token_id": 3, "pad_token_id": 0}
    vision = {**_SMALL, "image_size": 32, "patch_size": 16}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    CLIPModel(config).save_pretrained(folder)
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    CLIPProcessor(CLIPImageProcessor(**sizes), _tokenizer()).save_pretrained(folder)
    return {"kind": "transformers", "weights": str(folder)}


def _siglip(folder: Path) -> dict[str, Any]:
    text = {**_SMALL, "vocab_size": len(WORDS), "max_position_embeddings": 12, "pad_token_id": 0}
    vision = {**_SMALL, "image_size": 32, "patch_size": 16}
    SiglipModel(SiglipConfig(text_config=text, vision_config=vision)).save_pretrained(folder)
    images = SiglipImageProcessor(size={"height": 32, "width": 32})
    SiglipProcessor(images, _tokenizer()).save_pretrained(folder)
    return {"kind": "transformers", "weights": str(folder)}


def _dinov2(folder: Path) -> dict[str, Any]:
    Dinov2Model(Dinov2Config(**_SMALL, image_size=28, patch_size=14)).save_pretrained(folder)
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 28, "width": 28}}
    BitImageProcessor(**sizes).save_pretrained(folder)
    return {"kind": "transformers", "weights": str(folder)}


def _sentence(folder: Path) -> dict[str, Any]:
    config = BertConfig(**_SMALL, vocab_size=len(WORDS), max_position_embeddings=24)
    BertModel(config).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return {"kind": "sentence", "weights": str(folder)}


_MAKERS = {
    "open_clip": _open_clip,
    "timm": _timm,
    "clip": _clip,
    "siglip": _siglip,
    "dinov2": _dinov2,
    "sentence": _sentence,
}
