"""The DeepSpeed engine of a run, and whole weights out of it.

Under ZeRO-3 a parameter is an empty tensor on every process, and each holds a part of its values elsewhere; whatever
reads weights outside a forward pass (saving, the rollout engine, the reference) gets them from `whole_tensors` or
within `whole_weights`. Both are collective: every process goes through them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from mmrl.config.schema import ModelSection, TrainSection
from mmrl.errors import EngineError
from mmrl.models.logprobs import HeadPass, LogprobModule
from mmrl.models.trained import swapped
from mmrl.training import distributed

_OFFLOADED = {None: (), "optimizer": ("offload_optimizer",), "parameters": ("offload_optimizer", "offload_param")}


def engine_config(*, model_section: ModelSection, train: TrainSection) -> dict[str, Any]:
    """DeepSpeed's configuration as a dictionary; a function of the run's configuration alone.

    ZeRO-3 gathers a layer's weights when the layer runs, never ahead and never kept for a second use: what it would
    gather ahead it learns from earlier passes, which need not have been alike on all processes.
    """
    zero: dict[str, Any] = {"stage": train.zero_stage, "overlap_comm": False}
    if train.zero_stage == 3:
        zero |= {"stage3_prefetch_bucket_size": 0, "stage3_max_reuse_distance": 0}
    zero |= {key: {"device": "cpu"} for key in _OFFLOADED[train.offload]}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": train.max_grad_norm,
        "bf16": {"enabled": model_section.dtype == "bfloat16"},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }


def build_engine(
    model: Any,
    optimizer: torch.optim.Optimizer | None,
    config: dict[str, Any],
    *,
    value_head: torch.nn.Module | None = None,
) -> Any:
    """The DeepSpeed engine around a transformers model, whose forward pass is that of `LogprobModule`.

    Gradient accumulation is counted in tokens, so DeepSpeed's own counter stays at 1 and `backward` sets the boundary
    by hand. `gradient_clipping` is always passed: left out it would mean 1.0. Without an optimizer the engine only
    runs forward: a frozen model, its weights partitioned under ZeRO-3.
    """
    deepspeed = distributed.import_deepspeed()
    module = LogprobModule(model, value_head)
    if config["zero_optimization"]["stage"] == 3:
        deepspeed.utils.set_z3_leaf_modules(module, [HeadPass])
        for buffer in module.buffers():
            buffer.data = buffer.data.to(distributed.device())
        # From host memory, parameter by parameter: no device ever holds the whole model.
        deepspeed.zero.Init(module=module, config_dict_or_path=config)
    else:
        module.to(distributed.device())
    engine, _, _, _ = deepspeed.initialize(model=module, optimizer=optimizer, config=config)
    return engine


def is_partitioned(model: torch.nn.Module) -> bool:
    """Whether ZeRO-3 holds the weights of this model."""
    return any(hasattr(parameter, "ds_id") for parameter in model.parameters())


def whole_tensors(named: Iterable[tuple[str, torch.nn.Parameter]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and whole values of each parameter, gathered one at a time and only valid until the next one.

    EngineError, naming it, for one that is still empty (fault 56).
    """
    for name, parameter in named:
        with _gathered([parameter]):
            if not parameter.numel():
                raise EngineError(f"weight {name}: it has shape {tuple(parameter.shape)}; its values were not gathered")
            yield name, parameter.detach()


def collected_tensors(named: Iterable[tuple[str, torch.nn.Parameter]]) -> dict[str, torch.Tensor]:
    """Copies of whole parameters in the main process's memory, under all names they have; empty on the others."""
    copies: dict[int, torch.Tensor] = {}
    names = dict(named)
    distinct = {id(parameter): (name, parameter) for name, parameter in names.items()}
    for name, tensor in whole_tensors(distinct.values()):
        if distributed.is_main():
            copies[id(names[name])] = tensor.cpu().clone()
    return {name: copies[id(parameter)] for name, parameter in names.items() if id(parameter) in copies}


def whole_weights(engine: Any) -> AbstractContextManager[Any]:
    """Within the block the engine's model has whole weights and may be run by each process as often as it likes."""
    if not is_partitioned(engine.module):
        return nullcontext()
    from deepspeed.runtime.zero.stage3 import unwrap_model_for_generation

    return unwrap_model_for_generation(engine)


@contextmanager
def swapped_weights(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """`mmrl.models.trained.swapped`, for a model that may be partitioned."""
    if not is_partitioned(model):
        with swapped(model, tensors):
            yield
        return
    parameters = {name: parameter for name, parameter in model.named_parameters() if name in tensors}
    kept = collected_tensors(parameters.items())
    _overwrite(parameters, tensors)
    try:
        yield
    finally:
        _overwrite(parameters, kept)


def optimizer_layout(*, model_section: ModelSection, train: TrainSection) -> dict[str, Any]:
    """How the optimizer's state lies on the processes; one saved under another layout cannot be put back.

    `processes` is 1 where every process has the whole state: plain AdamW in float32 without ZeRO.
    """
    whole = train.zero_stage == 0 and model_section.dtype != "bfloat16"
    return {
        "processes": 1 if whole else distributed.world_size(),
        "zero_stage": train.zero_stage,
        "dtype": model_section.dtype,
        "optimizer": train.optimizer,
    }


def load_optimizer(engine: Any, state: dict[str, Any]) -> None:
    """Put this rank's saved optimizer state back, fp32 master weights included.

    ZeRO's optimizers want a list of states that they index by rank.
    """
    if engine.zero_optimization():
        engine.optimizer.load_state_dict([state] * distributed.world_size(), load_from_fp32_weights=True)
    else:
        engine.optimizer.load_state_dict(state)


def optimizer_state_classes() -> list[Any]:
    """Plain data classes that DeepSpeed puts into an optimizer state; all that reading one back may create."""
    distributed.import_deepspeed()
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    return [LossScaler, ZeroStageEnum, fragment_address]


def apply_step(engine: Any) -> float:
    """Clip and step; returns the gradient norm before clipping.

    DeepSpeed reports a norm only where it keeps fp32 gradients of its own; plain fp32 training reads the parameters'.
    """
    if engine.zero_optimization() or engine.bfloat16_enabled():
        engine.step()
        return float(engine.get_global_grad_norm() or 0.0)
    gradients = [p.grad for p in engine.module.parameters() if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    engine.step()
    return norm


def _gathered(parameters: list[torch.nn.Parameter], *, modifier_rank: int | None = None) -> Any:
    if not any(hasattr(parameter, "ds_id") for parameter in parameters):
        return nullcontext()
    return distributed.import_deepspeed().zero.GatheredParameters(parameters, modifier_rank=modifier_rank)


@torch.no_grad()
def _overwrite(parameters: Mapping[str, torch.nn.Parameter], tensors: Mapping[str, torch.Tensor]) -> None:
    """Give partitioned parameters new values, which the main process has."""
    for name, parameter in parameters.items():
        with _gathered([parameter], modifier_rank=0):
            if distributed.is_main():
                parameter.copy_(tensors[name])
