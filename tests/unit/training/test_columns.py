"""From what rewards return beside their value to columns of the batch."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from makers import column_rewards
from makers.batches import make_batch
from makers.scoring import answered

from mmrl.algorithms.parts import on_tokens_of, part, steps
from mmrl.algorithms.rollout_batch import concatenate
from mmrl.config.schema import RewardsSection
from mmrl.errors import ConfigError
from mmrl.rollout.types import Completion, Group
from mmrl.scoring.columns import read_column
from mmrl.scoring.router import Router
from mmrl.training.collect import as_batch
from mmrl.training.columns import reported, token_ends
from mmrl.training.rollouts import ScoredRollouts

PIECES = {1: b"ab", 2: b" cde", 3: b" f", 4: b"", 5: b"\xc3", 6: b"\xa9"}
OPTION = "x's option 'y'"


def decode(ids):
    return b"".join(PIECES[token] for token in ids).decode("utf-8", errors="replace")


def batch_of(*completions):
    """A batch whose rewards are those of `column_rewards`."""
    parts = [{"reward": f"{column_rewards.__file__}:score", "name": "w"}]
    router = Router(RewardsSection.model_validate({"workers": 0, "tasks": {"t": parts}}))
    sample = answered("a", task="t")
    scores = router.score([(sample, [decode(ids) for ids in completions])])
    prepared: Any = (SimpleNamespace(sample=sample),)
    done = tuple(Completion(ids, (-1.0,) * len(ids), "stop", decode(ids), 0) for ids in completions)
    request: Any = None
    return as_batch(ScoredRollouts(prepared, (Group(request, done),), scores), decode, step=0, total_steps=1)


def listed(grid):
    return [[None if value != value else value for value in row] for row in grid.tolist()]


def test_spans_of_characters_become_values_of_tokens():
    batch = batch_of((1, 2, 4), (3, 2), ())
    values_NC, span_NC = on_tokens_of(batch, "w.word", option=OPTION)
    assert listed(values_NC) == [[2.0, 3.0, None], [1.0, 3.0, None], [None] * 3]
    assert span_NC.tolist() == [[0, 1, -1], [0, 1, -1], [-1, -1, -1]]


def test_lists_and_numbers_are_columns_too():
    batch = batch_of((1, 2, 4), (3,), ())
    assert listed(steps(batch, "w.length", option=OPTION)) == [[2.0, 3.0], [1.0, None], [None, None]]
    assert part(batch, "w.words", option=OPTION).tolist() == [2.0, 1.0, 0.0]


def test_a_part_counts_as_one_step_and_as_one_span():
    batch = batch_of((1, 2), ())
    assert listed(steps(batch, "w", option=OPTION)) == [[1.0], [1.0]]
    values_NC, span_NC = on_tokens_of(batch, "w", option=OPTION)
    assert listed(values_NC) == [[1.0, 1.0], [None, None]]
    assert span_NC.tolist() == [[0, 0], [-1, -1]]


def test_an_unknown_column_is_named_with_those_there_are():
    with pytest.raises(
        ConfigError, match=r"is 'w.wrd', which no task has.*there are: w, w.words, .*did you mean 'w.word"
    ):
        steps(batch_of((1,)), "w.wrd", option=OPTION)


def test_a_character_of_several_tokens_ends_at_the_last_of_them():
    assert token_ends((1, 5, 6, 3), decode) == [2, 2, 3, 5]
    values_NC, _ = on_tokens_of(batch_of((5, 6, 3)), "w.word", option=OPTION)
    assert listed(values_NC) == [[None, 1.0, 1.0]]


def test_lists_that_are_no_column_fail_the_reward_with_the_reason():
    parts = [{"reward": f"{column_rewards.__file__}:wrong", "name": "w"}]
    router = Router(RewardsSection.model_validate({"workers": 0, "tasks": {"t": parts}}))
    scores = router.score([(answered("a", task="t"), ["x"])])
    assert scores.events == {"w/bad_result": 1}
    assert "the value of 'word', [[3, 1, 0.5]], is neither a list of numbers nor one of" in scores.problems[0]["w"]
    for values in (["a"], [[1, 2]], [1.0, [0, 1, 2]], [float("nan")]):
        with pytest.raises(ValueError, match="is neither a list"):
            read_column(values)


def test_columns_are_joined_where_batches_have_others():
    one = replace(make_batch([1, 2]), meta={"a": torch.ones(2, dtype=torch.float64), "s": torch.ones(2, 1)})
    two = replace(make_batch([3]), meta={"s": torch.full((1, 3), 5.0)})
    joined = concatenate([one, two]).meta
    assert listed(joined["a"][:, None]) == [[1.0], [1.0], [None]]
    assert listed(joined["s"]) == [[1.0, None, None], [1.0, None, None], [5.0, 5.0, 5.0]]


def test_steps_of_an_answer_are_spans_for_srl():
    sample = answered("a", task="t", expert_steps=["a = 2", "b = 4"])
    parts = [{"reward": "step_similarity"}]
    scores = Router(RewardsSection.model_validate({"workers": 0, "tasks": {"t": parts}})).score(
        [(sample, ["a = 2\n\nb = 3"])]
    )
    assert scores.columns == ({"step_similarity.step": ((0.0, 5.0, 1.0), (7.0, 12.0, 0.8))},)


def test_what_the_engine_reports_of_tokens():
    nan = float("nan")
    first = Completion(
        (5, 6), (-1.0, -2.0), "stop", "ab", 0, entropy=(0.5, 0.25), alternatives=(((5, -1.0), (7, -1.5)),) * 2
    )
    second = Completion((6,), (-2.0,), "stop", "b", 0, entropy=(1.0,), alternatives=(((8, -0.5),),))
    columns = reported([first, second], alternatives=2, width=3)
    torch.testing.assert_close(
        columns["rollout_entropy"], torch.tensor([[0.5, 0.25, nan], [1.0, nan, nan]]).double(), equal_nan=True
    )
    assert columns["alternatives"].shape == (2, 3, 4)
    torch.testing.assert_close(
        columns["alternatives"][:, 0], torch.tensor([[5, 7, -1.0, -1.5], [8, nan, -0.5, nan]]).double(), equal_nan=True
    )
    assert columns["alternatives"][1, 1:].isnan().all()
    assert reported([Completion((5,), (-1.0,), "stop", "a", 0)], alternatives=0, width=1) == {}
