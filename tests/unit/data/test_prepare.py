"""Rows to prompts: one look-up of all media, answers moved once, long prompts and bad media by policy."""

import dataclasses
import functools
import json
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from makers.openers import LocalOpener
from makers.rows import read, text_rows, write_jsonl
from makers.tiny_models import tiny_model_dir
from PIL import Image

from mmrl.config.schema import BudgetClass, RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.image import open_image
from mmrl.data.prepare import Preparer, halve_to
from mmrl.data.skipped import SkippedLog
from mmrl.errors import ConfigError, DataError, MediaError, PromptTooLongError, TooManySkippedError
from mmrl.models.families import load_processor

SIDE = 28  # pixels of one token of Qwen2.5-VL
BOX = [28, 28, 56, 84]  # in a 112 x 112 picture


@pytest.fixture(scope="module")
def processor():
    return load_processor(tiny_model_dir("qwen2_5_vl"))


def config(**data) -> RunConfig:
    budgets = {"image": {"min_pixels": SIDE**2, "max_pixels": (4 * SIDE) ** 2}}
    data = {"train": [{"path": "rows.jsonl"}], **data}
    return RunConfig.model_validate({"model": {"path": "m"}, "budgets": budgets, "data": data})


def preparer(folder, processor, run: RunConfig, *, kinds: dict | None = None) -> Preparer:
    return Preparer(
        cache=PixelCache(folder / "cache"),
        opener=LocalOpener(),
        processor=processor,
        config=run,
        data=run.data,
        skipped=SkippedLog(folder / "skipped.jsonl", max_fraction=run.data.max_skipped_fraction),
        geometry_kind=(kinds or {}).get,
    )


def picture_rows(folder, *names: str, **more) -> list[dict]:
    """Rows that show a 112 x 112 picture each."""
    for number, name in enumerate(names):
        pixels = np.full((112, 112, 3), 20 * number, np.uint8)
        if not (folder / name).exists():
            Image.fromarray(pixels).save(folder / name)
    return [{"prompt": "<image>Where?", "answer": BOX, "task": "find", "images": [n], **more} for n in names]


def samples_of(folder, rows, **options):
    return read(write_jsonl(folder / "rows.jsonl", rows), **options)


def test_all_media_are_opened_once_and_shared(tmp_path, processor):
    rows = [*picture_rows(tmp_path, "a.png", "b.png", "a.png"), *text_rows(1)]
    prepare = preparer(tmp_path, processor, config())
    prepared = prepare.prepare(samples_of(tmp_path, rows))
    assert [p.sample.sample_id for p in prepared] == ["rows:1", "rows:2", "rows:3", "rows:4"]
    assert [p.prompt.num_vision_tokens for p in prepared] == [16, 16, 16, 0]
    assert prepare.opener.opened == 2
    again = prepare.prepare(samples_of(tmp_path, rows))
    assert prepare.opener.opened == 2
    assert again[0].prompt.prompt_ids_T.equal(prepared[0].prompt.prompt_ids_T)


def test_media_on_the_web_are_files_in_the_sample_that_rewards_see(tmp_path, processor):
    rows = picture_rows(tmp_path, "a.png")
    handler = functools.partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        rows[0]["images"] = [f"http://127.0.0.1:{server.server_address[1]}/a.png"]
        samples = samples_of(tmp_path, rows, data={"allow_urls": True})
        [item] = preparer(tmp_path, processor, config()).prepare(samples)
        server.shutdown()
    with pytest.raises(MediaError, match="not fetched yet"):
        open_image(samples[0].media[0].source)
    assert np.array_equal(open_image(item.sample.media[0].source), open_image(tmp_path / "a.png"))


@pytest.mark.parametrize(("side", "box"), [(4, [28, 28, 56, 84]), (2, [14, 14, 28, 42])])
def test_answers_move_into_the_models_space_once(tmp_path, processor, side, box):
    run = config()
    run = run.model_copy(update={"budgets": {"image": BudgetClass(min_pixels=1, max_pixels=(side * SIDE) ** 2)}})
    samples = samples_of(tmp_path, picture_rows(tmp_path, "a.png"), card={"answer_space": "original_px"})
    prepare = preparer(tmp_path, processor, run, kinds={"find": "box"})
    [item] = prepare.prepare(samples)
    assert (item.sample.answer, item.sample.answer_space) == (box, "model_px")
    thousand = dataclasses.replace(prepare, processor=dataclasses.replace(processor, box_space="0..1000"))
    assert thousand.prepare(samples)[0].sample.answer == [250, 250, 500, 750]


