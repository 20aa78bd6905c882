"""A stage that trains nothing: it samples with the present policy and writes rows for a later stage (`rows_from`)."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mmrl.config.schema import StageSection
from mmrl.data.loader import Loader
from mmrl.data.rollout_roles import ROW_MAKERS
from mmrl.data.rollout_rows import Maker, SampledGroup, as_json, mean_form
from mmrl.errors import ConfigError, did_you_mean
from mmrl.plugins import resolve_function
from mmrl.training import distributed
from mmrl.training.metrics import JsonLines, means_over_ranks
from mmrl.training.prompts import next_prompts, rank_share
from mmrl.training.rollouts import RolloutSpec, ScoredRollouts, roll_out, rollout_rows, sampling_of
from mmrl.training.runtime import Runtime


def rows_path(folder: Path, stage: str) -> Path:
    """Where a sample stage of a run writes its rows."""
    return folder / "rows" / f"{stage}.jsonl"


def resolve_maker(spelling: str) -> Maker:
    """A shipped maker of rows, or the function of a plug-in file."""
    if spelling in ROW_MAKERS:
        return ROW_MAKERS[spelling]
    if ":" not in spelling:
        hint = did_you_mean(spelling, ROW_MAKERS) or "; or ./file.py:function"
        raise ConfigError(f"{spelling!r} makes no rows; known: {', '.join(ROW_MAKERS)}{hint}")
    return resolve_function(spelling, kind="algorithms", default="rows")


class SampleStage:
    """Each step answers `prompts_per_step` prompts, scores the completions and adds what is kept to the file."""

    def __init__(self, run: Runtime, section: StageSection, loader: Loader) -> None:
        self.run, self.section, self.loader = run, section, loader
        self.maker = distributed.together(lambda: resolve_maker(section.sample.rows))
        self.path = rows_path(run.folder, section.name)
        self._size: int | None = 0  # of the file as it has to be when sampling goes on

    def step(self, number: int) -> dict[str, float]:
        prepared = next_prompts(self.run, self.section, self.loader, count=rank_share(self.section.prompts_per_step))
        spec = RolloutSpec(
            n=(self.section.sample.n or self.run.config.rollout.group_size,) * len(prepared),
            sampling=sampling_of(self.run.config.rollout),
            seed=(self.run.config.seed, self.section.name, number),
            progress=number / self.section.steps,
        )
        with self.run.sampling():
            rolled = distributed.together(lambda: roll_out(self.run, prepared, spec))
        made = distributed.together(lambda: self._made(rolled, number=number))
        if distributed.is_main():
            for row in rollout_rows(rolled, limit=self.run.config.log.rollouts_per_step):
                self.run.rollouts_log.write({"stage": self.section.name, "split": "train", **row})
        rows = _dealt_back(distributed.gather_objects(made))
        distributed.on_main(lambda: self._write(rows))
        [tokens] = distributed.sum_over_ranks([rolled.num_tokens])
        return {**_metrics(rolled, made), "sample/rows": float(len(rows)), "tokens": tokens}

    def state_dict(self) -> dict[str, Any]:
        """The size of the file tells which rows are from before the checkpoint."""
        return {"loader": self.loader.state_dict(), "size": self.path.stat().st_size if self.path.is_file() else 0}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state["loader"])
        self._size = state["size"]

    def _write(self, rows: Sequence[dict[str, Any]]) -> None:
        self.path.parent.mkdir(exist_ok=True)
        lines = JsonLines(self.path)
        if self._size is not None:
            lines.cut(self._size)
            self._size = None
        for row in rows:
            lines.write(row)

    def _made(self, rolled: ScoredRollouts, *, number: int) -> list[list[dict[str, Any]]]:
        """The rows of each prompt, the same whichever process samples it."""
        name, options = f"{self.section.name}-{number}", self.section.sample.options
        result = []
        for group in sampled_groups(rolled):
            chance = random.Random(f"{self.run.config.seed}/{name}/{group.sample.dataset}/{group.sample.sample_id}")
            rows = self.maker(group, chance, **options)
            result.append([as_json(row, group.sample, name=f"{name}-{k}") for k, row in enumerate(rows)])
        return result


def sampled_groups(rolled: ScoredRollouts) -> list[SampledGroup]:
    """Each prompt with its completions and what they scored."""
    scores, first, groups = rolled.scores, 0, []
    for number, (item, group) in enumerate(zip(rolled.prepared, rolled.groups, strict=True)):
        members = range(first, first + len(group.completions))
        first += len(group.completions)
        forms = [scores.is_format_NK[n] & scores.applies_NK[n] for n in members]
        groups.append(
            SampledGroup(
                sample=item.sample,
                texts=tuple(completion.text for completion in group.completions),
                scores=scores.task_scores[number],
                forms=tuple(
                    mean_form(scores.values_NK[n][of].tolist(), scores.weights_NK[n][of].tolist())
                    for n, of in zip(members, forms, strict=True)
                ),
                lengths=tuple(len(completion.ids) for completion in group.completions),
                cut=tuple(completion.finish_reason == "length" for completion in group.completions),
            )
        )
    return groups


def _dealt_back(parts: Sequence[Sequence[list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """The rows of all processes in the order of the prompts, which were dealt out in turn."""
    return [row for turn in zip_longest(*parts, fillvalue=()) for rows in turn for row in rows]


def _metrics(rolled: ScoredRollouts, made: Sequence[Sequence[Any]]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for item, scores, rewards, group in zip(
        rolled.prepared, rolled.scores.task_scores, rolled.scores.rewards, rolled.groups, strict=True
    ):
        values[f"sample/task/{item.sample.task}"] += scores
        values["reward/mean"] += rewards
        values["reward/unscored"] += [float(reward != reward) for reward in rewards]
        values["completion/length"] += [float(len(c.ids)) for c in group.completions]
        values["completion/truncated"] += [float(c.finish_reason == "length") for c in group.completions]
    values["sample/kept"] = [float(bool(rows)) for rows in made]  # share of the prompts that gave a row
    return means_over_ranks(values)
