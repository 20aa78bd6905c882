"""Golden cases: what a file of them may say, and the line that each mistake is named with."""

import pytest

from mmrl.errors import ConfigError
from mmrl.scoring.cases import cases_of, failures, run_case
from mmrl.scoring.selftest import selftest, selftest_command

REWARD = '''
"""Counts letters."""
BOUNDS = (0.0, 9.0)
def score(completion, sample, *, factor: float = 1.0):
    if sample.answer == "bad":
        from mmrl.errors import RewardError
        raise RewardError(f"{sample.where}: the answer 'bad' is not good")
    return {"reward": len(completion) * factor, "width": float(sample.columns.get("width", 0))}
'''


def reward(folder, cases):
    (folder / "count.py").write_text(REWARD)
    (folder / "count.cases.yaml").write_text(cases)
    return str(folder / "count.py")


def test_every_key_is_compared(tmp_path):
    spelling = reward(
        tmp_path,
        "- completion: abc\n  answer: x\n  columns: {width: 7}\n  options: {factor: 2.0}\n  reward: 6\n"
        "  extras: {width: 7}\n  note: three letters\n"
        "- completions: [a, bb]\n  reward: [1.05, 2]\n  tolerance: 0.1\n"
        "- completion: a\n  answer: bad\n  error: is not good\n",
    )
    done = selftest(spelling)
    assert (done.cases, done.failures) == (3, ())


def test_each_difference_is_a_line_with_the_place_of_the_case(tmp_path):
    spelling = reward(
        tmp_path,
        "- completion: abc\n  reward: 2\n  extras: {width: 1, height: 2}\n"
        "- completions: [a, bb]\n  reward: [1, 1]\n"
        "- completion: a\n  error: is not good\n"
        "- completion: a\n  answer: bad\n  reward: 1\n"
        "- completion: aaaaaaaaaa\n  reward: 10\n",
    )
    where = f"{tmp_path}/count.cases.yaml"
    assert selftest(spelling).failures == (
        f"{where}:1 (id=case-1): reward 3, not 2",
        f"{where}:1 (id=case-1): width 0, not 1",
        f"{where}:1 (id=case-1): height missing, not 2",
        f"{where}:4 (id=case-2): completion 1: reward 2, not 1",
        f"{where}:6 (id=case-3): reward 1, not a RewardError with 'is not good'",
        f"{where}:8 (id=case-4): bad_answer: {where}:8 (id=case-4): the answer 'bad' is not good, not 1",
        f"{where}:11 (id=case-5): out_of_bounds: returned 10, outside BOUNDS = (0.0, 9.0), not 10",
    )


def test_the_tolerance_is_absolute_and_a_millionth(tmp_path):
    spelling = reward(tmp_path, "- completion: abc\n  reward: 3.0000009\n- completion: abc\n  reward: 3.0000011\n")
    near, far = (list(failures(case, run_case(case, spelling))) for case in cases_of(spelling))
    assert near == [] and len(far) == 1


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ("completion: a\n", r"count\.cases\.yaml:1: this must be a list of cases"),
        ("- completion: a\n  reward: 1\n- a\n", r"yaml:3: a case is a mapping"),
        ("- completion: a\n  rewards: 1\n", r"yaml:2: a case has no key 'rewards'.*did you mean 'reward'"),
        ("- completion: a\n", r"yaml:1: a case has either 'reward' or 'error'"),
        ("- reward: 1\n", r"yaml:1: a case has either 'completion' or 'completions'"),
        ("- completion: 12\n  reward: 1\n", r"yaml:1: completion 12 is not text \(put it in quotes\)"),
        ("- completion: a\n  reward: one\n", r"yaml:2: reward 'one' is not a number"),
        ("- completions: [a, b]\n  reward: [1]\n", r"yaml:1: 1 rewards for 2 completions"),
        ("- completion: a\n  reward: 1\n  options: {facto: 2}\n", r"yaml:3: options: unknown option 'facto'"),
        ("- completion: a\n  reward: 1\n  columns: [a]\n", r"yaml:3: 'columns' must be a mapping"),
        ("- completion: a\n  reward: 1\n  media: [astronaut]\n", r"yaml:3: medium 'astronaut' is not image:NAME"),
        ("- completion: a\n  reward: 1\n  media: ['image:none']\n", r"yaml:3: no image 'none' in .*skimage/data"),
        ("- completion: [a\n", r"yaml:2: not valid YAML"),
        ("- completion: a\n  reward: 1\n  extras: {width: seven}\n", r"yaml:3: 'extras' is a mapping of numbers"),
        ("- completion: a\n  reward: 1\n  extras: {width: null}\n", r"yaml:3: 'extras' is a mapping of numbers"),
        (
            "- completion: a\n  reward: 1\n  tolerance: -1\n",
            r"yaml:3: 'tolerance' must be a number of 0 or more, not -1",
        ),
        (
            "- completion: a\n  reward: 7\n  tolerance: .inf\n",
            r"yaml:3: 'tolerance' must be a number of 0 or more, not inf",
        ),
        (
            "- completion: a\n  reward: 1\n  tolerance: []\n",
            r"yaml:3: 'tolerance' must be a number of 0 or more, not \[\]",
        ),
        ("- completions: []\n  reward: []\n", r"yaml:1: 'completions' is empty, so the case would test nothing"),
        ("- completion: a\n  error: ''\n", r"yaml:2: 'error' is empty; give a part of the message"),
    ],
)
def test_a_mistake_names_file_and_line(tmp_path, cases, message):
    spelling = reward(tmp_path, cases)
    with pytest.raises(ConfigError, match=message):
        cases_of(spelling)
    assert len(selftest(spelling).failures) == 1


def test_packaged_and_own_media(tmp_path):
    (tmp_path / "own.png").write_bytes(b"")
    spelling = reward(tmp_path, "- completion: a\n  reward: 1\n  media: ['image:astronaut', 'image:own.png']\n")
    packaged, own = cases_of(spelling)[0].sample.media
    assert packaged.source.name == "astronaut.png" and own.source == tmp_path / "own.png"


def test_the_command_prints_a_table_and_ends_with_1_for_a_failure(tmp_path, capsys):
    assert selftest_command("choice") == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["reward", "cases", "failed", "seconds"] and line.split()[0::2] == ["choice", "0"]
    assert selftest_command(reward(tmp_path, "- completion: a\n  reward: 2\n")) == 1
    assert "failed: " in capsys.readouterr().out


def test_a_reward_without_cases_fails(tmp_path):
    (tmp_path / "bare.py").write_text(REWARD)
    (failure,) = selftest(str(tmp_path / "bare.py")).failures
    assert "bare.cases.yaml: cannot be read: No such file" in failure


def test_a_reward_that_ends_its_process_is_a_failure_of_its_case(tmp_path):
    spelling = reward(tmp_path, "- completion: a\n  reward: 1\n")
    (tmp_path / "count.py").write_text("import sys\ndef score(completion, sample):\n    sys.exit(3)\n")
    assert selftest(spelling).failures == (
        f"{tmp_path}/count.cases.yaml:1 (id=case-1): the reward ended its process (SystemExit: 3)",
    )
