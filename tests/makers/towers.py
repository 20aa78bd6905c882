"""How often the vision modules of a Qwen2.5-VL run."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted_towers() -> Iterator[list[str]]:
    """The calls within the block, by name; pictures and clips that go through together are one."""
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel as Model

    calls: list[str] = []
    kept = {name: getattr(Model, name) for name in ("get_image_features", "get_video_features")}
    for name, method in kept.items():
        setattr(Model, name, lambda *a, _m=method, _n=name, **k: calls.append(_n) or _m(*a, **k))
    try:
        yield calls
    finally:
        for name, method in kept.items():
            setattr(Model, name, method)
