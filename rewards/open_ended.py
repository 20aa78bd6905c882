"""A free answer against a reference: equality of short ones, ROUGE of longer ones.

Formula: where the reference has at most `short` characters, 1 if the texts are equal without case, else 0; where it is
longer, the mean of the F1 of ROUGE-1, ROUGE-2 and ROUGE-L. Of several references the best.
Bounds: 0 to 1.
Answer: the text itself.
Space: none.
Source: EasyVideoR1's open-ended type, also for video QA, description and free-form. Its words are stemmed; these are
not. Its released code gives short references that differ the ROUGE too: `official`.
Example: answer `the cat sat on the mat`: itself 1, `the cat lay on the mat` 0.755556; answer `red`: `Red` 1, `red car`
0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.rouge import rouge_mean

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {
    "options": "ROUGE pays for shared words, so a list of K answers with the right one scores about 2 / (K + 1)",
}


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", short: int = 10, official: bool = False
) -> float:
    """`short`: the most characters of a reference that must be met exactly. `official`: ROUGE for the others too."""
    prediction = extract_prediction(completion, answer=answer) or ""

    def against(reference: str) -> float:
        if len(reference) <= short:
            equal = " ".join(prediction.casefold().split()) == " ".join(reference.casefold().split())
            if equal or not official:
                return float(equal)
        return rouge_mean(reference, prediction)

    return max(map(against, gold_texts(sample)))
