"""Benchmarks by name: the task file, its rows, and the configuration that training would read them under.

A task file is a dataset and a reward, so everything after the file is what training uses: cards, templates, budgets,
the pixel cache, spaces, the reward's parser.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mmrl.config.benchmark_section import (
    ROTATION_OF,
    AnswerSection,
    BenchmarkSection,
    ShuffleSection,
    VariantSection,
)
from mmrl.config.judge_section import WITHOUT_JUDGE, JudgeSection, JudgeServerSection
from mmrl.config.load import read_section
from mmrl.config.reward_sections import RewardPart
from mmrl.config.schema import (
    BudgetClass,
    CacheSection,
    CardSection,
    DataSection,
    DatasetSection,
    ModelSection,
    RewardsSection,
    RunConfig,
)
from mmrl.data.budgets_of import resolve_budget
from mmrl.data.made_columns import with_made
from mmrl.data.many_files import open_files
from mmrl.data.readers import SampleSet, card_reader, read_dataset
from mmrl.data.sample import Sample
from mmrl.data.skipped import Skipped, SkippedLog
from mmrl.data.source import source_name
from mmrl.data.template_library import user_text
from mmrl.errors import ConfigError, DataError, did_you_mean, known_names
from mmrl.evaluate.judge import check_judge, endpoint_options, longest_s, no_rules, no_server, told, with_endpoint
from mmrl.evaluate.options import MovedOptions, Order, option_columns
from mmrl.models.families import FamilyProcessor
from mmrl.plugins import shipped_dir
from mmrl.rollout.types import Sampling
from mmrl.scoring.judge.prompts import JUDGING
from mmrl.scoring.parts import part_name
from mmrl.scoring.router import Router

TASK = "parts"
DEFAULT, THINKING = "default", "thinking"
SCORE = "score"


@dataclass(frozen=True)
class Benchmark:
    """A task file that was read. name: its file's stem. relative_to: what rewards of its own start from.

    variant: the one of the section's variants that is in it. endpoint: where its judge answers, as rewards take it.
    without_judge: the section's score is the one without its judge. named_judge: the judge that the task file names.
    rewards: how the parts of its score come together; None: as they do by default.
    """

    name: str
    section: BenchmarkSection
    relative_to: Path
    variant: str = DEFAULT
    endpoint: Mapping[str, Any] | None = None
    without_judge: bool = False
    named_judge: str = ""
    rewards: RewardsSection | None = None

    @cached_property
    def hash(self) -> str:
        """Of all that moves a score: the task file, without where its facts are from and variants not in force."""
        if self.section.judge is None or self.without_judge:
            return self._hash_without({"judge": True}, **({"score_name": WITHOUT_JUDGE} if self.without_judge else {}))
        return self._hash_without({"judge": {"without": True}}, judging=JUDGING)

    @cached_property
    def answers_hash(self) -> str:
        """Of all that answers depend on: answers to a benchmark with a judge stay when it or its prompt is another."""
        return self.hash if self.section.judge is None else self._hash_without({"judge": True, "score": True})

    def _hash_without(self, left_out: Mapping[str, Any], **more: str) -> str:
        # Keys that stand at their defaults are left out, so that a key that is new to mmrl changes no file's hash.
        excluded = {"provenance": True, "variants": True, **left_out}
        facts = self.section.model_dump(mode="json", exclude=excluded, exclude_defaults=True)
        return hashlib.sha256(json.dumps({**facts, **more}, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def parts(self) -> dict[str, tuple[RewardPart, ...]]:
        """What answers are worth, by the task that the rows get."""
        score = self.section.score
        parts = score if isinstance(score, dict) else {TASK: score}
        return parts if self.endpoint is None else with_endpoint(parts, self.endpoint, relative_to=self.relative_to)

    @property
    def score_name(self) -> str:
        """What results call its score: what a rule gave in a judge's place is no score of this benchmark."""
        return WITHOUT_JUDGE if self.without_judge else SCORE

    def judged_by(self, server: JudgeServerSection | None, *, without: bool, store: Path, remedies: str) -> Benchmark:
        """With the server of its judge, or with its rules in the judge's place.

        store: folder of verdicts. Raises ConfigError, with the remedies, where it has a judge and neither is given.
        """
        judge = self.section.judge
        check_judge(self.name, judge, self.parts, relative_to=self.relative_to)
        if judge is None:
            return self
        if without:
            return self._without_judge(judge)
        if server is None:
            raise no_server(self.name, judge, remedies=remedies)
        judged = self._with_judge(judge, server.model or judge.model)
        assert judged.section.judge is not None
        return replace(judged, endpoint=endpoint_options(judged.section.judge, server, store=store))

    def scored_as(self, row: Mapping[str, Any]) -> Benchmark:
        """By the judge, or without one, as a row of results.json says."""
        judge = self.section.judge
        if judge is None:
            return self
        return self._without_judge(judge) if WITHOUT_JUDGE in row else self._with_judge(judge, row["judge"]["model"])

    def _without_judge(self, judge: JudgeSection) -> Benchmark:
        if judge.without is None:
            raise no_rules(self.name, judge)
        return replace(self, section=self.section.model_copy(update={"score": judge.without}), without_judge=True)

    def _with_judge(self, judge: JudgeSection, model: str) -> Benchmark:
        used = judge.model_copy(update={"model": model})
        return replace(self, section=self.section.model_copy(update={"judge": used}), named_judge=judge.model)

    @property
    def judge_told(self) -> dict[str, Any] | None:
        """What results say of its judge; None where none is in force."""
        judge = self.section.judge
        if judge is None or self.without_judge:
            return None
        parts = replace(self, endpoint=None).parts
        return told(judge, parts, named=self.named_judge or judge.model, relative_to=self.relative_to)

    @property
    def sampling(self) -> Sampling:
        answers = self.section.answers
        return Sampling(
            temperature=answers.temperature or 1.0,
            greedy=answers.temperature == 0,
            top_p=answers.top_p,
            top_k=answers.top_k,
            max_new_tokens=answers.max_new_tokens,
            stop=answers.stop,
        )

    def answered_by(self, **changes: Any) -> Benchmark:
        """With other answers than the task file says; None changes nothing."""
        given = {key: value for key, value in changes.items() if value is not None}
        answers = AnswerSection.model_validate({**self.section.answers.model_dump(), **given})
        if answers.repeats > 1 and answers.temperature == 0:
            raise ConfigError(
                f"{self.name}: {answers.repeats} answers at temperature 0 would be equal; give --temperature"
            )
        return replace(self, section=self.section.model_copy(update={"answers": answers}))

    def for_model(self, processor: FamilyProcessor) -> Benchmark:
        """In the variant for a model's family and mode, the most specific one that the task file has."""
        family = processor.family.name
        wanted = (f"{family}_{THINKING}", THINKING, family) if processor.thinks else (family,)
        return self.in_variant(next((name for name in wanted if name in self.section.variants), DEFAULT))

    def in_variant(self, name: str) -> Benchmark:
        """In the variant of this name, before anything else changes its answers; ConfigError for an unknown one."""
        if name == DEFAULT:
            return self
        known = (DEFAULT, *self.section.variants)
        if name not in known:
            listed = ", ".join(known)
            raise ConfigError(f"{self.name}: no variant {name!r}; known: {listed}{did_you_mean(name, known)}")
        return replace(self, section=_in_variant(self.section, self.section.variants[name]), variant=name)

    def with_options(self, order: Order | Mapping[str, int]) -> Benchmark:
        """With the options of its questions in this order, also as results.json has it."""
        order = ShuffleSection.model_validate(order) if isinstance(order, Mapping) else order
        return replace(self, section=self.section.model_copy(update={"options": order}))

    def config(
        self, model: ModelSection, *, cache: CacheSection, budgets: Mapping[str, BudgetClass], workers: int
    ) -> RunConfig:
        """What a training with this benchmark as its held-out data would be configured as.

        budgets: of the model's own training, for classes that the task file does not set.
        """
        defaults = RunConfig.model_fields["budgets"].get_default(call_default_factory=True)
        data = DataSection(
            val=(self.section.data.model_copy(update={"name": self.name}),),
            max_prompt_tokens=self.section.max_prompt_tokens,
            too_long="skip",
            bad_media="skip",
            max_skipped_fraction=1.0,
            round_places=False,
            decode_workers=workers,
        )
        common = self.rewards or RewardsSection()
        rewards = common.model_copy(update={"tasks": self.parts, "workers": workers})
        if self.endpoint is not None:  # a process that waits for the judge, so that the engine does not
            limits = {"workers": max(workers, 1), "timeout_s": longest_s(self.endpoint)}
            rewards = rewards.model_copy(update=limits)
        return RunConfig(model=model, budgets={**defaults, **budgets}, data=data, cache=cache, rewards=rewards)


