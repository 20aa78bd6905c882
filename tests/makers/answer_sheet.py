"""Pictures with a place of the annotation and the one that a model answered, from the folder of an evaluation."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from mmrl.config.schema import CacheSection, ModelSection, VideoSection
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.prepare import Preparer
from mmrl.data.sheet import contact_sheet, mark_of
from mmrl.data.skipped import SkippedLog
from mmrl.evaluate.benchmark import load_benchmark, open_router, read_rows
from mmrl.evaluate.records import RecordFile
from mmrl.models.load import processor_of
from mmrl.models.trained_with import checkpoint_settings
from mmrl.scoring.parse import extract_prediction, parse_geometry

ANNOTATED, ANSWERED = 2, 0  # colours: green and red


def answer_sheet(task_file: Path, out: Path, keys: Sequence[str], *, model: Path, cache: Path) -> Image.Image:
    """The rows' media as the model saw them. Rows stand beside the task file; an answer without a place has no mark."""
    benchmark, section = load_benchmark(str(task_file)), ModelSection(path=str(model))
    processor, settings = processor_of(section), checkpoint_settings(model)
    budgets = settings.budgets if settings else {}
    config = benchmark.config(section, cache=CacheSection(dir=str(cache)), budgets=budgets, workers=0)
    rows = read_rows(benchmark, config, root=task_file.parent)
    samples = {sample.sample_id: sample for sample in rows.samples}
    stored = RecordFile(out / benchmark.name / "samples.jsonl", task_hash=benchmark.hash, repeats=1).read()
    media, marks = [], []
    with open_router(benchmark, config, rows, processor) as router, MediaOpener(VideoSection(), workers=1) as opener:
        pixels, log = PixelCache(cache), SkippedLog(None, max_fraction=1.0)
        preparer = Preparer(pixels, opener, processor, config, config.data, log, router.geometry_kind)
        for number, item in enumerate(preparer.prepare([samples[key] for key in keys])):
            [entry], sample = item.prompt.media, item.sample
            kind, space = router.geometry_kind(sample.task), sample.answer_space
            assert kind is not None and space is not None
            answered = parse_geometry(extract_prediction(stored[sample.sample_id][0].completion) or "", kind=kind)
            media.append(entry)
            for values, colour in ((sample.answer, ANNOTATED), (answered, ANSWERED)):
                if values is not None:
                    marks.append(mark_of(values, kind=kind, space=space, medium=number, entry=entry, colour=colour))
    return contact_sheet(media, marks)
