"""The pixel cache: hits, misses, damage, recipes, many at once, media in memory."""

import os
import shutil
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from makers.clips import ClipSpec, write_clip
from makers.entries import entry_files, flip, picture
from makers.openers import QWEN25, SMALL, LocalOpener

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.cache import PixelCache
from mmrl.data.opening import OpenJob
from mmrl.data.recipe import Recipe, differences, recipe_of
from mmrl.data.sample import MediaRef
from mmrl.errors import CacheCorruptError, CacheMissError, CacheRecipeError, MediaError


def clip(frames=6, *, fps=2.0, seed=0) -> MediaRef:
    pixels = np.random.default_rng(seed).integers(0, 256, (frames, 40, 60, 3), dtype=np.uint8)
    return MediaRef("video", pixels, source_fps=fps)


def test_a_second_reader_decodes_nothing(tmp_path):
    ref, opener = picture(tmp_path / "a b ü.png"), LocalOpener()
    built = PixelCache(tmp_path / "cache").get(ref, SMALL, QWEN25, opener)
    cache = PixelCache(tmp_path / "cache", on_miss="error")
    read = cache.get(ref, SMALL, QWEN25, opener)
    assert opener.opened == 1
    assert cache.hashes.files_hashed == 0
    assert torch.equal(read.frames_F3HW, built.frames_F3HW)
    assert (read.key, read.kind, read.grid_thw, read.num_tokens) == (built.key, "image", (1, 4, 6), 6)
    assert (read.source_size, read.model_size, read.timestamps_s) == ((100, 80), (84, 56), ())
    assert read.source_fps is read.duration_s is read.sample_fps is None


def test_what_the_entry_holds_is_what_was_opened(tmp_path):
    ref, opener = clip(), LocalOpener()
    opened = opener.open(ref, SMALL, QWEN25)
    entry = PixelCache(tmp_path / "cache").get(ref, SMALL, QWEN25, opener)
    assert torch.equal(entry.frames_F3HW, opened.frames_F3HW)
    for name in ("grid_thw", "num_tokens", "source_size", "timestamps_s", "frame_indices"):
        assert getattr(entry, name) == getattr(opened, name)
    assert (entry.source_fps, entry.duration_s, entry.sample_fps) == (2.0, opened.duration_s, opened.sample_fps)


def test_metrics(tmp_path):
    ref, opener, cache = picture(tmp_path / "a.png"), LocalOpener(), PixelCache(tmp_path / "cache")
    for _ in range(3):
        cache.get(ref, SMALL, QWEN25, opener)
    metrics = cache.metrics()
    (path,) = entry_files(tmp_path / "cache")
    assert (metrics["hits"], metrics["misses"], metrics["rebuilt"]) == (2, 1, 0)
    assert (metrics["bytes_written"], metrics["bytes_read"]) == (path.stat().st_size, 2 * 3 * 84 * 56)
    assert metrics["seconds_open"] > 0 and metrics["seconds_build"] > 0
    cache.reset_metrics()
    assert set(cache.metrics().values()) == {0}


def test_same_content_under_two_names_is_one_entry(tmp_path):
    ref, opener, cache = picture(tmp_path / "a.png"), LocalOpener(), PixelCache(tmp_path / "cache")
    shutil.copy(ref.source, tmp_path / "b.png")
    cache.get(ref, SMALL, QWEN25, opener)
    cache.get(MediaRef("image", tmp_path / "b.png"), SMALL, QWEN25, opener)
    assert (opener.opened, len(entry_files(tmp_path / "cache"))) == (1, 1)


def test_changed_content_is_a_miss_and_never_stale(tmp_path):
    opener, cache = LocalOpener(), PixelCache(tmp_path / "cache")
    before = cache.get(picture(tmp_path / "a.png", seed=0), SMALL, QWEN25, opener)
    after = cache.get(picture(tmp_path / "a.png", seed=1, size=(101, 80)), SMALL, QWEN25, opener)
    assert before.key != after.key
    assert not torch.equal(before.frames_F3HW, after.frames_F3HW)


