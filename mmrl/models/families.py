"""Model families: what differs between them is one row of a table. A processor is read from a model folder once.

No processor class of transformers runs here or later: a FamilyProcessor holds the tokenizer, the chat template and the
numbers that the framework's own arithmetic needs.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mmrl.data.budget import VideoRule, VisionGeometry
from mmrl.errors import ConfigError
from mmrl.models.hub import readable_model, remedy

ModuleGroup = Literal["vision_tower", "projector", "language_model"]

# Tokens that stand for or enclose media: sampled by a model they would be taken for a picture that does not exist.
VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")

QWEN_MODULES: Mapping[ModuleGroup, tuple[str, ...]] = {
    "vision_tower": ("model.visual.",),
    "projector": ("model.visual.merger.", "model.visual.deepstack_merger_list."),
    "language_model": ("model.language_model.", "lm_head."),
}


@dataclass(frozen=True, slots=True)
class Family:
    """One row of the table.

    name: `model_type` in config.json. architectures: model classes of transformers.
    box_space, time_space: how the released checkpoints write places and times (`model.box_space` overrides it).
    video_rule: how clips are sized and sampled, see mmrl.data.budget.
    video_prompt: a clip is one run of placeholders, or per temporal patch a run after its time in words.
    module_groups: group -> prefixes of parameter names; the longest prefix that fits decides.
    tokens_per_second: temporal positions per second where config.json states none; None: positions know no time.
    banned_tokens: never sampled.
    shares_prefix: its attention takes a tree mask, so a group may be one packed row; else one row per completion.
    """

    name: str
    architectures: tuple[str, ...]
    box_space: str
    video_rule: VideoRule
    video_prompt: Literal["one_run", "timed_runs"]
    module_groups: Mapping[ModuleGroup, tuple[str, ...]]
    tokens_per_second: float | None = None
    time_space: str = "seconds"
    banned_tokens: tuple[str, ...] = VISION_TOKENS
    shares_prefix: bool = True


FAMILIES: Mapping[str, Family] = {
    row.name: row
    for row in (
        Family(
            name="qwen2_vl",
            architectures=("Qwen2VLForConditionalGeneration",),
            box_space="0..1000",
            video_rule="qwen2",
            video_prompt="one_run",
            module_groups=QWEN_MODULES,
        ),
        Family(
            name="qwen2_5_vl",
            architectures=("Qwen2_5_VLForConditionalGeneration",),
            box_space="model_px",
            video_rule="qwen2",
            video_prompt="one_run",
            tokens_per_second=4.0,
            module_groups=QWEN_MODULES,
        ),
        Family(
            name="qwen3_vl",
            architectures=("Qwen3VLForConditionalGeneration",),
            box_space="0..1000",
            video_rule="qwen3",
            video_prompt="timed_runs",
            module_groups=QWEN_MODULES,
        ),
    )
}


class TextEncoder:
    """Ids of plain text by the fast core of a tokenizer; special tokens spelled in a text stay text.

    A prompt is mostly the same few fragments of the chat template, and is encoded twice (media expanded and not): the
    ids of short texts are kept, those unused longest go first.
    """

    LONGEST_KEPT = 256
    KEPT = 2048

    def __init__(self, core: Any) -> None:
        self._core = core
        self._kept = functools.lru_cache(self.KEPT)(self._encode)

    def encode(self, text: str) -> list[int]:
        return list(self._kept(text) if len(text) <= self.LONGEST_KEPT else self._encode(text))

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._core.encode(text, add_special_tokens=False).ids)


@dataclass(frozen=True, slots=True, eq=False)
class FamilyProcessor:
    """Everything about a model folder that rendering and pixels need, without weights.

    tokenizer: of transformers, for decoding and the chat template. encoder: for text, see TextEncoder.
    special_ids: spelling -> id of the special tokens. special_pattern: matches any of them, as one group.
    vocab_size: rows of the embedding, padding included.
    eos_ids: tokens that end a completion; the first one is the end of a turn.
    banned_ids: vision tokens and ids without a token; never an end token. Sorted.
    box_space, time_space: the family's, unless the run overrides them (dataclasses.replace).
    enable_thinking: what the chat template is told; None: nothing, so that its own default holds.
    """

    folder: Path
    family: Family
    geometry: VisionGeometry
    tokenizer: Any
    encoder: TextEncoder
    chat_template: str
    special_ids: Mapping[str, int]
    special_pattern: re.Pattern[str]
    vocab_size: int
    image_token_id: int
    video_token_id: int
    eos_ids: tuple[int, ...]
    pad_token_id: int
    banned_ids: tuple[int, ...]
    box_space: str
    time_space: str
    enable_thinking: bool | None = None

    def encode_text(self, text: str) -> list[int]:
        """Ids of plain text. `<|im_end|>` typed by somebody becomes several ordinary tokens."""
        return self.encoder.encode(text)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of token ids, blanks as they are."""
        return self.tokenizer.decode(
            list(ids), skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
        )

    def apply_template(self, conversation: Sequence[Mapping[str, Any]]) -> str:
        """The conversation (role, content parts of type text, image, video) as one string, ready for a reply."""
        told = {} if self.enable_thinking is None else {"enable_thinking": self.enable_thinking}
        return self.tokenizer.apply_chat_template(
            list(conversation), chat_template=self.chat_template, tokenize=False, add_generation_prompt=True, **told
        )


