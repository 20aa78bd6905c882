"""Methods that contradict each other, found before a run: each problem names the keys and the remedy.

Those of single keys are in mmrl/config/checks.py; these need the plug-ins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmrl.algorithms.hooks import Plugin, plugin_name
from mmrl.algorithms.registry import POLICY_LOSSES, SEQUENCE_MODES
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import ConfigError

# A hook of which there is one, and the key that says the same.
_KEYS = {"advantage": "advantage", "policy_loss": "policy_loss", "aggregate": "aggregation"}


def check_contradictions(section: AlgorithmSection, plugins: Sequence[Plugin]) -> None:
    """Raise ConfigError, one line per contradiction, unless the methods go together."""
    checks = (_overridden_keys, _sequence_level, _two_corrections, _bounds, _reference)
    if problems := [problem for check in checks for problem in check(section, plugins)]:
        raise ConfigError("\n".join(problems))


def _overridden_keys(section: AlgorithmSection, plugins: Sequence[Plugin]) -> Iterator[str]:
    for plugin in plugins:
        for hook, key in _KEYS.items():
            if hook in plugin.hooks and getattr(section, key) != AlgorithmSection.model_fields[key].default:
                yield (
                    f"'algorithm.{key}' is {getattr(section, key)!r}, but the plug-in {plugin_name(plugin.spelling)!r}"
                    f" has its own {hook!r}, so the key would do nothing; remove one of them"
                )


def _sequence_level(section: AlgorithmSection, plugins: Sequence[Plugin]) -> Iterator[str]:
    losses = [plugin for plugin in plugins if "policy_loss" in plugin.hooks]
    aggregates = any("aggregate" in plugin.hooks for plugin in plugins)
    entry = POLICY_LOSSES.get(section.policy_loss)
    is_sequence_level = losses[0].sequence_level if losses else bool(entry and entry.sequence_level)
    if is_sequence_level and not aggregates and section.aggregation not in SEQUENCE_MODES:
        yield (
            f"the policy loss has one ratio per sequence, but 'algorithm.aggregation' is {section.aggregation!r}, which"
            " weights sequences by length; set it to seq-mean-token-mean, or to seq-mean-token-sum for LUSPO"
        )


def _two_corrections(section: AlgorithmSection, plugins: Sequence[Plugin]) -> Iterator[str]:
    corrections = [
        f"'algorithm.{key}' {getattr(section, key)}"
        for key in ("rollout_correction", "rollout_rejection")
        if getattr(section, key) != "none"
    ]
    if corrections and section.old_logprobs == "sampler":
        yield (
            f"{corrections[0]} beside 'algorithm.old_logprobs' sampler: the ratio of the loss already compares with the"
            " sampler, so the same mismatch would be weighted twice; set the first to none or the second to trainer"
        )
    own_loss = any("policy_loss" in plugin.hooks for plugin in plugins)
    if section.rollout_correction != "none" and section.policy_loss == "vespo" and not own_loss:
        yield (
            f"{corrections[0]} beside 'algorithm.policy_loss' vespo, whose weight of the whole completion stands in its"
            " place; set the first to none"
        )


def _bounds(section: AlgorithmSection, plugins: Sequence[Plugin]) -> Iterator[str]:
    if section.policy_loss_options.get("delta") is not None and section.dual_clip is not None:
        yield (
            f"'algorithm.policy_loss_options' delta beside 'algorithm.dual_clip' {section.dual_clip:g}: both bound the"
            " loss of negative advantages; set dual_clip to null"
        )


def _reference(section: AlgorithmSection, plugins: Sequence[Plugin]) -> Iterator[str]:
    if section.ref_kl_target is not None and not section.ref_kl_coef:
        yield "'algorithm.ref_kl_target' steers 'algorithm.ref_kl_coef', which is 0 and stays so; set a first value"
    if section.ref_kl_in == "reward" and section.ref_kl_importance:
        yield "'algorithm.ref_kl_importance' is of the divergence in the loss, but 'algorithm.ref_kl_in' is reward"
    if section.ref_kl_in == "reward" and section.ref_kl_estimator not in ("k1", "k3"):  # k3: the default
        yield "'algorithm.ref_kl_estimator' is of the divergence in the loss; in the reward it is k1: remove the key"
