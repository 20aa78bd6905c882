"""VI-CuRL: prompts by confidence, and the share that grows."""

import pytest
import torch
from makers.plugin_values import grid, plugin, scored_batch

ENTROPY = grid([[0.3], [1.2], [0.6], [0.9]])


def kept(step, total=10, entropy_NC=ENTROPY, **options):
    batch = scored_batch([0.0] * 4, gid=range(4), entropy_NC=entropy_NC, step=step, total_steps=total)
    used = plugin("vi_curl", **options)
    keep_N = used.hooks["keep"](batch, torch.zeros(4))
    weight_NC = used.hooks["token_weight"](torch.ones(batch.mask_NC.shape), batch)
    return keep_N.int().tolist(), weight_NC[:, 0].tolist()


@pytest.mark.parametrize(("step", "wanted"), [(0, [1, 0, 1, 0]), (5, [1, 0, 1, 1]), (10, [1, 1, 1, 1])])
def test_the_share_of_prompts_grows_to_all(step, wanted):
    assert kept(step) == (wanted, [1.0] * 4)


def test_weights_make_up_for_what_is_dropped():
    assert kept(0, reweight=True)[1] == [2.0] * 4
    assert kept(10, reweight=True)[1] == [1.0] * 4


def test_a_prompts_entropy_is_the_mean_over_all_its_tokens():
    rows = [[4.0], [1.0, 1.0, 1.0], [2.0], [2.0]]  # 7 / 4 in one prompt, 2 in the other
    batch = scored_batch([0.0] * 4, lengths=[1, 3, 1, 1], gid=[0, 0, 1, 1], entropy_NC=grid(rows), total_steps=10)
    assert plugin("vi_curl").hooks["keep"](batch, torch.zeros(4)).tolist() == [True, True, False, False]
