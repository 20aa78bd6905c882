"""From rows to prompts, for training, evaluation and `mmrl check` alike.

Media come from the cache, each opened and resized once; the answer is converted into the model's space; the prompt is
rendered; what cannot be used is an error or a counted skip, as the data section says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mmrl.config.schema import BudgetClass, DataSection, RunConfig
from mmrl.data.budgets_of import dataset_section, resolve_budget
from mmrl.data.cache import Opener
from mmrl.data.feature_cache import MediaCache
from mmrl.data.opening import OpenJob
from mmrl.data.render import check_length, fitting_max_pixels, render
from mmrl.data.rendered import MediaEntry, RenderedPrompt
from mmrl.data.sample import GeometryKind, MediaRef, Sample
from mmrl.data.skipped import SkipKind, Skipped, SkippedLog
from mmrl.errors import DataError, LateMediaError, MediaError, MmrlError, PromptTooLongError
from mmrl.models.families import FamilyProcessor
from mmrl.scoring.geometry import answer_medium, to_model_space


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A sample ready for the engine: its answer in the model's space, its prompt with media, those on the web fetched.

    halvings: how often the pixel budget was halved for the prompt to fit (`data.too_long: shrink`).
    """

    sample: Sample
    prompt: RenderedPrompt
    halvings: int = 0


@dataclass(frozen=True)
class Preparer:
    """Everything that preparing samples needs; `data` holds the policies and the dataset's own budgets.

    geometry_kind: task -> what its answer is (box, point, time), or None for answers that are no place.
    ready: a sample's media where they were opened ahead, else None.
    """

    cache: MediaCache
    opener: Opener
    processor: FamilyProcessor
    config: RunConfig
    data: DataSection
    skipped: SkippedLog
    geometry_kind: Callable[[str], GeometryKind | None]
    ready: Callable[[Sample], list[MediaEntry | MediaError] | None] = lambda sample: None

    def prepare(self, samples: Sequence[Sample]) -> list[Prepared]:
        """The samples that can be used, in order. The others are in the skipped log with their reason.

        Raises MediaError, PromptTooLongError or DataError, naming the sample, where the policy is `error`;
        TooManySkippedError when skipped rows become too many.
        """
        media = self._fetch(samples)
        prepared = [self.prepare_one(sample, entries) for sample, entries in zip(samples, media, strict=True)]
        self.skipped.check()
        return [item for item in prepared if item is not None]

    def jobs(self, sample: Sample) -> list[OpenJob]:
        """What is to be opened for a sample, medium by medium."""
        return [OpenJob(ref, self._budget(sample, ref), self.processor.geometry) for ref in sample.media]

    def _fetch(self, samples: Sequence[Sample]) -> list[list[MediaEntry | MediaError]]:
        """The media of each sample, all of them asked for together so that misses are opened in parallel."""
        ready = [self.ready(sample) for sample in samples]
        pairs = zip(samples, ready, strict=True)
        jobs = [job for sample, media in pairs if media is None for job in self.jobs(sample)]
        found = dict(self.cache.get_many(jobs, self.opener))
        results = iter(found[number] for number in range(len(jobs)))
        pairs = zip(samples, ready, strict=True)
        return [[next(results) for _ in sample.media] if media is None else media for sample, media in pairs]

    def _budget(self, sample: Sample, ref: MediaRef) -> BudgetClass:
        return resolve_budget(self.config, dataset_section(self.data, sample.dataset), sample, ref)

    def prepare_one(self, sample: Sample, media: Sequence[MediaEntry | MediaError]) -> Prepared | None:
        """The sample with its media, each opened or the reason why not; see `prepare`."""
        try:
            entries = _all_opened(sample, media)
            return self._render(self._with_local_media(self._with_model_answer(sample, entries)), entries)
        except (MediaError, PromptTooLongError, DataError) as error:
            policy, kind = self._policy(error)
            if policy != "skip":
                raise
            self.skipped.skip(Skipped.of(sample, kind=kind, reason=str(error).removeprefix(f"{sample.where}: ")))
            return None

    def _policy(self, error: MmrlError) -> tuple[str, SkipKind]:
        """What the data section says about this kind of error, and how the log calls it."""
        if isinstance(error, MediaError):
            return self.data.bad_media, "late_media" if isinstance(error, LateMediaError) else "bad_media"
        if isinstance(error, PromptTooLongError):
            return self.data.too_long, "too_long"
        return self.data.bad_row, "bad_row"

    def _with_local_media(self, sample: Sample) -> Sample:
        """For rewards, which open media in processes without this cache."""
        local = tuple(map(self.cache.local, sample.media))
        return sample if local == sample.media else replace(sample, media=local)

    def _with_model_answer(self, sample: Sample, media: Sequence[MediaEntry]) -> Sample:
        kind = self.geometry_kind(sample.task)
        if kind is None:
            return sample
        medium = answer_medium(media, kind=kind)
        if medium is None:
            raise DataError(
                f"{sample.where}: task {sample.task!r} answers with a {kind}, but the row has no medium for it"
            )
        spaces = {"box_space": self.processor.box_space, "time_space": self.processor.time_space}
        return to_model_space(sample, medium, kind=kind, rounded=self.data.round_places, **spaces)

    def _render(self, sample: Sample, media: Sequence[MediaEntry]) -> Prepared:
        limit = self.data.max_prompt_tokens
        prompt = render(sample, media, self.processor)
        if len(prompt.prompt_ids_T) > limit and self.data.too_long == "shrink":
            fitting = fitting_max_pixels(prompt, limit, processor=self.processor)
            if fitting is not None:
                return self._render_smaller(sample, fitting, limit=limit)
        check_length(prompt, limit, processor=self.processor, where=sample.where)
        return Prepared(sample, prompt)

    def _render_smaller(self, sample: Sample, fitting: int, *, limit: int) -> Prepared:
        """The prompt with every budget halved until its max_pixels is at most `fitting`: media are opened once more."""
        halved = [halve_to(self._budget(sample, ref), fitting) for ref in sample.media]
        geometry = self.processor.geometry
        media = [
            self.cache.get(ref, budget, geometry, self.opener)
            for ref, (budget, _) in zip(sample.media, halved, strict=True)
        ]
        prompt = render(sample, media, self.processor, max_prompt_tokens=limit)
        return Prepared(sample, prompt, halvings=max(times for _, times in halved))


def halve_to(budget: BudgetClass, fitting: int) -> tuple[BudgetClass, int]:
    """The budget with max_pixels halved as often as it takes to be at most `fitting`, and how often that was.

    Halves, not the largest size that fits, so that prompts of similar length share cache entries. min_pixels stays:
    a budget that would fall below it is left at it, and the prompt is then too long still.

    >>> smaller, times = halve_to(BudgetClass(min_pixels=100, max_pixels=1000), 300)
    >>> smaller.max_pixels, times
    (250, 2)
    """
    max_pixels, times = budget.max_pixels, 0
    while max_pixels > fitting and max_pixels // 2 >= budget.min_pixels:
        max_pixels, times = max_pixels // 2, times + 1
    return budget.model_copy(update={"max_pixels": max_pixels}), times


def _all_opened(sample: Sample, media: Sequence[MediaEntry | MediaError]) -> list[MediaEntry]:
    """The entries; the first medium that cannot be opened is raised under the sample's name."""
    for result in media:
        if isinstance(result, MediaError):
            raise type(result)(f"{sample.where}: {result.path}", result.reason) from result
    return [result for result in media if isinstance(result, MediaEntry)]
