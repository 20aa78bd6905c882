"""What stands in for the trainer where a second round asks prompts of its own."""

from typing import Any

from makers.batches import make_batch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.data.sample import MediaPart, Message, Sample, TextPart

MESSAGES = (Message("system", (TextPart("Think."),)), Message("user", (MediaPart(0), TextPart("2 + 2?"))))


class MadeRound:
    """Texts by row, and a record of what is asked.

    replies: texts of the rows that are made, by their sample id: one for all, or a list. scores: their rewards, by the
    same. columns: of every sample.
    """

    def __init__(
        self,
        texts: list[str] | None = None,
        replies: dict[str, Any] | None = None,
        *,
        scores: dict[str, list[float]] | None = None,
        columns: dict[str, Any] | None = None,
    ) -> None:
        self.texts, self.replies, self.asked = texts, replies or {}, []
        self.scores, self.columns, self._groups = scores or {}, columns or {}, 100

    def sample(self, gid: int) -> Sample:
        given = {"answer_space": "0..1000", "columns": self.columns, "dataset": "d"}
        return Sample(f"s{gid}", "math", "image", MESSAGES, answer="4", **given)

    def text(self, batch: RolloutBatch, row: int) -> str:
        if batch.kind and batch.kind[row] == "recycled":
            reply = self.replies.get(batch.prompt_id[row].partition("/")[2], "")
            return reply if isinstance(reply, str) else reply[batch.prompt_id[:row].count(batch.prompt_id[row])]
        return self.texts[row] if self.texts else f"thought {row}\nanswer {row}"

    def ask(self, samples: list[Sample], *, n: int) -> RolloutBatch:
        self.asked += samples
        size = len(samples) * n
        names = tuple(f"{samples[i // n].dataset}/{samples[i // n].sample_id}" for i in range(size))
        gid = [self._groups + i // n for i in range(size)]
        self._groups += len(samples)
        rewards = [score for sample in samples for score in self.scores.get(sample.sample_id, [0.0] * n)]
        return make_batch([1] * size, gid=gid, rewards=rewards, kind=("recycled",) * size, prompt_id=names)

    @staticmethod
    def words(sample: Sample) -> str:
        """What was added to the question."""
        assert sample.messages[0] == MESSAGES[0] and sample.messages[1].parts[:2] == MESSAGES[1].parts
        part = sample.messages[1].parts[2]
        assert isinstance(part, TextPart)
        return part.text
