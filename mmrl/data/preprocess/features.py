"""The level of features filled beside the pixels: the configuration's model is loaded, its vision modules alone run."""

from __future__ import annotations

from mmrl.config.schema import RunConfig, VideoSection
from mmrl.data.cache import PixelCache, Request
from mmrl.data.feature_cache import FeatureCache
from mmrl.data.rendered import MediaEntry


def features_of(config: RunConfig, pixels: PixelCache) -> FeatureCache:
    """The features of the configuration's model, which is loaded: its weights are part of every key."""
    from mmrl.models.features import VisionEncoder
    from mmrl.models.load import load_weights, processor_of
    from mmrl.training import distributed
    from mmrl.training.media_cache import stored_type

    model = load_weights(config.model).to(distributed.device())
    encoder = VisionEncoder.of(model, processor_of(config.model), config.model)
    return FeatureCache(pixels, encoder, stored=stored_type(config))


class FeatureMaker:
    """Makes the features of entries of pixels that have none yet, with the weights of `model.path`."""

    def __init__(self, config: RunConfig, pixels: PixelCache) -> None:
        self._cache = features_of(config, pixels)
        self._cache.store.remove_stale_temporaries()

    def make(self, request: Request, pixels: MediaEntry, video: VideoSection) -> None:
        wanted = self._cache.request_for(request, video)
        if self._cache.find_features(wanted) is None:
            self._cache.encoded(wanted, pixels)

    @property
    def summary(self) -> str:
        """One line: what was made and with which weights."""
        counts = self._cache.metrics()
        return (
            f"features: {counts['features_misses'] + counts['features_rebuilt']:.0f} made, "
            f"{counts['features_hits']:.0f} already cached, {counts['features_bytes_written'] / 1e6:.1f} MB written as "
            f"{self._cache.stored}, {counts['features_seconds_build']:.1f} s in the vision modules "
            f"{self._cache.encoder.settings['weights'][:12]}"
        )
