"""What a hook may ask a forward pass for beside log-probs, computed chunk by chunk with the head and only when asked.

    entropy         of the tempered distribution; with gradient where the pass has one
    mean_logprob    mean over the allowed vocabulary of log-softmax (ROVER's uniform policy)
    min_p:K         log-prob of the token under the distribution cut at K times the largest probability and
                    renormalised; -inf for a token that is cut (Lp-Reg's proxy with K 0.02)
    hidden:F        hidden states behind the layer at F (0 to 1) of the decoder's depth, last dimension D
    value           what the value head expects; with gradient where the pass has one
    top:K           the K most likely tokens at the token's place: last dimension 2 K, their ids, then their log-probs
    distribution    log-probs of the whole vocabulary at the token's place, last dimension V, -inf for banned tokens:
                    for a place or two, never for whole completions

A plug-in names them in NEEDS (of the policy before the update, as `batch.meta[name]` or a field of its own) and in
EXTRA (of the pass that is trained, as `inputs.extra[name]`). The others carry no gradient.
"""

from __future__ import annotations

PLAIN = ("entropy", "mean_logprob", "value", "distribution")
PARAMETRIC = ("min_p", "hidden")
COUNTED = ("top",)


def is_request(name: str) -> bool:
    """Whether a pass can give it.

    >>> [is_request(name) for name in ("mean_logprob", "min_p:0.02", "hidden:0.5", "min_p", "hidden:2", "ref")]
    [True, True, True, False, False, False]
    >>> [is_request(name) for name in ("top:8", "top:0.5", "top")]
    [True, False, False]
    """
    kind, colon, number = name.partition(":")
    if not colon:
        return name in PLAIN
    if kind in COUNTED:
        return number.isdecimal() and int(number) > 0
    try:
        return kind in PARAMETRIC and 0 <= float(number) <= 1
    except ValueError:
        return False


def argument(name: str) -> float:
    """The number behind the colon."""
    return float(name.partition(":")[2])
