"""Models beside the policy: a plug-in reads their log-probs of the completions, and may let one learn.

A plug-in's attribute `models` holds them by name, set by its options. The log-probs of model NAME, at the sampler's
temperature and without the tokens it bans, are `batch.meta["model:NAME"]`, (N, C), from `advantage` on.
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "model:"


@dataclass(frozen=True, slots=True)
class ModelBeside:
    """path: a model folder or hub id, with the policy's tokens and family.

    lr: rate of one optimizer step a training step, after the policy's, on what the hook `model_loss` returns. None: the
    model is frozen.
    """

    path: str
    lr: float | None = None
