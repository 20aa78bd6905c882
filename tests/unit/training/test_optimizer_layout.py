"""Reading values of a parameter from the parts that other numbers of processes saved."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmrl.errors import CheckpointError
from mmrl.training.optimizer_layout import SavedState

# `a` has 4 values, `w` 6; two processes share out the ten of them five and five, as ZeRO 1 and 2 do.
FLAT = torch.arange(10.0)


def parts(cuts: list[int]) -> list[dict]:
    """The parts of as many processes as there are cuts, each from one cut to the next; padded to at least 12 values."""
    made = []
    for first, end in zip([0, *cuts], [*cuts, 10], strict=True):
        pieces = {}
        for name, start, stop in (("a", 0, 4), ("w", 4, 10)):
            low, high = max(first, start), min(end, stop)
            if low < high:
                pieces[name] = [0, low - first, low - start, high - low]
        flat = torch.cat([FLAT[first:end], torch.full((12,), -1.0)])
        state = {0: {"step": torch.tensor(3.0), "exp_avg": flat * 10, "exp_avg_sq": flat * 100}}
        base = {"state": state, "param_groups": []}
        made.append({"base_optimizer_state": base, "single_partition_of_fp32_groups": [flat], "pieces": pieces})
    return made


def test_a_parameter_over_two_parts_is_read_whole_and_in_runs():
    saved = SavedState(parts([5]))
    assert saved.read("w", None, offset=0, numel=6).tolist() == [4, 5, 6, 7, 8, 9]
    assert saved.read("w", "exp_avg", offset=0, numel=2).tolist() == [40, 50]
    assert saved.read("a", "exp_avg_sq", offset=1, numel=3).tolist() == [100, 200, 300]
    assert saved.step == 3
    assert saved.has_masters


@given(st.lists(st.integers(1, 9), unique=True, max_size=4), st.integers(0, 5), st.integers(1, 6))
def test_any_number_of_parts_gives_the_same_values(cuts: list[int], offset: int, numel: int):
    numel = min(numel, 6 - offset)
    values = SavedState(parts(sorted(cuts))).read("w", None, offset=offset, numel=numel)
    assert values.tolist() == FLAT[4 + offset : 4 + offset + numel].tolist()


def test_parts_of_plain_adamw_are_whole_moments_without_float32_weights():
    state = {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones(2, 3), "exp_avg_sq": torch.ones(2, 3)}}
    saved = SavedState([{"state": state, "param_groups": [], "pieces": {"w": [0, 0, 0, 6]}}])
    assert not saved.has_masters
    assert saved.read("w", "exp_avg", offset=2, numel=3).tolist() == [1, 1, 1]


def test_values_that_no_part_holds_are_an_error():
    [first, _] = parts([5])
    with pytest.raises(CheckpointError, match="hold 1 of 6 values of w"):
        SavedState([first]).read("w", None, offset=0, numel=6)
    with pytest.raises(CheckpointError, match="hold 0 of 2 values of v"):
        SavedState([first]).read("v", None, offset=0, numel=2)
