"""FeatureCache: what the frozen vision modules make of a medium, stored once and handed straight to the language model.

    <dir>/features/ab/<key>.safetensors   a container (container.py); key = sha256(content hash, recipe of features)
        metadata   checksum, recipe, source, medium
        tensors    seconds, indices as in an entry of pixels; features (L, K, D): the tokens, then the deepstack levels

The recipe of features is that of the pixels with the model's fingerprint and settings and the type stored: weights that
changed have other keys, and what was made with the old ones cannot be returned. Entries of pixels stay beside them:
they are what features are made of, and what is drawn upon.

Shape letters: L levels of features, K vision tokens, D hidden size of the language model.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.cache import CacheMetrics, Opener, PixelCache, Request
from mmrl.data.container import compact, decode, encode
from mmrl.data.decoder import MediaOpener
from mmrl.data.fingerprint import ContentHashes, Fingerprint
from mmrl.data.mapping import Mapped
from mmrl.data.opening import OpenJob
from mmrl.data.recipe import Recipe, differences
from mmrl.data.rendered import MediaEntry, MediumFeatures
from mmrl.data.sample import MediaRef
from mmrl.data.vision import VisionGeometry
from mmrl.errors import CacheCorruptError, CacheError, CacheMissError, CacheRecipeError, MediaError

log = logging.getLogger(__name__)

FEATURES = "features"
# Raised whenever the same fields come to mean other features.
FORMAT = 1
StoredType = Literal["float32", "float16", "bfloat16"]
_FIELDS = ("grid_thw", "num_tokens", "source_size", "source_fps", "duration_s", "sample_fps")


class Encoder(Protocol):
    """What the cache needs of `mmrl.models.features.VisionEncoder`."""

    @property
    def settings(self) -> dict[str, Any]: ...

    def encode(self, entry: MediaEntry) -> MediumFeatures: ...


class MediaCache(Protocol):
    """What readers of a cache need of it, whatever its level. A request is what `request` returned; it has a `key`."""

    @property
    def folder(self) -> Path: ...

    @property
    def hashes(self) -> ContentHashes: ...

    def metrics(self) -> dict[str, float]: ...

    def get(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry, opener: Opener) -> MediaEntry: ...

    def get_many(self, jobs: Iterable[OpenJob], opener: Opener) -> Iterator[tuple[int, MediaEntry | MediaError]]: ...

    def local(self, ref: MediaRef) -> MediaRef: ...

    def request(self, job: OpenJob, video: VideoSection) -> Any: ...

    def find(self, request: Any) -> MediaEntry | None: ...

    def build(self, request: Any, opener: Opener) -> MediaEntry | MediaError: ...


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRequest:
    """A medium to find: its entry of pixels, and the recipe and key of its features."""

    pixels: Request
    video: VideoSection
    recipe: Recipe
    key: str

    @property
    def source(self) -> Fingerprint:
        return self.pixels.source

    @property
    def name(self) -> str:
        return self.pixels.name


def feature_recipe(pixels: Recipe, settings: Mapping[str, Any], *, stored: str) -> Recipe:
    """The recipe of pixels, with how features were made of them."""
    fields = {**pixels.fields, "level": FEATURES, "features_format": FORMAT, "stored": stored, "model": dict(settings)}
    return Recipe(json.dumps(fields, sort_keys=True, separators=(",", ":")))


class FeatureCache:
    """The level of features above a PixelCache, with the methods of one: entries carry features in the place of pixels.

    stored: type of what is written. builds: without it a medium that has no features yet is returned as pixels.
    strict: a medium without features is an error where `pixels.on_miss` is; else they are made of cached pixels.
    """

    def __init__(
        self, pixels: PixelCache, encoder: Encoder, *, stored: StoredType, builds: bool = True, strict: bool = False
    ) -> None:
        self.pixels, self.encoder, self.stored = pixels, encoder, stored
        self.builds, self.strict = builds, strict
        self.store = pixels.storage.open(pixels.folder, FEATURES)
        self._recipes: dict[str, Recipe] = {}
        self._verified: dict[str, tuple[int, ...]] = {}
        self._metrics = CacheMetrics()
        self._encoding = threading.Lock()

    @property
    def folder(self) -> Path:
        return self.pixels.folder

    @property
    def hashes(self) -> ContentHashes:
        return self.pixels.hashes

    def metrics(self) -> dict[str, float]:
        """Those of the pixels, and `features_hits` and so on of the features."""
        return self.pixels.metrics() | {f"features_{name}": value for name, value in asdict(self._metrics).items()}

    def reset_metrics(self) -> None:
        self.pixels.reset_metrics()
        self._metrics = CacheMetrics()

    def local(self, ref: MediaRef) -> MediaRef:
        return self.pixels.local(ref)

    def remove_stale_temporaries(self) -> int:
        return self.pixels.remove_stale_temporaries() + self.store.remove_stale_temporaries()

    def request(self, job: OpenJob, video: VideoSection) -> FeatureRequest:
        """Names of a medium's features; see `PixelCache.request`."""
        return self.request_for(self.pixels.request(job, video), video)

    def request_for(self, pixels: Request, video: VideoSection) -> FeatureRequest:
        recipe = self._recipes.get(pixels.recipe.text)
        if recipe is None:
            recipe = feature_recipe(pixels.recipe, self.encoder.settings, stored=self.stored)
            self._recipes[pixels.recipe.text] = recipe
        return FeatureRequest(pixels, video, recipe, recipe.key(pixels.source))

    def find(self, request: FeatureRequest) -> MediaEntry | None:
        """The entry with its features, made of cached pixels where they are missing; None where there are no pixels.

        Raises what the class says of `strict`, and see `PixelCache.find`.
        """
        entry = self.find_features(request)
        if entry is not None:
            return entry
        pixels = self.pixels.find(request.pixels)
        return None if pixels is None else self.encoded(request, pixels)

    def get(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry, opener: Opener) -> MediaEntry:
        """As `PixelCache.get`, with features."""
        request = self.request(OpenJob(ref, budget, geometry), opener.video)
        entry = self.find_features(request)
        return entry or self.encoded(request, self.pixels.get(ref, budget, geometry, opener))

    def get_many(self, jobs: Iterable[OpenJob], opener: Opener) -> Iterator[tuple[int, MediaEntry | MediaError]]:
        """As `PixelCache.get_many`, with features. What is missing of both levels is opened together."""
        missing: list[tuple[int, FeatureRequest]] = []
        for index, job in enumerate(jobs):
            try:
                request = self.request(job, opener.video)
            except MediaError as error:
                yield index, error
                continue
            entry = self.find_features(request)
            if entry is None:
                missing.append((index, request))
            else:
                yield index, entry
        built: dict[str, MediaEntry] = {}
        opened = self.pixels.get_many((request.pixels.job for _, request in missing), opener)
        for number, result in opened:
            index, request = missing[number]
            if isinstance(result, MediaError):
                yield index, result
                continue
            if request.key not in built:
                built[request.key] = self.encoded(request, result)
            yield index, built[request.key]

    def build(self, request: FeatureRequest, opener: Opener) -> MediaEntry | MediaError:
        """Open a medium, store its pixels and its features."""
        entry = self.pixels.build(request.pixels, opener)
        return entry if isinstance(entry, MediaError) else self.encoded(request, entry)

    def memory_entry(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry, opener: Opener) -> MediaEntry:
        """As `PixelCache.memory_entry`: pixels, which the vision tower sees whenever they are used."""
        return self.pixels.memory_entry(ref, budget, geometry, opener)

    def find_features(self, request: FeatureRequest) -> MediaEntry | None:
        """The stored features, or None. Raises the errors of `strict` with `on_miss: error`."""
        started = time.perf_counter()
        try:
            entry = self._read(request)
        except (CacheCorruptError, CacheRecipeError) as error:
            if self.strict and self.pixels.on_miss == "error":
                raise
            self._metrics.rebuilt += 1
            log.warning("rebuilding an entry of features: %s", error)
            return None
        if entry is None:
            self._metrics.misses += 1
            if self.strict and self.pixels.on_miss == "error":
                raise CacheMissError(
                    f"{request.pixels.name}: no features of this model in the cache {self.folder} and cache.on_miss is "
                    "error; run `mmrl preprocess --level features` with this configuration and model"
                )
            return None
        self._metrics.hits += 1
        assert entry.features is not None
        self._metrics.bytes_read += sum(t.nbytes for t in (entry.features.tokens_KD, *entry.features.deepstack))
        self._metrics.seconds_open += time.perf_counter() - started
        return entry

    def encoded(self, request: FeatureRequest, pixels: MediaEntry) -> MediaEntry:
        """Run the vision modules on a medium, store what comes out and open it as a reader would."""
        if not self.builds:
            return pixels
        started = time.perf_counter()
        with self._encoding:  # openers of an evaluation ask in threads of their own
            features = self.encoder.encode(pixels)
        self._metrics.bytes_written += self.store.write(request.key, self._blocks(request, pixels, features))
        self.store.sync()
        entry = self._read(request)
        self._metrics.seconds_build += time.perf_counter() - started
        if entry is None:
            raise CacheError(f"{request.pixels.name}: its features were removed while they were being written")
        return entry

    def _blocks(self, request: FeatureRequest, pixels: MediaEntry, features: MediumFeatures) -> list[memoryview]:
        levels_LKD = torch.stack([features.tokens_KD, *features.deepstack]).to(getattr(torch, self.stored))
        if not bool(levels_LKD.isfinite().all()):
            raise CacheError(
                f"{request.pixels.name}: features that {self.stored} cannot hold; set cache.feature_dtype to float32"
            )
        medium = {name: getattr(pixels, name) for name in _FIELDS} | {"frames": list(pixels.frames_F3HW.shape)}
        metadata = {
            "recipe": request.recipe.text,
            "source": compact(request.pixels.source.fields()),
            "medium": compact(medium),
        }
        tensors = {
            "seconds": torch.tensor(pixels.timestamps_s, dtype=torch.float64),
            "indices": torch.tensor(pixels.frame_indices, dtype=torch.int32),
            "features": levels_LKD,
        }
        return encode(metadata, tensors)

    def _read(self, request: FeatureRequest) -> MediaEntry | None:
        mapped = self.store.find(request.key)
        if mapped is None:
            return None
        verify = self.pixels.verify
        check = verify == "always" or (verify == "first" and self._verified.get(request.key) != mapped.stamp)
        entry = stored_features(mapped, verify=check)
        if entry.source != request.pixels.source.fields():
            raise CacheRecipeError(f"{mapped.where}: holds another source's features than {request.pixels.name}")
        if entry.recipe != request.recipe.text:
            differing = "; ".join(differences(request.recipe, Recipe(entry.recipe)))
            raise CacheRecipeError(f"{mapped.where}: stored under another recipe's name: {differing}")
        if check:
            self._verified[request.key] = mapped.stamp
        reopen = partial(self._pixels_of, request)
        return replace(entry.medium, key=request.key, reopen=reopen)

    def _pixels_of(self, request: FeatureRequest) -> MediaEntry:
        """The entry of pixels, opened in a process of its own where it was pruned."""
        entry = self.pixels.find(request.pixels)
        if entry is None:
            with MediaOpener(request.video, workers=1) as opener:
                entry = self.pixels.build(request.pixels, opener)
        if isinstance(entry, MediaError):
            raise entry
        return entry