@pytest.mark.parametrize(  # fault 51: a changed clip length or rate returned the old tensors
    ("budget", "frames"),
    [
        (SMALL, 6),
        (SMALL.model_copy(update={"max_frames": 4}), 4),
        (SMALL.model_copy(update={"sample_fps": 1.0, "min_frames": 2}), 2),
        (SMALL.model_copy(update={"max_pixels": 56 * 56}), 6),
    ],
)
def test_a_changed_clip_budget_is_another_entry(tmp_path, budget, frames):
    ref, opener, cache = clip(6), LocalOpener(), PixelCache(tmp_path / "cache")
    first = cache.get(ref, SMALL, QWEN25, opener)
    second = cache.get(ref, budget, QWEN25, opener)
    assert second.frames_F3HW.shape[0] == len(second.timestamps_s) == frames
    assert (first.key == second.key) == (budget == SMALL)
    assert opener.opened == len(entry_files(tmp_path / "cache")) == (1 if budget == SMALL else 2)


def test_frame_settings_do_not_touch_images(tmp_path):
    ref = picture(tmp_path / "a.png")
    job = OpenJob(ref, SMALL, QWEN25)
    other = OpenJob(ref, SMALL.model_copy(update={"max_frames": 9, "total_pixels": 9**9}), QWEN25)
    broken = VideoSection.model_validate({"broken_tail": "use_decoded"})
    assert recipe_of(job, VideoSection()) == recipe_of(other, broken)


def test_recipe_differences_are_named():
    wanted = recipe_of(OpenJob(clip(), SMALL, QWEN25), VideoSection())
    stored = recipe_of(OpenJob(clip(), SMALL.model_copy(update={"max_frames": 9}), QWEN25), VideoSection())
    assert differences(wanted, stored) == ["budget.max_frames: wanted 64, stored 9"]
    assert differences(wanted, Recipe('{"kind":"video"}'))[0] == "broken_tail: wanted error, stored None"


@settings(max_examples=40, deadline=None)
@given(
    budgets=st.lists(
        st.builds(
            BudgetClass,
            min_pixels=st.integers(784, 3136),
            max_pixels=st.integers(3136, 9000),
            max_frames=st.integers(2, 99),
            min_frames=st.integers(1, 8),
            sample_fps=st.floats(0.1, 30),
            total_pixels=st.none() | st.integers(10**5, 10**7),
        ),
        min_size=2,
        max_size=2,
    )
)
def test_clip_recipes_are_equal_exactly_when_budgets_are(budgets):
    one, two = (recipe_of(OpenJob(clip(), budget, QWEN25), VideoSection()) for budget in budgets)
    assert (one == two) == (budgets[0] == budgets[1]) == (not differences(one, two))


def test_miss_under_error_names_source_and_remedy(tmp_path):
    ref, opener = picture(tmp_path / "a.png"), LocalOpener()
    cache = PixelCache(tmp_path / "cache", on_miss="error")
    with pytest.raises(CacheMissError, match=r"a\.png: not in the cache .*mmrl preprocess"):
        cache.get(ref, SMALL, QWEN25, opener)
    assert (opener.opened, entry_files(tmp_path / "cache")) == (0, [])


def damage(cache_folder: Path, how: str) -> type[Exception]:
    """Damage the entry of a.png; returns the error that must name it."""
    paths = entry_files(cache_folder)
    (path,) = [p for p in paths if '\\"max_pixels\\":7056' in p.read_bytes()[:2000].decode("latin1")]
    if how == "other recipe":
        (other,) = [p for p in paths if p != path]
        shutil.copy(other, path)
        return CacheRecipeError
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        flip(path, -1 if how == "pixel flipped" else 300)
    return CacheCorruptError


