"""`mmrl generate`: ask a model about pictures and clips, under the settings it was trained with.

Budgets, templates, chat template and coordinate spaces come from the model's own mmrl.json; what is used is said.
Boxes, points and times in the answers are drawn on the media as the model saw them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mmrl.config.schema import BudgetClass, DataSection, DatasetSection, ModelSection, RunConfig, VideoSection
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.media_cell import read_media_cell
from mmrl.data.render import render
from mmrl.data.rendered import MediaEntry, RenderedPrompt
from mmrl.data.sample import GeometryKind, MediaKind, MediaPart, MediaRef, Message, Sample, TextPart
from mmrl.data.sheet import Mark, contact_sheet, mark_of
from mmrl.data.templates import Templates, apply_templates, resolve_templates
from mmrl.errors import ConfigError
from mmrl.models.families import FamilyProcessor
from mmrl.models.load import CHAT_TEMPLATE, load_weights, processor_of
from mmrl.models.lora import load_adapter
from mmrl.models.merged import merged_parameters
from mmrl.models.trained_with import TrainedWith, checkpoint_settings
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Group, Request, Sampling
from mmrl.scoring.parse import extract_prediction, parse_span, parse_values

EngineName = Literal["hf", "vllm"]
_NUMBER = r"-?\d+(?:\.\d+)?"
_BRACKETED = re.compile(rf"[\[(]\s*({_NUMBER}(?:\s*,\s*{_NUMBER}){{1,3}})\s*[\])]")


@dataclass(frozen=True)
class Question:
    """What is asked. media: (kind, as written) in the order they stand before the text.

    task: whose template applies (None: the run's general one). system: instead of the model's own system prompt.
    template: false leaves the text as it is.
    """

    prompt: str
    media: tuple[tuple[MediaKind, str], ...] = ()
    task: str | None = None
    system: str | None = None
    template: bool = True


@dataclass(frozen=True)
class Speaker:
    """A model and what it was trained with.

    adapter: folder of a LoRA adapter that is put into it. engine: what decodes.
    """

    section: ModelSection
    settings: TrainedWith | None
    adapter: Path | None = None
    engine: EngineName = "hf"

    @classmethod
    def of(cls, section: ModelSection, adapter: Path | None, engine: EngineName = "hf") -> Speaker:
        """The adapter's settings hold where there is one, else the model's own."""
        settings = checkpoint_settings(adapter or section.path)
        if adapter is None or settings is None:
            return cls(section, settings, adapter, engine)
        template = adapter / CHAT_TEMPLATE
        changes = {
            "box_space": settings.box_space,
            "time_space": settings.time_space,
            "enable_thinking": settings.enable_thinking,
            "chat_template": str(template) if template.is_file() else None,
        }
        return cls(section.model_copy(update=changes), settings, adapter, engine)

    def answer(self, request: Request, processor: FamilyProcessor) -> Group:
        """The completions of a request. vLLM gets the weights as in a training, and holds no more than the request."""
        model = self.load()
        if self.engine == "hf":
            [group] = HfEngine(model, processor).generate([request])
            return group
        from mmrl.rollout.vllm_engine import VllmEngine
        from mmrl.rollout.vllm_types import CoreOptions

        options = CoreOptions(
            dtype=self.section.dtype,
            max_model_len=len(request.prompt.prompt_ids_T) + request.sampling.max_new_tokens,
            trust_remote_code=self.section.trust_remote_code,
        )
        with closing(VllmEngine(processor, options)) as engine:
            engine.sync_weights(merged_parameters(model), 0)
            [group] = engine.generate([request])
        return group

    def load(self) -> Any:
        model = load_weights(self.section)
        if self.adapter is not None:
            load_adapter(model, self.adapter)
        return model.eval()


def question_sampling(n: int, *, temperature: float | None, max_new_tokens: int) -> Sampling:
    """Greedy for one answer, temperature 1 for several, unless a temperature is given."""
    wanted = temperature if temperature is not None else (0.0 if n == 1 else 1.0)
    if wanted == 0.0 and n > 1:
        raise ConfigError(f"-n {n} with --temperature 0 would give {n} equal answers; give a temperature above 0")
    return Sampling(temperature=wanted or 1.0, greedy=wanted == 0.0, max_new_tokens=max_new_tokens)


def generate_command(
    speaker: Speaker, question: Question, *, n: int, sampling: Sampling, seed: int, cache: Path, sheet: Path
) -> int:
    """Answer a question n times and print the answers; draw their places into `sheet`. Returns 0.

    Which settings apply goes to standard error, answers to standard output.
    """
    processor = processor_of(speaker.section)
    for line in setting_lines(speaker, processor, question):
        print(line, file=sys.stderr)
    prompt = _prompt(question, speaker.settings, processor, cache)
    group = speaker.answer(Request("question", prompt, n=n, sampling=sampling, seed=seed), processor)
    marks: list[Mark] = []
    for number, completion in enumerate(group.completions):
        heading = f"[{number + 1}] " if n > 1 else ""
        print(heading + completion.text)
        if completion.finish_reason == "length":
            print(f"{heading}cut at --max-new-tokens {sampling.max_new_tokens}", file=sys.stderr)
        marks += find_marks(completion.text, prompt.media, processor, colour=number)
    if prompt.media:
        contact_sheet(prompt.media, marks).save(sheet)
        places = f"places drawn in: {len(marks)}" if marks else "no places found in the answers"
        print(f"{sheet}: the media as the model saw them; {places}", file=sys.stderr)
    return 0


def setting_lines(speaker: Speaker, processor: FamilyProcessor, question: Question) -> Iterator[str]:
    """Which settings apply, and where they come from."""
    settings = speaker.settings
    source = "as trained (mmrl.json)" if settings else "defaults, for there is no mmrl.json beside the weights"
    name = f"{speaker.section.path} + {speaker.adapter}" if speaker.adapter else speaker.section.path
    yield f"model: {name} ({processor.family.name}); settings: {source}"
    for kind in sorted({kind for kind, _ in question.media}):
        budget = _budgets(settings)[kind]
        frames = f", at most {budget.max_frames} frames at {budget.sample_fps:g} per second" if kind == "video" else ""
        yield f"{kind} budget: {budget.min_pixels:,} to {budget.max_pixels:,} pixels{frames}"
    yield f"spaces: boxes and points in {processor.box_space or 'no known space'}, times in {processor.time_space}"
    if question.template and (template := _templates(settings, question).user(question.task or "")) is not None:
        yield f"template: {template!r}"


def _prompt(
    question: Question, settings: TrainedWith | None, processor: FamilyProcessor, cache: Path
) -> RenderedPrompt:
    refs = [ref for kind, written in question.media for ref in _read(written, kind)]
    parts = (*(MediaPart(number) for number in range(len(refs))), TextPart(question.prompt))
    templates = _templates(settings, question)
    sample = Sample(
        sample_id="question",
        task=question.task or "",
        modality="question",
        messages=apply_templates([Message("user", parts)], templates, task=question.task or ""),
        media=tuple(refs),
        origin="command line",
    )
    store, budgets = PixelCache(cache), _budgets(settings)
    with MediaOpener(VideoSection(), workers=1) as opener:
        media = [store.get(ref, budgets[ref.kind], processor.geometry, opener) for ref in refs]
    return render(sample, media, processor)


def _read(written: str, kind: MediaKind) -> list[MediaRef]:
    return read_media_cell(written, kind, field=f"--{kind}", root=Path.cwd(), budget=kind)


def _budgets(settings: TrainedWith | None) -> dict[str, BudgetClass]:
    defaults = RunConfig.model_fields["budgets"].get_default(call_default_factory=True)
    return {**defaults, **(settings.budgets if settings else {})}


def _templates(settings: TrainedWith | None, question: Question) -> Templates:
    """The templates the model was trained with, but for what the question says itself.

    ConfigError for a task whose template the model does not know.
    """
    tasks = settings.task_templates if settings else {}
    if question.task is not None and question.task not in tasks:
        known = ", ".join(tasks) or "none"
        raise ConfigError(f"--task {question.task!r}: the model was trained with no template for it; known: {known}")
    user = settings.user_template if settings else None
    data = DataSection(
        system_prompt=question.system or (settings.system_prompt if settings else None),
        user_template=user if question.template else None,
        task_templates=tasks if question.template else {},
    )
    return resolve_templates(DatasetSection(path="question"), data=data)


def find_marks(text: str, media: Sequence[MediaEntry], processor: FamilyProcessor, *, colour: int) -> Iterator[Mark]:
    """Places in an answer: four numbers in brackets are a box, two are a point on a picture or a span of a clip.

    They speak about the first picture, or where there is none about the first clip. Without brackets the whole answer
    may be one place: `10 20 40 50`, `from 3 to 5 s`.
    """
    if not media:
        return
    medium = next((number for number, entry in enumerate(media) if entry.kind == "image"), 0)
    is_picture = media[medium].kind == "image"
    said = extract_prediction(text) or text
    found = [tuple(map(float, match[1].split(","))) for match in _BRACKETED.finditer(said)]
    for values in found or _unbracketed(said, is_picture=is_picture):
        kind: GeometryKind = "box" if len(values) == 4 else "point" if is_picture else "time"
        if len(values) != 3:
            space = processor.time_space if kind == "time" else processor.box_space
            if space is not None:
                yield mark_of(values, kind=kind, space=space, medium=medium, entry=media[medium], colour=colour)


def _unbracketed(said: str, *, is_picture: bool) -> list[tuple[float, ...]]:
    """The one place that an answer without brackets is."""
    parsed = (parse_values(said, count=4), parse_values(said, count=2) if is_picture else parse_span(said))
    return [values for values in parsed if values is not None][:1]
