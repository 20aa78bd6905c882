"""`mmrl cache ls | verify | pack | unpack | prune | explain`: what is stored, whether it is whole, why media miss."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from mmrl.config.schema import RunConfig
from mmrl.data import pack as packing
from mmrl.data.cache import PIXELS, PixelCache, Request
from mmrl.data.container import decode
from mmrl.data.entry_file import read_entry
from mmrl.data.feature_cache import FEATURES, FeatureRequest, stored_features
from mmrl.data.fingerprint import (
    Fingerprint,
    Remembered,
    append_line,
    hash_file,
    read_index,
    remembered_source,
    stamp_of,
)
from mmrl.data.preprocess.features import features_of
from mmrl.data.preprocess.media import data_sections, distinct_media
from mmrl.data.recipe import Recipe, differences, told_apart
from mmrl.data.remote import Remote
from mmrl.data.skipped import SkippedLog
from mmrl.data.source import source_name
from mmrl.data.storage import Storage
from mmrl.data.store import EntryStore
from mmrl.data.tiered import push as send
from mmrl.errors import CacheCorruptError, CacheError, CacheRecipeError, ConfigError, MediaError
from mmrl.models.load import geometry_of

LEVELS = (PIXELS, FEATURES)
_LEAST_SHARD = 10**6

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def stores(folder: Path) -> list[EntryStore]:
    """The levels that a cache folder holds. Raises CacheError when it is no folder."""
    if not folder.is_dir():
        raise CacheError(f"{folder}: no such cache folder")
    return [EntryStore(folder / level) for level in LEVELS if (folder / level).is_dir()]


def ls(folder: Path) -> int:
    """Print the entries grouped by recipe (the parts of a file together), with counts and bytes.

    Returns 0, or 1 if a header cannot be read.
    """
    console = Console(soft_wrap=True, highlight=False)
    counts: Counter[Recipe] = Counter()
    sizes: Counter[Recipe] = Counter()
    bad: list[str] = []
    packed = shards = 0
    for store in stores(folder):
        for item in store.items():
            try:
                recipe = _recipe_in(store, item.key)
            except CacheCorruptError as error:
                bad.append(str(error))
                continue
            if recipe is not None:
                counts[recipe.without_part()] += 1
                sizes[recipe.without_part()] += item.size
                packed += item.packed
        bad += store.shards.problems()
        shards += len(store.shards.paths())
    described = _descriptions(list(counts))
    for recipe in sorted(counts, key=lambda recipe: (-counts[recipe], described[recipe])):
        console.print(f"{counts[recipe]:8} entries {_megabytes(sizes[recipe]):>12}  {described[recipe]}", markup=False)
    in_shards = f", {packed} of them packed in {shards} shards" if packed else ""
    console.print(f"{counts.total():8} entries {_megabytes(sizes.total()):>12}  in {folder}{in_shards}", markup=False)
    _print_problems(console, bad)
    return 1 if bad else 0


def verify(folder: Path) -> int:
    """Check every entry against its checksum, recipe and name, and every remembered content hash against its file.

    Returns 1 when anything is wrong. Entries are left as they are: `mmrl preprocess` rebuilds damaged ones. A wrong
    content hash (the file changed, its size and time did not) is mended in the memory, and counted as a problem too.
    """
    console = Console(soft_wrap=True, highlight=False)
    levels = stores(folder)
    entries = [(store, item) for store in levels for item in store.items()]
    problems = [problem for store in levels for problem in store.shards.problems()]
    for store, item in track(entries, "entries", console=Console(stderr=True)):
        try:
            check_entry(store, item.key)
        except (CacheCorruptError, CacheRecipeError) as error:
            problems.append(str(error))
    sources = list(_current_sources(folder / PixelCache.INDEX))
    for line in track(sources, "sources", console=Console(stderr=True)):
        problems += _source_problems(folder / PixelCache.INDEX, line)
    console.print(f"{len(entries)} entries and {len(sources)} sources read, {len(problems)} problems", markup=False)
    _print_problems(console, problems)
    return 1 if problems else 0


def _source_problems(index: Path, line: Remembered) -> list[str]:
    try:
        found = hash_file(remembered_source(line.path))
    except MediaError as error:  # unreadable, or an archive whose own checksum does not fit
        return [str(error)]
    if found == line.sha256:
        return []
    append_line(index, Remembered(line.path, line.stamp, found))
    return [f"{line.path}: its content changed, its size and time did not; run `mmrl preprocess`"]


def check_entry(store: EntryStore, key: str) -> bool:
    """Read an entry whole; False when there is none.

    Raises CacheCorruptError, or CacheRecipeError when its name is not its recipe's.
    """
    mapped = store.find(key)
    if mapped is None:
        return False
    container = decode(mapped.where, mapped.bytes_N, verify=True)
    if FEATURES in container:
        stored_features(mapped, verify=False)
    else:
        read_entry(mapped.where, mapped.bytes_N, verify=False)
    own = Recipe(container.metadata["recipe"]).key(Fingerprint(**json.loads(container.metadata["source"])))
    if own != key:
        raise CacheRecipeError(f"{mapped.where}: holds the entry {own}, stored under another recipe's name")
    return True


def _recipe_in(store: EntryStore, key: str) -> Recipe | None:
    """The recipe of an entry, of which the head alone is read; None when there is none. Raises CacheCorruptError."""
    metadata = _metadata(store, key)
    return None if metadata is None else Recipe(metadata["recipe"])


def _metadata(store: EntryStore, key: str) -> dict[str, str] | None:
    mapped = store.find(key)
    if mapped is None:
        return None
    metadata = decode(mapped.where, mapped.bytes_N, verify=False).metadata
    if not {"recipe", "source"} <= metadata.keys():
        raise CacheCorruptError(f"{mapped.where}: the header is damaged (no recipe)")
    return metadata


def pack(folder: Path, *, shard_size: str) -> int:
    """Put entries that lie by themselves into shards of about `shard_size`. Returns 1 if some are damaged."""
    shard_bytes = parse_size(shard_size)
    if shard_bytes < _LEAST_SHARD:
        raise ConfigError(f"--shard-size {shard_size}: a shard takes at least {_megabytes(_LEAST_SHARD)}")
    return _print_packing([packing.pack(store, shard_bytes=shard_bytes) for store in stores(folder)], "packed into")


def unpack(folder: Path) -> int:
    """Make every packed entry a file again. Returns 0."""
    return _print_packing([packing.unpack(store) for store in stores(folder)], "unpacked from")


def push(folder: Path, url: str) -> int:
    """Upload the entries and shards that the object storage lacks. Returns 0."""
    sent = [send(store, Remote(url, store.folder.name)) for store in stores(folder)]
    count, size = sum(one[0] for one in sent), sum(one[1] for one in sent)
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{count} files ({_megabytes(size)}) sent to {url}", markup=False)
    return 0


def _print_packing(done: list[packing.Packing], what: str) -> int:
    console = Console(soft_wrap=True, highlight=False)
    entries, shards, larger = (sum(getattr(one, name) for one in done) for name in ("entries", "shards", "larger"))
    problems = [problem for one in done for problem in one.problems]
    left = f"; {larger} larger ones left by themselves" if larger else ""
    left += f"; {len(problems)} damaged ones left, `mmrl preprocess` rebuilds them" if problems else ""
    size = _megabytes(sum(one.bytes for one in done))
    console.print(f"{entries} entries ({size}) {what} {shards} shards{left}", markup=False)
    _print_problems(console, problems)
    return 1 if problems else 0


def prune(folder: Path, *, size: str) -> int:
    """Delete entries until those left take at most `size` (`20GB`, `500 MiB`, `0`); unused longest go first."""
    limit = parse_size(size)
    levels = stores(folder)
    freed_temporaries = sum(store.remove_stale_temporaries() for store in levels)
    by_use = sorted(((item, store) for store in levels for item in store.items()), key=lambda pair: pair[0].last_use)
    kept = total = sum(item.size for item, _ in by_use)
    removed: dict[EntryStore, list[str]] = {store: [] for store in levels}
    for item, store in by_use:
        if kept <= limit:
            break
        removed[store].append(item.key)
        kept -= item.size
    for store, keys in removed.items():
        store.remove(keys)
    count = sum(map(len, removed.values()))
    Console(soft_wrap=True, highlight=False).print(
        f"{count} entries removed, {len(by_use) - count} left; {_megabytes(total)} -> {_megabytes(kept)}"
        f"{f', {_megabytes(freed_temporaries)} of unfinished files removed' if freed_temporaries else ''}",
        markup=False,
    )
    return 0


def parse_size(text: str) -> int:
    """Bytes of a size as people write it: `20GB` is 20 * 10**9, `20 GiB` 20 * 2**30. Raises ConfigError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _UNITS:
        raise ConfigError(f"size {text!r}: write a number and a unit, such as 500MB, 20GB or 20GiB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def explain(config: RunConfig, *, sample: str | None = None, level: str = PIXELS) -> int:
    """Say for each medium of a configuration (of one sample, by id) whether it is cached, and if not why.

    level: of features the model's weights decide too, so it is loaded.

    Media that miss for the same reason are counted in one line, with the first of them. Returns 1 when any misses.
    """
    console = Console(soft_wrap=True, highlight=False)
    reasons: dict[str, list[str]] = defaultdict(list)
    hits = 0
    for medium, reason in misses(config, sample=sample, level=level):
        if reason is None:
            hits += 1
        else:
            reasons[reason].append(medium)
    if sample is not None and not hits and not reasons:
        raise ConfigError(
            f"no medium of a sample {sample!r} in the data of the configuration; --sample takes the id of a row"
        )
    console.print(f"{hits} media are cached, {sum(map(len, reasons.values()))} are not", markup=False)
    for reason, media in reasons.items():
        more = f" and {len(media) - 1} more" if len(media) > 1 else ""
        console.print(f"{media[0]}{more}: {reason}", markup=False)
    return 1 if reasons else 0


def misses(config: RunConfig, *, sample: str | None = None, level: str = PIXELS) -> Iterator[tuple[str, str | None]]:
    """(name of a medium, None for a hit or the reason of its miss), opening none."""
    pixels = PixelCache(Path(config.cache.dir), on_miss="error", verify="always", storage=Storage.of(config.cache))
    cache = features_of(config, pixels) if level == FEATURES else pixels
    geometry = geometry_of(config.model)
    stored = _by_content(cache.store)
    past = _past_contents(cache.folder / PixelCache.INDEX)
    for data in data_sections(config):
        skipped = SkippedLog(None, max_fraction=data.max_skipped_fraction)
        for medium in distinct_media(config, data, skipped=skipped, sample_id=sample):
            job = medium.job(config, geometry)
            name = f"{medium.sample.where}: {source_name(job.ref)}"
            try:
                request = cache.request(job, data.video)
                yield name, explain_miss(request, cache.store, stored, past)
            except MediaError as error:
                yield name, error.reason


def explain_miss(
    request: Request | FeatureRequest, store: EntryStore, stored: dict[str, list[Recipe]], past: dict[str, set[str]]
) -> str | None:
    """Why a request has no entry it may use; None when it has one.

    stored: content hash -> recipes of its entries. past: path -> content hashes it ever had.
    """
    recipes = stored.get(request.source.sha256, [])
    problem = _damage(request, store)  # asked for by its key first: listed is only what lies in the folder
    if problem is None or request.recipe in recipes:
        return problem
    if recipes:
        nearest = min((differences(request.recipe, recipe) for recipe in recipes), key=len)
        return "cached under another recipe: " + "; ".join(nearest)
    earlier = past.get(os.path.realpath(request.name), set()) & stored.keys()
    if earlier - {request.source.sha256}:
        return "its content changed since it was cached"
    return "no entry: pruned or never cached"


def _damage(request: Request | FeatureRequest, store: EntryStore) -> str | None:
    try:
        there = check_entry(store, request.key)
    except CacheError as error:
        return f"its entry is damaged: {error}"
    return None if there else "its entry lies under another name"


def _by_content(store: EntryStore) -> dict[str, list[Recipe]]:
    recipes: dict[str, list[Recipe]] = defaultdict(list)
    for item in store.items():
        with contextlib.suppress(CacheCorruptError):  # `verify` names these
            metadata = _metadata(store, item.key)
            if metadata is not None:
                recipes[json.loads(metadata["source"])["sha256"]].append(Recipe(metadata["recipe"]))
    return recipes


def _past_contents(index: Path) -> dict[str, set[str]]:
    contents: dict[str, set[str]] = defaultdict(set)
    for line in read_index(index):
        contents[line.path].add(line.sha256)
    return contents


def _current_sources(index: Path) -> Iterator[Remembered]:
    """What is remembered of files that still look as they did then."""
    latest = {(line.path, line.stamp): line for line in read_index(index)}
    for line in latest.values():
        with contextlib.suppress(MediaError):  # gone since: nothing to check
            if stamp_of(remembered_source(line.path)) == line.stamp:
                yield line


def _descriptions(recipes: Sequence[Recipe]) -> dict[Recipe, str]:
    """Recipe -> what it makes; of those that would read alike, with the fields in which they differ."""
    alike: dict[str, list[Recipe]] = defaultdict(list)
    for recipe in recipes:
        alike[_describe(recipe)].append(recipe)
    return {
        recipe: f"{text}, {more}" if more else text
        for text, same in alike.items()
        for recipe, more in zip(same, told_apart(same), strict=True)
    }


def _describe(recipe: Recipe) -> str:
    fields = recipe.fields
    budget, sizing = fields["budget"], fields["sizing"]
    frames = (
        f", at most {budget['max_frames']} frames at {budget['sample_fps']:g} fps" if "max_frames" in budget else ""
    )
    pixels = f"{budget['min_pixels']}..{budget['max_pixels']} pixels"
    patches = f", patches of {sizing['patch_size']}" if "patch_size" in sizing else f", {sizing.get('layout')}"
    text = f"{fields['kind']}: {pixels}{frames}{patches}, {fields['reader']}"
    if fields.get("level") != FEATURES:
        return text
    model = fields["model"]
    return f"features of {text}; {model['family']} {model['weights'][:12]}, stored as {fields['stored']}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _print_problems(console: Console, problems: list[str]) -> None:
    for problem in problems:
        console.print(problem, style="red", markup=False)
