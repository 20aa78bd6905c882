"""The media of a group are held once on the way from the cache to the model, however many completions it has."""

import pytest
import torch
from makers.entries import picture
from makers.live_memory import LiveMemory
from makers.openers import SMALL, LocalOpener
from makers.vlm import FAMILIES, tiny_vlm

from mmrl.data.cache import PixelCache
from mmrl.data.pack import pack as pack_store
from mmrl.data.prepare import Prepared
from mmrl.data.sample import Sample
from mmrl.models.encode import encode_media
from mmrl.models.packing import pack, separate_rows
from mmrl.rollout.types import Sampling
from mmrl.training.rollouts import RolloutSpec, requests_for

COMPLETION = [5, 6, 7]


def test_a_group_is_one_request_that_holds_the_cache_s_own_entry(tmp_path):
    vlm = tiny_vlm("qwen2_5_vl")
    ref, opener, geometry = picture(tmp_path / "a.png"), LocalOpener(), vlm.processor.geometry
    PixelCache(tmp_path / "c").get(ref, SMALL, geometry, opener)
    pack_store(PixelCache(tmp_path / "c").store)
    cache = PixelCache(tmp_path / "c", on_miss="error")
    entries = [cache.get(ref, SMALL, geometry, opener) for _ in range(2)]  # two rows that name one picture
    sample = Sample(sample_id="s", task="t", modality="image", messages=())
    prepared = [Prepared(sample, vlm.rendered(entry, "left or right")) for entry in entries]
    spec = RolloutSpec(n=(8, 8), sampling=Sampling(max_new_tokens=4), seed=(0,))
    requests = requests_for(prepared, spec)
    assert [request.n for request in requests] == [8, 8]
    assert [request.prompt.media[0] is entry for request, entry in zip(requests, entries, strict=True)] == [True, True]
    assert len({entry.frames_F3HW.data_ptr() for entry in entries}) == 1
    rows = [
        row
        for number, request in enumerate(requests)
        for row in separate_rows(request.prompt, [COMPLETION] * 8, range(8 * number, 8 * number + 8))
    ]
    micro = pack(rows, vlm.processor)
    assert len(rows) == 16 and len(micro.media) == 1 and micro.media[0] is entries[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_peak_memory_does_not_grow_by_pixels_with_the_group(family):
    vlm = tiny_vlm(family)
    prompt = vlm.rendered(vlm.clip(3, frames=16), "What?")
    pixel_bytes = prompt.media[0].frames_F3HW.nbytes

    def peak(group_size: int) -> int:
        with torch.no_grad(), LiveMemory() as memory:
            micro = pack(separate_rows(prompt, [COMPLETION] * group_size, range(group_size)), vlm.processor)
            features = encode_media(vlm.model, micro.media, vlm.processor)
        assert len(features) == 1
        return memory.peak

    small, large = peak(2), peak(32)
    assert large - small < pixel_bytes
