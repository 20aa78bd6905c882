"""The bench of methods on tables: that its harness trains, compares and reports as it says."""

import math
from dataclasses import replace

import pytest
import torch
from bench.algorithms.claim import Claim, final, interval, plugin, seen
from bench.algorithms.claims import asked, process, rl_zvp, views
from bench.algorithms.run import claims_of, names
from bench.algorithms.spec_rl_exact import QUANTILE_95, chi_square, made
from bench.algorithms.tabular import Arm, Policy, Rows, Task, every, sample
from bench.algorithms.tasks import start, target
from bench.algorithms.trainer import Trainer, train

TASK = Task(start(0.2, prompts=8), target)


def test_what_is_measured_is_the_share_of_right_answers():
    policy = Policy(TASK.start(torch.Generator().manual_seed(0)), task=TASK)
    success, length = policy.success()
    assert success == pytest.approx(0.2, abs=1e-5)
    assert length == pytest.approx(2.0, abs=1e-5)
    prompt_N = torch.arange(8).repeat(4000)
    rows = sample(policy, prompt_N, torch.Generator().manual_seed(1), step=0)
    assert target(rows).mean().item() == pytest.approx(0.2, abs=0.01)


def test_answers_that_end_are_counted_once_each():
    rows = every((1, 2, 3, 3), end=2)
    assert sorted(map(tuple, rows.ids_NC.tolist())) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert rows.mask_NC.sum().item() == 13


def test_the_step_is_the_gradient_of_the_expected_reward():
    """Plain policy gradient on one prompt of one token: the logits move along p (r - mean r)."""
    task = Task(lambda generator: torch.tensor([0.0, 0.4, -0.3]).expand(1, 1, 3, 3), target)
    arm = Arm(settings={"advantage": "dr_grpo", "policy_loss": "gpg"}, group=200_000, steps=1)
    result = train(task, arm, 0)
    moved_V = (result.policy.own - result.start.own).detach()[0, 0, 0]
    p_V = torch.tensor([0.0, 0.4, -0.3]).softmax(0)
    torch.testing.assert_close(moved_V, p_V * (torch.tensor([1.0, 0.0, 0.0]) - p_V[0]), atol=3e-3, rtol=0)


@pytest.mark.parametrize("options", [{"alpha": 0.0}])
def test_a_neutral_plugin_changes_nothing(options):
    found = seen(Claim("rl_zvp", "", TASK, Arm(steps=3), plugin("rl_zvp", **options), "0"))
    assert found.differences == [0.0] * 5
    assert found.sign == "0"
    assert found.base[0] > 0.2


def test_an_effect_is_seen_in_a_few_steps():
    claim = next(claim for claim in process.CLAIMS if claim.method == "blockwise")
    found = seen(
        replace(
            claim, base=replace(claim.base, steps=12), task=replace(claim.task, start=start(0.02, places=4, prompts=16))
        )
    )
    assert found.sign == "+"
    assert "| + / + |" in found.row()


def test_named_claims_run():
    claim = rl_zvp.CLAIMS[0]
    short = replace(claim, base=replace(claim.base, steps=2), task=replace(claim.task, start=start(0.9, prompts=4)))
    low, high = seen(short).interval
    assert math.isfinite(low)
    assert low < high


def test_the_interval_is_that_of_student():
    low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (low, high) == pytest.approx((3 - 1.9629, 3 + 1.9629), abs=1e-4)
    low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0] * 2)
    assert (low, high) == pytest.approx((3 - 1.0662, 3 + 1.0662), abs=1e-3)


def test_stale_samples_have_the_log_probs_of_the_older_policy():
    """With a lag of one step the second step samples from the table before the first."""
    result = train(TASK, Arm(steps=2, lag=1, settings={"rollout_correction": "truncate"}), 0)
    assert [log["policy/rollout_kl"] == pytest.approx(0.0, abs=1e-7) for log in result.logs] == [True, False]


def test_drafts_save_tokens_and_none_without_lenience():
    arm = Arm(steps=4)
    plain = train(TASK, arm, 0)
    kept = train(TASK, replace(arm, settings=plugin("spec_rl", lenience=1.0)), 0)
    none = train(TASK, replace(arm, settings=plugin("spec_rl", lenience=0.0)), 0)
    assert plain.tokens == none.tokens == 4 * 8 * 8 * 2
    assert plain.tokens / 4 < kept.tokens < plain.tokens / 2
    assert final(none) == final(plain)


def test_drafts_have_the_present_policys_distribution_and_the_official_form_has_not():
    before, now = torch.zeros(1, 2, 2), torch.tensor([0.7, 0.3]).log().expand(1, 2, 2)
    exact, official = made(before, now), made(before, now, official=True)
    assert chi_square(exact, now) < QUANTILE_95[1] < chi_square(official, now)
    assert (official / official.sum()).tolist() == pytest.approx([0.64, 0.36], abs=0.01)


