"""`mmrl preprocess`: what there is to do and whether there is room, the filling, and what is told at the end.

A run that was killed leaves whole entries only, and the next run finds them and goes on with the rest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from mmrl.config.schema import RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenJob
from mmrl.data.preprocess.estimate import Need, check_room, estimate, free_text
from mmrl.data.preprocess.fill import Filler, Limit
from mmrl.data.preprocess.ledger import Ledger
from mmrl.data.preprocess.media import data_sections
from mmrl.data.preprocess.outcome import Outcome
from mmrl.data.preprocess.progress import ProgressLine
from mmrl.data.preprocess.quarantine import Quarantine
from mmrl.data.preprocess.shards import WHOLE, Shard
from mmrl.data.preprocess.work import Listing, list_work
from mmrl.data.storage import Storage
from mmrl.data.vision import VisionGeometry
from mmrl.models.load import geometry_of

if TYPE_CHECKING:
    from mmrl.data.preprocess.features import FeatureMaker
    from mmrl.data.preprocess.ray_opener import RayOpener

_LISTED = 20


@dataclass(frozen=True)
class Options:
    """What the command line says of a run, beside the configuration.

    rehash: read every source to hash it, whatever is remembered. workers: decoder processes; None: as configured.
    level: features are made beside the pixels, with the configuration's model. shard: the part that this process does.
    retry_quarantined: try again what failed before. ray: the workers are Ray's.
    """

    rehash: bool = False
    workers: int | None = None
    level: Literal["pixels", "features"] = "pixels"
    shard: Shard = WHOLE
    retry_quarantined: bool = False
    ray: bool = False


def preprocess(config: RunConfig, options: Options | None = None) -> int:
    """Fill the cache of a configuration. Returns 0, or 1 when anything failed (failures.jsonl in the cache lists it).

    Media of all datasets are opened, the run's and the stages' own, for training and validation. Raises CacheError,
    before anything is written, where they would not fit.
    """
    options = options or Options()
    console, folder, started = Console(stderr=True, soft_wrap=True), Path(config.cache.dir), time.monotonic()
    cache = PixelCache(folder, verify=config.cache.verify, rehash=options.rehash, storage=Storage.of(config.cache))
    geometry = geometry_of(config.model)
    listings = [list_work(config, data, options.shard) for data in data_sections(config)]
    need = _need(config, listings, cache, geometry)
    there = check_room(need, cache, max_gb=config.cache.max_gb)
    folder.mkdir(parents=True, exist_ok=True)
    console.print(_told_first(need, listings, options.shard, folder), highlight=False)
    cache.remove_stale_temporaries()
    features = _feature_maker(config, cache) if options.level == "features" else None
    listed = folder / options.shard.file_name("failures")
    outcome = Outcome()
    size, media = sum(listing.size for listing in listings), sum(len(listing.own) for listing in listings)
    with listed.open("w", encoding="utf-8") as failures, ProgressLine(console, media=media, size=size) as progress:
        ledger = Ledger(outcome, progress, failures)
        quarantine = Quarantine(folder, retry=options.retry_quarantined)
        limit = Limit(cache, there=there, max_gb=config.cache.max_gb)
        on_entry = features.make if features is not None else None
        filler = Filler(config, cache, geometry, ledger, quarantine, limit, on_entry)
        for listing in listings:
            ledger.bad_rows(listing.bad_rows)
            with _opener(listing, options) as opener:
                filler.fill(listing.own, opener)
    console.print(outcome.summary(cache, seconds=time.monotonic() - started, listed=str(listed)), highlight=False)
    if features is not None:
        console.print(features.summary, highlight=False)
    return _tell_failures(outcome, console, listed)


def _opener(listing: Listing, options: Options) -> MediaOpener | RayOpener:
    if options.ray:
        from mmrl.data.preprocess.ray_opener import RayOpener

        return RayOpener(listing.data.video)
    return MediaOpener(listing.data.video, options.workers or listing.data.decode_workers)


def _feature_maker(config: RunConfig, cache: PixelCache) -> FeatureMaker:
    from mmrl.data.preprocess.features import FeatureMaker

    return FeatureMaker(config, cache)


def _need(config: RunConfig, listings: Sequence[Listing], cache: PixelCache, geometry: VisionGeometry) -> Need:
    """What all parts together will write: each of them refuses alike, whichever begins first."""
    media = [(medium, listing.data.video) for listing in listings for medium in listing.media]

    def job(place: int) -> OpenJob:
        return media[place][0].job(config, geometry)

    return estimate([medium.kind for medium, _ in media], job, cache, [video for _, video in media])


def _told_first(need: Need, listings: Sequence[Listing], shard: Shard, folder: Path) -> str:
    own = sum(len(listing.own) for listing in listings)
    part = f"; part {shard.index} of {shard.count}: {own} media" if shard.count > 1 else ""
    size = sum(listing.size for listing in listings)
    return f"{need.text}, {free_text(folder)}{part}; {size / 1e6:.1f} MB of sources"


def _tell_failures(outcome: Outcome, console: Console, listed: Path) -> int:
    unusable = outcome.bad_rows + outcome.failures
    for failure in unusable[:_LISTED]:
        console.print(f"failed: {failure.where}: {failure.reason}", style="red", highlight=False, markup=False)
    if len(unusable) > _LISTED:
        more = f"... and {len(unusable) - _LISTED} more, see {listed}"
        console.print(more, style="red", highlight=False, markup=False)
    return 1 if unusable else 0
