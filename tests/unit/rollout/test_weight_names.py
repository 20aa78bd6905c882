"""Which weights an engine with a model of its own expects."""

import json
import shutil

import pytest
import torch
from makers.tiny_models import tiny_model_dir
from makers.vlm import tiny_vlm

from mmrl.errors import EngineError
from mmrl.rollout.weight_names import WeightCheck, expected_weights


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_expected_weights_are_the_models_parameters(family: str):
    expected = expected_weights(tiny_model_dir(family))
    own = {name: p.shape for name, p in tiny_vlm(family).model.named_parameters()}

    assert expected.shapes == own
    assert expected.needed == own.keys()


def test_a_tied_head_may_be_given_and_is_not_needed(tmp_path):
    folder = shutil.copytree(tiny_model_dir("qwen2_5_vl"), tmp_path / "tied")
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = True
    (folder / "config.json").write_text(json.dumps(config))
    expected = expected_weights(folder)

    assert "lm_head.weight" in expected.shapes
    assert "lm_head.weight" not in expected.needed
    assert "model.language_model.embed_tokens.weight" in expected.needed


def test_tensors_that_fit_pass_uncopied_and_the_others_are_named():  # faults 56, 58
    expected = expected_weights(tiny_model_dir("qwen2_5_vl"))
    head = torch.empty(expected.shapes["lm_head.weight"])
    check = WeightCheck(expected)
    passed = list(check.passing([("lm_head.weight", head), ("other", head)]))

    assert [(name, tensor.data_ptr()) for name, tensor in passed] == [("lm_head.weight", head.data_ptr())]
    with pytest.raises(EngineError, match=r"the engine also has model.* and \d+ more, the trainer also has other"):
        check.finish()