def test_a_place_without_a_medium_or_a_space(tmp_path, processor):
    kinds = {"text": "box", "find": "box"}
    prepare = preparer(tmp_path, processor, config(), kinds=kinds)
    with pytest.raises(DataError, match=r"^rows.jsonl:1 \(id=rows:1\): task 'text' answers with a box"):
        prepare.prepare(samples_of(tmp_path, text_rows(1)))
    with pytest.raises(ConfigError, match="answer_space"):
        prepare.prepare(samples_of(tmp_path, picture_rows(tmp_path, "a.png")))


def test_unknown_budget_class(tmp_path, processor):
    samples = samples_of(tmp_path, picture_rows(tmp_path, "a.png"), card={"modality": "gui"})
    with pytest.raises(ConfigError, match="no budget class 'gui'"):
        preparer(tmp_path, processor, config()).prepare(samples)


def test_a_dataset_overrides_budgets(tmp_path, processor):
    small = {"image": {"min_pixels": 1, "max_pixels": SIDE**2}}
    run = config(train=[{"path": "rows.jsonl", "budgets": small}])
    samples = samples_of(tmp_path, picture_rows(tmp_path, "a.png"))
    assert preparer(tmp_path, processor, run).prepare(samples)[0].prompt.num_vision_tokens == 1


def test_broken_media_stop_or_are_skipped(tmp_path, processor):
    rows = picture_rows(tmp_path, "a.png", "bad.png")
    (tmp_path / "bad.png").write_bytes((tmp_path / "a.png").read_bytes()[:60])
    samples = samples_of(tmp_path, rows)
    with pytest.raises(MediaError, match=r"^rows.jsonl:2 \(id=rows:2\): .*bad.png: "):
        preparer(tmp_path, processor, config()).prepare(samples)
    prepare = preparer(tmp_path, processor, config(bad_media="skip", max_skipped_fraction=0.5))
    prepare.skipped.rows_read("rows", 2)
    assert [p.sample.sample_id for p in prepare.prepare(samples)] == ["rows:1"]
    [line] = (tmp_path / "skipped.jsonl").read_text().splitlines()
    assert (json.loads(line)["kind"], json.loads(line)["sample_id"]) == ("bad_media", "rows:2")
    strict = preparer(tmp_path, processor, config(bad_media="skip", max_skipped_fraction=0.4))
    strict.skipped.rows_read("rows", 2)
    with pytest.raises(TooManySkippedError, match="1 of 2 rows skipped"):
        strict.prepare(samples)


def too_long(tmp_path, processor, policy: str, *, room: int, prompt: str = "<image>Where?"):
    """One picture of 16 tokens under a limit that leaves it `room` tokens."""
    samples = samples_of(tmp_path, picture_rows(tmp_path, "a.png", prompt=prompt))
    [free] = preparer(tmp_path, processor, config()).prepare(samples)
    limit = len(free.prompt.prompt_ids_T) - 16 + room
    run = config(too_long=policy, max_prompt_tokens=limit, max_skipped_fraction=1)
    prepare = preparer(tmp_path, processor, run)
    return prepare, samples


def test_too_long_is_an_error_that_says_what_would_fit(tmp_path, processor):  # faults 2, 9
    prepare, samples = too_long(tmp_path, processor, "error", room=9)
    with pytest.raises(PromptTooLongError, match=r"rows.jsonl:1 \(id=rows:1\).*max_pixels of at most 11760 would fit"):
        prepare.prepare(samples)


def test_too_long_is_skipped(tmp_path, processor):
    prepare, samples = too_long(tmp_path, processor, "skip", room=15)
    assert prepare.prepare(samples) == []
    assert [(row.kind, row.sample_id) for row in prepare.skipped.rows] == [("too_long", "rows:1")]


@pytest.mark.parametrize(("room", "tokens", "halvings"), [(16, 16, 0), (9, 4, 1), (4, 4, 1), (3, 1, 3)])
def test_too_long_shrinks_the_media_and_cuts_nothing(tmp_path, processor, room, tokens, halvings):
    prepare, samples = too_long(tmp_path, processor, "shrink", room=room)
    [item] = prepare.prepare(samples)
    assert (item.prompt.num_vision_tokens, item.halvings) == (tokens, halvings)
    assert len(item.prompt.prompt_ids_T) <= prepare.data.max_prompt_tokens
    assert "Where?" in processor.decode(item.prompt.prompt_ids_T.tolist())


def test_what_cannot_shrink_is_an_error(tmp_path, processor):
    prepare, samples = too_long(tmp_path, processor, "shrink", room=0)
    with pytest.raises(PromptTooLongError, match="no pixel budget makes it fit"):
        prepare.prepare(samples)


def test_halve_to_stops_at_min_pixels():
    budget = BudgetClass(min_pixels=300, max_pixels=1000)
    assert halve_to(budget, 1000) == (budget, 0)
    smaller, times = halve_to(budget, 100)
    assert (smaller.max_pixels, smaller.min_pixels, times) == (500, 300, 1)
