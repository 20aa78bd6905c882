"""Shipped benchmarks of games, facts and instructions: what the rows of their published layout become."""

from makers.benchmarks import write_benchmarks
from unit.evaluate.test_image_benchmarks import read, shown

from mmrl.scoring.router import Router


def test_answers_of_games_are_letters_numbers_and_texts(tmp_path):
    files = write_benchmarks(tmp_path, ["gameqa_lite"])
    benchmark, config, samples = read("gameqa_lite", files)
    assert [sample.task for sample in samples] == ["letter", "number", "text"]
    said = (["(B) two", "A"], ["12", "13"], ["(1, 2)", "(2, 1)"])
    with Router(config.rewards, relative_to=benchmark.relative_to) as router:
        for sample, answers in zip(samples, said, strict=True):
            scoring = router.start([(sample, 2)])
            scoring.add({0: answers})
            [scores] = scoring.finish().task_scores
            assert list(scores) == [1.0, 0.0], sample.where


def test_fvqa_has_all_right_answers(tmp_path):
    _, _, [one, several, _] = read("fvqa", write_benchmarks(tmp_path, ["fvqa"]))
    assert (one.answer, several.answer) == (["Ada Byron"], ["Ada Byron", "Lovelace"])
    assert shown(one) == "<0>Who made it?"


def test_conversations_are_asked_turn_by_turn_with_the_references_replies(tmp_path):
    _, _, [first, second, other] = read("mm_mt_bench", write_benchmarks(tmp_path, ["mm_mt_bench"]))
    assert [sample.answer for sample in (first, second, other)] == ["A dog.", "A cat.", "A dog."]
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    assert shown(second) == "And behind it?" and shown(first) == "<0>Which animal?" and len(second.media) == 1
    assert [sample.columns["turn"] for sample in (first, second, other)] == [1, 2, 1]


def test_constraints_keep_their_rules_and_questions_asked_twice_count_once(tmp_path):
    _, _, samples = read("mm_ifeval", write_benchmarks(tmp_path, ["mm_ifeval"]))
    assert [sample.task for sample in samples] == ["C-Level", "C-Level", "P-Level"]
    rule = {"check": "check_whether_response_word_count_in_range", "arguments": [1, 5]}
    assert [of["checks"] for of in samples[0].columns["constraints"]] == [[rule], [], []]
    assert samples[2].answer == ["3", "red"]


def test_components_of_mia_bench_are_a_rubric(tmp_path):
    _, _, [sample, *_] = read("mia_bench", write_benchmarks(tmp_path, ["mia_bench"]))
    wanted = [{"text": "Two sentences.", "weight": 6}, {"text": "They rhyme.", "weight": 4}]
    assert sample.columns["rubric"] == wanted and sample.columns["component_type"] == ["length", "genre"]
