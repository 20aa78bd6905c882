"""Features of a tiny real model in the cache: made once, read as they were written, never those of other weights."""

import copy
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from makers.openers import LocalOpener
from makers.vlm import tiny_vlm
from PIL import Image

from mmrl.config.schema import BudgetClass, ModelSection
from mmrl.data.cache import PixelCache
from mmrl.data.cache_cli import ls, prune, verify
from mmrl.data.feature_cache import FeatureCache
from mmrl.data.opening import OpenJob
from mmrl.data.rendered import with_pixels
from mmrl.data.sample import MediaRef
from mmrl.errors import CacheCorruptError, CacheError, CacheMissError
from mmrl.models.features import VisionEncoder

KIND = "qwen3_vl"
SMALL = BudgetClass(min_pixels=1024, max_pixels=64 * 64)
SECTION = ModelSection(path="unused", dtype="float32")


@pytest.fixture
def picture(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (90, 70, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    os.utime(tmp_path / "a.png", ns=(10**18, 10**18))  # old enough for its hash to be remembered
    return MediaRef("image", tmp_path / "a.png")


def encoder(model=None):
    vlm = tiny_vlm(KIND)
    return VisionEncoder.of(model or vlm.model, vlm.processor, SECTION)


def features(folder, *, on_miss="build", stored="float32", own=None, **options):
    return FeatureCache(PixelCache(folder, on_miss=on_miss), own or encoder(), stored=stored, **options)


def get(cache, picture, opener=None):
    return cache.get(picture, SMALL, tiny_vlm(KIND).processor.geometry, opener or LocalOpener())


def files(folder, level="features"):
    return sorted((folder / level).glob("*/*.safetensors"))


def test_features_are_made_once_and_read_as_they_came_out_of_the_tower(tmp_path, picture):
    folder, opener = tmp_path / "cache", LocalOpener()
    first = features(folder)
    jobs = [OpenJob(picture, SMALL, tiny_vlm(KIND).processor.geometry)] * 3
    built = dict(first.get_many(jobs, opener))
    assert (opener.opened, len(files(folder)), len(files(folder, "pixels"))) == (1, 1, 1)
    assert {entry.key for entry in built.values()} == {files(folder)[0].stem}
    expected = encoder().encode(PixelCache(folder).get(*jobs[0], LocalOpener()))
    again = features(folder, on_miss="error", strict=True)
    entry = get(again, picture)
    assert torch.equal(entry.features.tokens_KD, expected.tokens_KD)
    assert len(entry.features.deepstack) == 2
    assert all(torch.equal(a, b) for a, b in zip(entry.features.deepstack, expected.deepstack, strict=True))
    assert entry.frames_F3HW.device.type == "meta" and entry.model_size == with_pixels(entry).model_size
    counts = again.metrics()
    assert (counts["features_hits"], counts["features_misses"], counts["hits"], counts["misses"]) == (1, 0, 1, 0)
    assert counts["features_bytes_read"] == 3 * entry.num_tokens * 128 * 4
    assert first.metrics()["features_misses"] == 3  # three rows asked before it was there


def test_what_is_read_is_a_view_of_the_file(tmp_path, picture):
    get(features(tmp_path / "cache"), picture)
    cache = features(tmp_path / "cache")
    one = get(cache, picture).features
    base = one.tokens_KD.untyped_storage().data_ptr()
    assert all(level.untyped_storage().data_ptr() == base for level in one.deepstack)


def test_other_weights_settings_and_types_have_other_entries(tmp_path, picture):
    folder, model = tmp_path / "cache", copy.deepcopy(tiny_vlm(KIND).model)
    old = get(features(folder), picture)
    with torch.no_grad():
        model.model.visual.merger.linear_fc2.bias[0] += 1
    changed = encoder(model)
    with pytest.raises(CacheMissError, match="no features of this model"):
        get(features(folder, own=changed, on_miss="error", strict=True), picture)
    new = get(features(folder, own=changed), picture)
    assert new.key != old.key and not torch.equal(new.features.tokens_KD, old.features.tokens_KD)
    other = VisionEncoder.of(
        tiny_vlm(KIND).model, tiny_vlm(KIND).processor, SECTION.model_copy(update={"attention": "eager"})
    )
    assert get(features(folder, own=other), picture).key not in (old.key, new.key)
    assert get(features(folder, stored="float16"), picture).key not in (old.key, new.key)
    assert get(features(folder, on_miss="error", strict=True), picture).key == old.key
    # Trained language models share their features.
    with torch.no_grad():
        model.model.visual.merger.linear_fc2.bias[0] = tiny_vlm(KIND).model.model.visual.merger.linear_fc2.bias[0]
        model.lm_head.weight += 1
    assert get(features(folder, own=encoder(model), on_miss="error", strict=True), picture).key == old.key


def test_features_under_another_name_are_not_returned(tmp_path, picture):
    folder, model = tmp_path / "cache", copy.deepcopy(tiny_vlm(KIND).model)
    old = get(features(folder), picture)
    with torch.no_grad():
        model.model.visual.merger.linear_fc2.bias[0] += 1
    cache = features(folder, own=encoder(model))
    request = cache.request(OpenJob(picture, SMALL, tiny_vlm(KIND).processor.geometry), LocalOpener().video)
    path = cache.store.loose_path(request.key)
    path.parent.mkdir(exist_ok=True)
    shutil.copy(cache.store.loose_path(old.key), path)
    entry = get(cache, picture)
    assert cache.metrics()["features_rebuilt"] == 1
    assert not torch.equal(entry.features.tokens_KD, old.features.tokens_KD)


def test_a_flipped_byte_is_found_and_made_anew(tmp_path, picture):
    folder = tmp_path / "cache"
    good = get(features(folder), picture).features.tokens_KD.clone()
    (path,) = files(folder)
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    assert verify(folder) == 1
    with pytest.raises(CacheCorruptError, match="checksum"):
        get(features(folder, on_miss="error", strict=True), picture)
    assert torch.equal(get(features(folder), picture).features.tokens_KD, good)
    assert verify(folder) == 0


@pytest.mark.parametrize(("stored", "size"), [("float32", 4), ("bfloat16", 2), ("float16", 2)])
def test_the_type_that_is_stored(tmp_path, picture, stored, size):
    entry = get(features(tmp_path / "cache", stored=stored), picture)
    exact = encoder().encode(with_pixels(entry)).tokens_KD
    assert entry.features.tokens_KD.dtype == getattr(torch, stored)
    assert torch.equal(entry.features.tokens_KD, exact.to(getattr(torch, stored)))
    assert 0 < files(tmp_path / "cache")[0].stat().st_size - 3 * entry.num_tokens * 128 * size < 4096


def test_values_that_a_type_cannot_hold_are_an_error(tmp_path, picture):
    model = copy.deepcopy(tiny_vlm(KIND).model)
    with torch.no_grad():
        model.model.visual.merger.linear_fc2.bias[0] = 1e6
    with pytest.raises(CacheError, match=r"float16 cannot hold; set cache\.feature_dtype to float32"):
        get(features(tmp_path / "cache", stored="float16", own=encoder(model)), picture)


def test_pixels_are_there_for_who_needs_them(tmp_path, picture):
    folder = tmp_path / "cache"
    entry = get(features(folder), picture)
    kept = PixelCache(folder, on_miss="error").get(picture, SMALL, tiny_vlm(KIND).processor.geometry, LocalOpener())
    assert torch.equal(with_pixels(entry).frames_F3HW, kept.frames_F3HW) and with_pixels(entry).features is None
    frames = kept.frames_F3HW.clone()
    for path in files(folder, "pixels"):
        path.unlink()
    assert torch.equal(with_pixels(entry).frames_F3HW, frames)  # pruned, so opened again
    assert with_pixels(replace(entry, features=None)).frames_F3HW.device.type == "meta"


def test_a_cache_that_was_filled_with_pixels_alone_serves_a_run_that_may_not_open_media(tmp_path, picture):
    folder = tmp_path / "cache"
    PixelCache(folder).get(picture, SMALL, tiny_vlm(KIND).processor.geometry, LocalOpener())
    assert get(features(folder, on_miss="error"), picture).features is not None
    with pytest.raises(CacheMissError, match="mmrl preprocess --level features"):
        get(features(tmp_path / "empty", on_miss="error", strict=True), picture)
    with pytest.raises(CacheMissError, match=r"cache\.on_miss is error"):
        get(features(tmp_path / "empty", on_miss="error"), picture)


def test_without_building_what_is_there_is_used_and_the_rest_are_pixels(tmp_path, picture):
    folder = tmp_path / "cache"
    assert get(features(folder, builds=False), picture).features is None
    assert files(folder) == []
    get(features(folder), picture)
    assert get(features(folder, builds=False), picture).features is not None


def test_the_commands_know_both_levels(tmp_path, picture, capsys):
    folder = tmp_path / "cache"
    get(features(folder), picture)
    assert ls(folder) == 0
    said = capsys.readouterr().out
    fingerprint = encoder().weights[:12]
    assert "features of image: 1024..4096 pixels, patches of 16, pillow" in said
    assert f"qwen3_vl {fingerprint}, stored as float32" in said and "2 entries" in said
    assert verify(folder) == 0
    assert "2 entries and 1 sources read, 0 problems" in capsys.readouterr().out
    assert prune(folder, size="0") == 0
    assert files(folder) == files(folder, "pixels") == []
