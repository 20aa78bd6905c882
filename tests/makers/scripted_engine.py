"""An engine that answers by a script, and does something before each group: to see what happens meanwhile."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from mmrl.data.sample import Sample
from mmrl.rollout.types import Completion, Group, Request, Sampling
from mmrl.scoring.router import Router
from mmrl.training.metrics import Stopwatch


def completion(text: str) -> Completion:
    return Completion(ids=(1,), behavior_logprobs=(-1.0,), finish_reason="stop", text=text, policy_version=0)


class ScriptedEngine:
    """texts: the completions of each request, by its id. order: of the request ids, as their groups finish.

    before: called with the request id before its group is finished, and with None when all were taken.
    """

    def __init__(
        self, texts: dict[str, Sequence[str]], order: Sequence[str], before: Callable[[str | None], None]
    ) -> None:
        self.texts, self.order, self.before = texts, order, before

    def generate(self, requests: Iterable[Request]) -> Iterator[Group]:
        asked = {request.request_id: request for request in requests}
        for name in self.order:
            self.before(name)
            yield Group(asked[name], tuple(map(completion, self.texts[name])))
        self.before(None)


def scripted_run(router: Router, engine: ScriptedEngine) -> Any:
    """What `mmrl.training.rollouts` needs of a Runtime."""
    return SimpleNamespace(router=router, rollout=engine, watch=Stopwatch(), reward_events={})


def prepared_with(samples: Sequence[Sample], *, n: int) -> tuple[list[Any], list[Request]]:
    """Prompts that are never looked at, and the requests for them."""
    prepared = [SimpleNamespace(sample=sample, prompt=None) for sample in samples]
    prompt: Any = None
    return prepared, [Request(str(i), prompt, n, Sampling()) for i in range(len(samples))]
