"""Matching, average precision, overlaps of spans and regions: worked numbers and properties."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mmrl.scoring import matching as m
from mmrl.scoring.geometry import box_iou
from mmrl.scoring.listings import Detection
from mmrl.scoring.overlap import Region, decode_counts, generalized_iou, merge_spans, read_region, spans_iou

corner = st.integers(0, 20)
box = st.tuples(corner, corner, corner, corner)
matrix = arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(0, 4)), elements=st.floats(0, 1))
spans = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=4)


@given(a=st.lists(box, max_size=4), b=st.lists(box, max_size=4))
def test_the_matrix_is_box_iou(a, b):
    wanted = np.array([[box_iou(x, y) for y in b] for x in a]).reshape(len(a), len(b))
    assert m.iou_matrix(a, b) == pytest.approx(wanted)


@given(scores=matrix, at_least=st.sampled_from([0.0, 0.5]))
def test_hungarian_pairs_are_the_best_of_all(scores, at_least):
    def value(pairs):
        return len(pairs), sum(scores[i, j] for i, j in pairs)

    rows, columns = scores.shape
    tries = []
    for picked in itertools.permutations([*range(columns), *[None] * rows], rows):
        pairs = [(i, j) for i, j in enumerate(picked) if j is not None]
        if all(scores[i, j] >= at_least and scores[i, j] > 0 for i, j in pairs):
            tries.append(value(pairs))
    assert value(m.hungarian_pairs(scores, at_least=at_least)) == pytest.approx(max(tries), abs=1e-6)


def test_pairs_from_the_best_on_leave_it_to_no_earlier_row():
    scores_NM = np.array([[0.8, 0.0], [0.9, 0.7], [0.9, 0.5]])
    assert m.best_first_pairs(scores_NM, at_least=0.5) == [(1, 0), (2, 1)]
    assert m.best_first_pairs(scores_NM, at_least=0.6) == [(1, 0)]
    assert m.greedy_pairs(scores_NM, at_least=0.5) == [(0, 0), (1, 1)]


def test_average_precision_of_vlm_r1():
    gold = [Detection((0, 0, 10, 10)), Detection((20, 20, 40, 40))]
    found = [Detection((0, 0, 10, 8)), Detection((20, 20, 40, 40))]
    extra = [Detection((50, 50, 60, 60)), Detection((70, 70, 80, 80))]
    assert m.mean_average_precision(found, gold) == pytest.approx(0.7757, abs=1e-4)
    assert m.mean_average_precision([*found, *extra], gold) == pytest.approx(0.7757, abs=1e-4)
    assert m.mean_average_precision([*extra, *found], gold) < 0.6
    sure = [Detection(d.box, confidence=0.1) for d in extra] + [Detection(d.box, confidence=0.9) for d in found]
    assert m.mean_average_precision(sure, gold) == pytest.approx(0.7757, abs=1e-4)
    assert m.mean_average_precision([], gold) == 0


def test_labels_fit_up_to_case_and_an_answer_without_label_fits_all():
    found = [Detection((0, 0, 1, 1), " Red  Car"), Detection((0, 0, 1, 1))]
    gold = [Detection((0, 0, 1, 1), "red car"), Detection((0, 0, 1, 1)), Detection((0, 0, 1, 1), "car")]
    assert m.same_label(found, gold).tolist() == [[True, True, False], [False, True, False]]
    assert m.same_label([], gold).shape == (0, 3)


@given(a=box, b=box)
def test_generalized_iou_is_bounded_and_below_iou(a, b):
    value = generalized_iou(a, b)
    assert -1 <= value <= box_iou(a, b) + 1e-9
    assert value == pytest.approx(generalized_iou(b, a))


@given(a=spans, b=spans)
def test_the_overlap_of_sets_of_spans_counts_every_second_once(a, b):
    seconds = [{t for s, e in x for t in range(s, e)} for x in (a, b)]
    union = seconds[0] | seconds[1]
    wanted = len(seconds[0] & seconds[1]) / len(union) if union else None
    assert spans_iou(a, b) == (wanted if wanted is None else pytest.approx(wanted))
    assert all(x[1] < y[0] for x, y in itertools.pairwise(merge_spans(a)))


def inside(value, points) -> list[bool]:
    region = read_region(value)
    assert region is not None
    return region.contains(points).tolist()


def test_points_in_a_box_a_polygon_or_a_mask():
    assert inside([10, 10, 20, 30], [(10, 30), (9.9, 30)]) == [True, False]
    assert inside({"polygon": [[0, 0], [10, 0], [0, 10]]}, [(2, 2), (6, 6), (-1, 0)]) == [True, False, False]
    # 3 wide, 2 high, by columns: cells (0, 1) and (1, 0) are inside; the grid covers 300 x 200
    mask = {"size": [2, 3], "counts": [1, 2, 3], "extent": [300, 200]}
    assert inside(mask, [(50, 50), (50, 150), (150, 50), (150, 150)]) == [False, True, True, False]
    assert inside(mask, [(300, 50), (-1, 50), (50, 200)]) == [False, False, False]


@given(cells=st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_mask_holds_exactly_its_cells(cells):
    runs, now = [0], False
    for cell in cells:
        if cell != now:
            runs.append(0)
            now = cell
        runs[-1] += 1
    region = Region(runs=tuple(runs), mask_size=(3, 4), extent=(3.0, 4.0))
    assert region.contains([(x + 0.5, y + 0.5) for x in range(3) for y in range(4)]).tolist() == cells


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3],
        [[0, 0, 1, 1], [1, 1, 2, 2]],
        "a",
        {"polygon": [[0, 0], [1, 1]]},
        {"size": [2, 3], "counts": [1, 2]},
        {"size": [2], "counts": [2]},
        {"size": [2, 3], "counts": "\u00e9"},
        {"size": [2, 3], "counts": [7, -1]},
    ],
)
def test_what_is_no_region(value):
    assert read_region(value) is None


def test_the_compressed_text_of_a_mask():
    # 5 bits a character, low bits first, bit 5 says that more follow: Q is 33 = 1 + 32, so "Q1" is 1 + 32 * 1
    assert decode_counts("Q11") == (33, 1)
    assert decode_counts("52203") == (5, 2, 2, 2, 5)  # from the fourth on, added to the run two places before
    assert decode_counts("123") == (1, 2, 3)
    with pytest.raises(ValueError, match="ends inside a number"):
        decode_counts("Q")