@dataclass(frozen=True, slots=True, eq=False)
class StoredFeatures:
    """What an entry of features holds. medium: without a key."""

    recipe: str
    source: dict[str, Any]
    medium: MediaEntry


def stored_features(mapped: Mapped, *, verify: bool) -> StoredFeatures:
    """The entry in these bytes; its features are views of them. Raises CacheCorruptError, see `container.decode`."""
    container = decode(mapped.where, mapped.bytes_N, verify=verify)
    try:
        levels_LKD, recipe = container["features"], container.metadata["recipe"]
        medium, kind = json.loads(container.metadata["medium"]), json.loads(recipe)["kind"]
        if levels_LKD.ndim != 3 or levels_LKD.shape[1] != medium["num_tokens"]:
            raise ValueError(f"features {list(levels_LKD.shape)} of {medium['num_tokens']} tokens")
        tokens_KD, *deepstack = levels_LKD
        entry = MediaEntry(
            key="",
            kind=kind,
            frames_F3HW=torch.empty(medium["frames"], dtype=torch.uint8, device="meta"),
            grid_thw=tuple(medium["grid_thw"]),
            num_tokens=medium["num_tokens"],
            source_size=tuple(medium["source_size"]),
            timestamps_s=tuple(container["seconds"].tolist()),
            frame_indices=tuple(container["indices"].tolist()),
            source_fps=medium["source_fps"],
            duration_s=medium["duration_s"],
            sample_fps=medium["sample_fps"],
            features=MediumFeatures(kind, tokens_KD, tuple(deepstack)),
        )
        return StoredFeatures(recipe, json.loads(container.metadata["source"]), entry)
    except (ValueError, KeyError, TypeError) as error:
        raise CacheCorruptError(f"{mapped.where}: the header is damaged ({type(error).__name__}: {error})") from error
