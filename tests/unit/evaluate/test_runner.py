"""The runner: late questions, thoughts without end, order and concurrency, media that are slow."""

import os
import sys
import time
from dataclasses import replace

import pytest
from makers.clips import ClipSpec, write_clip
from makers.evaluation import TimedFlight, job_of, question
from makers.media import write_picture

from mmrl.config.schema import VideoSection
from mmrl.data.sample import MediaRef
from mmrl.errors import LateMediaError
from mmrl.evaluate.ahead import AHEAD, Openers, questions
from mmrl.evaluate.records import Reply
from mmrl.evaluate.runner import Runner, _begins_thought


class HangingClips(Openers):
    """While they are opened its clips are pipes that nobody writes into."""

    def _open(self, request, cache):
        path = request.job.ref.source
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        try:
            return super()._open(request, cache)
        finally:
            path.unlink()
            path.write_bytes(content)


class SlowClips(Openers):
    """Takes longer over a clip than all the pictures need."""

    def _open(self, request, cache):
        if request.job.ref.kind == "video":
            time.sleep(6.0)
        return super()._open(request, cache)


def run(jobs, flight, *, deadline_s: float = 60.0, workers: int = 1, opened_by=Openers):
    with opened_by(VideoSection(), workers=workers) as openers:
        Runner(jobs, flight, openers, ready=4, deadline_s=deadline_s, seed=0, told=lambda job: None).run()
    return [{key: (of[0].status, of[0].completion) for key, of in job.records.read().items()} for job in jobs]


def test_a_question_without_an_answer_ends_at_its_deadline_and_the_others_are_answered(tmp_path):
    job = job_of(tmp_path, [question(str(n)) for n in range(6)])
    flight = TimedFlight(lambda sample: None if sample.sample_id == "2" else "B", size=2)
    (found,) = run([job], flight, deadline_s=0.3)
    assert found == {**{str(n): ("ok", "B") for n in range(6)}, "2": ("timeout", "")}
    assert (job.done, job.failed, flight.dropped) == (6, 1, ["2"])
    assert ("2", 0) not in job.scores and all(score.value == 1.0 for score in job.scores.values())


def test_a_clip_whose_reader_hangs_is_a_timeout_and_is_not_opened_for_its_next_question(tmp_path):
    clip = MediaRef("video", write_clip(tmp_path / "clip.mp4", ClipSpec()))
    job = job_of(tmp_path, [question("a", clip), question("b"), question("c")])
    with HangingClips(VideoSection(deadline_s=1.0), workers=1) as openers:
        ready = {item.sample.sample_id: item for item in questions([(job.preparer, job.samples, job.todo)], openers)}
        again = openers.find(job.preparer.jobs(job.samples[0])[0], job.preparer.cache)
    assert {key: item.status for key, item in ready.items()} == {"a": "timeout", "b": "ok", "c": "ok"}
    assert "clip.mp4: reader pyav hung for 1 s (data.video.deadline_s) and was killed" in ready["a"].reason
    assert isinstance(again, LateMediaError)


@pytest.mark.parametrize("replies", [(), (Reply("B", False, 1),) * 3])
def test_another_number_of_answers_than_was_asked_for_is_no_answer(tmp_path, replies):
    class Miscounts(TimedFlight):
        def step(self):
            return [replace(ended, replies=replies) for ended in super().step()]

    job = job_of(tmp_path, [question("a")])
    (found,) = run([job], Miscounts(lambda sample: "B", size=1))
    assert found == {"a": ("error", "")} and job.scores == {}
    assert job.records.read()["a"][0].reason == f"the engine gave {len(replies)} answers, not 1"


@pytest.mark.parametrize("size", [1, 3, 50])
def test_concurrency_changes_neither_answers_nor_scores(tmp_path, size):
    jobs = [
        job_of(tmp_path, [question(f"{name}{n}", name=name) for n in range(count)], name=name)
        for name, count in (("many", 20), ("few", 2))
    ]
    flight = TimedFlight(lambda sample: "AB"[len(sample.sample_id) % 2], size=size)
    found = run(jobs, flight)
    assert [sorted(of) for of in found] == [sorted(s.sample_id for s in job.samples) for job in jobs]
    assert {(status, text) for of in found for status, text in of.values()} == {("ok", "A"), ("ok", "B")}
    values = {key: score.value for job in jobs for (key, _), score in job.scores.items()}
    assert values == {key: float(len(key) % 2) for key in values} and len(values) == 22


