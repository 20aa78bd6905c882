"""The table of model families, and the processor that is read from a model folder once.

No processor class of transformers runs here or later: a FamilyProcessor holds the tokenizer, the chat template and the
numbers that the framework's own arithmetic needs.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.data.sample import MediaKind
from mmrl.data.vision import ModelFiles, VisionGeometry
from mmrl.errors import ConfigError
from mmrl.models import gemma3, internvl, llava_onevision, qwen, smolvlm
from mmrl.models.family import Family
from mmrl.models.hub import readable_model, remedy

_MODULES = (qwen, internvl, smolvlm, llava_onevision, gemma3)
FAMILIES: Mapping[str, Family] = {row.name: row for module in _MODULES for row in module.FAMILIES}
"""`model_type` -> family. A family is one module: its geometry and its rows."""


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
    image_token_id, video_token_id: of placeholders; None: the family reads no clips.
    marks: what the chat template writes where a medium is -> its kind.
    box_space, time_space: the family's, unless the run overrides them (dataclasses.replace); None: unknown.
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
    video_token_id: int | None
    marks: Mapping[str, MediaKind]
    eos_ids: tuple[int, ...]
    pad_token_id: int
    banned_ids: tuple[int, ...]
    box_space: str | None
    time_space: str
    enable_thinking: bool | None = None

    @property
    def thinks(self) -> bool:
        """Whether replies begin with a thought: the chat template opens one, or is told that there will be one."""
        asked = self.apply_template([{"role": "user", "content": [{"type": "text", "text": "?"}]}])
        return self.enable_thinking is True or asked.rstrip().endswith("<think>")

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
    vocab_size = _vocab_size(config, folder=folder)
    tokenizer = _load_tokenizer(folder, trust_remote_code=trust_remote_code)
    eos_ids = _eos_ids(config, folder=folder, tokenizer=tokenizer)
    pad_id = tokenizer.pad_token_id
    special_ids = _special_ids(tokenizer)
    geometry = _geometry(family, config, folder=folder)
    placeholders = _placeholder_ids(family, config, reads_clips=geometry.reads_clips, source=source)
    marks = _marks(family, placeholders, tokenizer=tokenizer)
    return FamilyProcessor(
        folder=folder,
        family=family,
        geometry=geometry,
        tokenizer=tokenizer,
        encoder=_encoder_without_specials(tokenizer),
        chat_template=_chat_template(folder, tokenizer=tokenizer, chosen=chat_template),
        special_ids=special_ids,
        special_pattern=_special_pattern([*special_ids, *marks]),
        vocab_size=vocab_size,
        image_token_id=placeholders["image"],
        video_token_id=placeholders.get("video"),
        marks=marks,
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
    combined = folder / "processor_config.json"
    whole = _read_json(combined) if combined.exists() else {}
    return family.geometry(ModelFiles(config, images, clips, whole, str(source)), family=family.name)


def _placeholder_ids(
    family: Family, config: Mapping[str, Any], *, reads_clips: bool, source: Path
) -> dict[MediaKind, int]:
    """Ids of the placeholder tokens by config.json, under today's or the older name of the key."""
    own: tuple[MediaKind, ...] = ("image", "video") if reads_clips and family.clip_tokens == "video" else ("image",)
    ids: dict[MediaKind, int] = {}
    for kind in own:
        older = config.get(f"{kind}_token_index")
        ids[kind] = _required(config, f"{kind}_token_id", source=source) if older is None else older
    if reads_clips:
        ids.setdefault("video", ids["image"])
    return ids


def _marks(family: Family, placeholders: Mapping[MediaKind, int], *, tokenizer: Any) -> dict[str, MediaKind]:
    said: dict[MediaKind, str | None] = {"image": family.image_mark, "video": family.clip_mark}
    return {said[kind] or tokenizer.convert_ids_to_tokens(number): kind for kind, number in placeholders.items()}


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


def _vocab_size(config: Mapping[str, Any], *, folder: Path) -> int:
    """Rows of the embedding; where config.json leaves them to its class, as Gemma 3's does, the class's."""
    stated = config.get("text_config", config).get("vocab_size")
    if stated is None:
        from transformers import AutoConfig

        with readable_model(folder):
            stated = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config().vocab_size
    return stated


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


def _special_pattern(spellings: Iterable[str]) -> re.Pattern[str]:
    # Longest first, so that of two spellings of which one begins the other the whole one is found.
    return re.compile(f"({'|'.join(map(re.escape, sorted(set(spellings), key=len, reverse=True)))})")


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
