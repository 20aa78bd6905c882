"""Rewards that behave badly on demand: the completion says how."""

import os
import sys
import time
from pathlib import Path

from mmrl.errors import RewardError


def score(completion, sample):
    if completion == "hang":
        time.sleep(60)
    if completion == "die":
        os._exit(3)
    if completion == "exit":
        sys.exit(4)
    if completion == "raise":
        raise KeyError("boom")
    if completion == "bad answer":
        raise RewardError(f"{sample.where}: no answer")
    return {"nan": float("nan"), "text": "1", "none": None}.get(completion, float(len(completion)))


def pid(completion, sample):
    return os.getpid()


def nap(completion, sample):
    time.sleep(0.3)
    return 1.0


def with_parts(completion, sample):
    return {"reward": 0.5, "length": len(completion)}


def no_reward_key(completion, sample):
    return {"length": 1.0}


def batch(completions, samples):
    return [len(c) + len(s.columns) for c, s in zip(completions, samples, strict=True)]


def batch_size(completions, samples):
    return [float(len(completions))] * len(completions)


def group(completions, sample):
    if "hang" in completions:
        time.sleep(60)
    longest = max(map(len, completions))
    return [float(len(c) == longest) for c in completions]


def too_few(completions, sample):
    return [1.0]


def media_count(completion, sample):
    return float(len(sample.media))


def leaves_a_mark(completion, sample, *, folder):
    (Path(folder) / completion).touch()
    return 1.0


def waits_for_a_mark(completion, sample, *, folder):
    while not (Path(folder) / "go on").exists():
        time.sleep(0.01)
    return 1.0


def batch_leaves_marks(completions, samples, *, folder):
    return [leaves_a_mark(completion, None, folder=folder) for completion in completions]


def waits_10_ms(completion, sample):
    time.sleep(0.01)
    return 1.0


def waits_50_ms(completion, sample):
    time.sleep(0.05)
    return 1.0


def group_waits_50_ms(completions, sample):
    return [waits_50_ms(completion, sample) for completion in completions]


def batch_waits_50_ms(completions, samples):
    return [waits_50_ms(completion, None) for completion in completions]


def huge(completion, sample):
    return {"reward": 10**400} if completion == "reward" else {"reward": 1.0, "extra": 10**400}


_KEPT = []


def allocates(completion, sample):
    """As many megabytes as the completion says; `keep` in front: it never gives them back."""
    megabytes = int(completion.removeprefix("keep "))
    held = bytearray(megabytes * 1_000_000)
    if completion.startswith("keep"):
        _KEPT.append(held)
    return float(os.getpid())


def group_allocates(completions, sample):
    return [allocates(completion, sample) for completion in completions]