@dataclass(frozen=True)
class Rows:
    """The questions of a benchmark. failed: rows whose medium is not there; they count as questions.

    read: the rows that are there; samples: what is asked of them, the same unless their options are moved.
    failed_columns: what `columns_of` says of the others, by `where`.
    """

    read: SampleSet
    samples: Sequence[Sample]
    failed: tuple[Skipped, ...]
    failed_columns: Mapping[str, Mapping[str, Any]]

    @property
    def size(self) -> int:
        return len(self.samples) + len(self.failed)


def load_benchmark(name: str) -> Benchmark:
    """A shipped benchmark by name, or a task file by path (./mine.yaml)."""
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    path = Path(name) if is_path else shipped_dir("datasets") / "benchmarks" / f"{name}.yaml"
    if not path.is_file():
        known = shipped_benchmarks()
        listed = (
            f"shipped: {known_names(known, listed_by='mmrl list benchmarks')}; a file of yours is named by its path"
        )
        raise ConfigError(f"no benchmark {name!r}; {listed}{did_you_mean(name, known)}")
    section = read_section(path, BenchmarkSection)
    data = section.data.model_copy(
        update={
            "user_template": _text(section.data.user_template),
            "task_templates": _texts(section.data.task_templates),
        }
    )
    benchmark = Benchmark(path.stem, section.model_copy(update={"data": data}), path.absolute().parent)
    _check_reasoning(benchmark)
    _check_also(benchmark)
    return benchmark


