"""Whether the sampler's log-probs of a batch are the trainer's before the update, so that no pass has to take them.

They are where one set of weights did both in float32: the engine `hf` on the trainer's own modules, nothing sampled
ahead, no top-k, top-p or min-p, completions of this step alone. Both then compute the same function of the same
numbers, in another order of summation: they differ by rounding, about 1e-6. In bfloat16 rounding is 1e-2, and the
trainer's own values are nearer to what it computes in the update.
"""

from __future__ import annotations

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.training import distributed
from mmrl.training.runtime import Runtime


def sampled_by_trainer(batch: RolloutBatch, run: Runtime) -> bool:
    """Called by all processes together; they agree."""
    rollout, model = run.config.rollout, run.config.model
    one_function = run.shares_modules and model.dtype == "float32" and model.quantization is None
    is_filtered = rollout.top_k > 0 or rollout.top_p < 1 or rollout.min_p > 0
    kinds = batch.kind or ("fresh",)
    is_fresh = all(kind == "fresh" for kind in kinds) and bool((batch.staleness_N == 0).all())
    return not distributed.any_rank(is_filtered or not (one_function and is_fresh))
