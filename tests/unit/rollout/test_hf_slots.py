"""Which completion gets which row: everything once, never above the cap, rows refilled as they become free."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mmrl.data.rendered import RenderedPrompt
from mmrl.rollout.hf_slots import Schedule, SlotShape
from mmrl.rollout.types import Request, Sampling


def request(prompt_tokens: int, n: int, new_tokens: int, *, name: str = "0") -> Request:
    ids_T = torch.zeros(prompt_tokens, dtype=torch.long)
    prompt = RenderedPrompt("hand-made", ids_T, ids_T.expand(3, -1), prompt_tokens, (), (), ())
    return Request(name, prompt, n, Sampling(max_new_tokens=new_tokens))


def admitted_until_done(requests: list[Request], *, cap: int, lengths: random.Random) -> tuple[list, Schedule]:
    """(request, completion, step) of every admission, each completion as long as drawn; checks the cap at each step."""
    schedule = Schedule(requests, max_batch_tokens=cap)
    running: dict[tuple[int, int], int] = {}
    admissions, step, shapes = [], 0, {schedule.shape}
    while not schedule.is_done:
        new = schedule.refill()
        for index, completion in new:
            running[index, completion] = lengths.randint(1, requests[index].sampling.max_new_tokens)
            admissions.append((index, completion, step))
        shapes.add(schedule.shape)
        held = {index for index, _ in running} | {i for i in range(len(requests)) if is_begun(i, admissions, requests)}
        check_shape(schedule.shape, requests, running, held, cap=cap)
        for place in [place for place, left in running.items() if left == 1]:
            del running[place]
            schedule.end(place[0])
        running = {place: left - 1 for place, left in running.items()}
        step += 1
        assert step < 10_000
    assert len(shapes) <= 40
    return admissions, schedule


def is_begun(index: int, admissions: list, requests: list[Request]) -> bool:
    """Some completions of the request were admitted and others wait: its prompt has to stay."""
    return 0 < sum(admission[0] == index for admission in admissions) < requests[index].n


def check_shape(shape: SlotShape, requests: list[Request], running: dict, held: set[int], *, cap: int) -> None:
    assert shape.prompts * shape.prompt_tokens + shape.rows * shape.new_tokens == shape.tokens <= cap
    assert 0 < len(running) <= shape.rows
    assert len(held) <= shape.prompts
    for index in held:
        assert len(requests[index].prompt.prompt_ids_T) <= shape.prompt_tokens
        assert requests[index].sampling.max_new_tokens <= shape.new_tokens


@settings(deadline=None, max_examples=150)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 20)), min_size=1, max_size=12),
    spare=st.integers(0, 300),
    seed=st.integers(0, 99),
)
def test_every_completion_decodes_once_and_buffers_stay_under_the_cap(sizes, spare, seed):
    requests = [request(*size) for size in sizes]
    cap = max(prompt + new for prompt, _, new in sizes) + spare
    admissions, schedule = admitted_until_done(requests, cap=cap, lengths=random.Random(seed))

    expected = [(index, c) for index, (_, n, _) in enumerate(sizes) for c in range(n)]
    assert sorted((index, c) for index, c, _ in admissions) == expected
    assert 0.0 < schedule.occupancy <= 1.0


def test_what_fits_begins_at_once_longest_prompts_first():
    requests = [request(3, 2, 5), request(9, 1, 5), request(3, 1, 5)]
    schedule = Schedule(requests, max_batch_tokens=1000)

    assert schedule.refill() == [(1, 0), (0, 0), (0, 1), (2, 0)]
    assert schedule.shape == SlotShape(prompts=3, prompt_tokens=9, rows=4, new_tokens=5)
    assert schedule.shape.tokens == 47
    assert schedule.occupancy == 1.0


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        (34, SlotShape(1, 10, 4, 6)),  # 10 + 24
        (33, SlotShape(1, 10, 3, 6)),
        (16, SlotShape(1, 10, 1, 6)),
    ],
)
def test_the_prompt_of_a_group_counts_once(cap: int, expected: SlotShape):
    schedule = Schedule([request(10, 4, 6)], max_batch_tokens=cap)

    assert schedule.refill() == [(0, c) for c in range(expected.rows)]
    assert schedule.shape == expected


def test_a_group_gives_its_rows_to_the_next_one():
    """Prompts of 4, completions of 6: two groups of 2 are 2 x 4 + 4 x 6 = 32 tokens."""
    schedule = Schedule([request(4, 2, 6) for _ in range(4)], max_batch_tokens=32)
    first = schedule.refill()
    ends = [schedule.end(index) for index, _ in first]
    second = schedule.refill()

    assert (first, second) == ([(0, 0), (0, 1), (1, 0)], [(1, 1), (2, 0), (2, 1)])
    assert ends == [False, True, False]


def test_shorter_prompts_make_room_for_more_rows():
    """One of 40 + 10 tokens in 60; of prompts of 5, four."""
    schedule = Schedule([request(40, 1, 10), *(request(5, 1, 10) for _ in range(6))], max_batch_tokens=60)

    assert schedule.refill() == [(0, 0)]
    assert schedule.refill() == []
    schedule.end(0)
    assert schedule.refill() == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert schedule.shape == SlotShape(4, 5, 4, 10)


def test_rows_stay_full_while_lengths_differ():
    """200 groups of 8 whose completions take 1 to 64 tokens, 64 rows' worth of tokens: 90 % of the rows decode, where
    batches that wait for their longest completion have about half.
    """
    requests = [request(50, 8, 64) for _ in range(200)]
    _, schedule = admitted_until_done(requests, cap=16 * 50 + 64 * 64, lengths=random.Random(0))

    assert schedule.shape.rows == 64
    assert schedule.occupancy > 0.9