def shipped_benchmarks() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (shipped_dir("datasets") / "benchmarks").glob("*.yaml")))


def read_rows(
    benchmark: Benchmark, config: RunConfig, *, root: Path, limit: int | None = None, needs_answers: bool = True
) -> Rows:
    """The rows, checked. Raises DataError for files that are not what the task file expects, and, if answers are
    needed, for rows without one: a split whose answers are not published cannot be scored.
    """
    [dataset] = config.data.val
    skipped = SkippedLog(None, max_fraction=1.0)
    section = dataset if limit is None else dataset.model_copy(update={"max_samples": limit})
    if not isinstance(benchmark.section.score, dict):
        section = _of_one_task(section)
    if not needs_answers:
        section = _without_answers(section)
    samples = read_dataset(section, data=config.data, relative_to=root, skipped=skipped)
    rows = Rows(samples, samples, skipped.rows, _columns_of_failed(skipped.rows, section, data=config.data, root=root))
    expected = benchmark.section.expect.rows
    if expected is not None and limit is None and rows.size != expected:
        raise DataError(
            f"benchmark {benchmark.name}: {root / dataset.path} has {rows.size} rows, the task file expects "
            f"{expected}; use the published files, or set expect.rows in a task file of your own"
        )
    if benchmark.section.options != "written":
        rows = _with_moved_options(rows, benchmark)
    first = rows.samples[0]
    for column in (*benchmark.section.expect.columns, *_named_columns(benchmark.section)):
        if column not in columns_of(first):
            known = ", ".join(columns_of(first))
            raise DataError(
                f"{first.where}: no column {column!r}, which benchmark {benchmark.name} names; has: {known}"
            )
    for sample in rows.samples if needs_answers else ():
        if sample.answer in (None, "", []):
            raise DataError(
                f"{sample.where}: benchmark {benchmark.name}: no answer; this split cannot be scored (its answers may "
                "not be published): give --predict-only to store what the model answers"
            )
    return rows


def _with_moved_options(rows: Rows, benchmark: Benchmark) -> Rows:
    columns = option_columns(benchmark.parts, relative_to=benchmark.relative_to)
    if not columns:
        raise ConfigError(f"{benchmark.name}: its score reads no options, so there are none to move")
    failed = rows.failed_columns
    if benchmark.section.options == "circular":
        ids = {row.where: row.sample_id or row.where for row in rows.failed}
        failed = {where: {**of, ROTATION_OF: ids[where]} for where, of in failed.items()}
    moved = MovedOptions(rows.read, benchmark.section.options, columns)
    return replace(rows, samples=moved, failed_columns=failed)


def columns_of(sample: Sample) -> dict[str, Any]:
    """What scores may be reported and grouped by: the row's other columns, and `media`, its first medium's place."""
    return {**sample.columns, "media": source_name(sample.media[0]) if sample.media else None}


def open_router(benchmark: Benchmark, config: RunConfig, rows: Rows, processor: FamilyProcessor) -> Router:
    """What scores a benchmark's answers; the caller closes it. Raises, before anything is generated, for a reward that
    cannot run here, places without a space on both sides, and media without a budget class.
    """
    [dataset] = config.data.val
    for sample in rows.read.first_of_budgets().values():
        for ref in sample.media:
            resolve_budget(config, dataset, sample, ref)
    tasks = rows.read.task_counts()
    router = Router(config.rewards, relative_to=benchmark.relative_to)
    router.validate(sorted(tasks))
    spaces = {"box_space": processor.box_space, "time_space": processor.time_space}
    router.check_spaces({task: rows.read.of_tasks([task])[0].answer_space for task in tasks}, **spaces)
    return router


