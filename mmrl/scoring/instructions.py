"""Checkers of instructions that can be verified by rule, under IFEval's names and arguments. Pure.

Words are runs of letters, digits and apostrophes; sentences end with . ! or ? before a blank (IFEval splits them with
a trained model); paragraphs are parted by an empty line, or `***` where an instruction says so. IFEval's check of the
language needs a model and is not here.

>>> follows("punctuation:no_comma", "One, two."), follows("length_constraints:number_words", "a b c",
...     relation="less than", num_words=4)
(False, True)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Check = Callable[..., bool]

_WORD = re.compile(r"[\w']+")
_SENTENCE_END = re.compile(r"[.!?]+[\"')\]]*(?:\s+|$)")
_CONSTRAINED = ("my answer is yes.", "my answer is no.", "my answer is maybe.")


def follows(instruction: str, response: str, **arguments: Any) -> bool:
    """Whether a response follows an instruction; an empty response follows none.

    Raises KeyError for an unknown instruction and TypeError or ValueError for arguments that do not fit it.
    """
    check = CHECKS[instruction]
    given = {name: value for name, value in arguments.items() if value is not None}
    return check(response, **given) and bool(response.strip())


def words(text: str) -> list[str]:
    """The words of a text."""
    return _WORD.findall(text)


def sentences(text: str) -> list[str]:
    """The sentences of a text that hold a word."""
    return [part for part in _SENTENCE_END.split(text) if _WORD.search(part)]


def _compare(count: int, wanted: int, relation: str) -> bool:
    if relation not in ("at least", "less than"):
        raise ValueError(f"relation {relation!r} is neither 'at least' nor 'less than'")
    return count >= wanted if relation == "at least" else count < wanted


def _occurrences(text: str, phrase: str) -> int:
    """How often a word or phrase occurs as such, without case: `cat` is not in `category`."""
    return len(re.findall(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE))


def _has_keywords(text: str, *, keywords: list[str]) -> bool:
    return all(_occurrences(text, word) for word in keywords)


def _keyword_frequency(text: str, *, keyword: str, frequency: int, relation: str = "at least") -> bool:
    return _compare(_occurrences(text, keyword), frequency, relation)


def _no_forbidden(text: str, *, forbidden_words: list[str]) -> bool:
    return not any(_occurrences(text, word) for word in forbidden_words)


def _letter_frequency(text: str, *, letter: str, let_frequency: int, let_relation: str = "at least") -> bool:
    return _compare(text.casefold().count(letter.casefold()), let_frequency, let_relation)


def _number_words(text: str, *, num_words: int, relation: str = "at least") -> bool:
    return _compare(len(words(text)), num_words, relation)


def _number_sentences(text: str, *, num_sentences: int, relation: str = "at least") -> bool:
    return _compare(len(sentences(text)), num_sentences, relation)


def _number_paragraphs(text: str, *, num_paragraphs: int) -> bool:
    parts = [part.strip() for part in re.split(r"\n?\*\*\*\n?", text)]
    inner = parts[1 if not parts[0] else 0 : -1 if not parts[-1] else None]
    return len(inner) == num_paragraphs and all(inner)


def _nth_paragraph(text: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
    if len(parts) != num_paragraphs or not 1 <= nth_paragraph <= len(parts):
        return False
    found = words(parts[nth_paragraph - 1])
    return bool(found) and found[0].casefold() == first_word.casefold()


def _placeholders(text: str, *, num_placeholders: int) -> bool:
    return len(re.findall(r"\[[^\[\]]+\]", text)) >= num_placeholders


def _postscript(text: str, *, postscript_marker: str = "P.S.") -> bool:
    return re.search(rf"^\s*{re.escape(postscript_marker)}\s*\S", text, re.IGNORECASE | re.MULTILINE) is not None


def _bullets(text: str, *, num_bullets: int) -> bool:
    return len(re.findall(r"^\s*(?:\*(?!\*)|-)\s*\S", text, re.MULTILINE)) == num_bullets


def _constrained(text: str) -> bool:
    return any(phrase in text.casefold() for phrase in _CONSTRAINED)


def _highlights(text: str, *, num_highlights: int) -> bool:
    found = re.findall(r"\*\*([^*\n]+)\*\*|\*([^*\n]+)\*", text)
    return sum(bool((double or single).strip()) for double, single in found) >= num_highlights


def _sections(text: str, *, section_spliter: str, num_sections: int) -> bool:  # IFEval's spelling
    return len(re.findall(rf"^\s*{re.escape(section_spliter)}\s?\d+", text, re.MULTILINE)) >= num_sections


def _json_format(text: str) -> bool:
    fenced = re.fullmatch(r"\s*```(?:json)?\s*(.*?)\s*```\s*", text, re.DOTALL | re.IGNORECASE)
    try:
        json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str) -> bool:
    return re.search(r"<<[^<>\n]*[^<>\s][^<>\n]*>>", text) is not None


def _two_responses(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    filled = [part for part in parts if part]
    only_outer_empty = all(part or index in (0, len(parts) - 1) for index, part in enumerate(parts))
    return only_outer_empty and len(filled) == 2 and filled[0] != filled[1]


def _repeat_prompt(text: str, *, prompt_to_repeat: str) -> bool:
    return text.strip().casefold().startswith(prompt_to_repeat.strip().casefold())


def _ends_with(text: str, *, end_phrase: str) -> bool:
    return text.strip().strip('"').casefold().endswith(end_phrase.strip().casefold())


def _quoted(text: str) -> bool:
    clean = text.strip()
    return len(clean) > 2 and clean[0] == clean[-1] == '"'


def _upper(text: str) -> bool:
    return text.isupper()


def _lower(text: str) -> bool:
    return text.islower()


def _capital_words(text: str, *, capital_frequency: int, capital_relation: str = "at least") -> bool:
    return _compare(sum(word.isupper() for word in words(text)), capital_frequency, capital_relation)


def _no_comma(text: str) -> bool:
    return "," not in text


CHECKS: dict[str, Check] = {
    "keywords:existence": _has_keywords,
    "keywords:frequency": _keyword_frequency,
    "keywords:forbidden_words": _no_forbidden,
    "keywords:letter_frequency": _letter_frequency,
    "length_constraints:number_words": _number_words,
    "length_constraints:number_sentences": _number_sentences,
    "length_constraints:number_paragraphs": _number_paragraphs,
    "length_constraints:nth_paragraph_first_word": _nth_paragraph,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:constrained_response": _constrained,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _json_format,
    "detectable_format:title": _title,
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": _repeat_prompt,
    "startend:end_checker": _ends_with,
    "startend:quotation": _quoted,
    "change_case:english_capital": _upper,
    "change_case:english_lowercase": _lower,
    "change_case:capital_word_frequency": _capital_words,
    "punctuation:no_comma": _no_comma,
}
