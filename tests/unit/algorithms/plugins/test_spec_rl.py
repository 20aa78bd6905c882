"""SPEC-RL: what of a draft is kept, and that completions have the present policy's distribution at lenience 1."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import end_step, plugin

from mmrl.algorithms.plugins.spec_rl import _accepted, _residual_token

END = 4


class Table:
    """Stands in for the trainer: prompts of a policy over five tokens, END among them, two at most.

    next_VV: probabilities after each token; row END: of the first one.
    """

    most_tokens = 2

    def __init__(self, next_VV, prompts=1, seed=0):
        self.next_VV, self.seed = np.asarray(next_VV), seed
        self.prompt_ids = [f"s{n}" for n in range(prompts)]
        self.asked = []

    def seed_of(self, prompt, purpose):
        return 1000 * self.seed + prompt

    def logprobs(self, prompts, completions):
        grid = torch.zeros(len(completions), max(map(len, completions), default=0))
        for n, ids in enumerate(completions):
            for t, token in enumerate(ids):
                grid[n, t] = math.log(self.next_VV[ids[t - 1] if t else END][token])
        return grid

    def next_logprobs(self, prompts, prefixes):
        self.asked += prefixes
        return torch.from_numpy(self.next_VV[[ids[-1] if ids else END for ids in prefixes]]).log()


def completed(prefixes, next_VV, generator):
    """What an engine that samples from the table makes of forced beginnings."""
    rows = []
    for ids in prefixes:
        ids = list(ids)
        while len(ids) < 2 and (not ids or ids[-1] != END):
            ids.append(int(generator.choice(5, p=next_VV[ids[-1] if ids else END])))
        rows.append(tuple(ids))
    return rows


def trained_on(rows, next_VV, top=3):
    """A step's batch of one prompt with old log-probs and likely tokens by the table."""
    batch = make_batch([len(ids) for ids in rows])
    ids_NC = torch.zeros_like(batch.ids_NC)
    old_NC, top_NCK = torch.zeros(ids_NC.shape), torch.zeros(*ids_NC.shape, 2 * top)
    for n, ids in enumerate(rows):
        for t, token in enumerate(ids):
            probabilities = torch.tensor(next_VV[ids[t - 1] if t else END]).float().log()
            ids_NC[n, t], old_NC[n, t] = token, probabilities[token]
            values, likely = probabilities.topk(top)
            top_NCK[n, t] = torch.cat([likely.float(), values])
    return replace(batch, ids_NC=ids_NC, old_NC=old_NC, meta={"top:8": top_NCK})


def visited(rows, next_VV, **options):
    used = plugin("spec_rl", **options)
    end_step(used, trained_on(rows, next_VV))
    return used


def table(seed, temperature=1.0):
    logits = np.random.default_rng(seed).normal(size=(5, 5)) / temperature
    return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


def test_acceptance_is_the_ratio_times_the_lenience():
    ratios = np.log([0.5, 0.8, 1.0])
    for lenience, expected in ((math.exp(0.5), 0.8244), (1.0, 0.5)):
        assert _accepted(ratios[:1], np.array([expected - 1e-4]), lenience) == 1
        assert _accepted(ratios[:1], np.array([expected + 1e-4]), lenience) == 0
    assert _accepted(np.log([1, 0.9, 0.6, 0.3]), np.array([0.5, 0.5, 0.7, 0.1]), 1.0) == 2
    assert _accepted(np.array([-np.inf]), np.array([0.1]), 1.0) == 0
    assert _accepted(ratios, np.full(3, 0.999), math.inf) == 3


def test_the_mean_length_that_is_kept():
    """Drafts of ratios 1, .9, .6, .3: 2.602 in the mean."""
    generator = np.random.default_rng(0)
    kept = [_accepted(np.log([1, 0.9, 0.6, 0.3]), generator.random(4), 1.0) for _ in range(20_000)]
    assert np.mean(kept) == pytest.approx(2.602, abs=0.03)


def test_the_residual_is_what_the_draft_lacks():
    policy_V, before = torch.tensor([0.5, 0.3, 0.2]).log(), np.log([0.7, 0.1])
    drawn = [_residual_token(policy_V, np.array([0, 1]), before, (i + 0.5) / 400, 1.0) for i in range(400)]
    assert [drawn.count(token) / 400 for token in range(3)] == [0.0, 0.5, 0.5]  # 0, .3 - .1, all of .2
    drawn = [_residual_token(policy_V, np.array([0, 1]), before, (i + 0.5) / 400, 0.5) for i in range(400)]
    shares = [drawn.count(token) / 400 for token in range(3)]
    assert shares == pytest.approx([0.25 / 0.65, 0.2 / 0.65, 0.2 / 0.65], abs=0.003)
    assert _residual_token(policy_V, np.arange(3), policy_V.numpy(), 0.5, 1.0) is None


