"""Packed groups equal separate rows: log-probs, loss and gradients; chunks; bans; one pass of the tower per medium."""

import math

import pytest
import torch
from makers.rendered import random_completions
from makers.vlm import FAMILIES, TinyVlm, tiny_vlm

from mmrl.algorithms.batch import MicroBatch, Row, Segment
from mmrl.models.logprobs import LogprobModule, token_logprobs
from mmrl.models.packing import group_row, pack, separate_rows

LENGTHS = (5, 1, 9, 3)
TOLERANCE = 1e-5


def logprobs_NC(vlm: TinyVlm, micro: MicroBatch, *, num_sequences: int, chunk: int = 7) -> torch.Tensor:
    banned = tuple(vlm.processor.banned_ids)
    result = token_logprobs(vlm.model, micro, vlm.processor, temperature=0.8, banned_ids=banned, chunk=chunk)
    grid = result.logprobs_L.new_zeros(num_sequences, 16)
    return grid.index_put((micro.sequence_L, micro.token_L), result.logprobs_L)


def loss_and_gradients(vlm: TinyVlm, batches: list[list[Row]], *, num_sequences: int):
    """Sum over micro-batches of a loss with another weight for every sequence and token."""
    weight_NC = torch.linspace(-1, 1, num_sequences * 16).view(num_sequences, 16)
    vlm.model.zero_grad()
    logprobs = torch.zeros(num_sequences, 16)
    total = 0.0
    for rows in batches:
        grid = logprobs_NC(vlm, pack(rows, vlm.processor), num_sequences=num_sequences)
        loss = (grid * weight_NC).sum() / num_sequences
        loss.backward()
        logprobs += grid.detach()
        total += loss.item()
    gradients = {n: p.grad.clone() for n, p in vlm.model.named_parameters() if p.grad is not None}
    vlm.model.zero_grad()
    return logprobs, total, gradients


def assert_same(left, right):
    torch.testing.assert_close(left[0], right[0], atol=TOLERANCE, rtol=0)
    assert left[1] == pytest.approx(right[1], abs=TOLERANCE)
    assert left[2].keys() == right[2].keys()
    for name, gradient in left[2].items():
        torch.testing.assert_close(gradient, right[2][name], atol=TOLERANCE, rtol=0, msg=lambda m, n=name: f"{n}: {m}")


def prompt_parts(vlm: TinyVlm, content: str) -> list:
    parts = {
        "text": [[1, 2, 3, 4]],
        "image": [[1, 2], vlm.image(1), [3]],
        "two images": [[1], vlm.image(1), [2], vlm.image(2, height=6, width=2), [3]],
        "video": [[1], vlm.clip(3, frames=5), [2, 3]],
        "image and video": [[1], vlm.clip(3), [2], vlm.image(1), [4]],
        "three images": [vlm.image(1), [2], vlm.image(4, height=2), [3], vlm.image(1)],
    }
    return [*parts[content], [5, 6]]


