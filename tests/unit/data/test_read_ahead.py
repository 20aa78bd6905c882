"""Media read ahead by a thread: what it has ready, what it does not keep, and that numbers do not depend on it."""

import dataclasses
import threading

import numpy as np
import pytest
from makers.openers import LocalOpener
from makers.rows import read, text_rows, write_jsonl
from makers.tiny_models import tiny_model_dir
from PIL import Image

from mmrl.config.schema import RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.prepare import Preparer
from mmrl.data.read_ahead import ReadAhead
from mmrl.data.skipped import SkippedLog
from mmrl.errors import MediaError
from mmrl.models.families import load_processor


class Threads(LocalOpener):
    """Notes which thread each medium was opened in."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def open_many(self, jobs):
        self.names += [threading.current_thread().name] * len(jobs := list(jobs))
        return super().open_many(jobs)


@pytest.fixture(scope="module")
def processor():
    return load_processor(tiny_model_dir("qwen2_5_vl"))


@pytest.fixture
def ahead():
    reader = ReadAhead()
    yield reader
    reader.close()


def preparer(folder, processor, reader: ReadAhead | None = None) -> Preparer:
    budgets = {"image": {"min_pixels": 28**2, "max_pixels": 112**2}}
    run = RunConfig.model_validate({"model": {"path": "m"}, "budgets": budgets, "data": {"train": [{"path": "rows"}]}})
    made = Preparer(
        cache=PixelCache(folder / "cache"),
        opener=Threads(),
        processor=processor,
        config=run,
        data=run.data,
        skipped=SkippedLog(folder / "skipped.jsonl", max_fraction=1.0),
        geometry_kind=lambda task: None,
    )
    return made if reader is None else dataclasses.replace(made, ready=reader.take)


def samples_of(folder, *names: str):
    rows = []
    for number, name in enumerate(names):
        Image.fromarray(np.full((112, 112, 3), 20 * number, np.uint8)).save(folder / name)
        rows.append({"prompt": "<image>Where?", "answer": "here", "task": "t", "images": [name]})
    return read(write_jsonl(folder / "rows.jsonl", [*rows, *text_rows(1, task="t")]))


def test_what_was_read_ahead_is_taken_and_opened_in_the_thread(tmp_path, processor, ahead):
    samples = samples_of(tmp_path, "a.png", "b.png", "c.png")
    prepare = preparer(tmp_path, processor, ahead)
    ahead.begin(prepare, samples[:2], pin=False)
    ahead.settle()
    prepared = prepare.prepare(samples)

    assert [name.startswith("reading") for name in prepare.opener.names] == [True, True, False]
    assert prepare.cache.metrics()["misses"] == 3
    plain = preparer(tmp_path, processor).prepare(samples)
    for found, expected in zip(prepared, plain, strict=True):
        assert found.prompt.prompt_ids_T.equal(expected.prompt.prompt_ids_T)
        for left, right in zip(found.prompt.media, expected.prompt.media, strict=True):
            assert left.key == right.key and left.frames_F3HW.equal(right.frames_F3HW)


def test_cached_media_are_counted_once(tmp_path, processor, ahead):
    samples = samples_of(tmp_path, "a.png", "b.png")
    preparer(tmp_path, processor).prepare(samples)
    prepare = preparer(tmp_path, processor, ahead)
    ahead.begin(prepare, samples, pin=False)
    ahead.settle()
    prepare.prepare(samples)

    metrics = prepare.cache.metrics()
    assert (metrics["hits"], metrics["misses"]) == (2, 0)
    assert ahead.take(samples[0]) is None  # taken once


def test_what_comes_twice_in_a_row_is_read_once_and_the_rest_is_let_go(tmp_path, processor, ahead):
    samples = samples_of(tmp_path, "a.png", "b.png", "c.png")
    prepare = preparer(tmp_path, processor, ahead)
    ahead.begin(prepare, samples[:2], pin=False)
    ahead.begin(prepare, samples[1:3], pin=False)
    ahead.settle()

    assert len(prepare.opener.names) == 3
    assert ahead.take(samples[0]) is None
    assert ahead.take(samples[1]) is not None and ahead.take(samples[2]) is not None


def test_a_medium_that_cannot_be_opened_is_met_where_it_is_asked_for(tmp_path, processor, ahead):
    samples = samples_of(tmp_path, "a.png")
    (tmp_path / "a.png").write_bytes(b"no picture")
    prepare = preparer(tmp_path, processor, ahead)
    ahead.begin(prepare, samples, pin=False)
    ahead.settle()

    with pytest.raises(MediaError, match=r"a\.png"):
        prepare.prepare(samples[:1])


def test_a_cache_that_may_not_build_fails_where_it_is_asked(tmp_path, processor, ahead):
    samples = samples_of(tmp_path, "a.png")
    prepare = dataclasses.replace(
        preparer(tmp_path, processor, ahead), cache=PixelCache(tmp_path / "cache", on_miss="error")
    )
    ahead.begin(prepare, samples, pin=False)
    ahead.settle()  # says nothing

    with pytest.raises(Exception, match=r"cache\.on_miss is error"):
        prepare.prepare(samples[:1])
