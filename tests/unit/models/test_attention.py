"""Attention over packed rows: by parts, block masks and dense masks the same, and what of it is held in memory."""

import random

import pytest
import torch
from makers.rendered import random_completions
from makers.tiled_prompts import prompts_of
from makers.tiny_models import TILE_KINDS
from makers.vlm import FAMILIES, mixed_prompts, tiny_vlm
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

from mmrl.algorithms.tree import Forest, Span
from mmrl.models import flex_mask, tree_attention
from mmrl.models.flex_mask import block_mask
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack, separate_rows
from mmrl.models.tree_attention import TreePlan, Window

LENGTHS = (5, 1, 9, 3)
EVERY_FAMILY = (*FAMILIES, *TILE_KINDS)


def forest_of(*rows: list[tuple[int, int]], length: int) -> Forest:
    """Rows of (tokens, parent within the row), padded to a length."""
    spans: list[Span] = []
    for b, row in enumerate(rows):
        first, start = len(spans), b * length
        for size, parent in row:
            spans.append(Span(start, start + size, first + parent if parent >= 0 else -1))
            start += size
    return Forest(tuple(spans), len(rows), length)


def random_forest(seed: int, *, longest: int = 40) -> Forest:
    """Two rows of up to 8 segments, several trees in each, the shorter one padded."""
    chance = random.Random(seed)
    rows = []
    for _ in range(2):
        count = chance.randint(1, 8)
        rows.append([(chance.randint(1, longest), chance.randint(-1, index - 1)) for index in range(count)])
    return forest_of(*rows, length=max(sum(size for size, _ in row) for row in rows))


def random_window(forest: Forest, *, seed: int, size: int | None) -> Window:
    """Positions that go on after the parent, and a picture somewhere in most segments."""
    chance = random.Random(seed)
    positions_N = torch.zeros(forest.rows * forest.length, dtype=torch.long)
    pictures_N = torch.zeros_like(positions_N)
    for number, span in enumerate(forest.spans):
        before = positions_N[forest.spans[span.parent].end - 1] + 1 if span.parent >= 0 else 0
        positions_N[span.start : span.end] = before + torch.arange(span.end - span.start)
        start = chance.randint(span.start, span.end)
        pictures_N[start : chance.randint(start, span.end)] = number + 1
    return Window(positions_N, pictures_N, size)


def dense_mask(forest: Forest, window: Window | None) -> torch.Tensor:
    """bool (B, 1, T, T), pair by pair from the definition."""
    mask = forest.dense_mask()
    if window is None:
        return mask
    positions_BT, pictures_BT = (t.view(forest.rows, -1) for t in (window.positions_N, window.pictures_N))
    mask |= ((pictures_BT[:, :, None] == pictures_BT[:, None]) & (pictures_BT[:, None] > 0))[:, None]
    if window.size is not None:
        mask &= (positions_BT[:, None] > positions_BT[:, :, None] - window.size)[:, None]
    return mask


def random_states(forest: Forest, *, heads: int = 4, key_heads: int = 2) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (forest.rows, forest.length)
    return [
        torch.randn(*shape, n, 8, generator=generator, dtype=torch.float64).transpose(1, 2).requires_grad_()
        for n in (heads, key_heads, key_heads)
    ]


def attended(way: str, forest: Forest, window: Window | None) -> list[torch.Tensor]:
    """Output (B, T, H, D) without padding and, but by FlexAttention, which has no backward pass on a CPU, gradients of
    a weighted sum of it.
    """
    query, key, value = states = random_states(forest)
    if way == "parts":
        out = tree_attention.tree_attention(query, key, value, plan=TreePlan(forest, window), scale=0.3)
    elif way == "flex":
        query, key, value = (tensor.detach() for tensor in states)
        out = flex_attention(query, key, value, block_mask=block_mask(forest, window), enable_gqa=True, scale=0.3)
        out = out.transpose(1, 2)
    else:
        key, value = (tensor.repeat_interleave(2, dim=1) for tensor in (key, value))
        scores = (query @ key.transpose(-1, -2)) * 0.3
        out = scores.masked_fill(~dense_mask(forest, window), -1e30).softmax(-1) @ value
        out = out.transpose(1, 2)
    is_real_BT11 = (forest.segment_N < len(forest.spans)).view(forest.rows, -1, 1, 1)
    out = out * is_real_BT11
    if way == "flex":
        return [out]
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), states)]


def test_a_prompt_is_one_chain_with_its_first_completion_and_the_others_see_the_prompt():
    forest = forest_of([(10, -1), (3, 0), (4, 0)], length=17)

    assert forest.chains == ((0, 13, ()), (13, 17, ((0, 10),)))
    assert not forest.is_causal
    assert forest.num_tokens == 17


def test_ancestors_of_a_deeper_segment_are_ranges_and_neighbours_are_one():
    forest = forest_of([(2, -1), (3, 0), (4, 0), (1, 2), (5, 3)], length=15)

    assert forest.chains == ((0, 5, ()), (5, 15, ((0, 2),)))
    # the sixth segment's parent is the second one: it sees the first two as one range
    assert forest_of([(2, -1), (3, 0), (4, 0), (5, 1)], length=14).chains[2] == (9, 14, ((0, 5),))


def test_rows_of_one_chain_each_are_plain_causal_but_not_in_one_line():
    assert forest_of([(4, -1), (2, 0)], [(3, -1)], length=6).is_causal
    assert not forest_of([(4, -1), (2, -1)], length=6).is_causal


