"""What is said at start where features stop at the rollout engine."""

import pytest
from makers.vlm import tiny_vlm

from mmrl.config.schema import ModelSection, RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.feature_cache import FeatureCache
from mmrl.models.features import VisionEncoder
from mmrl.training.media_cache import engine_note, stored_type


def config(engine: str, **cache: object) -> RunConfig:
    model = {"path": "unused", "dtype": "float32"}
    return RunConfig.model_validate({"model": model, "rollout": {"engine": engine}, "cache": cache})


@pytest.mark.parametrize(
    ("kind", "engine", "said"),
    [
        ("qwen2_5_vl", "hf", None),
        ("gemma3", "hf", None),
        ("qwen2_5_vl", "vllm", None),
        ("gemma3", "vllm", "vLLM takes no features of the family; it gets pixels (gemma3)"),
        ("qwen2_5_vl", "vllm_server", "rollout servers are sent pixels (qwen2_5_vl)"),
    ],
)
def test_where_features_stop_is_said(tmp_path, kind, engine, said):
    vlm = tiny_vlm(kind)
    pixels = PixelCache(tmp_path)
    encoder = VisionEncoder.of(vlm.model, vlm.processor, ModelSection(path="unused", dtype="float32"))
    note = engine_note(config(engine), FeatureCache(pixels, encoder, stored="float32"), vlm.processor)
    assert (note is None) if said is None else (note is not None and said in note)
    assert engine_note(config(engine), pixels, vlm.processor) is None


def test_the_type_stored_is_the_models_unless_another_is_asked_for():
    assert stored_type(config("hf")) == "float32"
    assert stored_type(config("hf", feature_dtype="float16")) == "float16"
