"""Each checker of instructions: a response that follows, and one that does not."""

import pytest

from mmrl.scoring.instructions import CHECKS, follows, sentences

TABLE = {
    "keywords:existence": ({"keywords": ["cat", "dog"]}, "A Cat and a dog.", "A category, a dog."),
    "keywords:frequency": ({"keyword": "cat", "frequency": 2, "relation": "at least"}, "cat, cat", "cat"),
    "keywords:forbidden_words": ({"forbidden_words": ["red"]}, "a hundred", "a red one"),
    "keywords:letter_frequency": ({"letter": "e", "let_frequency": 2, "let_relation": "less than"}, "one", "eve"),
    "length_constraints:number_words": ({"num_words": 3, "relation": "less than"}, "don't go", "do not go"),
    "length_constraints:number_sentences": (
        {"num_sentences": 2, "relation": "at least"},
        "A 3.5 m gap. Go!",
        "A 3.5 m.",
    ),
    "length_constraints:number_paragraphs": ({"num_paragraphs": 2}, "a\n***\nb", "a\n\nb"),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "blue"},
        "Red it is.\n\nBlue it was.",
        "Blue it is.\n\nRed it was.",
    ),
    "detectable_content:number_placeholders": ({"num_placeholders": 2}, "[name] of [town]", "[name]"),
    "detectable_content:postscript": ({"postscript_marker": "P.S."}, "Hello.\nP.S. Bye", "Hello."),
    "detectable_format:number_bullet_lists": ({"num_bullets": 2}, "* a\n- b", "* a\n* b\n* c"),
    "detectable_format:constrained_response": ({}, "My answer is yes.", "Yes."),
    "detectable_format:number_highlighted_sections": ({"num_highlights": 2}, "*a* and **b**", "*a* and * *"),
    "detectable_format:multiple_sections": (
        {"section_spliter": "SECTION", "num_sections": 2},
        "SECTION 1\na\nSECTION 2\nb",
        "SECTION 1\na",
    ),
    "detectable_format:json_format": ({}, '```json\n{"a": 1}\n```', "{a: 1}"),
    "detectable_format:title": ({}, "<<A day>>", "<< >>"),
    "combination:two_responses": ({}, "a\n******\nb", "a\n******\na"),
    "combination:repeat_prompt": ({"prompt_to_repeat": "What is it?"}, "what is it? A cat.", "A cat."),
    "startend:end_checker": ({"end_phrase": "Any questions?"}, 'Red. Any questions?"', "Any questions? Red."),
    "startend:quotation": ({}, '"red"', '"red'),
    "change_case:english_capital": ({}, "A BUS!", "A Bus!"),
    "change_case:english_lowercase": ({}, "a bus!", "a Bus!"),
    "change_case:capital_word_frequency": ({"capital_frequency": 2, "capital_relation": "at least"}, "A BUS", "a BUS"),
    "punctuation:no_comma": ({}, "a b", "a, b"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_response_that_follows_and_one_that_does_not(name):
    arguments, good, bad = TABLE[name]
    assert follows(name, good, **arguments)
    assert not follows(name, bad, **arguments)


@pytest.mark.parametrize("name", CHECKS)
def test_an_empty_response_follows_nothing(name):
    assert not follows(name, " ", **TABLE[name][0])


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="neither 'at least' nor 'less than'"):
        follows("keywords:frequency", "a", keyword="a", frequency=1, relation="exactly")
    with pytest.raises(TypeError, match="num_words"):
        follows("length_constraints:number_words", "a")


def test_sentences():
    assert sentences('He said: "Go!" She went. 3.5 m') == ['He said: "Go', "She went", "3.5 m"]
