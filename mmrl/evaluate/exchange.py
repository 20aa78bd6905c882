"""Answers in the files of other evaluation harnesses: lmms-eval's sample logs, VLMEvalKit's prediction tables. Pure.

lmms-eval writes `{date}_samples_{task}.jsonl`: doc_id (the row's place in its split), input, target, filtered_resps,
resps where they differ, and metrics (lmms_eval/loggers/evaluation_tracker.py, save_results_samples). VLMEvalKit writes
`{model}_{data}.tsv`: the data set's columns, among them `index`, and `prediction`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmrl.config.judge_section import WITHOUT_JUDGE
from mmrl.data.sample import Sample, TextPart
from mmrl.errors import DataError
from mmrl.evaluate.numbers import Question
from mmrl.evaluate.records import Record

# Texts that stand in these logs where a request failed; scored as answers, an extractor finds a letter in them.
FAILURES = ("[LMMS_EVAL_REQUEST_FAILED", "Failed to obtain answer via API.")
# A row's key in logs that mmrl wrote; else what the two harnesses number rows by.
KEY, PLACE, INDEX = "key", "doc_id", "index"
_LONGEST_CELL = 2**31 - 1  # the csv module's own limit, 128 KiB, is less than a picture


@dataclass(frozen=True, slots=True)
class Answer:
    """One row of a log. where: `file:line`. row: its fields. texts: the answers; none: the request failed."""

    where: str
    row: Mapping[str, Any]
    texts: tuple[str, ...]


def read_lmms_eval(text: str, *, name: str) -> list[Answer]:
    """The rows of a sample log, raw answers before filtered ones.

    >>> read_lmms_eval('{"doc_id": 0, "filtered_resps": ["B"]}', name="log.jsonl")[0].texts
    ('B',)
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{name}:{number}"
        try:
            row = json.loads(line)
            given = row["resps"] if "resps" in row else row["filtered_resps"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{where}: no JSON object with filtered_resps, as lmms-eval writes ({error})") from error
        found.append(Answer(where, row, _answered(_flat(given), where)))
    return found


def read_vlmevalkit(text: str, *, name: str) -> list[Answer]:
    """The rows of a table of predictions, tab-separated.

    >>> read_vlmevalkit("index\\tprediction\\n7\\tB\\n", name="p.tsv")[0].row["index"]
    '7'
    """
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
    if "prediction" not in (reader.fieldnames or ()):
        raise DataError(f"{name}: no column 'prediction'; has: {', '.join(reader.fieldnames or ())}")
    return [
        Answer(where, row, _answered([row["prediction"] or ""], where))
        for row in reader
        for where in (f"{name}:{reader.line_num}",)
    ]


def _flat(value: Any) -> list[Any]:
    return [inner for entry in value for inner in _flat(entry)] if isinstance(value, list) else [value]


def _answered(texts: Sequence[Any], where: str) -> tuple[str, ...]:
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"{where}: an answer is no text (likelihoods of options cannot be scored anew)")
    return () if any(text.startswith(FAILURES) for text in texts) else tuple(texts)


def matched(answers: Sequence[Answer], samples: Sequence[Sample], *, field: str, name: str) -> dict[str, Answer]:
    """The answer of every question, by its id.

    field: of the log: `key` is the question's id, `doc_id` its place, another one the row's column of that name, or its
    id where it has none. Raises DataError, naming them, for rows and questions without a match and for second ones.
    """
    ids: dict[str, str] = {}
    for place, sample in enumerate(samples):
        value = _value_of(sample, place, field)
        if value in ids:
            raise DataError(f"{sample.where}: {field} {value!r} is there twice; match by another field (--key)")
        ids[value] = sample.sample_id
    found: dict[str, Answer] = {}
    unknown = []
    for answer in answers:
        if field not in answer.row:
            raise DataError(f"{answer.where}: no field {field!r} to match by; has: {', '.join(map(str, answer.row))}")
        value = str(answer.row[field])
        if value not in ids:
            unknown.append(value)
        elif ids[value] in found:
            raise DataError(f"{answer.where}: a second answer to {field} {value!r}")
        else:
            found[ids[value]] = answer
    missing = [value for value, key in ids.items() if key not in found]
    problems = [
        f"{name}: {len(values)} {what}, by {field}: {', '.join(values[:10])}{', ...' if len(values) > 10 else ''}"
        for what, values in (("rows are of no question", unknown), ("questions have no row", missing))
        if values
    ]
    if problems:
        raise DataError("\n".join(problems))
    return {sample.sample_id: found[sample.sample_id] for sample in samples}


