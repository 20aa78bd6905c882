"""Shipped benchmarks of pictures, from files in their layout: the right answer scores 1, another 0."""

from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.benchmarks_image import WRITERS

from mmrl.config.schema import CacheSection, ModelSection
from mmrl.data.locations import RawBytes
from mmrl.data.sample import MediaPart, Part, Sample, TextPart
from mmrl.evaluate.benchmark import columns_of, load_benchmark, read_rows
from mmrl.evaluate.numbers import Question
from mmrl.evaluate.result import outcome_of
from mmrl.scoring.router import Router


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return write_benchmarks(tmp_path_factory.mktemp("benchmarks"), list(WRITERS))


def read(name: str, files: Path):
    benchmark = load_benchmark(name)
    config = benchmark.config(ModelSection(path="any"), cache=CacheSection(), budgets={}, workers=0)
    return benchmark, config, list(read_rows(benchmark, config, root=files, limit=ROWS).samples)


def shown(sample: Sample) -> str:
    """The prompt, `<n>` where it shows picture n."""

    def of(part: Part) -> str:
        return f"<{part.medium}>" if isinstance(part, MediaPart) else part.text if isinstance(part, TextPart) else "?"

    return "".join(map(of, sample.messages[-1].parts))


def pictures(sample: Sample) -> list[bytes]:
    """The bytes of its pictures, which all stand in the files themselves."""
    return [ref.source.data for ref in sample.media if isinstance(ref.source, RawBytes)]


def right_answer(sample: Sample, reward: str) -> str:
    """As a model would write it: of accepted texts one, of a box to click in its middle."""
    if reward == "point_in_box":
        x1, y1, x2, y2 = sample.answer
        return f"[{(x1 + x2) / 2}, {(y1 + y2) / 2}]"
    accepted = isinstance(sample.answer, list) and isinstance(sample.answer[0], str)
    return str(sample.answer[0] if accepted else sample.answer)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_the_right_answer_scores_one_and_another_nothing(files, name):
    benchmark, config, samples = read(name, files)
    assert len(samples) == ROWS
    with Router(config.rewards, relative_to=benchmark.relative_to) as router:
        for sample in samples:
            said = [right_answer(sample, benchmark.parts[sample.task][0].reward), "I cannot say"]
            scoring = router.start([(sample, 2)])
            scoring.add({0: said})
            [scores] = scoring.finish().task_scores
            assert list(scores) == [1.0, 0.0], (sample.where, said, shown(sample))


def test_pictures_stand_where_mmmu_names_them(files):
    direct = "\n\nAnswer with the option's letter from the given choices directly."
    _, _, [named, open_ended, unnamed] = read("mmmu_val", files)
    assert shown(named) == f"<0> or <1>?\nA. <2>\nB. <3>{direct}"
    second, first, *again = pictures(named)
    assert again == [first, second] and second != first
    assert (named.task, named.answer, named.columns["subject"]) == ("multiple-choice", "A", "Art_Theory")
    assert shown(open_ended) == "How many in <0>?\n\nAnswer the question using a single word or phrase."
    assert (open_ended.task, open_ended.answer) == ("open", ["4", "four"])
    assert shown(unnamed) == f"<0>\nWhich?\nA. it's\nB. not{direct}"


def test_rotations_of_mmbench_are_one_question_with_one_picture(files):
    _, _, [plain, rotated, other] = read("mmbench_dev_en", files)
    tail = "\nPlease select the correct answer from the options above."
    assert shown(plain) == f'<0>Hint: Read\nfirst.\nQuestion: Is it "one"?\nOptions:\nA. yes\nB. no{tail}'
    assert shown(other) == f'<0>Question: Is it "one"?\nOptions:\nA. 1\nB. 2\nC. 3\nD. 4{tail}'
    assert [sample.columns["question_id"] for sample in (plain, rotated, other)] == ["241", "241", "5"]
    assert pictures(plain) == pictures(rotated) != pictures(other)


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("mathvista", ["letter", "float_1", "list"]),
        ("mathvision", ["letter", "value", "letter"]),
        ("realworldqa", ["letter", "text", "letter"]),
    ],
)
def test_kinds_of_rows_are_scored_in_their_own_way(files, name, tasks):
    assert [sample.task for sample in read(name, files)[2]] == tasks


def test_answers_are_made_letters_and_boxes(files):
    assert [sample.answer for sample in read("ai2d", files)[2]] == ["A", "B", "C"]
    assert read("mathvista", files)[2][0].answer == "B"
    assert read("refcoco", files)[2][0].answer == [10.5, 10, 40, 30]


def test_hallusion_bench_is_the_mean_of_answers_figures_and_questions(files):
    """Two of three answers are right, each to the one question of another figure; that question fails on one."""
    benchmark, _, samples = read("hallusion_bench", files)
    questions = [Question(s.sample_id, (float(n != 1),), 0, columns_of(s)) for n, s in enumerate(samples)]
    outcome = outcome_of(benchmark, questions, budgets={})
    also = {name: numbers.score for name, numbers in outcome.also.items()}
    assert also == pytest.approx({"aAcc": 2 / 3, "fAcc": 2 / 3, "qAcc": 0.0})
    assert outcome.numbers is not None and outcome.numbers.score == pytest.approx(4 / 9)
    assert (outcome.groups or {})["category"]["VD"].score == pytest.approx(4 / 9)
