"""The trip wire that needs the question."""

from mmrl.data.sample import MediaPart, Message, Sample, TextPart
from mmrl.scoring.reward import resolve_reward

QUESTION = "In which of the pictures does the red ball lie to the left of the blue cube?"


def test_an_echo_is_a_run_of_the_question_in_any_case_and_punctuation():
    parts = (MediaPart(0), TextPart(QUESTION))
    sample = Sample("a", "t", "image", (Message("system", (TextPart("Answer briefly."),)), Message("user", parts)))
    score = resolve_reward("shortcut").function
    assert score("You ask: in which of the pictures does the RED ball, lie to the left?", sample, kind="echo") == 1.0
    assert score("The red ball lies to the left of the blue cube in the second.", sample, kind="echo") == 0.0
    assert score("to the left of the", sample, kind="echo", words=5) == 1.0
    assert score("Answer briefly.", sample, kind="echo", words=2) == 0.0  # the system's words are no question
