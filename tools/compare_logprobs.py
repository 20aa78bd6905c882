"""Compare an engine's log-probs with the trainer's: `python tools/compare_logprobs.py run.yaml rollout.engine=vllm`.

Renders rows of the configuration, answers them greedily with the engine it names and with hf, and computes the
trainer's log-probs of the same ids. For each row and engine it prints the largest distance and the first token whose
distance is above the limit. Exit code 1 when some distance is. Needs as much memory as the model and the engine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import needs_mmrl  # noqa: F401
import torch

from mmrl.cli import print_error
from mmrl.config.load import load_config
from mmrl.config.schema import DataSection, RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.prepare import Prepared, Preparer
from mmrl.data.preprocess.media import data_sections
from mmrl.data.readers import read_datasets
from mmrl.data.skipped import SkippedLog
from mmrl.errors import ConfigError, MmrlError
from mmrl.models.families import FamilyProcessor
from mmrl.models.load import load_policy
from mmrl.models.logprobs import LogprobModule
from mmrl.models.merged import merged_parameters
from mmrl.models.packing import group_row
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.open import open_engine
from mmrl.rollout.types import Completion, Engine, Request
from mmrl.training import distributed
from mmrl.training.rollouts import sampling_of
from mmrl.training.step import LogprobSettings, logprob_pass

# Far above what rounding makes of equal weights, far below what a wrong pixel or position does.
LIMITS = {"float32": 1e-4, "bfloat16": 0.25}


@dataclass(frozen=True)
class Difference:
    """A token that engine and trainer see differently. place: in the completion, from 0."""

    place: int
    token_id: int
    text: str
    engine: float
    trainer: float

    @property
    def size(self) -> float:
        return abs(self.engine - self.trainer)

    def __str__(self) -> str:
        return (
            f"token {self.place} (id {self.token_id}, {self.text!r}): "
            f"{self.engine:.6f} by the engine, {self.trainer:.6f} by the trainer"
        )


@dataclass(frozen=True)
class Comparison:
    """What an engine answered to a row, token by token beside the trainer's log-probs."""

    engine: str
    tokens: tuple[Difference, ...]

    @property
    def largest(self) -> float:
        return max((token.size for token in self.tokens), default=0.0)

    def first_above(self, limit: float) -> Difference | None:
        """Not a number is above every limit."""
        return next((token for token in self.tokens if not token.size <= limit), None)

    def line(self, limit: float) -> str:
        found = self.first_above(limit)
        said = f"; first above {limit:g}: {found}" if found else ""
        return f"  {self.engine}: {len(self.tokens)} tokens, largest distance {self.largest:.3g}{said}"


def prepare_rows(config: RunConfig, processor: FamilyProcessor, *, rows: int) -> list[Prepared]:
    """Those of the first rows that can be used: of the run's training data, or of the first stage that has some."""
    data = next((data for data in data_sections(config) if data.train), None)
    if data is None:
        raise ConfigError("'data.train' is empty; name a dataset to take rows from")
    log = SkippedLog(None, max_fraction=1.0)
    sets = read_datasets(data.train, data=data, relative_to=Path.cwd(), skipped=log)
    samples = list(islice((sample for samples in sets for sample in samples), rows))
    with MediaOpener(data.video, workers=1) as opener:
        prepared = _preparer(config, processor, data, opener, log).prepare(samples)
    if not prepared:
        raise ConfigError(f"none of the first {rows} rows can be used: {log.rows[-1].where}: {log.rows[-1].reason}")
    return prepared


def _preparer(
    config: RunConfig, processor: FamilyProcessor, data: DataSection, opener: MediaOpener, log: SkippedLog
) -> Preparer:
    cache = PixelCache(Path(config.cache.dir), on_miss=config.cache.on_miss, verify=config.cache.verify)
    return Preparer(
        cache=cache,
        opener=opener,
        processor=processor,
        config=config,
        data=data,
        skipped=log,
        geometry_kind=lambda _: None,  # the answer is not used
    )


def engines(config: RunConfig, model: Any, processor: FamilyProcessor) -> Iterator[tuple[str, Engine]]:
    """The configured engine with the model's weights, and hf, one after the other."""
    if config.rollout.engine != "hf":
        with closing(open_engine(config, model, processor)) as engine:
            engine.sync_weights(merged_parameters(model), 1)
            yield config.rollout.engine, engine
    yield "hf", HfEngine(model, processor, max_batch_tokens=config.rollout.max_batch_tokens)


