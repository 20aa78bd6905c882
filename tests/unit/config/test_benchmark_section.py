"""What a benchmark's task file may say of its averages."""

import json

import pytest

from mmrl.config.benchmark_section import BenchmarkSection
from mmrl.config.load import read_section
from mmrl.errors import ConfigError


def section(**keys: object) -> BenchmarkSection:
    facts = {"data": {"path": "x.jsonl"}, "score": [{"reward": "choice"}], "provenance": {"source": "made"}}
    return BenchmarkSection.model_validate(facts | keys)


def test_averages_are_listed_with_the_columns_that_they_read():
    also = {"rows": "rows", "all": {"all_of": ["q"], "only": {"kind": "x"}}, "shared": {"shares": "counts"}}
    found = dict(section(average={"groups": "task"}, also=also).averages())
    assert {name: average.columns for name, average in found.items()} == {
        "average": ("task",),
        "also.rows": (),
        "also.all": ("q", "kind"),
        "also.shared": ("counts",),
    }


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"average": {"only": {"a": 1}}}, "`only`, `part` and `answered` belong under `also`"),
        ({"average": {"part": "iou"}}, "`only`, `part` and `answered` belong under `also`"),
        ({"average": {"answered": True}}, "`only`, `part` and `answered` belong under `also`"),
        ({"average": {"mean_of": ["a"]}}, "average.mean_of: 'a' is no entry of `also` over rows; there: none"),
        ({"also": {"a": {"mean_of": ["c"]}, "b": {"mean_of": ["a"]}}}, "mean_of: 'c' is no entry"),
        ({"also": {"a": {"corpus": "captions", "groups": "k"}}}, "`corpus` goes with `only` alone"),
        ({"also": {"a": "rows", "b": {"mean_of": {"a": 0}}}}, "greater than 0"),
        ({"also": {"a": {"all_of": "q"}, "b": {"mean_of": ["a"]}}}, "'a' has `all_of`; name the `cluster`"),
        ({"also": {"a": "rows", "b": {"mean_of": ["a"], "groups": "k"}}}, "`mean_of` stands alone"),
        ({"average": {"names": "tables"}}, "`names` belongs to `shares`"),
        ({"average": {"shares": "counts", "groups": "k"}}, "`shares` goes with `names` and `only` alone"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, said):
    with pytest.raises(ValueError, match=said):
        section(**keys)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"score": [{"rewrd": "choice"}]},
            [
                "task.yaml:1: key 'score.0.reward' is missing; it has no default",
                "task.yaml:1: key 'score.0.rewrd' is unknown; did you mean 'score.0.reward'?",
            ],
        ),
        (
            {"score": {"reward": "choice"}},
            [
                'task.yaml:1: key \'score\' should be a list, as in [a, b], not {"reward": "choice"}',
                "task.yaml:1: key 'score.reward' should be a list, as in [a, b], not \"choice\"",
            ],
        ),
        ({"score": "choice"}, ["task.yaml:1: key 'score' should be a list, as in [a, b], not \"choice\""]),
        (
            {"average": {"grups": "k"}},
            ["task.yaml:1: key 'average.grups' is unknown; did you mean 'average.groups'?"],
        ),
        (
            {"also": {"a": {"grups": "k"}}},
            ["task.yaml:1: key 'also.a.grups' is unknown; did you mean 'also.a.groups'?"],
        ),
        (
            {"average": {"groups": {"k": 1}}},
            ["task.yaml:1: key 'average.groups' should be a list, as in [a, b], not {\"k\": 1}"],
        ),
    ],
)
def test_keys_of_one_form_or_another_are_named_as_they_are_written(tmp_path, monkeypatch, keys, said):
    facts = {"data": {"path": "x.jsonl"}, "score": [{"reward": "choice"}], "provenance": {"source": "made"}}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.yaml").write_text(json.dumps(facts | keys))
    with pytest.raises(ConfigError) as error:
        read_section(tmp_path / "task.yaml", BenchmarkSection)
    assert str(error.value).splitlines() == said