def budgets_of(samples: Sequence[Sample], config: RunConfig) -> dict[str, BudgetClass]:
    """The budget classes that the media of a benchmark's rows have."""
    [dataset] = config.data.val
    known = {**config.budgets, **dataset.budgets}
    used = {ref.budget or sample.modality for sample in samples for ref in sample.media}
    return {name: known[name] for name in sorted(used & known.keys())}


def _check_reasoning(benchmark: Benchmark) -> None:
    """ConfigError where answers to some rows would have no verdict on their reasoning."""
    wanted = benchmark.section.reasoning
    for task, parts in benchmark.parts.items() if wanted is not None else ():
        if wanted not in (known := [part_name(part) for part in parts]):
            of_task = "" if task == TASK else f" of {task!r}"
            raise ConfigError(
                f"{benchmark.name}: reasoning: the score{of_task} has no part {wanted!r}; parts: {', '.join(known)}. "
                "CoT-pass@k needs a verdict on the reasoning of each answer: add a part that gives one (a judge, or a "
                "reward of thoughts) with weight 0"
            )


def _check_also(benchmark: Benchmark) -> None:
    """ConfigError for a further score of a part that no answer has: it would be 0 whatever the model says. What a part
    returns beside its score (`part.name`) is known only when answers are scored.
    """
    without = benchmark.section.judge.without if benchmark.section.judge is not None else None
    rules = without.values() if isinstance(without, dict) else [without or ()]
    parts = [part_name(part) for of_task in (*benchmark.parts.values(), *rules) for part in of_task]
    for name, average in benchmark.section.averages():
        if average.part is not None and average.part not in parts and average.part.split(".")[0] not in parts:
            listed = ", ".join(dict.fromkeys(parts))
            raise ConfigError(
                f"{benchmark.name}: {name}.part: the score has no part {average.part!r}; parts: {listed}"
                f"{did_you_mean(average.part, parts)}"
            )


def _in_variant(section: BenchmarkSection, variant: VariantSection) -> BenchmarkSection:
    data = section.data
    changes: dict[str, Any] = {"budgets": {**data.budgets, **variant.budgets}}
    kept = data.task_templates if variant.user_template is None else {}
    changes["task_templates"] = {**kept, **_texts(variant.task_templates)}
    changes["user_template"] = _text(variant.user_template) or data.user_template
    changes["system_prompt"] = variant.system_prompt or data.system_prompt
    own = {key: getattr(variant.answers, key) for key in variant.answers.model_fields_set}
    answers = section.answers.model_copy(update=own)
    return section.model_copy(update={"data": data.model_copy(update=changes), "answers": answers})


def _text(template: str | None) -> str | None:
    """A template itself where a shipped one is named: results and hashes are of its text."""
    try:
        return None if template is None else user_text(template)
    except ConfigError as error:
        raise ConfigError(f"a user template {error}") from error


def _texts(templates: Mapping[str, str]) -> dict[str, str]:
    return {task: text for task, template in templates.items() if (text := _text(template)) is not None}


def _columns_of_failed(
    failed: Sequence[Skipped], section: DatasetSection, *, data: DataSection, root: Path
) -> dict[str, Mapping[str, Any]]:
    """Rows that became no sample belong to their groups all the same."""
    if not failed:
        return {}
    reader = card_reader(section, data=data, relative_to=root)
    missing, found = {row.where: row.path for row in failed}, {}
    rows = open_files(root / section.path, split=section.split)
    for number in range(len(rows)):
        row = rows.read(number)
        where = f"{rows.origin(number)} (id={reader.sample_id(row, number)})"
        if where in missing:
            found[where] = {**with_made(row, reader.card.make), "media": missing[where]}
    return found


def _of_one_task(section: DatasetSection) -> DatasetSection:
    """The dataset with every row of the one task whose reward is the benchmark's score."""
    return _with_card(section, lambda card: {"task": TASK, "columns": {**card.columns, "task": None}})


def _without_answers(section: DatasetSection) -> DatasetSection:
    """The dataset with rows that need no answer."""

    def unanswered(card: CardSection) -> dict[str, Any]:
        required = tuple(name for name in card.required if name != "answer")
        return {"optional": (*card.optional, "answer"), "required": required}

    return _with_card(section, unanswered)


def _with_card(section: DatasetSection, changes: Callable[[CardSection], dict[str, Any]]) -> DatasetSection:
    card = CardSection(preset=section.card) if isinstance(section.card, str) else section.card
    own = {key: getattr(card, key) for key in card.model_fields_set}
    return section.model_copy(update={"card": CardSection(**own | changes(card))})


def _named_columns(section: BenchmarkSection) -> tuple[str, ...]:
    of_averages = (column for _, average in section.averages() for column in average.columns)
    return tuple(dict.fromkeys(name for name in (*section.report, section.cluster, *of_averages) if name is not None))