def test_a_hinted_prompt_has_the_logits_of_its_prompt_and_the_hint():
    task = Task(start(0.2, prompts=2), target, hints=(1.5,))
    policy = Policy(task.start(torch.Generator().manual_seed(0)), task=task)
    ids_NC = torch.zeros(2, 2, dtype=torch.int64)
    with torch.no_grad():
        found = policy.distributions(Rows(torch.tensor([1, 3]), ids_NC, torch.ones_like(ids_NC, dtype=torch.bool)))
    torch.testing.assert_close((found[1] - found[0])[:, 0] - (found[1] - found[0])[:, 1], torch.tensor([1.5, 1.5]))


def test_a_blurred_view_has_flatter_logits():
    task = Task(start(0.2, prompts=2), target, hints=(0.0,), blur=0.5)
    policy = Policy(task.start(torch.Generator().manual_seed(0)), task=task)
    ids_NC = torch.zeros(2, 2, dtype=torch.int64)
    with torch.no_grad():
        plain, blurred = policy.distributions(Rows(torch.tensor([1, 3]), ids_NC, torch.ones_like(ids_NC).bool()))
    torch.testing.assert_close(blurred[:, 0] - blurred[:, 1], 0.5 * (plain[:, 0] - plain[:, 1]))


def test_steps_of_equal_length_do_not_know_the_size_of_the_advantages():
    arm = Arm(steps=1, unit=True, lr=0.1)
    moved = []
    for settings in ({"advantage": "dr_grpo"}, {"advantage": "rloo"}):
        result = train(TASK, replace(arm, settings=settings), 0)
        moved.append((result.policy.own - result.start.own).detach())
    assert moved[0].norm().item() == pytest.approx(0.1 * math.sqrt(8 * 2), abs=1e-5)
    torch.testing.assert_close(moved[0], moved[1], atol=1e-6, rtol=0)


def test_a_run_ends_once_its_tokens_are_sampled():
    assert train(TASK, Arm(tokens=300), 0).tokens == 3 * 8 * 8 * 2
    assert train(TASK, Arm(tokens=10**9, steps=2), 0).tokens == 2 * 8 * 8 * 2


def test_rated_prompts_without_right_answers_are_left_out():
    def halves(generator):
        return torch.cat([torch.full((4,), 0.5), torch.full((4,), 1e-9)])

    task = Task(start(halves, prompts=8), target)
    result = train(task, Arm(steps=3, prompts=4, rated=8), 0)
    assert result.rollouts == 8 * 8 + 3 * 4 * 8
    moved_P = (result.policy.own - result.start.own).detach().flatten(1).norm(dim=1)
    assert moved_P[4:].tolist() == [0.0] * 4
    assert moved_P[:4].min() > 0.1


def test_shares_decide_which_part_is_drawn():
    result = train(TASK, Arm(steps=3, prompts=4, shares=(0.0, 1.0)), 0)
    moved_P = (result.policy.own - result.start.own).detach().flatten(1).norm(dim=1)
    assert moved_P[:4].tolist() == [0.0] * 4
    assert moved_P[4:].max() > 0.1


def test_parts_can_be_the_reward_or_be_put_together():
    task = Task(
        start(0.2, prompts=8), target, parts=lambda rows, true_N, generator: {"none": 0 * true_N, "all": true_N}
    )
    still, plain = train(task, Arm(steps=2, reward="none"), 0), train(task, Arm(steps=2), 0)
    assert still.success[-1] == still.success[0]
    assert train(task, Arm(steps=2, combine="sum"), 0).success == plain.success
    assert plain.success[-1] > plain.success[0]


def test_asked_prompts_are_those_of_the_answers_they_show():
    """SPARK's and RISE's labels are checked as they are asked; what judges learn is of the prompts they were."""
    arm = Arm(steps=2, settings=plugin("spark"))
    result = train(asked.TEXTS, arm, 0)
    moved_P = (result.policy.own - result.start.own).detach().flatten(1).norm(dim=1)
    assert (moved_P[asked.SINGLE : asked.PAIR] > 0).any()
    assert (moved_P[asked.PAIR : asked.MEND] > 0).any()
    assert result.success[0] == pytest.approx(train(asked.TEXTS, Arm(steps=1), 0).success[0])
    rows = Rows(
        torch.tensor([0, asked.SINGLE, asked.SINGLE + 1, asked.PAIR + 1, asked.PAIR + 4]), torch.zeros(5, 1), None
    )
    assert asked.first_is_right(rows).tolist() == [1.0, 1.0, 0.0, 1.0, 0.0]


def test_a_clip_is_seen_with_as_many_black_frames_as_the_hook_makes():
    """With the whole outside masked 6 of 8 frames are black; a run's second half shows clips as they are."""
    trainer = Trainer(views.grounding(0.2, 0.4), Arm(steps=10, settings=views.VIDEO), 0)
    shown = []
    for step in (0, 5):
        trainer.pool.progress = step / 10
        shown.append(trainer._shown(3))
    assert shown == [3 + 5 * 32, 3]  # .8 of 6


def test_every_file_has_claims_with_both_arms():
    for name in names():
        for claim in claims_of(name):
            assert claim.arm != claim.base, f"{name}: {claim.method}, {claim.setting}: nothing differs from GRPO"
            assert claim.predicted in ("+", "-", "0", "?")
