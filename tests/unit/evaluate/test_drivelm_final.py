"""DriveLM's final score, from the scores of its kinds of questions."""

import pytest

from mmrl.evaluate.benchmark import load_benchmark
from mmrl.evaluate.numbers import Question
from mmrl.evaluate.result import outcome_of
from mmrl.scoring.driving_metrics import drivelm_final


def questions(kind: str, *scores: float, texts: tuple[tuple[str, str], ...] = ()) -> list[Question]:
    columns = {"kind": kind, "part": "planning", "frame": kind}
    said = texts or (("", ""),) * len(scores)
    return [
        Question(f"{kind}{n}", (score,), 0, columns, texts=(text,), references=(reference,))
        for n, (score, (text, reference)) in enumerate(zip(scores, said, strict=True))
    ]


def test_it_is_the_challenges_sum_of_four():
    """GPT 60 of 100, match 40 of 100, accuracy 0.5, language 0.590289 (worked in unit/scoring/test_captions.py)."""
    texts = (("the car turns left now", "The car turns left now."), ("stop", "wait here"))
    rows = [
        *questions("chatgpt", 0.8, 0.4),
        *questions("match", 0.4),
        *questions("accuracy", 1.0, 0.0),
        *questions("language", 0.0, 0.0, texts=texts),
    ]
    outcome = outcome_of(load_benchmark("drivelm_final"), rows, budgets={})
    also = {name: numbers.score for name, numbers in outcome.also.items()}
    assert also == pytest.approx({"gpt": 0.6, "language": 0.590289, "match": 0.4, "accuracy": 0.5}, abs=1e-6)
    wanted = drivelm_final(gpt=60, language=0.590289, match=40, accuracy=0.5)
    assert wanted == pytest.approx(0.538058, abs=1e-6)
    assert outcome.numbers is not None and outcome.numbers.score == pytest.approx(wanted, abs=1e-6)
    assert outcome.groups is not None and outcome.groups["kind"]["match"].score == pytest.approx(0.4)


def test_a_part_of_the_questions_is_scored_by_the_kinds_that_it_has():
    rows = [*questions("chatgpt", 0.5), *questions("accuracy", 1.0)]
    outcome = outcome_of(load_benchmark("drivelm_final"), rows, budgets={})
    assert outcome.numbers is not None and outcome.numbers.score == pytest.approx((0.4 * 0.5 + 0.2) / 0.6)
    assert set(outcome.also) == {"gpt", "accuracy"}