def _value_of(sample: Sample, place: int, field: str) -> str:
    if field == PLACE:
        return str(place)
    return sample.sample_id if field == KEY else str(sample.columns.get(field, sample.sample_id))


def lmms_eval_samples(
    samples: Iterable[Sample], records: Mapping[str, Sequence[Record]], scores: Mapping[str, Question]
) -> str:
    """A sample log. `key` is the question's id; `status` is not `ok` where there is no answer, whose text is empty."""
    lines = []
    for place, sample in enumerate(samples):
        of_key = records[sample.sample_id]
        texts = [record.completion for record in of_key]
        row = {"doc_id": place, KEY: sample.sample_id, "input": question_text(sample), "target": _text(sample.answer)}
        row |= {"filtered_resps": texts, "status": of_key[0].status, "score": scores[sample.sample_id].value}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)


def lmms_eval_results(names: Sequence[str], results: Mapping[str, Any], *, date: str) -> str:
    """The file of numbers beside the sample logs. results: results.json of the evaluation."""
    of = {name: results["benchmarks"][name] for name in names}
    found = {
        "results": {name: {"alias": name, **_score_of(row)} for name, row in of.items()},
        "versions": {name: row["version"] for name, row in of.items()},
        "n-samples": {name: {"original": row["n_total"], "effective": row["n_total"]} for name, row in of.items()},
        "configs": {name: {"task": name, "generation_kwargs": row["answers"]} for name, row in of.items()},
        "task_hashes": {name: row["task_hash"] for name, row in of.items()},
        "config": {"model": results["engine"], "model_args": f"pretrained={results['model']['path']}"},
        "date": date,
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def vlmevalkit_table(
    samples: Iterable[Sample], records: Mapping[str, Sequence[Record]], scores: Mapping[str, Question]
) -> str:
    """A table of predictions, tab-separated: index, question, answer, the row's short columns, prediction, score."""
    samples = list(samples)
    known = samples[0].columns if samples else {}
    columns = [name for name in known if name not in _TABLE and _is_short(samples, name)]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow([*_TABLE[:3], *columns, *_TABLE[3:]])
    for sample in samples:
        of_key = records[sample.sample_id]
        row = (sample.sample_id, question_text(sample), _text(sample.answer))
        cells = (_text(sample.columns.get(name)) for name in columns)
        said = (of_key[0].completion, of_key[0].status, scores[sample.sample_id].value)
        writer.writerow([*row, *cells, *said])
    return text.getvalue()


_TABLE = (INDEX, "question", "answer", "prediction", "status", "score")


def _is_short(samples: Sequence[Sample], name: str) -> bool:
    """Not a picture in base64, nor bytes."""
    return all(
        not isinstance(value, bytes) and len(_text(value)) <= 2000
        for value in (sample.columns.get(name) for sample in samples)
    )


def vlmevalkit_score(row: Mapping[str, Any]) -> str:
    """The file of numbers beside a table of predictions, in per cent. row: of results.json."""
    [(name, score)] = _score_of(row).items()
    column = "Overall" if name == "score,none" else WITHOUT_JUDGE
    return f"split,{column}\nnone,{100 * score:.4f}\n"


def _score_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The score of a row of results.json under the name that it has there, as lmms-eval writes names."""
    name = WITHOUT_JUDGE if WITHOUT_JUDGE in row else "score"
    return {f"{name},none": row[name]}


def question_text(sample: Sample) -> str:
    return "\n".join(part.text for message in sample.messages for part in message.parts if isinstance(part, TextPart))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