@pytest.mark.parametrize(("official", "expected"), [(False, 0.70), (True, 0.64)])
def test_the_worked_bias(official, expected):
    """q = (.5, .5), p = (.7, .3) on the first token, the second one is END."""
    old, new = np.zeros((5, 5)), np.zeros((5, 5))
    old[:, END] = new[:, END] = 1.0
    old[END], new[END] = [0.5, 0.5, 0, 0, 0], [0.7, 0.3, 0, 0, 0]
    generator, old, new = np.random.default_rng(1), old + 1e-12, new + 1e-12
    old, new = old / old.sum(1, keepdims=True), new / new.sum(1, keepdims=True)
    drafts = completed([()] * 15_000, old, generator)
    used = visited(drafts, old, lenience=1.0, official=official)
    [prefixes] = used.hooks["prefixes"](Table(new), [len(drafts)])
    found = completed(prefixes, new, generator)
    assert np.mean([ids[0] == 0 for ids in found]) == pytest.approx(expected, abs=0.016)  # 4 standard errors


def chi_square(rows, next_VV):
    expected = {}
    for a in range(5):
        for b in range(5):
            ids = (a,) if a == END else (a, b)
            p = next_VV[END][a] * (1.0 if a == END else next_VV[a][b])
            expected[ids] = p * len(rows)
    counts = Counter(rows)
    return sum((counts.get(ids, 0) - number) ** 2 / number for ids, number in expected.items())


@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_at_lenience_one_completions_have_the_present_policys_distribution(floor):
    """21 outcomes: chi-square of 20 degrees, whose 99.9% quantile is 45.3. Three of five tokens are remembered."""
    old, new, generator = table(3), table(4), np.random.default_rng(5)
    drafts = completed([()] * 12_000, old, generator)
    assert chi_square(drafts, new) > 1000
    used = visited(drafts, old, lenience=1.0, floor=floor)
    [prefixes] = used.hooks["prefixes"](Table(new), [len(drafts)])
    found = completed(prefixes, new, generator)
    assert chi_square(found, new) < 45.3
    biased = visited(drafts, old, lenience=1.0, official=True)
    [prefixes] = biased.hooks["prefixes"](Table(new), [len(drafts)])
    assert chi_square(completed(prefixes, new, generator), new) > 100


def test_the_same_policy_keeps_whole_what_it_remembers():
    old, rows = table(3), [(0, 1), (2, END), (END,)]
    used = plugin("spec_rl", lenience=1.0, floor=0.0)
    end_step(used, trained_on(rows, old, top=5))
    drawn = Table(old)
    assert used.hooks["prefixes"](drawn, [4]) == [[*rows, ()]]
    assert drawn.asked == []
    metrics = end_step(used, trained_on(rows, old, top=5))
    assert metrics == {"spec_rl/saved_tokens": 5.0, "spec_rl/kept_share": 1.0, "spec_rl/whole_share": 1.0}
    assert end_step(used, trained_on(rows, old, top=5))["spec_rl/saved_tokens"] == 0.0


def test_a_draft_off_the_remembered_tokens_is_cut_and_prompts_without_one_are_free():
    old = np.full((5, 5), 0.01)
    old[:, 0] = 0.96
    used = visited([(1, 0)], old, floor=0.5)
    first, second = used.hooks["prefixes"](Table(old, prompts=2), [1, 2])
    assert len(first[0]) == 1 and second == [(), ()]
    assert plugin("spec_rl").hooks["prefixes"](Table(old, prompts=1), [2]) == [[(), ()]]


@pytest.mark.parametrize(("rewards", "drafts"), [([1.0, 1.0], 0), ([1.0, 0.0], 2)])
def test_groups_of_equal_rewards_leave_no_drafts_if_they_are_to_be_drawn_anew(rewards, drafts):
    used, batch = plugin("spec_rl", redraw_equal=True), trained_on([(0, 1), (2, 3)], table(3))
    used.hooks["on_step_end"](batch, torch.tensor(rewards), {})
    assert [len(kept) for kept in used.state_dict()["kept"].values()] == [drafts]


def test_with_lenience_zero_nothing_is_remembered():
    used = visited([(0, 1)], table(0), lenience=0.0)
    assert used.hooks["prefixes"](Table(table(0)), [1]) == [] and used.state_dict() == {"kept": {}}


def test_its_state_is_json_and_goes_on():
    rows, old, new = [(0, 1), (2, END), (3, 3)] * 20, table(3), table(4)
    used, resumed = visited(rows, old), plugin("spec_rl")
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    drafts = [made.hooks["prefixes"](Table(new, seed=7), [60]) for made in (used, resumed)]
    assert drafts[0] == drafts[1]
    assert drafts[0] != used.hooks["prefixes"](Table(new, seed=8), [60])
    assert resumed.state_dict() == used.state_dict()
