"""The fuzzer finds what it should, says how to see it again, and its texts are what their names say."""

import random

import pytest

from mmrl.scoring.cases import read_cases
from mmrl.scoring.fuzz import fuzz, fuzz_command, make_trial
from mmrl.scoring.fuzz_texts import KINDS, MEGABYTE, fuzz_text
from mmrl.scoring.pool import RewardPool
from mmrl.scoring.reward import resolve_reward

CASES = '- {completion: "<answer>7</answer>", answer: 7, reward: 1}\n'
HEAD = "import time\nfrom mmrl.errors import RewardError\nBOUNDS = (0.0, 1.0)\ndef score(completion, sample):\n    "


@pytest.fixture(scope="module")
def pool():
    with RewardPool(1, timeout_s=0.5) as started:
        yield started


def reward(folder, body, cases=CASES):
    (folder / "r.py").write_text(HEAD + body + "\n")
    (folder / "r.cases.yaml").write_text(cases)
    return str(folder / "r.py")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return float(int(completion) > 0)", "raised: ValueError"),
        ("return float(len(completion))", "out_of_bounds: returned"),
        ("return float('nan')", "not_finite: returned nan"),
        ("return 'one'", "bad_result: 'one' is neither a number"),
        ("raise RewardError(f'{sample.where}: no')", "bad_answer: "),
        ("time.sleep(2 * (len(completion) > 500_000)); return 0.0", "timeout: took longer"),
        ("return 1.0 if len(completion) < 5 else completion.count('<answer>')", "out_of_bounds"),
    ],
)
def test_each_kind_of_violation_is_found(tmp_path, pool, body, problem):
    found = fuzz(reward(tmp_path, body), pool, seconds=60, most=10).violations
    assert found and problem in found[0]


def test_a_violation_is_seen_again_by_its_line(tmp_path, pool, capsys):
    spelling = reward(tmp_path, "return float(len(completion) > 20_000) * 2")
    result = fuzz(spelling, pool, seconds=60, most=20)
    again = result.violations[0].splitlines()[1]
    seed = int(again.split("--seed ")[1].split()[0])
    assert again == f"  again: mmrl score --fuzz {spelling} --seed {seed} --seconds 0"
    assert fuzz_command(spelling, seconds=0, seed=seed) == 1
    head, line, violation, _ = capsys.readouterr().out.splitlines()
    assert head.split() == ["reward", "trials", "violations", "slowest", "s"] and line.split()[1:3] == ["1", "1"]
    assert violation == result.violations[0].splitlines()[0]


def test_a_bad_answer_must_be_an_error_for_every_completion(tmp_path, pool):
    cases = '- {completion: "a", answer: bad, error: bad}\n'
    spelling = reward(tmp_path, "raise RewardError('bad')", cases)
    assert fuzz(spelling, pool, seconds=60, most=10).violations == []
    spelling = reward(tmp_path, "return 0.0", cases)
    (tmp_path / "r.py").rename(tmp_path / "s.py")
    (tmp_path / "r.cases.yaml").rename(tmp_path / "s.cases.yaml")
    (found, *_) = fuzz(str(tmp_path / "s.py"), pool, seconds=0).violations
    assert "scored 0 although the answer is bad" in found


def test_a_sound_reward_has_none_and_the_group_form_gets_groups(tmp_path, pool):
    assert fuzz(reward(tmp_path, "return float('7' in completion)"), pool, seconds=60, most=20).violations == []
    (tmp_path / "g.py").write_text("def score_group(completions, sample):\n    return [0.0] * len(completions)\n")
    (tmp_path / "g.cases.yaml").write_text(CASES)
    group = resolve_reward(str(tmp_path / "g.py"))
    sizes = {len(make_trial(group, read_cases(group), seed=n).completions) for n in range(30)}
    assert sizes == {1, 2, 3, 4}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_follow_from_the_seed_and_can_be_encoded(kind):
    for seed in range(12):
        text = fuzz_text(["<answer>12 to 17.5</answer>"], random.Random(seed), kind=kind)
        assert text == fuzz_text(["<answer>12 to 17.5</answer>"], random.Random(seed), kind=kind)
        assert text.encode() and (kind != "huge" or len(text) > MEGABYTE)
