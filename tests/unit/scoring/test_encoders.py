"""Frozen encoders: real classes with small random weights give what their libraries give; memory, errors, identity."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from makers.tiny_encoders import tiny_encoder
from PIL import Image
from safetensors.torch import load_file, save_file

from mmrl.config.encoder_section import read_encoder
from mmrl.errors import ConfigError, RewardError
from mmrl.scoring.encoders import check_encoder, encoder_of, fingerprint, load_encoder

KINDS = {"open_clip": 24, "clip": 24, "siglip": 16, "dinov2": 16, "timm": None, "sentence": 16}
TEXTS = ("open_clip", "clip", "siglip", "sentence")
TABLE = {"kind": "table", "vectors": {"a": [1.0, 0.0], "b": [0.6, 0.8], "#ff0000": [0.0, 2.0]}}


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return {kind: tiny_encoder(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


def picture(seed: int, *, size=(40, 56)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def load(options, **more):
    return load_encoder(read_encoder({**options, **more}))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sentence"])
def test_pictures_become_unit_vectors_in_batches_of_any_size(kind, options):
    several = [picture(n) for n in range(3)]
    one_by_one = load(options[kind], batch_size=1).pictures(several)
    together = load(options[kind], batch_size=8).pictures(several)
    assert together.dtype == np.float32 and (KINDS[kind] is None or together.shape == (3, KINDS[kind]))
    assert np.linalg.norm(together, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert together == pytest.approx(one_by_one, abs=1e-5)
    assert abs(float(together[0] @ together[1])) < 0.999999


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_become_unit_vectors_whatever_they_are_batched_with(kind, options):
    texts = ["a red square", "the cat", "a blue square on the mat"]
    encoder = load(options[kind])
    together = encoder.texts(texts)
    alone = np.concatenate([load(options[kind]).texts([text]) for text in texts])
    assert together == pytest.approx(alone, abs=1e-5)
    assert not np.allclose(together[0], together[1], atol=1e-4)


def test_clip_is_what_transformers_computes(options):
    from transformers import CLIPModel, CLIPProcessor

    folder = options["clip"]["weights"]
    model, processor = CLIPModel.from_pretrained(folder).eval(), CLIPProcessor.from_pretrained(folder)
    inputs = processor(
        text=["a red square"],
        images=[Image.fromarray(picture(0))],
        return_tensors="pt",
        padding="max_length",
        max_length=12,
    )
    with torch.inference_mode():
        output = model(**inputs)
    encoder = load(options["clip"])
    assert encoder.pictures([picture(0)])[0] == pytest.approx(output.image_embeds[0].numpy(), abs=1e-5)
    assert encoder.texts(["a red square"])[0] == pytest.approx(output.text_embeds[0].numpy(), abs=1e-5)


def test_siglip_sees_the_padding_of_its_texts_as_in_training(options):
    from transformers import SiglipModel, SiglipProcessor

    folder = options["siglip"]["weights"]
    model, processor = SiglipModel.from_pretrained(folder).eval(), SiglipProcessor.from_pretrained(folder)
    inputs = processor(text=["a red square"], return_tensors="pt", padding="max_length", max_length=12)
    assert inputs["attention_mask"][0].tolist() == [1] * 5 + [0] * 7
    with torch.inference_mode():
        seen = model.get_text_features(input_ids=inputs["input_ids"]).pooler_output[0].numpy()
        hidden = model.get_text_features(**inputs).pooler_output[0].numpy()
    found = load(options["siglip"]).texts(["a red square"])[0]
    assert found == pytest.approx(seen / np.linalg.norm(seen), abs=1e-5)
    assert not np.allclose(found, hidden / np.linalg.norm(hidden), atol=1e-4)


def test_a_sentence_is_the_mean_of_its_tokens_and_long_ones_are_read_whole(options):
    encoder = load(options["sentence"])
    net, tokens = encoder.model.net, encoder.model._tokenizer
    with torch.inference_mode():
        hidden = net(**tokens("a cat sits", return_tensors="pt", return_token_type_ids=False)).last_hidden_state[0]
    mean = hidden.mean(dim=0).numpy()
    assert encoder.texts(["a cat sits"])[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    # 24 places: 20 words and two marks a window, so the 21st word stands in the second one.
    long, other = " ".join(["cat"] * 21), " ".join(["cat"] * 20 + ["mat"])
    assert not np.allclose(*encoder.texts([long, other]), atol=1e-5)
    assert encoder.texts([""]).shape == (1, 16)


def test_layers_of_a_timm_model(options):
    (maps,) = load(options["timm"]).layers([picture(0)])
    assert len(maps) >= 4 and all(stage.ndim == 3 for stage in maps)
    with pytest.raises(ConfigError, match="only an encoder of kind 'timm'"):
        load(options["clip"]).layers([picture(0)])


def test_equal_content_is_computed_once_and_the_oldest_is_forgotten(options):
    encoder = load(options["timm"], remembered=2)
    first = encoder.pictures([picture(0), picture(0).copy(), picture(1)])
    assert encoder.computed == 2 and np.array_equal(first[0], first[1])
    encoder.pictures([picture(0)])
    assert encoder.computed == 2
    encoder.pictures([picture(2)])
    encoder.pictures([picture(1)])  # forgotten: picture 0 was used after it
    assert encoder.computed == 4
    assert encoder.pictures([]).shape == (0, 0)


def test_a_picture_of_another_shape_is_another_picture():
    flat = np.zeros((2, 6, 3), dtype=np.uint8)
    encoder = load_encoder(read_encoder(TABLE))
    encoder.pictures([flat, flat.reshape(6, 2, 3)])
    assert encoder.computed == 2


def test_one_encoder_per_process_and_set_of_keys():
    assert encoder_of(TABLE) is encoder_of(dict(TABLE))
    assert encoder_of({**TABLE, "batch_size": 2}) is not encoder_of(TABLE)


@pytest.mark.parametrize("kind", ["open_clip", "clip", "siglip"])
def test_a_text_above_the_length_is_refused_unless_it_may_be_cut(kind, options):
    long = "a red square " * 10
    encoder = load(options[kind])
    assert encoder.refuses(long) and not encoder.refuses("a red square")
    assert [encoder.refuses(" ".join(["cat"] * words)) for words in (10, 11)] == [False, True]  # 12 with two marks
    with pytest.raises(RewardError, match=r"rows.jsonl:3.*set long_text: cut"):
        encoder.check_text(long, where="rows.jsonl:3")
    cutting = load(options[kind], long_text="cut")
    assert cutting.check_text(long, where="x") == long
    assert cutting.texts([long]).shape == (1, KINDS[kind])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": "/no/such/place"}, "there is no /no/such/place; nothing is downloaded"),
        ({"weights": ""}, "encoder.weights is missing"),
        ({"kind": "clip"}, "encoder.kind should be"),
        ({"wieghts": "x"}, "encoder.wieghts is unknown.*did you mean 'weights'"),
        ({"model": "resnet_that_is_none"}, "is no architecture of timm"),
        ({"model": "test_vit.r160_in1k"}, "name its architecture"),
        ({"kind": "transformers"}, "cannot be loaded as 'transformers'"),
        ({"kind": "open_clip", "model": "ViT-B-33"}, "is no architecture of open_clip; did you mean"),
        ({"device": "cuda:9"}, "device 'cuda:9' cannot be used"),
        ({"batch_size": 0}, "encoder.batch_size should be"),
    ],
)
def test_what_cannot_be_loaded_is_an_error_at_start(changes, message, options):
    with pytest.raises(ConfigError, match=message):
        check_encoder({**options["timm"], **changes}, reads=("pictures",))


@pytest.mark.parametrize("kind", ["open_clip", "clip", "siglip", "dinov2", "sentence", "timm"])
def test_weights_that_lack_some_are_an_error_at_start(kind, tmp_path):
    """Libraries draw missing weights at random, and say so in a log at most."""
    made = tiny_encoder(kind, tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    weights = load_file(file)
    del weights[next(name for name in sorted(weights) if "layer" in name or "resblocks" in name)]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"cannot be loaded as|lacks 1 weights"):
        check_encoder(made, reads=())


def test_a_sentence_encoder_needs_no_pooler(tmp_path):
    made = tiny_encoder("sentence", tmp_path)
    before = load(made).texts(["a cat"])
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("pooler.")}
    assert len(kept) == len(weights) - 2
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert np.array_equal(load(made).texts(["a cat"]), before)


def test_a_vision_transformer_of_timm_sees_pictures_at_the_size_asked_for(tmp_path):
    net = timm.create_model("test_vit.r160_in1k", pretrained=False)
    save_file(net.state_dict(), tmp_path / "vit.safetensors")
    made = {"kind": "timm", "model": "test_vit.r160_in1k", "weights": str(tmp_path / "vit.safetensors")}
    sections = [read_encoder({**made, "image_size": size}) for size in (None, 96)]
    encoders = [load_encoder(section) for section in sections]
    shapes = [encoder.model._pixels([picture(0)]).shape for encoder in encoders]
    assert shapes == [(1, 3, 160, 160), (1, 3, 96, 96)]
    native, small = (encoder.pictures([picture(0)])[0] for encoder in encoders)
    assert small.shape == native.shape and not np.allclose(small, native, atol=1e-4)
    assert fingerprint(sections[0]) != fingerprint(sections[1])
    with pytest.raises(ConfigError, match="image_size 100 is no multiple of 16, the patch of 'test_vit"):
        load(made, image_size=100)


def test_a_convolutional_network_sees_pictures_at_any_size(options):
    encoder = load(options["timm"], image_size=70)
    assert encoder.model._pixels([picture(0)]).shape == (1, 3, 70, 70)
    with pytest.raises(ConfigError, match="image_size is of kind 'timm'; one of kind 'transformers' knows its own"):
        load(options["clip"], image_size=64)


def test_an_encoder_must_read_what_a_reward_gives_it(options):
    check_encoder(options["clip"], reads=("pictures", "texts"))
    with pytest.raises(ConfigError, match="encoder must read texts; one of kind 'timm' reads pictures only"):
        check_encoder(options["timm"], reads=("pictures", "texts"))


def test_the_fingerprint_is_of_the_weights_not_of_their_place(options, tmp_path):
    section = read_encoder(options["timm"])
    moved = tmp_path / "model.safetensors"
    data = bytearray(Path(section.weights).read_bytes())
    moved.write_bytes(data)
    assert fingerprint(read_encoder({**options["timm"], "weights": str(moved), "batch_size": 1})) == fingerprint(
        section
    )
    data[-1] ^= 1
    moved.write_bytes(data)
    assert fingerprint(read_encoder({**options["timm"], "weights": str(moved)})) != fingerprint(section)


def test_half_precision_is_near_full_precision(options):
    full, half = (load(options["dinov2"], dtype=dtype).pictures([picture(0)])[0] for dtype in ("float32", "bfloat16"))
    assert float(full @ half) > 0.99
