"""An opener without worker processes: media by the framework's own functions, in this process, counted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.opening import OpenedMedia, OpenJob, open_medium
from mmrl.data.sample import MediaRef
from mmrl.data.vision import VisionGeometry
from mmrl.errors import MediaError
from mmrl.models.qwen import QwenGeometry

QWEN25 = QwenGeometry(
    family="qwen2_5_vl",
    patch_size=14,
    merge_size=2,
    temporal_patch_size=2,
    image_mean=(0.48145466, 0.4578275, 0.40821073),
    image_std=(0.26862954, 0.26130258, 0.27577711),
    video_rule="qwen2",
    default_total_pixels=180633600,
    tokens_per_second=4.0,
)
SMALL = BudgetClass(min_pixels=28 * 28, max_pixels=84 * 84)


@dataclass
class LocalOpener:
    """`opened` counts the media that were decoded."""

    video: VideoSection = field(default_factory=VideoSection)
    opened: int = 0

    def __enter__(self) -> "LocalOpener":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def open(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry) -> OpenedMedia:
        self.opened += 1
        return open_medium(OpenJob(ref, budget, geometry), self.video)

    def open_many(self, jobs: Iterable[OpenJob]) -> Iterator[tuple[int, OpenedMedia | MediaError]]:
        for index, job in enumerate(jobs):
            try:
                yield index, self.open(*job)
            except MediaError as error:
                yield index, error
