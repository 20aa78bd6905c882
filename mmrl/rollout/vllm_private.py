"""All that this project does with vLLM and its private interface. Only this file and its guard import it.

vLLM runs inside the trainer's process (no engine process, no server): weights are handed over as references, and
prompts as token ids with normalised patches, so that neither a path nor a second decode nor a second tokenisation is
between what was rendered and what is sampled. vLLM has no public call for that. `vllm_guard` lists what is used in its
place.

Shape letters: T prompt tokens, N patches, X values of a patch, V vocabulary, B sequences.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mmrl.data.rendered import MediaEntry, with_pixels
from mmrl.data.vision import VisionGeometry
from mmrl.errors import EngineError
from mmrl.models.families import FAMILIES
from mmrl.rollout.cpu_linear import cpu_linear
from mmrl.rollout.vllm_guard import engine_errors, import_vllm, unchanged_environment, vllm_module
from mmrl.rollout.vllm_media import MediaSpan
from mmrl.rollout.vllm_types import MAX_ALTERNATIVES, CoreOptions, CoreOutput, CoreSampling, TransferStep


class VllmCore:
    """vLLM in this process, with random weights until `load_weights`. Every failure in it is an EngineError.

    banned_ids are never sampled, and take no probability.
    """

    def __init__(self, folder: Path, options: CoreOptions, *, banned_ids: Sequence[int]) -> None:
        vllm = import_vllm()
        on_gpu = torch.cuda.is_available()
        ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        with (
            engine_errors(f"opening vLLM for {folder}"),
            unchanged_environment(),
            _unchanged_threads(),
            _matrices(options.cpu_packing),
        ):
            os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(options.cpu_kv_cache_gb)
            self._llm = vllm.LLM(
                str(folder),
                dtype=options.dtype,
                load_format="dummy",
                max_model_len=options.max_model_len,
                # A medium must fit one batch; the larger the batch, the fewer prefill steps.
                max_num_batched_tokens=max(8192, options.max_model_len),
                max_num_seqs=options.max_num_seqs,
                max_logprobs=MAX_ALTERNATIVES,
                logprobs_mode="processed_logprobs",
                logits_processors=[_ban_processor(banned_ids)],
                generation_config="vllm",
                enforce_eager=options.enforce_eager or not on_gpu,
                enable_prefix_caching=True,
                block_size=None if on_gpu else 32,
                gpu_memory_utilization=options.gpu_memory_utilization,
                enable_sleep_mode=on_gpu,
                mm_processor_cache_gb=0,
                mm_device_do_normalize=False,
                skip_mm_profiling=not on_gpu,
                distributed_executor_backend="external_launcher" if ranks > 1 else "uni",
                trust_remote_code=options.trust_remote_code,
                weight_transfer_config={"backend": options.weight_transfer} if options.weight_transfer else None,
                seed=0,
            )
            self._engine = self._llm.llm_engine
            self._model: Any = self._llm.apply_model(lambda model: model)[0]
            self._prefixes = FAMILIES[self._engine.model_config.hf_config.model_type].engine_prefixes
            self._fields = self._llm.renderer.get_mm_processor()._get_mm_fields_config
            self._warnings = _SchedulerWarnings()
        self.max_model_len = options.max_model_len
        self.max_num_seqs = options.max_num_seqs
        self._packed = options.cpu_packing

    def medium(self, entry: MediaEntry, geometry: VisionGeometry) -> Any:
        """One medium as vLLM takes it: what its own vision tower would make of it, where the entry has that and vLLM
        knows the family's; else normalised fp32 pixels. With what the family says of either.
        """
        from transformers import BatchFeature

        if entry.features is not None and geometry.engine_takes_features:
            features = BatchFeature(geometry.engine_features(entry))
        else:
            features = BatchFeature(geometry.engine_inputs(with_pixels(entry)))
        items = vllm_module("vllm.multimodal.inputs").MultiModalKwargsItems
        [[item]] = items.from_hf_inputs(features, self._fields(features, {})).values()
        return item

    def prompt(self, ids: Sequence[int], spans: Sequence[MediaSpan], media: Mapping[str, Any]) -> Any:
        """Token ids, expanded, with the place of every medium. media: what `medium` gave, by the entry's key."""
        inputs = vllm_module("vllm.inputs")
        if not spans:
            return inputs.tokens_input(list(ids))
        items: dict[str, list[Any]] = {}
        keys: dict[str, list[str]] = {}
        ranges: dict[str, list[Any]] = {}
        for span in spans:
            items.setdefault(span.modality, []).append(media[span.entry.key])
            keys.setdefault(span.modality, []).append(span.entry.key)
            ranges.setdefault(span.modality, []).append(_range(span))
        kwargs = vllm_module("vllm.multimodal.inputs").MultiModalKwargsItems(items)
        return inputs.mm_input(list(ids), kwargs, keys, ranges)

    def positions(
        self, ids: Sequence[int], spans: Sequence[MediaSpan], media: Mapping[str, Any]
    ) -> tuple[torch.Tensor, int]:
        """Where vLLM places the tokens of a prompt with media: (3, T), and the position that comes next."""
        if not hasattr(self._model, "get_mrope_input_positions"):  # one axis: tokens are counted
            return torch.arange(len(ids)).expand(3, -1), len(ids)
        feature = vllm_module("vllm.multimodal.inputs").MultiModalFeatureSpec
        features = [
            feature(
                data=media[span.entry.key],
                modality=span.modality,
                identifier=span.entry.key,
                mm_position=_range(span),
                mm_hash=span.entry.key,
            )
            for span in spans
        ]
        with engine_errors("placing media"):
            positions_3T, delta = self._model.get_mrope_input_positions(list(ids), features)
        return positions_3T, len(ids) + delta

    def add(self, name: str, prompt: Any, sampling: CoreSampling) -> None:
        """Queue one completion; nothing is computed."""
        with engine_errors(f"request {name}"):
            self._engine.add_request(name, prompt, _params(sampling))

    def step(self) -> list[CoreOutput]:
        """One forward pass for what is queued and running; the completions that ended with it."""
        with engine_errors("a decoding step"):
            self._warnings.texts.clear()
            return [_output(output, self._warnings.texts) for output in self._engine.step() if output.finished]

    def abort(self, names: Sequence[str]) -> None:
        with engine_errors("aborting requests"):
            self._engine.abort_request(list(names))

    def load_weights(self, named_tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Copy weights, under the names of transformers, and forget all that was computed with the old ones.

        Straight into the parameters where vLLM keeps them as they were given, which is one copy. Where it has made
        something else of them (oneDNN's packed matrices, on a CPU) they are made anew, layer by layer.
        """
        with engine_errors("taking new weights"), torch.no_grad(), _matrices(self._packed):
            renamed = ((_engine_name(name, self._prefixes), tensor) for name, tensor in named_tensors)
            if _keeps_weights(self._model):
                self._model.load_weights(renamed)
            else:
                self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": renamed})
        self.reset_caches()

    def transfer(self, step: TransferStep) -> None:
        """One step of a weight transfer. Caches are to be reset after the last."""
        with engine_errors(f"a weight transfer ({step.call})"), torch.no_grad(), _matrices(self._packed):
            self._llm.collective_rpc(step.call, kwargs=step.arguments)

    def reset_caches(self) -> None:
        """Without the last one the next request with a known picture kills the engine."""
        with engine_errors("resetting caches"):
            if not self._engine.reset_prefix_cache():
                raise EngineError("vLLM still holds blocks of its prefix cache; no request may be running")
            self._engine.reset_mm_cache()
            self._engine.reset_encoder_cache()

    def sleep(self) -> None:
        """On a GPU: let go of weights, keys and values; buffers are kept. On a CPU nothing is freed.

        Level 2: a copy of the weights in host memory, which level 1 makes, would be of weights that training replaces.
        """
        with engine_errors("going to sleep"):
            self._llm.sleep(level=2)
        self.reset_caches()

    def wake(self) -> None:
        with engine_errors("waking up"):
            self._llm.wake_up()

    def close(self) -> None:
        """Free the memory. The process group, which may be the trainer's, is left alone."""
        with engine_errors("closing vLLM"), _process_group_kept():
            self._engine.engine_core.shutdown()
        self._warnings.remove()
        del self._llm, self._engine, self._model, self._fields


def open_weight_transfer(client: Any, source: Any, *, address: tuple[str, int], group_size: int) -> Any:
    """The trainer's end of a weight transfer by NCCL, once all `group_size` processes met at the address.

    client: how vLLM's `VLLMWeightSyncClient` reaches the engines. source: a `WeightSource`.
    """
    import_vllm()
    base, nccl = (vllm_module(f"vllm.distributed.weight_transfer.{name}") for name in ("factory", "nccl_engine"))
    host, port = address
    info = nccl.NCCLTrainerInitInfo(master_address=host, master_port=port, world_size=group_size, rank=0)
    return base.WeightTransferTrainerFactory.trainer_init(info, client=client, source=source)


def parameter_meta(name: str, tensor: torch.Tensor) -> Any:
    """What a `WeightSource` says of a parameter."""
    return vllm_module("vllm.distributed.weight_transfer.base").ParamMeta(name, tensor.dtype, tuple(tensor.shape))


class _SchedulerWarnings(logging.Handler):
    """What vLLM's scheduler says when it gives up a request: its log alone has the reason.

    Taken from the logger whatever VLLM_LOGGING_LEVEL is; that level still decides what is printed.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._logger = logging.getLogger("vllm.v1.core.sched.scheduler")
        self._logger.setLevel(logging.WARNING)
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def remove(self) -> None:
        self._logger.removeHandler(self)


@contextmanager
def _process_group_kept() -> Iterator[None]:
    """Within the block vLLM does not end torch's process group, as it does with every engine: DeepSpeed's groups, and
    with them the next training of this process, would not survive it.
    """
    state = vllm_module("vllm.distributed.parallel_state")
    ending = state.destroy_distributed_environment
    state.destroy_distributed_environment = lambda: None
    try:
        yield
    finally:
        state.destroy_distributed_environment = ending


@contextmanager
def _unchanged_threads() -> Iterator[None]:
    """vLLM sets torch's number of threads; the trainer keeps its own."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _matrices(packed: bool) -> Iterator[None]:
    """Within the block vLLM on a CPU packs the matrices that it is given, or keeps them as they are."""
    layers = vllm_module("vllm.model_executor.layers.utils")
    packing = layers.dispatch_cpu_unquantized_gemm

    def keeping(layer: Any, remove_weight: bool) -> None:
        if layer.weight.ndim == 2 and not layer.weight.is_meta:
            layer.cpu_linear = cpu_linear
        else:
            packing(layer, remove_weight)

    layers.dispatch_cpu_unquantized_gemm = packing if packed else keeping
    try:
        yield
    finally:
        layers.dispatch_cpu_unquantized_gemm = packing


def _engine_name(name: str, prefixes: Mapping[str, str]) -> str:
    """A parameter's name in transformers as vLLM has it."""
    for prefix, other in prefixes.items():
        if name.startswith(prefix):
            return other + name.removeprefix(prefix)
    return name


def _keeps_weights(model: Any) -> bool:
    """Whether every parameter is what was loaded: none is packed elsewhere or quantised."""
    methods = {type(getattr(module, "quant_method", None)).__name__ for module in model.modules()}
    plain = {"NoneType", "UnquantizedLinearMethod", "UnquantizedEmbeddingMethod"}
    return methods <= plain and all(parameter.numel() for parameter in model.parameters())


def _range(span: MediaSpan) -> Any:
    placeholders = vllm_module("vllm.multimodal.inputs").PlaceholderRange
    return placeholders(offset=span.start, length=span.length, is_embed=span.is_placeholder_S)


def _ban_processor(banned_ids: Sequence[int]) -> Any:
    """A logits processor that takes the banned ids out of every distribution.

    vLLM's own `allowed_token_ids` does the same by a list of the whole vocabulary for every request.
    """
    base: Any = vllm_module("vllm.v1.sample.logits_processor").LogitsProcessor

    class BanIds(base):
        def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
            self.banned_V = torch.tensor(banned_ids, dtype=torch.long, device=device)

        def apply(self, logits: torch.Tensor) -> torch.Tensor:
            return logits.index_fill_(-1, self.banned_V, -torch.inf)

        def is_argmax_invariant(self) -> bool:
            return False

        def update_state(self, batch_update: Any) -> None:
            pass

    return BanIds


def _params(sampling: CoreSampling) -> Any:
    return vllm_module("vllm").SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        max_tokens=sampling.max_tokens,
        seed=sampling.seed,
        stop=list(sampling.stop),
        include_stop_str_in_output=True,
        detokenize=bool(sampling.stop),
        # The end tokens are those of the processor, not what vLLM reads from the model folder.
        ignore_eos=True,
        stop_token_ids=list(sampling.end_ids),
        # With a scored id a row is the sampled token and that id.
        logprobs=sampling.alternatives if sampling.score_id is None else 1,
        logprob_token_ids=None if sampling.score_id is None else [sampling.score_id],
        flat_logprobs=True,
        output_kind=vllm_module("vllm.sampling_params").RequestOutputKind.FINAL_ONLY,
        skip_clone=True,
    )


def _output(output: Any, warnings: Sequence[str]) -> CoreOutput:
    """vLLM lists, per step, first the sampled token and then the others that were asked for."""
    [completion] = output.outputs
    reason = str(completion.finish_reason)
    said = "" if reason in ("stop", "length") else "; ".join(dict.fromkeys(warnings)) or "it gave no reason"
    flat = completion.logprobs
    rows = [
        list(zip(flat.token_ids[start:end], flat.logprobs[start:end], strict=True))
        for start, end in zip(flat.start_indices, flat.end_indices, strict=True)
    ]
    return CoreOutput(
        name=output.request_id,
        ids=tuple(completion.token_ids),
        logprobs=tuple(row[0][1] for row in rows),
        finish_reason=reason,
        alternatives=tuple(tuple((i, v) for i, v in row[1:] if v > -torch.inf) for row in rows),
        score=rows[0][-1][1] if rows else None,
        num_cached=output.num_cached_tokens or 0,
        problem=said,
    )
