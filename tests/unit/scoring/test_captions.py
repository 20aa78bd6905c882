"""BLEU, ROUGE-L and CIDEr-D of a set of texts, against numbers worked by hand."""

import math

import numpy as np
import pytest

from mmrl.scoring.captions import bleu_scores, caption_score, counts_of

SAME = ("the car turns left now", ["The car turns left now."])
OTHER = ("stop", ["wait here"])


def test_a_text_that_is_its_reference_and_one_that_is_not():
    """Matches 5, 4, 3, 2 of 6, 4, 3, 2 n-grams; 6 words for 7, so exp(1 - 7/6) = 0.846482 for being brief."""
    total = counts_of([SAME, OTHER]).sum(axis=0)
    assert total.tolist() == pytest.approx([5, 4, 3, 2, 6, 4, 3, 2, 6, 7, 1, 10, 2])
    assert bleu_scores(total) == pytest.approx([0.705402, 0.772729, 0.796570, 0.808765], abs=1e-6)
    assert caption_score(total) == pytest.approx((0.770866 + 1 / 2 + 5 / 10) / 3, abs=1e-6)


def test_rouge_of_the_longest_common_words():
    """`the cat sat` and `the cat lay down`: 2 of 3 and of 4; 2.44 * 2/3 * 1/2 / (1/2 + 1.44 * 2/3) = 0.557078."""
    [row] = counts_of([("the cat sat", ["the cat lay down"])])
    assert row[10] == pytest.approx(0.557078, abs=1e-6)


def test_cider_weighs_rare_words_and_length():
    """`a b` beside `a c`, of two rows: `a` stands in both references and weighs log 1 = 0, so nothing is shared; of
    `x y` beside `x y y` x weighs as y: (1 + 2) / sqrt(2 * 5), the one pair of two; lengths differ by one pair.
    """
    rows = counts_of([("a b", ["a c"]), ("x y", ["a x y y"])])
    assert rows[0][11] == 0
    # unigrams: a 0, x 1 and y 2 (cut off at 1): (1*1 + 1*2) / (sqrt 2 * sqrt 5); pairs: (x y) of (a x), (x y), (y y).
    cosines = (3 / math.sqrt(10) + 1 / math.sqrt(3)) / 4
    assert rows[1][11] == pytest.approx(10 * cosines * math.exp(-(2**2) / 72), abs=1e-9)


def test_of_several_references_the_closest_length_and_the_best_match_count():
    [row] = counts_of([("go left now", ["left", "go left"])])
    assert row[:4].tolist() == [2, 1, 0, 0] and (row[8], row[9]) == (3, 2)


def test_nothing_said_is_worth_nothing():
    total = counts_of([("", ["wait here"])]).sum(axis=0)
    assert caption_score(total) == pytest.approx(0, abs=1e-6)
    assert np.isfinite(counts_of([("", [""])])).all()
