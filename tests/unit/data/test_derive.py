"""Entries made from entries."""

import pytest
import torch
from makers.openers import QWEN25

from mmrl.data.derive import derive
from mmrl.data.rendered import MediaEntry


def clip_entry(frames=5):
    return MediaEntry(
        key="k",
        kind="video",
        frames_F3HW=torch.arange(frames * 3 * 28 * 56).remainder(256).to(torch.uint8).view(frames, 3, 28, 56),
        grid_thw=(3, 2, 4),
        num_tokens=6,
        source_size=(640, 480),
        timestamps_s=(0.0, 0.5, 1.0, 1.5, 2.0),
        frame_indices=(0, 15, 30, 45, 60),
        source_fps=30.0,
        duration_s=2.5,
        sample_fps=2.0,
    )


def test_dropped_frames():
    entry = clip_entry()
    kept = [0, 4]
    half = derive(entry, entry.frames_F3HW[kept], how="first and last", geometry=QWEN25, kept=kept)
    assert (half.grid_thw, half.num_tokens, half.timestamps_s, half.frame_indices) == (
        (1, 2, 4),
        2,
        (0.0, 2.0),
        (0, 60),
    )
    assert (half.sample_fps, half.source_fps, half.duration_s) == (0.8, 30.0, 2.5)


def test_shuffled_frames_keep_the_times():
    entry = clip_entry()
    shuffled = derive(entry, entry.frames_F3HW[[4, 2, 0, 1, 3]], how="shuffled", geometry=QWEN25)
    assert (shuffled.grid_thw, shuffled.num_tokens, shuffled.timestamps_s) == ((3, 2, 4), 6, entry.timestamps_s)


def test_keys_differ_by_what_was_done_and_by_the_frames():
    entry = clip_entry()
    noisy = entry.frames_F3HW ^ 1
    keys = {
        entry.key,
        derive(entry, noisy, how="noise", geometry=QWEN25).key,
        derive(entry, noisy, how="other", geometry=QWEN25).key,
        derive(entry, entry.frames_F3HW, how="noise", geometry=QWEN25).key,
        derive(entry, noisy[:4], how="noise", geometry=QWEN25, kept=range(4)).key,
    }
    assert len(keys) == 5
    assert derive(entry, noisy, how="noise", geometry=QWEN25).key in keys


def test_frames_must_match_what_is_kept():
    entry = clip_entry()
    with pytest.raises(AssertionError, match="4 frames but 5 kept"):
        derive(entry, entry.frames_F3HW[:4], how="cut", geometry=QWEN25)