def load_processor(
    folder: Path | str, *, chat_template: str | None = None, trust_remote_code: bool = False
) -> FamilyProcessor:
    """Read a model folder in transformers format. Raises ConfigError naming the folder and what is missing.

    chat_template: a .jinja file, or one of the folder's named templates; None: its default one.

    Needs config.json; tokenizer files; a chat template (chat_template.jinja, chat_template.json or in
    tokenizer_config.json); processor_config.json or preprocessor_config.json.
    """
    folder = Path(folder)
    source = folder / "config.json"
    config = _read_json(source)
    family = _family_of(config, source=source)
    vocab_size = _required(config.get("text_config", config), "vocab_size", source=source)
    tokenizer = _load_tokenizer(folder, trust_remote_code=trust_remote_code)
    eos_ids = _eos_ids(config, folder=folder, tokenizer=tokenizer)
    pad_id = tokenizer.pad_token_id
    special_ids = _special_ids(tokenizer)
    return FamilyProcessor(
        folder=folder,
        family=family,
        geometry=_geometry(family, config, folder=folder),
        tokenizer=tokenizer,
        encoder=_encoder_without_specials(tokenizer),
        chat_template=_chat_template(folder, tokenizer=tokenizer, chosen=chat_template),
        special_ids=special_ids,
        special_pattern=_special_pattern(special_ids),
        vocab_size=vocab_size,
        image_token_id=_required(config, "image_token_id", source=source),
        video_token_id=_required(config, "video_token_id", source=source),
        eos_ids=eos_ids,
        pad_token_id=eos_ids[-1] if pad_id is None else pad_id,
        banned_ids=_banned_ids(family, tokenizer, vocab_size=vocab_size, eos_ids=eos_ids),
        box_space=family.box_space,
        time_space=family.time_space,
    )


def load_geometry(folder: Path | str) -> VisionGeometry:
    """`load_processor(folder).geometry` without reading the tokenizer: all that opening media needs of a model."""
    folder = Path(folder)
    source = folder / "config.json"
    config = _read_json(source)
    return _geometry(_family_of(config, source=source), config, folder=folder)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path.parent}: {path.name} is missing; {remedy(path.parent)}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid JSON ({error})") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); is {path.parent} a model folder?") from error


def _required(settings: Mapping[str, Any], key: str, *, source: Path) -> Any:
    if key not in settings:
        raise ConfigError(f"{source}: {key} is missing")
    return settings[key]


