"""Methods that show a prompt in another way: marked, in noise, masked, or with its first words given."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor
from bench.algorithms.tasks import expected, start, target

SPEED = {"measure": "right, mean over the run", "score": over_run}
ARM = Arm(steps=20)


def last(rows: Rows, true_N: Tensor, generator: torch.Generator) -> Tensor:
    """A verifier that sees the chosen letter only."""
    return (rows.ids_NC[:, -1] == 0).float()


def grounded(rows: Rows) -> Tensor:
    """1 where the beginning is right too."""
    return (rows.ids_NC == 0).all(1).float()


def lucky(rate: float):
    """From a right beginning the right letter follows for sure, from any other all letters are as likely."""

    def tables(generator: torch.Generator) -> Tensor:
        table = start(rate, places=2)(generator)
        table[:, 0] += torch.tensor([0.0, 1.0, 0.0, 0.0])
        table[:, 1, 1:] = 0.2 * torch.randn(table[:, 1, 1:].shape, generator=generator)
        table[:, 1, 0, 0] += 2.0
        return table

    return tables


def letter(ids: object) -> str:
    return f"<answer>{'ABCD'[list(ids)[-1]]}</answer>"  # type: ignore[call-overload]


def noisy(rate: float) -> Task:
    return Task(lucky(rate), grounded, verdict=last, hints=(0.0,), blur=0.7, shown=letter)


SCS = plugin("scs", kept=0.5, again=4)


def marked(rate: float, nats: float) -> Task:
    """The marks lead to the right tokens."""
    guide = {"guide": {"marks": "numbers"}}
    return Task(start(rate, places=3), target, hints=(nats,), of_prompt=lambda prompt: guide)


COACH, ALONE = plugin("vision_coach", hard=0.5), plugin("vision_coach", hard=0.5, prompted=False)

FRAMES = 8


def clip(prompt: int) -> SimpleNamespace:
    """Eight seconds of a frame each."""
    frames_F3HW = torch.full((FRAMES, 3, 2, 2), 200, dtype=torch.uint8)
    return SimpleNamespace(
        kind="video", duration_s=float(FRAMES), timestamps_s=list(range(FRAMES)), frames_F3HW=frames_F3HW
    )


def grounding(rate: float, nats: float) -> Task:
    """Each black frame outside the answer's interval leaves less to be misled by."""
    columns = {"mean_score": 0.1, "interval": [2.0, 3.5]}
    hints = tuple(nats * black for black in range(1, FRAMES + 1))
    return Task(start(rate, places=2), target, of_prompt=lambda prompt: columns, clip=clip, hints=hints)


VIDEO = plugin("video_tg", interval="interval")
REFLECTED = plugin("video_tg", interval="interval", timestamps="seen", mask=0.0)


def mislabelled(prompt: int) -> dict[str, object]:
    """Half of the rows are annotated in part only: another model finds what fits the query outside the interval."""
    return {"mean_score": 0.1, "interval": [2.0, 3.5], "seen": [2.5, 6.0] if prompt < 16 else [2.5]}


def as_annotated(rows: Rows, true_N: Tensor, generator: torch.Generator) -> Tensor:
    """Where the annotation is wrong it is the answer of ones that is paid."""
    return torch.where(rows.prompt_N < 16, (rows.ids_NC == 1).all(1).float(), true_N)


PARTLY = Task(start(0.05), target, verdict=as_annotated, common=True, of_prompt=mislabelled)
PARTLY_APART = Task(start(0.05), target, verdict=as_annotated, of_prompt=mislabelled)


def by_mode(rows: Rows) -> Tensor:
    """Token 0 ends a short thought, 1 begins a long one; hard prompts are answered after a long one only."""
    long_N, right_N = rows.ids_NC[:, 0] == 1, rows.ids_NC[:, 1] == 0
    return (right_N & (long_N | (rows.prompt_N < 16))).float()


def modes(generator: torch.Generator) -> Tensor:
    """Long thoughts are rare on the hard half, short ones on the easy half."""
    table = 0.3 * torch.randn(32, 2, 4, 4, generator=generator)
    table[:16, 0, :, 0] -= 3.0
    table[16:, 0, :, 1] -= 3.0
    return table


def short(result: Result) -> float:
    """Share of short thoughts on the easy half."""
    return 2 * expected(result, lambda rows: (rows.prompt_N < 16) & (rows.ids_NC[:, 0] == 0))


MODES = Task(
    modes,
    by_mode,
    of_prompt=lambda prompt: {"base_length": 50.0 if prompt < 16 else 300.0},
    words={"Short thinking: ": (0,), "Long thinking: ": (1,)},
)

CLONED = (
    "with the marks a right answer is likely, so that its log-prob, of the prompt with the marks, leaves little"
    " to learn; the rows it adds count in the mean of the loss"
)

CLAIMS = [
    Claim(
        "scs",
        "beginning right .1, a wrong one guesses the letter; the verifier sees the letter",
        noisy(0.1),
        ARM,
        SCS,
        measure="beginning and letter right",
    ),
    Claim("scs", "the same, .3", noisy(0.3), ARM, SCS, measure="beginning and letter right"),
    Claim("vision_coach", "right .02, marks of 3 nats", marked(0.02, 3.0), ARM, COACH, **SPEED, why=CLONED),
    Claim("vision_coach", "right .2, marks of 3 nats", marked(0.2, 3.0), ARM, COACH, **SPEED, why=CLONED),
    Claim("vision_coach, prompted off", "right .02, marks of 3 nats", marked(0.02, 3.0), ARM, ALONE, **SPEED),
    Claim("video_tg", "right .02, .4 nats for each black frame", grounding(0.02, 0.4), Arm(steps=30), VIDEO),
    Claim(
        "video_tg",
        "right .2, .4 nats for each black frame",
        grounding(0.2, 0.4),
        Arm(steps=30),
        VIDEO,
        why="masked clips are solved by all of a group, which teaches nothing",
    ),
    Claim(
        "video_tg, boundary reflection",
        "half of the rows annotated wrongly, shared logits, right .05",
        PARTLY,
        Arm(steps=20, prompts=8, lr=0.1),
        REFLECTED,
    ),
    Claim(
        "video_tg, boundary reflection",
        "the same, own logits",
        PARTLY_APART,
        Arm(steps=20, prompts=8),
        REFLECTED,
    ),
    Claim(
        "thinking_modes",
        "half of the prompts need a long thought and rarely get one",
        MODES,
        ARM,
        plugin("thinking_modes"),
        **SPEED,
    ),
    Claim(
        "thinking_modes",
        "the same",
        MODES,
        ARM,
        plugin("thinking_modes"),
        measure="short thoughts on the easy half",
        score=short,
    ),
]
