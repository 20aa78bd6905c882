"""What a benchmark's task file may say of its averages."""

import pytest

from mmrl.config.benchmark_section import BenchmarkSection


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
        ({"average": {"only": {"a": 1}}}, "`only` and `part` belong under `also`"),
        ({"average": {"part": "iou"}}, "`only` and `part` belong under `also`"),
        ({"average": {"mean_of": ["a"]}}, "average.mean_of: 'a' is no entry of `also` over all rows; there: none"),
        ({"also": {"a": {"only": {"k": 1}}, "b": {"mean_of": ["a"]}}}, "also.b.mean_of: 'a' is no entry"),
        ({"also": {"a": {"all_of": "q"}, "b": {"mean_of": ["a"]}}}, "'a' has `all_of`; name the `cluster`"),
        ({"also": {"a": "rows", "b": {"mean_of": ["a"], "groups": "k"}}}, "`mean_of` stands alone"),
        ({"average": {"names": "tables"}}, "`names` belongs to `shares`"),
        ({"average": {"shares": "counts", "groups": "k"}}, "`shares` goes with `names` and `only` alone"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, said):
    with pytest.raises(ValueError, match=said):
        section(**keys)
