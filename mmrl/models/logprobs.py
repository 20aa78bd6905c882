"""Log-probs of the loss tokens of a micro-batch, without ever holding its full-vocabulary logits.

The decoder runs to its last hidden states; only the positions that predict a loss token pass the output head, `chunk`
positions at a time, and the backward pass computes each chunk's logits anew.

Shape letters: B packed rows, T packed tokens, L loss tokens, V vocabulary, D hidden size, K positions of a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from mmrl.algorithms.batch import MicroBatch
from mmrl.algorithms.requests import argument
from mmrl.models.decoder import DecoderInputs, decoder_of, run_decoder
from mmrl.models.encode import encode_media, gather_features, idle_term
from mmrl.models.families import FamilyProcessor

# Its probability is 0, and so is its term of the entropy, also after multiplication with a gradient; with -inf that
# would be 0 x inf, NaN.
_BANNED_LOGIT = -1e30


class LogprobResult(NamedTuple):
    """logprobs_L, entropy_L: float32, in nats, in the order of the micro-batch's loss tokens.

    extra: by request what else was asked for (mmrl/algorithms/requests.py), of the same tokens.
    """

    logprobs_L: torch.Tensor
    entropy_L: torch.Tensor | None
    extra: dict[str, torch.Tensor] = {}  # noqa: RUF012 - a default that nobody writes to


class LogprobModule(torch.nn.Module):
    """A model whose forward pass is `token_logprobs`.

    Engines that hook into forward and backward (DeepSpeed's ZeRO) must see the vision tower, the decoder and the
    output head in one forward call; wrapping the model in this module gives them that.
    """

    def __init__(self, model: Any, value_head: torch.nn.Module | None = None) -> None:
        super().__init__()
        self.model = model
        self.head_pass = HeadPass(model.lm_head)
        self.value_head = value_head

    def forward(
        self,
        micro: MicroBatch,
        processor: FamilyProcessor,
        *,
        want_entropy: bool = False,
        requests: Sequence[str] = (),
        **options: Any,
    ) -> LogprobResult:
        fractions = {name: argument(name) for name in requests if name.startswith("hidden:")}
        with layer_states(self.model, fractions.values()) as layers:
            hidden_LD = _predicting_states(self.model, micro, processor)
        predict_L = micro.predict_L.to(hidden_LD.device)
        extra = {name: layers[fraction].flatten(0, 1)[predict_L].float() for name, fraction in fractions.items()}
        if "value" in requests:
            assert self.value_head is not None, "a run whose algorithm needs values has a value head"
            extra["value"] = self.value_head(hidden_LD)
        statistics = tuple(name for name in requests if name not in extra and name != "entropy")
        logprobs_L, entropy_L, statistics_LS = self.head_pass(
            hidden_LD, micro.target_L, want_entropy=want_entropy, statistics=statistics, **options
        )
        extra |= _columns_of(statistics, statistics_LS)
        return LogprobResult(logprobs_L, entropy_L, extra)


class HeadPass(torch.nn.Module):
    """Hidden states to log-probs, chunk by chunk, in one forward call of a module.

    Under ZeRO-3 the head's weight is gathered once for all chunks: as many collectives on every process, however many
    loss tokens it has.
    """

    def __init__(self, head: torch.nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(
        self,
        hidden_LD: torch.Tensor,
        target_L: torch.Tensor,
        *,
        temperature: float,
        banned_ids: tuple[int, ...],
        chunk: int,
        want_entropy: bool,
        statistics: tuple[str, ...] = (),
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """Log-prob of each target, the entropies when wanted, and the statistics (L, S), side by side; see
        `token_logprobs`.
        """
        target_L = target_L.to(hidden_LD.device)
        banned_V = torch.tensor(banned_ids, dtype=torch.long, device=hidden_LD.device)
        _check_targets(target_L, banned_V)
        logprobs, entropies, found = [], [], []
        for hidden_KD, target_K in zip(hidden_LD.split(chunk), target_L.split(chunk), strict=True):
            logprobs_K, entropy_K, statistics_KS = checkpoint(
                _chunk_logprobs,
                # `forward`, not a call: the head's own hooks would gather its weight once a chunk
                *(self.head.forward, hidden_KD, target_K, banned_V, temperature, want_entropy, statistics),
                use_reentrant=False,
                preserve_rng_state=False,
            )
            logprobs.append(logprobs_K)
            entropies.append(entropy_K)
            found.append(statistics_KS)
        return torch.cat(logprobs), torch.cat(entropies) if want_entropy else None, torch.cat(found)


def token_logprobs(
    model: Any,
    micro: MicroBatch,
    processor: FamilyProcessor,
    *,
    temperature: float,
    banned_ids: tuple[int, ...],
    chunk: int,
    want_entropy: bool = False,
) -> LogprobResult:
    """Log-prob of every loss token under softmax(z / temperature) with the banned ids left out.

        log p(y) = z_y / T - log sum over allowed v of exp(z_v / T)
        entropy  = log sum exp(z / T) - sum p z / T

    That is the distribution a sampler draws from while top-k, top-p and min-p are off. Sums are in float32 whatever
    the model's type. Raises ValueError where a loss token is banned: no sampler can have drawn it.

    Two tokens with logits (ln 3, 0) at T = 1: log-probs ln 0.75 and ln 0.25.
    """
    options = {"temperature": temperature, "banned_ids": banned_ids, "chunk": chunk, "want_entropy": want_entropy}
    return LogprobModule(model)(micro, processor, **options)


def _predicting_states(model: Any, micro: MicroBatch, processor: FamilyProcessor) -> torch.Tensor:
    """Last hidden states of the positions that predict the loss tokens (L, D)."""
    features = encode_media(model, micro.media, processor)
    inputs = DecoderInputs(
        ids_BT=micro.ids_BT,
        positions_3BT=micro.positions_3BT,
        forest=micro.forest,
        attention=micro.attention,
        encoder_outputs=gather_features(features, micro.media_order, processor),
    )
    hidden_BTD = run_decoder(model, inputs).last_hidden_state
    idle = idle_term(features, micro.media_order)
    if idle is not None:
        hidden_BTD = hidden_BTD + idle.to(hidden_BTD.dtype)
    return hidden_BTD.flatten(0, 1)[micro.predict_L.to(hidden_BTD.device)]


def _check_targets(target_L: torch.Tensor, banned_V: torch.Tensor) -> None:
    banned = target_L[torch.isin(target_L, banned_V)]
    if banned.numel():
        raise ValueError(f"loss tokens {banned.unique().tolist()} are banned from generation; no policy can say them")


def _chunk_logprobs(
    head: Callable[[torch.Tensor], torch.Tensor],
    hidden_KD: torch.Tensor,
    target_K: torch.Tensor,
    banned_V: torch.Tensor,
    temperature: float,
    want_entropy: bool,
    statistics: tuple[str, ...],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    arguments = (target_K, banned_V, temperature, want_entropy, statistics)
    return _SoftmaxStatistics.apply(head(hidden_KD), *arguments)  # type: ignore


class _SoftmaxStatistics(torch.autograd.Function):
    """(log p of the targets, entropy, further statistics) of tempered logits; the entropy is empty unless wanted. Of
    the first two there is a gradient.

    With y the target and H the entropy, p_v the probability of token v:

        d log p_y / d z_v = ([v = y] - p_v) / T          dH / d z_v = -p_v (log p_v + H) / T

    Written out because autograd holds five (K, V) tensors for it where two are enough.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits_KV: torch.Tensor,
        target_K: torch.Tensor,
        banned_V: torch.Tensor,
        temperature: float,
        want_entropy: bool,
        statistics: tuple[str, ...],
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        # In place: nobody else reads the head's output.
        scaled_KV = logits_KV.float().div_(temperature)
        mean_K = _allowed_mean(scaled_KV, banned_V) if "mean_logprob" in statistics else None
        scaled_KV = scaled_KV.index_fill_(-1, banned_V, _BANNED_LOGIT)
        normaliser_K = scaled_KV.logsumexp(-1)
        logprobs_K = scaled_KV.gather(-1, target_K[:, None])[:, 0] - normaliser_K
        entropy_K = logprobs_K.new_empty(0)
        if want_entropy:
            entropy_K = normaliser_K - (scaled_KV.softmax(-1).mul_(scaled_KV)).sum(-1)
        parts = [logprobs_K.new_empty(len(logprobs_K), 0)]
        for name in statistics:
            if mean_K is not None and name == "mean_logprob":
                parts.append((mean_K - normaliser_K)[:, None])
            elif name == "distribution":
                parts.append((scaled_KV - normaliser_K[:, None]).index_fill_(-1, banned_V, -torch.inf))
            elif name.startswith("top:"):
                values_KA, ids_KA = (scaled_KV - normaliser_K[:, None]).topk(int(argument(name)), dim=-1)
                parts += [ids_KA.to(values_KA.dtype), values_KA]
            else:
                parts.append(_min_p_logprobs(scaled_KV, target_K, share=argument(name))[:, None])
        statistics_KS = torch.cat(parts, 1)
        ctx.save_for_backward(scaled_KV, normaliser_K, entropy_K, target_K)
        ctx.temperature, ctx.dtype = temperature, logits_KV.dtype
        ctx.mark_non_differentiable(statistics_KS)
        return logprobs_K, entropy_K, statistics_KS

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        scaled_KV, normaliser_K, entropy_K, target_K = ctx.saved_tensors
        logprob_gradient_K1, entropy_gradient_K = gradients[0][:, None], gradients[1]
        logprobs_KV = scaled_KV - normaliser_K[:, None]
        if entropy_K.numel():
            weight_KV = (logprobs_KV + entropy_K[:, None]).mul_(entropy_gradient_K[:, None]).add_(logprob_gradient_K1)
            gradient_KV = logprobs_KV.exp_().mul_(weight_KV.neg_())
        else:
            gradient_KV = logprobs_KV.exp_().mul_(-logprob_gradient_K1)
        gradient_KV.scatter_add_(-1, target_K[:, None], logprob_gradient_K1)
        return gradient_KV.div_(ctx.temperature).to(ctx.dtype), None, None, None, None, None


def _allowed_mean(scaled_KV: torch.Tensor, banned_V: torch.Tensor) -> torch.Tensor:
    """Mean logit over the tokens that are not banned."""
    count = scaled_KV.shape[-1] - len(banned_V)
    return (scaled_KV.sum(-1) - scaled_KV.index_select(-1, banned_V).sum(-1)) / count


def _min_p_logprobs(scaled_KV: torch.Tensor, target_K: torch.Tensor, *, share: float) -> torch.Tensor:
    """Log-prob of the targets among the tokens of at least `share` times the largest probability; -inf for others."""
    floor_K1 = scaled_KV.amax(-1, keepdim=True) + (math.log(share) if share > 0 else -torch.inf)
    mass_K = scaled_KV.masked_fill(scaled_KV < floor_K1, -torch.inf).logsumexp(-1)
    value_K = scaled_KV.gather(-1, target_K[:, None])[:, 0]
    return torch.where(value_K >= floor_K1[:, 0], value_K - mass_K, -torch.inf)


def _columns_of(statistics: Sequence[str], statistics_LS: torch.Tensor) -> dict[str, torch.Tensor]:
    """The statistics by name: one number each, but `top:K` has 2 K, and `distribution` the rest."""
    columns: dict[str, torch.Tensor] = {}
    widths = [2 * int(argument(name)) if name.startswith("top:") else 1 for name in statistics]
    if "distribution" in statistics:
        place = list(statistics).index("distribution")
        widths[place] = statistics_LS.shape[1] - sum(widths) + 1
    for name, column in zip(statistics, statistics_LS.split(widths, 1) if widths else (), strict=True):
        is_number = not (name == "distribution" or name.startswith("top:"))
        columns[name] = column[:, 0] if is_number else column
    return columns


@contextmanager
def layer_states(model: Any, fractions: Iterable[float]) -> Iterator[dict[float, torch.Tensor]]:
    """Within the block each pass of the decoder leaves here, detached, what goes out of the layers at these fractions
    of its depth: 0 is the first layer, 1 the last.
    """
    layers = decoder_of(model).layers
    states: dict[float, torch.Tensor] = {}

    def keep(fraction: float) -> Callable[..., None]:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            states[fraction] = (output[0] if isinstance(output, tuple) else output).detach()

        return hook

    with ExitStack() as hooks:
        for fraction in dict.fromkeys(fractions):
            handle = layers[round(fraction * (len(layers) - 1))].register_forward_hook(keep(fraction))
            hooks.callback(handle.remove)
        yield states


class ValueHead(torch.nn.Module):
    """A linear map from the last hidden states to one number; 0 everywhere until it is trained.

    detach: its gradient does not reach the model.
    """

    def __init__(self, model: Any, *, detach: bool) -> None:
        super().__init__()
        weight = model.lm_head.weight
        self.linear = torch.nn.Linear(weight.shape[1], 1, dtype=weight.dtype)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)
        self.detach = detach

    def forward(self, hidden_LD: torch.Tensor) -> torch.Tensor:
        hidden_LD = hidden_LD.detach() if self.detach else hidden_LD
        return self.linear(hidden_LD.to(self.linear.weight.dtype))[:, 0].float()
