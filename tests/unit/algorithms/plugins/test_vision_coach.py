"""VisionCoach: which prompts are asked again with marks, which answers are learnt from, and how."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import plugin

from mmrl.algorithms.advantages import grpo
from mmrl.algorithms.losses import LossInput
from mmrl.algorithms.plugins.vision_coach import _frames
from mmrl.config.schema import AlgorithmSection
from mmrl.data.sample import Sample
from mmrl.errors import DataError

GUIDE = {"marks": "darken", "boxes": [[20, 10, 60, 50]], "space": "original_px"}
# Half as large as its source.
ENTRY = SimpleNamespace(
    frames_F3HW=torch.full((1, 3, 40, 60), 100, dtype=torch.uint8), source_size=(120, 80), model_size=(60, 40)
)


# Frames at 0, 1, 2 and 3 s.
CLIP = SimpleNamespace(
    frames_F3HW=torch.full((4, 3, 40, 60), 100, dtype=torch.uint8),
    source_size=(120, 80),
    model_size=(60, 40),
    timestamps_s=(0.0, 1.0, 2.0, 3.0),
)


class Round:
    """Stands in for the trainer: prompts with these guides; answers to marked prompts have these rewards, in turn."""

    def __init__(self, guides, rewards):
        self.guides, self.rewards, self.frames, self.asked = guides, rewards, {}, []

    def sample(self, gid):
        columns = {} if self.guides[gid] is None else {"guide": self.guides[gid]}
        return Sample(f"s{gid}", "t", "image", (), columns=columns, origin="a.jsonl:3")

    def changed(self, gid, name, *, text, frames):
        assert "marked" in text
        self.frames[gid] = frames(ENTRY)
        return f"s{gid}~{name}"

    def others(self, gids, prompts, *, n):
        self.asked.append((list(gids), n))
        batch = make_batch([2] * (n * len(gids)), gid=[g for g in gids for _ in range(n)], rewards=self.rewards)
        return replace(batch, prompt_id=tuple(name for name in prompts for _ in range(n)))


def coached(rewards, guides, more, **options):
    batch = make_batch([1] * len(rewards), gid=[n // 4 for n in range(len(rewards))], rewards=rewards)
    given, used = Round(guides, more), plugin("vision_coach", **{"hard": 0.5, **options})
    return used.hooks["second_round"](batch, given), given, used


def test_hard_prompts_with_a_guide_are_asked_again_and_the_best_two_join():
    rewards = [0.0, 0.0, 0.0, 1.0, *[1.0] * 4, *[0.0] * 4]
    found, given, _ = coached(rewards, [GUIDE, GUIDE, None], [1.0, 0.2, 0.5, 0.7])
    assert given.asked == [([0], 4)]
    assert found.kind == ("fresh",) * 12 + ("recycled",) * 2
    assert found.gid_N.tolist()[12:] == [0, 0] and found.prompt_id[12:] == ("s0~guided",) * 2
    assert sorted(found.ids_NC[12:, 0].tolist()) == [0, 6]  # of the rewards 1 and .7
    assert found.rewards_NK[12:].isnan().all()


def test_answers_no_better_than_the_group_are_not_learnt_from():
    found, _, used = coached([0.0, 0.0, 0.0, 1.0], [GUIDE], [0.25, 0.25, 0.2, 0.0])
    assert len(found) == 4
    assert used.hooks["columns"](None, None, found)["vision_coach.selected"].tolist() == [0.0] * 4


def test_they_may_be_learnt_from_without_the_marks():
    found, _, _ = coached([0.0] * 4, [GUIDE], [1.0, 0.0, 0.0, 0.0], prompted=False)
    assert found.prompt_id == ("s0",) * 5


def test_they_have_no_advantage_and_the_group_none_from_them():
    found, _, _ = coached([0.0, 0.0, 0.0, 1.0], [GUIDE], [1.0, 0.9, 0.0, 0.0])
    rewards_N = found.rewards_NK[:, 0]
    advantage_NC = grpo(rewards_N, found, AlgorithmSection())
    assert (advantage_NC[4:] == 0).all()
    assert [round(v, 3) for v in advantage_NC[:4, 0].tolist()] == [-0.5, -0.5, -0.5, 1.5]


def test_the_term_is_the_mean_over_the_selected_of_the_mean_over_their_tokens():
    """Log-probs -1, -1 and -3, -3 of two selected among six rows: .1 * 2."""
    found, _, used = coached([0.0, 0.0, 0.0, 1.0], [GUIDE], [1.0, 0.9, 0.0, 0.0])
    found = replace(found, meta={**found.meta, **used.hooks["columns"](None, None, found)})
    policy_NC = torch.full(found.mask_NC.shape, -7.0)
    policy_NC[4], policy_NC[5] = -1.0, -3.0
    policy_NC.requires_grad_()
    zeros = torch.zeros_like(policy_NC)
    inputs = LossInput(policy_NC, zeros, zeros, found.mask_NC, found, AlgorithmSection(), {})
    loss_NC, stats = used.hooks["regulariser"](inputs)
    by_row = (loss_NC * found.mask_NC).sum(1) / found.length_N
    assert by_row.mean().item() == pytest.approx(0.2)
    assert stats["guided"][:, 0].tolist() == [False] * 4 + [True] * 2
    (-by_row.mean()).backward()
    assert (policy_NC.grad[:4] == 0).all()


def test_boxes_are_placed_on_the_pixels_that_the_model_sees():
    _, given, _ = coached([0.0] * 4, [GUIDE], [0.0] * 4)
    bright = (given.frames[0][0, 0] == 100).nonzero()
    assert bright.amin(0).tolist() == [5, 10] and bright.amax(0).tolist() == [24, 29]
    for marks in ("circle", "numbers"):
        _, given, _ = coached([0.0] * 4, [{**GUIDE, "marks": marks}], [0.0] * 4)
        assert (given.frames[0] != 100).any() and (given.frames[0] == 100).float().mean() > 0.7


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        ({"marks": "arrow", "boxes": [[0, 0, 1, 1]]}, "must say 'marks', one of darken, circle, numbers, and 'boxes'"),
        ({"marks": "circle"}, "and 'boxes' or 'track'"),
        ("darken", "and 'boxes' or 'track'"),
        ({**GUIDE, "track": [{"from": 0, "boxes": []}]}, "and 'boxes' or 'track'"),
        ({"marks": "circle", "boxes": [[5, 5, 1, 1]]}, "does not fit the medium"),
        ({"marks": "circle", "track": [{"from": 2, "boxes": []}, {"from": 1, "boxes": []}]}, "must rise"),
        ({"marks": "circle", "track": [{"from": 2}]}, "does not fit the medium: 'boxes'"),
    ],
)
def test_a_guide_of_another_form_is_an_error_that_names_the_row(guide, message):
    with pytest.raises(DataError, match=message) as error:
        coached([0.0] * 4, [guide], [])
    assert "a.jsonl:3 (id=s0)" in str(error.value)


def test_boxes_that_move_are_drawn_on_their_frames():
    """From 1 s on the left half, from 2.5 s on a corner; the first frame has no box and is left as it is."""
    track = [{"from": 1.0, "boxes": [[0, 0, 60, 80]]}, {"from": 2.5, "boxes": [[100, 60, 120, 80]]}]
    frames = _frames({"marks": "darken", "track": track}, where="a.jsonl:3", column="guide")(CLIP)
    assert (frames[0] == 100).all()
    for number in (1, 2):
        assert (frames[number, :, :, :30] == 100).all() and (frames[number, :, :, 30:] == 40).all()
    assert (frames[3, :, 30:, 50:] == 100).all() and (frames[3] == 100).sum() == 3 * 10 * 10
    again = _frames({"marks": "darken", "track": [*track, {"from": 2.6, "boxes": []}]}, where="", column="guide")(CLIP)
    assert torch.equal(again[:3], frames[:3]) and (again[3] == 100).all()
    assert (CLIP.frames_F3HW == 100).all()
