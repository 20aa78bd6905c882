"""A `generate` that goes on from forced tokens with ids of its own, and remembers what it was asked."""

from dataclasses import replace

import torch
from makers.batches import make_batch

from mmrl.algorithms.rollout_batch import RolloutBatch


def batch_of(rows, rewards, gid=None, logprobs=None, **columns) -> RolloutBatch:
    """Completions of these token ids."""
    batch = make_batch([len(row) for row in rows], gid=gid, rewards=rewards)
    width = batch.mask_NC.shape[1]
    ids = [list(row) + [0] * (width - len(row)) for row in rows]
    batch = replace(batch, ids_NC=torch.tensor(ids), **columns)
    if logprobs is None:
        return batch
    grid = [list(row) + [0.0] * (width - len(row)) for row in logprobs]
    return replace(batch, rollout_NC=torch.tensor(grid))


class Engine:
    """Goes on with two tokens, numbered on from 100. rewards: of what it makes, in turn; log-probs -1."""

    def __init__(self, rewards=()):
        self.rewards, self.asked, self._made = list(rewards), [], 0

    def __call__(self, gids, *, n=1, prefix_ids=()):
        prefix_ids = prefix_ids or [((),) * n for _ in gids]
        self.asked += [(gid, prefix) for gid, prefixes in zip(gids, prefix_ids, strict=True) for prefix in prefixes]
        rows, scores = [], []
        for prefixes in prefix_ids:
            for prefix in prefixes:
                rows.append([*prefix, 100 + 2 * self._made, 101 + 2 * self._made])
                scores.append(self.rewards[self._made] if self._made < len(self.rewards) else 0.0)
                self._made += 1
        return batch_of(rows, scores, gid=[gid for gid in gids for _ in range(n)])
