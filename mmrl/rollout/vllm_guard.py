"""Which vLLM is supported, how it is imported, and what its failures are called.

PRIVATE lists what is used of its private interface, all in `vllm_private`; it is checked when an engine is opened,
and by a test.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mmrl.config.rollout_checks import INSTALL_VLLM
from mmrl.errors import EngineError

SUPPORTED = "0.32"
# Read by vLLM when it is imported. One process; the model runner that takes logits processors of this form on GPUs
# and CPUs alike; threads stay where the trainer has them.
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
# May be set by the user.
DEFAULTS = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
# (module, name, parameters that are used)
PRIVATE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("vllm.inputs", "mm_input", ("prompt_token_ids", "mm_kwargs", "mm_hashes", "mm_placeholders")),
    ("vllm.inputs", "tokens_input", ("prompt_token_ids",)),
    ("vllm.multimodal.inputs", "MultiModalKwargsItems.from_hf_inputs", ("hf_inputs", "config_by_key")),
    ("vllm.multimodal.inputs", "PlaceholderRange", ("offset", "length", "is_embed")),
    ("vllm.multimodal.inputs", "MultiModalFeatureSpec", ("data", "modality", "identifier", "mm_position", "mm_hash")),
    ("vllm.multimodal.processing", "BaseMultiModalProcessor._get_mm_fields_config", ("hf_inputs",)),
    ("vllm.v1.engine.llm_engine", "LLMEngine.add_request", ("request_id", "prompt", "params")),
    ("vllm.v1.engine.llm_engine", "LLMEngine.step", ()),
    ("vllm.v1.engine.llm_engine", "LLMEngine.abort_request", ("request_ids",)),
    ("vllm.v1.engine.llm_engine", "LLMEngine.reset_prefix_cache", ()),
    ("vllm.v1.engine.llm_engine", "LLMEngine.reset_mm_cache", ()),
    ("vllm.v1.engine.llm_engine", "LLMEngine.reset_encoder_cache", ()),
    ("vllm.v1.engine.core_client", "InprocClient.shutdown", ()),
    ("vllm.distributed.parallel_state", "destroy_distributed_environment", ()),
    ("vllm.model_executor.layers.utils", "dispatch_cpu_unquantized_gemm", ("layer", "remove_weight")),
    ("vllm.v1.worker.gpu_model_runner", "GPUModelRunner.reload_weights", ("weights_iterator",)),
    ("vllm.v1.sample.logits_processor", "LogitsProcessor.apply", ("logits",)),
    ("vllm.model_executor.models.interfaces", "SupportsMRoPE.get_mrope_input_positions", ("mm_features",)),
    ("vllm.v1.worker.gpu_worker", "Worker.init_weight_transfer_engine", ("init_info",)),
    ("vllm.v1.worker.gpu_worker", "Worker.start_weight_update", ()),
    ("vllm.v1.worker.gpu_worker", "Worker.update_weights", ("update_info",)),
    ("vllm.v1.worker.gpu_worker", "Worker.finish_weight_update", ()),
    ("vllm.distributed.weight_transfer.factory", "WeightTransferTrainerFactory.trainer_init", ("client", "source")),
    ("vllm.logprobs", "FlatLogprobs", ("start_indices", "end_indices", "token_ids", "logprobs", "ranks")),
)


def import_vllm() -> Any:
    """The vllm module. Raises EngineError where it is missing, of another version, or changed inside."""
    version = _version_of("vllm") or _version_of("vllm-cpu")
    if version is None:
        raise EngineError(f"rollout.engine is vllm, but vLLM is not installed; {INSTALL_VLLM}")
    if not version.startswith(f"{SUPPORTED}."):
        raise EngineError(f"vLLM {version} is installed, but only {SUPPORTED}.x is supported; {INSTALL_VLLM}")
    os.environ.update(ENVIRONMENT)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    with unchanged_environment():
        vllm = vllm_module("vllm")
    if problems := interface_problems():
        raise EngineError(f"vLLM {version} lacks what mmrl uses of its private interface: {'; '.join(problems)}")
    return vllm


def interface_problems() -> list[str]:
    """What of PRIVATE this vLLM does not have, one line each; empty: all is there."""
    return [problem for entry in PRIVATE if (problem := _interface_problem(*entry)) is not None]


def _interface_problem(module: str, name: str, parameters: Sequence[str]) -> str | None:
    try:
        found = vllm_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return f"{module}.{name} is gone"
    known = inspect.signature(found).parameters
    missing = [parameter for parameter in parameters if parameter not in known]
    return f"{module}.{name} has no parameter {', '.join(missing)}" if missing else None


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Everything that vLLM raises becomes an EngineError that says what was being done.

    vLLM documents no exceptions: a model that fails in a step raises what torch raises, a request that is refused a
    ValueError, and a broken invariant of its scheduler an assertion, a missing key or its own EngineDeadError.
    """
    known = vllm_module("vllm.exceptions").VLLMError
    kinds = (known, RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError, OSError)
    try:
        yield
    except EngineError:
        raise
    except (*kinds, MemoryError) as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise EngineError(f"vLLM failed at {doing}: {type(error).__name__}: {first}") from error


@contextmanager
def unchanged_environment() -> Iterator[None]:
    """vLLM sets variables for processes of its own (LD_PRELOAD among them); the trainer's must not inherit them."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def vllm_module(name: str) -> Any:
    """A module of vLLM, which need not be installed where types are checked."""
    return importlib.import_module(name)


def _version_of(package: str) -> str | None:
    return next((d.version for d in importlib.metadata.distributions(name=package)), None)
