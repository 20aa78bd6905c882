"""Every shipped reward gives its golden numbers; its cases can serve as a fixture."""

import json

import pytest
from makers.ready import skip_unless_ready

from mmrl.plugins import shipped_names
from mmrl.scoring.cases import cases_of
from mmrl.scoring.selftest import selftest

NAMES = shipped_names("rewards")


@pytest.mark.parametrize("name", NAMES)
def test_golden_cases(name):
    skip_unless_ready(name)
    done = selftest(name)
    assert not done.failures, "\n".join(done.failures)


@pytest.mark.parametrize("name", NAMES)
def test_there_are_four_cases_and_their_answers_differ(name):
    answers = [json.dumps(case.sample.answer, sort_keys=True) for case in cases_of(name) if case.error is None]
    needs_no_answer = set(answers) == {"null"}
    assert len(answers) >= 4 and (needs_no_answer or len(set(answers)) >= 4)
