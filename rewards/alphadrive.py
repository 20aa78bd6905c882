"""Driving decisions in words, weighted by action and by how varied a group's answers are (AlphaDrive).

Formula: speed + path + form. speed and path: [the one word said is the answer's] W[answer's word] D; `official`: F1 of
the words said, in place of the bracket. D = 1 - min(0.2, share of the group's answers that are this answer). form: 1
if the whole completion is `<think>..</think><answer>..</answer>`, else all three are 0.
Bounds: 0 to 3 with weights up to 1; 0 upwards with others.
Answer: `<think>..</think><answer>stop, straight</answer>`: one of keep, accelerate, decelerate, stop, and one of
straight, left_turn (left), right_turn (right). The dataset's answer is such a pair.
Space: none.
Source: AlphaDrive, Alg. 1. Its weights are unpublished: 1 for all is this default. Its F1 gives all four speeds at
once 0.4, more than a guess at one; its pseudocode counts letters of the answers met so far, here whole answers of the
whole group are counted. With five answers or fewer D is 0.8 for each.
Example: weights stop 1, keep 0.8, accelerate 0.9, straight 0.8; answer `stop, straight`; the group `stop, straight`
twice, `decelerate, straight` and one without tags: 2.44, 2.44, 1.64, 0.
"""

from collections import Counter

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.meta_actions import path_words, speed_words, words_f1
from mmrl.scoring.parse import extract_prediction, has_format

BOUNDS = (0.0, None)
MOST_PENALTY = 0.2


def score_group(
    completions: list[str],
    sample: Sample,
    *,
    weights: dict[str, float] | None = None,
    prefilled_think: bool = False,
    official: bool = False,
) -> list[dict[str, float]]:
    """`weights`: of actions, 1 for those not named. `official`: F1 over the words said, several allowed."""
    text = gold_text(sample)
    gold = speed_words(text), path_words(text)
    if any(len(words) != 1 for words in gold):
        raise bad_answer(sample, wanted="one speed and one path, such as `stop, straight`")
    factors = [(weights or {}).get(next(iter(words)), 1.0) for words in gold]
    said = [_said(completion, prefilled_think=prefilled_think, official=official) for completion in completions]
    counts = Counter(pair for pair in said if pair is not None)
    return [
        _parts(pair, gold, factors, share=counts[pair] / counts.total(), official=official) if pair else _nothing()
        for pair in said
    ]


Words = tuple[frozenset[str], frozenset[str], str]


def _said(completion: str, *, prefilled_think: bool, official: bool) -> Words | None:
    """Speeds and paths said, and with `official` the answer's text; None without the form."""
    text = extract_prediction(completion, answer="tag")
    if text is None or not has_format(completion, prefilled_think=prefilled_think):
        return None
    # The source counts texts; then a change of wording would make an answer look new.
    wording = " ".join(text.casefold().split()) if official else ""
    return frozenset(speed_words(text)), frozenset(path_words(text)), wording


def _parts(
    said: Words, gold: tuple[set[str], set[str]], factors: list[float], *, share: float, official: bool
) -> dict[str, float]:
    diversity = 1 - min(MOST_PENALTY, share)
    scores = [
        (words_f1(set(words), right) if official else float(words == right)) * factor * diversity
        for words, right, factor in zip(said, gold, factors, strict=False)
    ]
    return {"reward": sum(scores) + 1.0, "speed": scores[0], "path": scores[1], "form": 1.0}


def _nothing() -> dict[str, float]:
    return {"reward": 0.0, "speed": 0.0, "path": 0.0, "form": 0.0}