def _family_of(config: Mapping[str, Any], *, source: Path) -> Family:
    name = _required(config, "model_type", source=source)
    if name not in FAMILIES:
        raise ConfigError(f"{source}: model_type {name!r} is no known family; known: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def _geometry(family: Family, config: Mapping[str, Any], *, folder: Path) -> VisionGeometry:
    images, clips, source = _processor_sections(folder)
    keys = ("patch_size", "merge_size", "temporal_patch_size", "image_mean", "image_std")
    patch, merge, unit, mean, std = (_required(images, key, source=source) for key in keys)
    vision = config.get("vision_config", {})
    _check_agreement(images, clips, vision, source=source)
    tokens_per_second = family.tokens_per_second
    if tokens_per_second is not None:
        tokens_per_second = vision.get("tokens_per_second", tokens_per_second)
    return VisionGeometry(
        family=family.name,
        patch_size=patch,
        merge_size=merge,
        temporal_patch_size=unit,
        image_mean=tuple(mean),
        image_std=tuple(std),
        video_rule=family.video_rule,
        default_total_pixels=_DEFAULT_TOTAL_PIXELS[family.video_rule](clips, patch * merge, unit),
        rescale_factor=images.get("rescale_factor", 1 / 255),
        tokens_per_second=tokens_per_second,
    )


def _processor_sections(folder: Path) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """The settings for images and for clips, and the file that holds the former."""
    combined = folder / "processor_config.json"
    if combined.exists() and "image_processor" in (sections := _read_json(combined)):
        return sections["image_processor"], sections.get("video_processor", {}), combined
    images = folder / "preprocessor_config.json"
    if not images.exists():
        raise ConfigError(f"{folder}: processor_config.json and preprocessor_config.json are missing; {remedy(folder)}")
    clips = folder / "video_preprocessor_config.json"
    return _read_json(images), _read_json(clips) if clips.exists() else {}, images


def _check_agreement(
    images: Mapping[str, Any], clips: Mapping[str, Any], vision: Mapping[str, Any], *, source: Path
) -> None:
    """Images, clips and vision tower must cut the same patches: one geometry serves all three."""
    for key in ("patch_size", "merge_size", "temporal_patch_size", "image_mean", "image_std", "rescale_factor"):
        if key in images and key in clips and images[key] != clips[key]:
            raise ConfigError(f"{source}: {key} is {images[key]} for images, but {clips[key]} for clips")
    for key in ("patch_size", "merge_size", "temporal_patch_size"):
        of_tower = vision.get("spatial_merge_size" if key == "merge_size" else key, images[key])
        if of_tower != images[key]:
            raise ConfigError(f"{source}: {key} is {images[key]}, but {of_tower} in config.json's vision_config")


def _total_pixels_qwen2(clips: Mapping[str, Any], factor: int, unit: int) -> int:
    """Nine tenths of the context, in pixels of temporal patches, each standing for `unit` frames."""
    return int(clips.get("max_video_tokens", 128_000) * factor * factor * 0.9) * unit


def _total_pixels_qwen3(clips: Mapping[str, Any], factor: int, unit: int) -> int:
    """The processor's cap on a clip; without one, that of the released checkpoints (24,576 tokens' worth of pixels)."""
    del unit
    return clips.get("size", {}).get("longest_edge", 24_576 * factor * factor)


_DEFAULT_TOTAL_PIXELS = {"qwen2": _total_pixels_qwen2, "qwen3": _total_pixels_qwen3}


def _load_tokenizer(folder: Path, *, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    if not any((folder / name).exists() for name in ("tokenizer.json", "vocab.json")):
        raise ConfigError(
            f"{folder}: the tokenizer is missing (tokenizer.json, or vocab.json with merges.txt); {remedy(folder)}"
        )
    with readable_model(folder):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)


def _encoder_without_specials(tokenizer: Any) -> TextEncoder:
    """An own copy of the fast tokenizer: the setting below would change what the shared one returns to others."""
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    encoder.encode_special_tokens = True
    encoder.no_truncation()
    encoder.no_padding()
    return TextEncoder(encoder)


def _special_ids(tokenizer: Any) -> dict[str, int]:
    return {token.content: number for number, token in tokenizer.added_tokens_decoder.items() if token.special}


def _special_pattern(special_ids: Mapping[str, int]) -> re.Pattern[str]:
    # Longest first, so that of two spellings of which one begins the other the whole one is found.
    return re.compile(f"({'|'.join(map(re.escape, sorted(special_ids, key=len, reverse=True)))})")


def _chat_template(folder: Path, *, tokenizer: Any, chosen: str | None) -> str:
    """The text of the template: of the chosen file or name, else the folder's default."""
    if chosen is not None and chosen.endswith(".jinja"):
        try:
            return Path(chosen).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(f"model.chat_template {chosen}: cannot be read ({reason})") from error
    own = _own_templates(folder, tokenizer=tokenizer)
    name = chosen or "default"
    if name not in own:
        listed = ", ".join(own)
        raise ConfigError(f"model.chat_template: {folder} has no chat template named {name!r}; it has: {listed}")
    return own[name]


def _own_templates(folder: Path, *, tokenizer: Any) -> Mapping[str, str]:
    """Name -> text of the templates in a model folder; most have one, which is called `default`."""
    found = tokenizer.chat_template
    separate = folder / "chat_template.json"
    if not found and separate.exists():
        found = _read_json(separate)["chat_template"]
    if not found:
        raise ConfigError(
            f"{folder}: no chat template (chat_template.jinja, chat_template.json or in tokenizer_config.json)"
        )
    return {"default": found} if isinstance(found, str) else found


def _eos_ids(config: Mapping[str, Any], *, folder: Path, tokenizer: Any) -> tuple[int, ...]:
    """End tokens by the first file that states any: generation_config.json, config.json, the tokenizer's."""
    generation = folder / "generation_config.json"
    stated = (
        _read_json(generation).get("eos_token_id") if generation.exists() else None,
        config.get("eos_token_id"),
        config.get("text_config", {}).get("eos_token_id"),
        tokenizer.eos_token_id,
    )
    for ids in stated:
        if ids is not None:
            return (ids,) if isinstance(ids, int) else tuple(ids)
    raise ConfigError(f"{folder}: no end token; set eos_token_id in generation_config.json")


def _banned_ids(family: Family, tokenizer: Any, *, vocab_size: int, eos_ids: Sequence[int]) -> tuple[int, ...]:
    vocabulary = tokenizer.get_vocab()
    vision = {vocabulary[token] for token in family.banned_tokens if token in vocabulary}
    without_token = set(range(vocab_size)).difference(vocabulary.values())
    return tuple(sorted((vision | without_token).difference(eos_ids)))
