"""An engine on this machine, as an evaluation opens it: in its own process, or in one of several others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from mmrl.config.schema import ModelSection
from mmrl.evaluate.flight import BatchFlight, JoiningFlight
from mmrl.evaluate.records import Reply
from mmrl.models.families import FamilyProcessor

LocalFlight = BatchFlight | JoiningFlight


@dataclass(frozen=True)
class LocalEngine:
    """What is opened. longest: tokens of the longest prompt with its answer. size: questions that it has at once."""

    name: Literal["hf", "vllm"]
    model: ModelSection
    longest: int
    size: int


@dataclass(frozen=True, slots=True)
class News:
    """What an engine in a process of its own tells.

    ended: by the request's id, its answers, or why it has none. room: how many more requests may come now.
    problem: why this is the last news; empty: it is not.
    """

    ended: tuple[tuple[str, tuple[Reply, ...] | str], ...] = ()
    room: int = 0
    problem: str = ""


@contextmanager
def open_flight(
    engine: LocalEngine, processor: FamilyProcessor, *, on_model: Callable[[Any], None] | None = None
) -> Iterator[LocalFlight]:
    """The engine with the model's weights, on this process's GPU where it has one. Raises ConfigError, EngineError.

    on_model: is shown the model before the engine has it.
    """
    from mmrl.models.load import load_weights
    from mmrl.training import distributed

    model = load_weights(engine.model)
    if engine.name == "hf":
        model = model.to(distributed.device())
    if on_model is not None:
        on_model(model)
    if engine.name == "hf":
        from mmrl.rollout.hf_engine import HfEngine

        yield BatchFlight(HfEngine(model, processor), size=engine.size)
        return
    from mmrl.models.merged import merged_parameters
    from mmrl.rollout.open import within_model
    from mmrl.rollout.vllm_engine import VllmEngine
    from mmrl.rollout.vllm_types import CoreOptions

    options = CoreOptions(
        dtype=engine.model.dtype,
        max_model_len=within_model(processor.folder, engine.longest),
        trust_remote_code=engine.model.trust_remote_code,
    )
    with closing(VllmEngine(processor, options)) as vllm:
        vllm.sync_weights(merged_parameters(model), 0)
        del model
        yield JoiningFlight(vllm, size=engine.size)