@pytest.mark.parametrize("content", ["text", "image", "two images", "video"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_packed_group_equals_separate_rows(family: str, content: str):
    vlm = tiny_vlm(family)
    prompt = vlm.prompt(*prompt_parts(vlm, content))
    completions, sequences = random_completions(LENGTHS, seed=0), range(len(LENGTHS))
    packed = loss_and_gradients(vlm, [[group_row(prompt, completions, sequences)]], num_sequences=4)
    rows = separate_rows(prompt, completions, sequences)

    assert packed[2]
    assert_same(packed, loss_and_gradients(vlm, [[row] for row in rows], num_sequences=4))
    assert_same(packed, loss_and_gradients(vlm, [rows], num_sequences=4))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mixed_micro_batch_equals_one_row_at_a_time(family: str):  # faults 10, 11, 54, 55
    vlm = tiny_vlm(family)
    contents = ["text", "image", "three images", "video", "image and video"]
    rows = [
        group_row(vlm.prompt(*prompt_parts(vlm, c)), random_completions((4, 2), seed=i), (2 * i, 2 * i + 1))
        for i, c in enumerate(contents)
    ]
    together = loss_and_gradients(vlm, [rows], num_sequences=10)

    assert_same(together, loss_and_gradients(vlm, [[row] for row in rows], num_sequences=10))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tree_of_depth_two_equals_its_paths(family: str):
    """A turn, two continuations of it that bring a new image, and a sibling turn."""
    vlm = tiny_vlm(family)
    prompt = vlm.prompt([1], vlm.image(1), [2])
    turn, other = random_completions((3, 2), seed=1)
    replies = random_completions((4, 2), seed=2)
    longer = vlm.prompt([1], vlm.image(1), [2, *turn, 8], vlm.image(2), [9])
    tree = _two_turn_tree(vlm, prompt, longer, turn=turn, other=other, replies=replies)
    observed = len(longer.prompt_ids_T)
    paths = [
        *separate_rows(prompt, [turn, other], [0, 3]),
        *separate_rows(longer, replies, [1, 2]),
    ]

    assert tree.num_tokens == observed + sum(map(len, replies)) + len(other)
    assert_same(loss_and_gradients(vlm, [[tree]], num_sequences=4), loss_and_gradients(vlm, [paths], num_sequences=4))


def _two_turn_tree(vlm, prompt, longer, *, turn, other, replies) -> Row:
    start, end = len(prompt.prompt_ids_T), len(prompt.prompt_ids_T) + len(turn)
    [run] = [p for p in longer.placeholders if p.medium == 1]
    observation = Segment(
        longer.prompt_ids_T[end:],
        longer.position_ids_3T[:, end:],
        parent=1,
        placeholders=(type(run)(run.start - end, run.length, 1, run.first),),
    )
    turn_segment = Segment(torch.tensor(turn), longer.position_ids_3T[:, start:end], parent=0, sequence=0)
    base = group_row(prompt, [other], [3])
    later = group_row(longer, replies, [1, 2]).segments[1:]
    deeper = [Segment(s.ids_T, s.positions_3T, parent=2, sequence=s.sequence) for s in later]
    return Row((base.segments[0], turn_segment, observation, *deeper, base.segments[1]), longer.media)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_distinct_medium_goes_through_the_tower_once(family: str):
    vlm = tiny_vlm(family)
    image, clip = vlm.image(1), vlm.clip(2)
    prompts = [vlm.prompt([1], image, [2], clip), vlm.prompt([3], clip, [4], image, [5], image)]
    rows = [group_row(p, random_completions((3, 3, 3), seed=i), range(3)) for i, p in enumerate(prompts)]
    patches: list[int] = []
    hook = vlm.model.model.visual.register_forward_hook(lambda module, args, output: patches.append(len(args[0])))
    with torch.no_grad():
        logprobs_NC(vlm, pack(rows, vlm.processor), num_sequences=3)
    hook.remove()

    assert sorted(patches) == [16, 16]  # a 1 x 4 x 4 image and a 2 x 2 x 4 clip, in one call each


@pytest.mark.parametrize("chunk", [1, 4, 1000])
def test_the_chunk_size_changes_nothing(chunk: int):
    vlm = tiny_vlm("qwen2_5_vl")
    micro = pack([group_row(vlm.prompt([1, 2]), random_completions(LENGTHS, seed=3), range(4))], vlm.processor)

    torch.testing.assert_close(
        logprobs_NC(vlm, micro, num_sequences=4, chunk=chunk),
        logprobs_NC(vlm, micro, num_sequences=4, chunk=7),
        atol=1e-6,
        rtol=0,
    )


def test_logprobs_and_entropy_are_those_of_the_banned_and_tempered_softmax():
    vlm = tiny_vlm("qwen2_5_vl")
    [completion] = random_completions((6,), seed=4)
    micro = pack([group_row(vlm.prompt([1, 2]), [completion], [0])], vlm.processor)
    banned = (60, 61, 62, 300)
    result = token_logprobs(
        vlm.model, micro, vlm.processor, temperature=0.5, banned_ids=banned, chunk=4, want_entropy=True
    )
    logits = vlm.model(input_ids=micro.ids_BT, position_ids=micro.positions_3BT).logits[0, 1:-1] / 0.5
    logits[:, list(banned)] = -math.inf
    expected = logits.log_softmax(-1)
    probabilities = expected.exp()

    torch.testing.assert_close(result.logprobs_L, expected.gather(1, torch.tensor(completion)[:, None])[:, 0])
    assert result.entropy_L is not None
    entropy = torch.distributions.Categorical(probs=probabilities.double()).entropy().float()
    torch.testing.assert_close(result.entropy_L, entropy, atol=1e-5, rtol=0)


@pytest.mark.parametrize("want_entropy", [False, True])
def test_gradients_equal_those_of_the_plain_softmax(want_entropy: bool):
    vlm = tiny_vlm("qwen2_5_vl")
    [completion] = random_completions((6,), seed=4)
    micro = pack([group_row(vlm.prompt([1, 2]), [completion], [0])], vlm.processor)
    banned = (60, 61, 300)
    weights, entropy_weights = torch.linspace(-1, 1, 6), torch.linspace(2, -1, 6) * want_entropy
    vlm.model.zero_grad()
    options = {"temperature": 0.5, "banned_ids": banned, "chunk": 4, "want_entropy": want_entropy}
    result = token_logprobs(vlm.model, micro, vlm.processor, **options)
    loss = result.logprobs_L @ weights
    if result.entropy_L is not None:
        loss = loss + result.entropy_L @ entropy_weights
    loss.backward()
    found = [p.grad.clone() for p in vlm.model.parameters() if p.grad is not None]

    vlm.model.zero_grad()
    logits = vlm.model(input_ids=micro.ids_BT, position_ids=micro.positions_3BT).logits[0, 1:-1] / 0.5
    logprobs = logits.index_fill(1, torch.tensor(banned), -1e30).log_softmax(-1)
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    (logprobs.gather(1, torch.tensor(completion)[:, None])[:, 0] @ weights + entropy @ entropy_weights).backward()
    expected = [p.grad.clone() for p in vlm.model.parameters() if p.grad is not None]
    vlm.model.zero_grad()

    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, atol=TOLERANCE, rtol=0)


def test_a_banned_loss_token_is_an_error_that_names_it():
    vlm = tiny_vlm("qwen2_5_vl")
    micro = pack([group_row(vlm.prompt([1, 2]), [[5, 6]], [0])], vlm.processor)

    with pytest.raises(ValueError, match=r"loss tokens \[6\] are banned"):
        token_logprobs(vlm.model, micro, vlm.processor, temperature=1.0, banned_ids=(6, 7), chunk=4)


def test_full_logits_are_never_held():
    """The largest tensor autograd keeps is a chunk's input, not (positions, vocabulary)."""
    vlm = tiny_vlm("qwen2_5_vl")
    vocabulary = vlm.model.lm_head.weight.shape[0]
    micro = pack([group_row(vlm.prompt([1, 2]), random_completions((16,) * 8, seed=5), range(8))], vlm.processor)
    widest: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        widest.append(tensor.numel() if tensor.shape[-1:] == (vocabulary,) else 0)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logprobs_NC(vlm, micro, num_sequences=8, chunk=16)

    assert max(widest) == 0


def test_the_module_form_gives_the_same_result():
    vlm = tiny_vlm("qwen2_5_vl")
    micro = pack([group_row(vlm.prompt([1, 2]), [[5, 6]], [0])], vlm.processor)
    options = {"temperature": 1.0, "banned_ids": (), "chunk": 4}
    wrapped = LogprobModule(vlm.model)(micro, vlm.processor, **options)

    assert torch.equal(wrapped.logprobs_L, token_logprobs(vlm.model, micro, vlm.processor, **options).logprobs_L)


def test_eager_attention_reads_the_same_tree():
    vlm = tiny_vlm("qwen2_5_vl")
    micro = pack([group_row(vlm.prompt([1, 2]), random_completions(LENGTHS, seed=6), range(4))], vlm.processor)
    expected = logprobs_NC(vlm, micro, num_sequences=4)
    vlm.model.set_attn_implementation("eager")
    try:
        torch.testing.assert_close(logprobs_NC(vlm, micro, num_sequences=4), expected, atol=TOLERANCE, rtol=0)
    finally:
        vlm.model.set_attn_implementation("sdpa")