@pytest.mark.parametrize("how", ["pixel flipped", "header flipped", "cut", "empty", "other recipe"])
def test_damage_is_a_named_error_or_a_counted_rebuild(tmp_path, how):
    ref, opener, folder = picture(tmp_path / "a.png"), LocalOpener(), tmp_path / "cache"
    good = PixelCache(folder).get(ref, SMALL, QWEN25, opener).frames_F3HW.clone()
    PixelCache(folder).get(ref, SMALL.model_copy(update={"max_pixels": 56 * 56}), QWEN25, opener)
    error = damage(folder, how)
    with pytest.raises(error, match=r"pixels/.*\.safetensors: "):
        PixelCache(folder, on_miss="error").get(ref, SMALL, QWEN25, opener)
    cache = PixelCache(folder)
    assert torch.equal(cache.get(ref, SMALL, QWEN25, opener).frames_F3HW, good)
    assert {name: cache.metrics()[name] for name in ("hits", "misses", "rebuilt")} == {
        "hits": 0,
        "misses": 0,
        "rebuilt": 1,
    }
    assert torch.equal(PixelCache(folder, on_miss="error").get(ref, SMALL, QWEN25, opener).frames_F3HW, good)


@pytest.mark.parametrize(("verify", "found_at"), [("first", 1), ("always", 1), ("never", None)])
def test_a_flipped_pixel_is_found_when_verify_says_so(tmp_path, verify, found_at):
    ref, opener, folder = picture(tmp_path / "a.png"), LocalOpener(), tmp_path / "cache"
    PixelCache(folder).get(ref, SMALL, QWEN25, opener)
    flip(entry_files(folder)[0], -1)
    cache = PixelCache(folder, on_miss="error", verify=verify)
    if found_at is None:
        cache.get(ref, SMALL, QWEN25, opener)
    else:
        with pytest.raises(CacheCorruptError, match="do not match the checksum"):
            cache.get(ref, SMALL, QWEN25, opener)


def test_first_checks_once_and_again_when_the_file_is_replaced(tmp_path):
    ref, opener, folder = picture(tmp_path / "a.png"), LocalOpener(), tmp_path / "cache"
    PixelCache(folder).get(ref, SMALL, QWEN25, opener)
    (path,) = entry_files(folder)
    first, always = (PixelCache(folder, on_miss="error", verify=verify) for verify in ("first", "always"))
    for cache in (first, always):
        cache.get(ref, SMALL, QWEN25, opener)
    stamp = path.stat().st_mtime_ns
    flip(path, -1)
    os.utime(path, ns=(stamp, stamp))  # as a failing disk would: the same file by its stamp
    first.get(ref, SMALL, QWEN25, opener)
    with pytest.raises(CacheCorruptError):
        always.get(ref, SMALL, QWEN25, opener)
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    with pytest.raises(CacheCorruptError):
        first.get(ref, SMALL, QWEN25, opener)


def test_missing_source_is_a_media_error_and_no_black_frame(tmp_path):  # fault 49
    opener, cache = LocalOpener(), PixelCache(tmp_path / "cache")
    with pytest.raises(MediaError, match=r"none\.png: No such file"):
        cache.get(MediaRef("image", tmp_path / "none.png"), SMALL, QWEN25, opener)
    assert opener.opened == 0


def test_a_source_that_changes_while_it_is_opened_is_not_stored(tmp_path):
    ref, folder = picture(tmp_path / "a.png"), tmp_path / "cache"

    class Swapping(LocalOpener):
        def open(self, ref, budget, geometry):
            opened = super().open(ref, budget, geometry)
            picture(tmp_path / "a.png", seed=9, size=(64, 64))
            return opened

    with pytest.raises(MediaError, match="changed while it was being opened"):
        PixelCache(folder).get(ref, SMALL, QWEN25, Swapping())
    assert not (folder / "pixels").exists()