@pytest.mark.parametrize("size", [None, 12])
@pytest.mark.parametrize("shows_pictures", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_parts_and_block_masks_equal_a_dense_mask(monkeypatch, seed: int, shows_pictures: bool, size: int | None):
    monkeypatch.setattr(tree_attention, "QUERIES", 7)
    monkeypatch.setattr(flex_mask, "BLOCK", 16)
    forest = random_forest(seed)
    window = random_window(forest, seed=seed, size=size) if shows_pictures or size else None
    if window is not None and not shows_pictures:
        window = Window(window.positions_N, torch.zeros_like(window.pictures_N), size)
    expected = attended("dense", forest, window)

    for way in ("parts", "flex"):
        for found, wanted in zip(attended(way, forest, window), expected, strict=way != "flex"):
            torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0, msg=lambda text, way=way: f"{way}: {text}")


def test_blocks_that_need_no_mask_are_named_and_those_nobody_sees_are_left_out():
    forest = forest_of([(300, -1), (200, 0), (200, 0)], length=700)
    mask = block_mask(forest)

    # Of 128 tokens each: blocks 0 and 1 are prompt alone, 4 is of the second completion alone, 2 and 3 are mixed.
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 2, 2, 2, 3]]]
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1, 2, 3, 3]]]
    assert mask.full_kv_indices[0, 0, 5, :3].tolist() == [0, 1, 4]
    assert mask.kv_indices[0, 0, 5, :3].tolist() == [2, 3, 5]


def logprobs_of(vlm, rows, way: str, *, padded: bool = True, chunk: int = 7) -> torch.Tensor:
    """In the order of sequence and token."""
    micro = pack(rows, vlm.processor, padded=padded, attention=way)
    options = {"temperature": 0.8, "banned_ids": vlm.processor.banned_ids, "chunk": chunk}
    result = token_logprobs(vlm.model, micro, vlm.processor, **options)
    return result.logprobs_L[(micro.sequence_L * 1000 + micro.token_L).argsort()]


def run(vlm, rows, way: str, **options) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Log-probs, and gradients of a weighted sum of them."""
    vlm.model.zero_grad()
    logprobs = logprobs_of(vlm, rows, way, **options)
    (logprobs @ torch.linspace(-1, 1, len(logprobs))).div(len(logprobs)).backward()
    gradients = {name: p.grad.clone() for name, p in vlm.model.named_parameters() if p.grad is not None}
    vlm.model.zero_grad()
    return logprobs.detach(), gradients


def assert_same(found, expected, *, tolerance: float) -> None:
    torch.testing.assert_close(found[0], expected[0], atol=tolerance, rtol=0)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in found[1].items():
        torch.testing.assert_close(
            gradient, expected[1][name], atol=tolerance, rtol=0, msg=lambda m, n=name: f"{n}: {m}"
        )


def groups_of(family: str) -> list:
    """Groups of several completions: text, pictures, clips."""
    vlm = tiny_vlm(family)
    prompts = mixed_prompts(vlm) if family in FAMILIES else prompts_of(family)
    return [
        group_row(prompt, random_completions(LENGTHS, seed=i), range(4 * i, 4 * i + 4))
        for i, prompt in enumerate(prompts)
    ]


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_way_gives_the_same_logprobs_and_gradients(family: str):
    vlm, rows = tiny_vlm(family), groups_of(family)
    expected = run(vlm, rows, "sdpa")

    assert expected[1]
    assert_same(run(vlm, rows, "parts"), expected, tolerance=1e-5)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_rows_behind_each_other_equal_padded_rows(family: str):
    vlm, rows = tiny_vlm(family), groups_of(family)

    assert_same(run(vlm, rows, "parts", padded=False), run(vlm, rows, "parts"), tolerance=1e-6)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "smolvlm", "gemma3"])
def test_flex_attention_gives_the_same_logprobs(family: str, padded: bool):
    """Uncompiled, and without gradients: on a CPU it has no backward pass."""
    vlm, rows = tiny_vlm(family), groups_of(family)
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        found = logprobs_of(vlm, rows, "flex", padded=padded)
        torch.testing.assert_close(found, logprobs_of(vlm, rows, "parts", padded=padded), atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_separate_rows_equal_a_shared_prompt_in_logprobs_and_gradients(family: str):
    vlm = tiny_vlm(family)
    prompt = (mixed_prompts(vlm) if family in FAMILIES else prompts_of(family))[2]
    completions = random_completions(LENGTHS, seed=1)
    shared = run(vlm, [group_row(prompt, completions, range(4))], "parts")

    assert_same(run(vlm, separate_rows(prompt, completions, range(4)), "sdpa"), shared, tolerance=1e-5)


class LargestTensor(TorchDispatchMode):
    """Elements of the largest tensor that any operation makes inside the block, that of the output head left out."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


@pytest.mark.parametrize("family", ["qwen2_5_vl", "gemma3"])
def test_a_row_of_ten_thousand_tokens_has_no_mask_of_tokens_times_tokens(family: str):
    """The largest tensor of forward and backward pass is linear in the tokens: with a dense mask it would be T * T."""
    vlm = tiny_vlm(family)
    prompt = vlm.prompt(*[list(range(1, 50)) * 122]) if family in FAMILIES else None
    if prompt is None:
        from makers.tiled_prompts import rendered

        prompt = rendered("gemma3", "left or right up down " * 1200)
    row = group_row(prompt, random_completions((500,) * 8, seed=0), range(8))
    assert row.num_tokens > 9_500
    with LargestTensor() as largest:
        run(vlm, [row], "parts", chunk=512)

    assert largest.elements < row.num_tokens * 2048 < row.num_tokens**2 / 4