@pytest.mark.parametrize(
    ("said", "stored", "value"),
    [
        (Reply("B", True, 1), "<think>B", 0.0),
        (Reply("A, no.</think>B", False, 1), "A, no.</think>B", 1.0),
    ],
)
def test_a_thought_that_the_prompt_begins_and_nothing_ends_holds_no_answer(tmp_path, said, stored, value):
    job = job_of(tmp_path, [question("a")])
    template = job.preparer.processor.chat_template + "{{ '<think>\\n' }}"
    job.preparer = replaced(job.preparer, template)
    (found,) = run([job], TimedFlight(lambda sample: said, size=1))
    assert found["a"][1] == stored
    assert job.scores["a", 0].value == value and job.scores["a", 0].is_unread is (value == 0.0)


def replaced(preparer, template):
    return replace(preparer, processor=replace(preparer.processor, chat_template=template))


def test_a_prompt_that_begins_no_thought_is_told_from_one_that_does(tmp_path):
    preparer = job_of(tmp_path, []).preparer
    prompt = preparer.prepare([question("a")])[0].prompt
    assert not _begins_thought(prompt, preparer.processor)
    thinking = replaced(preparer, preparer.processor.chat_template + "{{ '<think>\\n' }}")
    assert _begins_thought(thinking.prepare([question("a")])[0].prompt, thinking.processor)


def test_a_slow_clip_holds_up_its_own_question_only(tmp_path):
    """The clip comes first; the pictures after it are opened by the other process, and answered, meanwhile."""
    clip = MediaRef("video", write_clip(tmp_path / "slow.mp4", ClipSpec()))
    pictures = [MediaRef("image", write_picture(tmp_path / f"{n}.png", n)) for n in range(12)]
    samples = [question("slow", clip), *(question(str(n), ref) for n, ref in enumerate(pictures))]
    job = job_of(tmp_path, samples)
    flight = TimedFlight(lambda sample: "B", size=4)
    (found,) = run([job], flight, workers=2, opened_by=SlowClips)
    assert flight.asked == [*(str(n) for n in range(12)), "slow"]
    assert set(found.values()) == {("ok", "B")} and len(found) == 13


def test_what_is_prepared_ahead_is_bounded_and_a_shared_medium_is_opened_once(tmp_path):
    shared = MediaRef("image", write_picture(tmp_path / "shared.png", 99))
    pictures = [MediaRef("image", write_picture(tmp_path / f"{n}.png", n)) for n in range(20)]
    job = job_of(tmp_path, [question(str(n), shared, ref) for n, ref in enumerate(pictures)])
    with Openers(VideoSection(), workers=2) as openers:
        ready = questions([(job.preparer, job.samples, job.todo)], openers)
        first = next(ready)
        time.sleep(1.0)
        opened = len(list((tmp_path / "cache").rglob("*.safetensors")))
        assert opened <= 1 + AHEAD * 2, "one shared picture, and that of each question under way"
        keys = [first.sample.sample_id, *(item.sample.sample_id for item in ready)]
    assert sorted(keys, key=int) == [str(n) for n in range(20)]
    assert job.preparer.cache.metrics()["misses"] == 21


def test_threads_take_short_turns_while_questions_are_asked_and_as_before_afterwards(tmp_path):
    before, seen = sys.getswitchinterval(), []
    run(
        [job_of(tmp_path, [question("a")])],
        TimedFlight(lambda sample: seen.append(sys.getswitchinterval()), size=1),
        deadline_s=0.2,
    )
    assert seen and set(seen) == {seen[0]} and seen[0] == pytest.approx(0.0005)
    assert sys.getswitchinterval() == before