def test_get_many_answers_every_job_once(tmp_path):
    opener, cache = LocalOpener(), PixelCache(tmp_path / "cache")
    refs = [picture(tmp_path / f"{n}.png", seed=n) for n in range(12)]
    (tmp_path / "bad.png").write_bytes(b"<html>")
    bad, gone = MediaRef("image", tmp_path / "bad.png"), MediaRef("image", tmp_path / "gone.png")
    cache.get(refs[3], SMALL, QWEN25, opener)
    jobs = [OpenJob(ref, SMALL, QWEN25) for ref in [*refs, refs[0], bad, gone, refs[5]]]
    found = dict(cache.get_many(jobs, opener))
    assert sorted(found) == list(range(16))
    assert found[0].key == found[12].key and found[5].key == found[15].key
    assert [type(found[n]) for n in (13, 14)] == [MediaError, MediaError]
    assert opener.opened == 1 + 11 + 1  # once each, the bad one tried once
    assert cache.metrics()["misses"] == 1 + 11 + 1
    for index, ref in enumerate(refs):
        expected = opener.open(ref, SMALL, QWEN25).frames_F3HW
        assert torch.equal(found[index].frames_F3HW, expected)


def test_only_a_few_opened_media_are_held_however_many_there_are(tmp_path):  # fault 50
    alive: set[int] = set()
    most = 0

    class Watching(LocalOpener):
        def open(self, ref, budget, geometry):
            nonlocal most
            opened = super().open(ref, budget, geometry)
            alive.add(self.opened)
            weakref.finalize(opened.frames_F3HW, alive.discard, self.opened)
            most = max(most, len(alive))
            return opened

    opener, cache = Watching(), PixelCache(tmp_path / "cache")
    requests = (cache.request(OpenJob(clip(2, seed=n), SMALL, QWEN25), opener.video) for n in range(60))
    assert sum(1 for _ in cache.build_many(requests, opener)) == 60
    assert opener.opened == 60
    assert most <= 10


def test_memory_entry_has_the_key_of_its_content_and_no_file(tmp_path):
    opener, cache = LocalOpener(), PixelCache(tmp_path / "cache")
    entry = cache.memory_entry(clip(seed=1), SMALL, QWEN25, opener)
    assert not (tmp_path / "cache").exists()
    assert entry.key == cache.memory_entry(clip(seed=1), SMALL, QWEN25, opener).key
    assert entry.key != cache.memory_entry(clip(seed=2), SMALL, QWEN25, opener).key
    stored = cache.get(clip(seed=1), SMALL, QWEN25, opener)
    assert stored.key == entry.key and torch.equal(stored.frames_F3HW, entry.frames_F3HW)


def test_the_overhead_of_an_entry_is_under_two_percent_from_64_kib(tmp_path):
    opener, cache = LocalOpener(), PixelCache(tmp_path / "cache")
    budget = BudgetClass(min_pixels=56 * 56, max_pixels=168 * 168, max_frames=64, sample_fps=30.0)
    still = picture(tmp_path / "a.png", size=(600, 500))
    for ref in (still, clip(8, fps=29.97), clip(60, fps=29.97)):
        entry = cache.get(ref, budget, QWEN25, opener)
        path = tmp_path / "cache" / "pixels" / entry.key[:2] / f"{entry.key}.safetensors"
        pixels = entry.frames_F3HW[:, 0].numel()
        assert 3 * pixels >= 0.98 * 64 * 1024
        assert path.stat().st_size < 3 * 1.02 * pixels


def test_an_entry_of_64_kib_costs_less_than_2_percent_more_than_its_pixels(tmp_path):
    """The dearest there is: 28 frames of one 28 x 28 token each, every one with its time."""
    budget = BudgetClass(min_pixels=28 * 28, max_pixels=28 * 28, max_frames=28, sample_fps=60.0)
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(frames=28, fps=30, width=64, height=64))
    entry = PixelCache(tmp_path / "cache").get(MediaRef("video", clip), budget, QWEN25, LocalOpener())
    assert entry.frames_F3HW.shape == (28, 3, 28, 28)
    (path,) = entry_files(tmp_path / "cache")
    size = path.stat().st_size
    assert entry.frames_F3HW.nbytes >= 2**16 and size < 1.02 * entry.frames_F3HW.nbytes
