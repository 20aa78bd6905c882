"""What travels between a trainer and its rollout servers: tensors as safetensors with a JSON record in their metadata.

Nothing of it is code: no pickle, no path of a picture. A medium is sent as the uint8 frames of its cache entry, once a
request, however often the prompt shows it.

Shape letters: T prompt tokens, F frames, H/W pixels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save

from mmrl.data.rendered import MediaEntry, Placeholder, RenderedPrompt, with_pixels
from mmrl.data.sample import MediaKind
from mmrl.errors import EngineError
from mmrl.rollout.types import Completion, Group, Request, Sampling

# Both sides must speak the same one.
PROTOCOL = 1
_RECORD = "record"
_PREFIX = 8


@dataclass(frozen=True, slots=True)
class WeightsId:
    """Which weights a server has. session: the trainer's, drawn when it opens its engine. number: of the sync.

    The policy's version alone would not do: averaged weights have the version of the raw ones, and another run counts
    its versions anew.
    """

    session: str
    number: int
    policy_version: int

    def covers(self, wanted: WeightsId) -> bool:
        """Whether these are the wanted weights, or newer ones of the same trainer.

        >>> WeightsId("a", 3, 2).covers(WeightsId("a", 2, 1)), WeightsId("b", 9, 9).covers(WeightsId("a", 2, 1))
        (True, False)
        """
        return self.session == wanted.session and self.number >= wanted.number


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    key: str
    kind: MediaKind
    grid_thw: tuple[int, int, int]
    num_tokens: int
    source_size: tuple[int, int]
    timestamps_s: tuple[float, ...]
    frame_indices: tuple[int, ...]
    source_fps: float | None
    duration_s: float | None
    sample_fps: float | None


class _Prompt(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sample_id: str
    next_position: int
    placeholders: tuple[Placeholder, ...]
    entries: tuple[_Entry, ...]
    shown: tuple[int, ...]
    engine_ids: tuple[int, ...]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")
    request_id: str
    n: int
    seed: int
    sampling: Sampling
    prefix_ids: tuple[tuple[int, ...], ...]
    want_entropy: bool
    top_alternatives: int
    prompt: _Prompt
    weights: WeightsId


_COMPLETIONS = TypeAdapter(tuple[Completion, ...])


def pack(record: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> bytes:
    return save(
        {name: tensor.contiguous() for name, tensor in tensors.items()}, metadata={_RECORD: json.dumps(dict(record))}
    )


def unpack(data: bytes) -> tuple[str, dict[str, torch.Tensor]]:
    """The JSON record, as text, and the tensors. Raises EngineError for bytes that are not what `pack` makes."""
    try:
        length = int.from_bytes(data[:_PREFIX], "little")
        record = json.loads(data[_PREFIX : _PREFIX + length])["__metadata__"][_RECORD]
        return record, load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineError(f"the message cannot be read ({type(error).__name__})") from error


def pack_request(request: Request, weights: WeightsId) -> bytes:
    """A request that wants to be answered with these weights, or with newer ones of the same trainer."""
    prompt = request.prompt
    media = [with_pixels(entry) for entry in prompt.media]
    entries = {entry.key: entry for entry in media}
    numbers = {key: number for number, key in enumerate(entries)}
    tensors = {"prompt_ids": prompt.prompt_ids_T, "position_ids": prompt.position_ids_3T}
    tensors |= {f"frames.{numbers[key]}": entry.frames_F3HW for key, entry in entries.items()}
    record = {
        "request_id": request.request_id,
        "n": request.n,
        "seed": request.seed,
        "sampling": asdict(request.sampling),
        "prefix_ids": request.prefix_ids,
        "want_entropy": request.want_entropy,
        "top_alternatives": request.top_alternatives,
        "prompt": {
            "sample_id": prompt.sample_id,
            "next_position": prompt.next_position,
            "placeholders": [asdict(run) for run in prompt.placeholders],
            "entries": [{name: getattr(entry, name) for name in _Entry.model_fields} for entry in entries.values()],
            "shown": [numbers[entry.key] for entry in media],
            "engine_ids": prompt.engine_ids,
        },
        "weights": asdict(weights),
    }
    return pack(record, tensors)


def unpack_request(data: bytes) -> tuple[Request, WeightsId]:
    """What `pack_request` packed. Raises EngineError for a message of another form or one that contradicts itself."""
    record, tensors = unpack(data)
    try:
        read = _Request.model_validate_json(record)
        prompt = _prompt(read.prompt, tensors)
    except (ValidationError, KeyError, IndexError) as error:
        first = str(error).splitlines()[0]
        raise EngineError(f"the request cannot be read ({type(error).__name__}: {first})") from error
    _check(prompt)
    fields = read.model_dump(include={"request_id", "n", "seed", "prefix_ids", "want_entropy", "top_alternatives"})
    return Request(prompt=prompt, sampling=read.sampling, **fields), read.weights


def pack_group(group: Group) -> dict[str, Any]:
    """The completions of a group as JSON; numbers keep all their digits."""
    return {"completions": [asdict(completion) for completion in group.completions]}


def unpack_group(answer: Mapping[str, Any], request: Request) -> Group:
    """Raises EngineError unless these are all completions of the request."""
    try:
        completions = _COMPLETIONS.validate_python(answer["completions"])
    except (ValidationError, KeyError) as error:
        raise EngineError(f"the answer cannot be read ({type(error).__name__})") from error
    if len(completions) != request.n:
        raise EngineError(f"{len(completions)} completions came back for request {request.request_id} of {request.n}")
    return Group(request, completions)


def _prompt(read: _Prompt, tensors: Mapping[str, torch.Tensor]) -> RenderedPrompt:
    entries = [
        MediaEntry(frames_F3HW=tensors[f"frames.{number}"], **entry.model_dump())
        for number, entry in enumerate(read.entries)
    ]
    return RenderedPrompt(
        sample_id=read.sample_id,
        prompt_ids_T=tensors["prompt_ids"],
        position_ids_3T=tensors["position_ids"],
        next_position=read.next_position,
        placeholders=read.placeholders,
        media=tuple(entries[number] for number in read.shown),
        engine_ids=read.engine_ids,
    )


def _check(prompt: RenderedPrompt) -> None:
    where = f"request of {prompt.sample_id}"
    length = len(prompt.prompt_ids_T)
    if prompt.prompt_ids_T.dtype != torch.int64 or prompt.prompt_ids_T.ndim != 1 or not length:
        raise EngineError(f"{where}: the prompt is not a list of token ids")
    if tuple(prompt.position_ids_3T.shape) != (3, length):
        raise EngineError(f"{where}: {tuple(prompt.position_ids_3T.shape)} positions for {length} tokens")
    if any(entry.frames_F3HW.dtype != torch.uint8 or entry.frames_F3HW.ndim != 4 for entry in prompt.media):
        raise EngineError(f"{where}: the frames of a medium are not uint8 pictures")
    if any(entry.kind == "video" and not (entry.sample_fps or 0) > 0 for entry in prompt.media):
        raise EngineError(f"{where}: a clip without its sample_fps")
    _check_placeholders(prompt, where)


def _check_placeholders(prompt: RenderedPrompt, where: str) -> None:
    placed, end, length = [0] * len(prompt.media), 0, len(prompt.prompt_ids_T)
    for run in prompt.placeholders:
        if not 0 <= run.medium < len(prompt.media) or run.length < 1 or run.start + run.length > length:
            raise EngineError(f"{where}: a placeholder lies outside the prompt or is of no medium")
        if run.start < end or run.first != placed[run.medium]:
            raise EngineError(f"{where}: placeholders are not in the order of the prompt and of their medium")
        placed[run.medium] += run.length
        end = run.start + run.length
    if placed != [entry.num_tokens for entry in prompt.media]:
        raise EngineError(f"{where}: {placed} placeholders for media of {[e.num_tokens for e in prompt.media]} tokens")