def answers(engine: Engine, prepared: Sequence[Prepared], config: RunConfig) -> list[Completion]:
    """One greedy completion of every prompt, in their order."""
    sampling = sampling_of(config.rollout, greedy=True)
    requests = [Request(str(number), item.prompt, n=1, sampling=sampling) for number, item in enumerate(prepared)]
    groups = sorted(engine.generate(requests), key=lambda group: int(group.request.request_id))
    return [group.completions[0] for group in groups]


def trainer_logprobs(
    trainer: LogprobModule, prepared: Sequence[Prepared], completions: Sequence[Completion], settings: LogprobSettings
) -> torch.Tensor:
    """The trainer's log-probs (N, C) of the completions' ids, by the code that training uses."""
    pairs = zip(prepared, completions, strict=True)
    rows = [group_row(item.prompt, [done.ids], [number]) for number, (item, done) in enumerate(pairs)]
    shape = (len(completions), max(len(done.ids) for done in completions))
    return logprob_pass(trainer, rows, settings=settings, shape=shape)[0]


def differences(done: Completion, trainer: Sequence[float], processor: FamilyProcessor) -> tuple[Difference, ...]:
    places = enumerate(zip(done.ids, done.behavior_logprobs, trainer, strict=False))  # trainer is padded
    return tuple(Difference(n, i, processor.decode([i]), mine, other) for n, (i, mine, other) in places)


def compare(config: RunConfig, *, rows: int) -> Iterator[tuple[Prepared, list[Comparison]]]:
    """Each row with what the engines answered to it."""
    model, processor = load_policy(config.model.model_copy(update={"gradient_checkpointing": False}))
    model.to(distributed.device()).eval()
    prepared = prepare_rows(config, processor, rows=rows)
    found: list[list[Comparison]] = [[] for _ in prepared]
    trainer = LogprobModule(model)
    for name, engine in engines(config, model, processor):
        # Greedy log-probs are those at temperature 1.
        settings = LogprobSettings(
            processor=processor,
            temperature=1.0,
            banned_ids=engine.banned_ids,
            chunk=config.train.logprob_chunk,
            micro_batch_tokens=config.train.micro_batch_tokens,
        )
        completions = answers(engine, prepared, config)
        values_NC = trainer_logprobs(trainer, prepared, completions, settings)
        for done, values, comparisons in zip(completions, values_NC.tolist(), found, strict=True):
            comparisons.append(Comparison(name, differences(done, values, processor)))
    yield from zip(prepared, found, strict=True)


def report(config: RunConfig, *, rows: int, limit: float) -> bool:
    """Print every row and what was largest; whether all distances are within the limit."""
    everything: list[Comparison] = []
    for item, comparisons in compare(config, rows=rows):
        prompt = item.prompt
        lengths = f"prompt of {len(prompt.prompt_ids_T)} tokens, {len(prompt.engine_ids)} before media are expanded"
        print(f"{item.sample.where}: {lengths}")
        for comparison in comparisons:
            print(comparison.line(limit))
        everything += comparisons
    for engine in dict.fromkeys(comparison.engine for comparison in everything):
        largest = max(comparison.largest for comparison in everything if comparison.engine == engine)
        print(f"{engine}: largest distance of all {largest:.3g} (limit {limit:g})")
    return all(comparison.first_above(limit) is None for comparison in everything)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, metavar="CONFIG")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--rows", type=int, default=8, metavar="N", help="default: %(default)s")
    shown = ", ".join(f"{limit:g} for {dtype}" for dtype, limit in LIMITS.items())
    parser.add_argument("--limit", type=float, metavar="X", help=f"default: rollout.max_logprob_gap, else {shown}")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    try:
        if parsed.rows < 1:
            raise ConfigError(f"--rows {parsed.rows}: give at least 1")
        config = load_config(parsed.config, parsed.overrides)
        stated = parsed.limit if parsed.limit is not None else config.rollout.max_logprob_gap
        limit = stated if stated is not None else LIMITS[config.model.dtype]
        return 0 if report(config, rows=parsed.rows, limit=limit) else 1
    except MmrlError as error:
        print_error(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
