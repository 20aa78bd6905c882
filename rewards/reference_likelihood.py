"""How much a thought helps a model to say the reference answer: VR-CLI and VeriFree.

Formula: vr_cli: the credit of the highest of the thresholds that I = 100 (1 - PPL(y|x,z) / PPL(y|x)) reaches, else 0,
with PPL = exp(-mean of log p(token)). verifree: p(y|x,z), the product over the tokens. x: the conversation, z: the
thought, y: the row's answer. A completion without a thought gets 0.
Bounds: 0 to 1.
Answer: what stands before the last `<answer>` is the thought, else all through `</think>`. The completion's own answer
does not count: give it a reward of its own, with `format`.
Space: none.
Unit: percent (`thresholds`).
Source: VR-CLI (Gurung and Lapata 2025; thresholds 0.05, 1, 2 with 0.5, 0.9, 1), VeriFree (Zhou et al. 2025), whose
policy gradient on y itself is no reward and is left out. The endpoint's model is the reference; it must report
`prompt_logprobs` (vLLM), and its chat template must keep the thought as it stands. Rows are text alone.
Example: log-probs of two tokens -0.5, -0.5 with and -1, -1 without: I = 39.35, vr_cli 1, verifree exp(-1) = 0.367879.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, JudgeError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.judge import endpoint as judges
from mmrl.scoring.judge.likelihood import MARK, Continuation, conversation, improvement, probability, thought_of

BOUNDS = (0.0, 1.0)


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    thresholds, credits = list(options["thresholds"]), list(options["credits"])
    if len(thresholds) != len(credits) or thresholds != sorted(set(thresholds)) or credits != sorted(credits):
        raise ConfigError(
            f"reference_likelihood: thresholds {thresholds} and credits {credits} must rise together, one for one"
        )
    if not all(0 <= credit <= 1 for credit in credits):
        raise ConfigError(f"reference_likelihood: credits {credits} must lie between 0 and 1")
    if options["endpoint"].get("show_media"):
        raise ConfigError("reference_likelihood measures text alone: remove endpoint.show_media")
    judges.preflight(options, timeout_s)


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    endpoint: dict[str, Any],
    measure: Literal["vr_cli", "verifree"] = "vr_cli",
    thresholds: tuple[float, ...] | list[float] = (0.05, 1.0, 2.0),
    credits: tuple[float, ...] | list[float] = (0.5, 0.9, 1.0),
) -> list[dict[str, float] | JudgeError | RewardError]:
    """`thresholds`: improvements in percent; `credits`: what each is worth."""
    asked = each(_both, completions, samples)
    flat = [one for pair in asked if isinstance(pair, tuple) for one in pair]
    found = iter(judges.judge_of(endpoint).ask(flat, lambda _, answer: answer.logprobs))
    results: list[dict[str, float] | JudgeError | RewardError] = []
    for pair in asked:
        if isinstance(pair, RewardError):
            results.append(pair)
        elif not pair:
            results.append({"reward": 0.0, "improvement": 0.0, "probability": 0.0})
        else:
            results.append(_result(next(found), next(found), measure, list(zip(thresholds, credits, strict=True))))
    return results


def _both(completion: str, sample: Sample) -> tuple[Continuation, ...]:
    """The reference without and with the thought; nothing where there is no thought."""
    reference, turns, thought = gold_text(sample), conversation(sample), thought_of(completion)
    if MARK in reference:
        raise bad_answer(sample, wanted=f"a text without {MARK}")
    if not thought.replace("<think>", "").replace("</think>", "").strip():
        return ()
    return Continuation(turns, MARK, reference), Continuation(turns, thought + MARK, reference)


def _result(
    without: tuple[float, ...] | JudgeError,
    with_thought: tuple[float, ...] | JudgeError,
    measure: str,
    steps: Sequence[tuple[float, float]],
) -> dict[str, float] | JudgeError:
    if isinstance(without, JudgeError) or isinstance(with_thought, JudgeError):
        return without if isinstance(without, JudgeError) else with_thought  # pyright: ignore[reportReturnType]
    percent, likely = improvement(with_thought, without), probability(with_thought)
    credit = max((credit for least, credit in steps if percent >= least), default=0.0)
    return {"reward": credit if measure == "vr_cli" else likely, "improvement": percent, "probability": likely}
