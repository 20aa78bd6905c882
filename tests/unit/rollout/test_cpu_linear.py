"""Products with plain matrices on a CPU: torch's own, whatever the number of rows."""

import pytest
import torch
from torch.nn.functional import linear

from mmrl.rollout.cpu_linear import LEAST_VALUES, cpu_linear, with_cpu_linear

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", [(5, 3), (LEAST_VALUES // 64, 64), (384, 512)], ids=str)
@pytest.mark.parametrize("rows", [(1,), (15,), (16,), (128,), (129,), (4, 5, 7), (0,)], ids=str)
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_product_is_that_of_torch(dtype, shape, rows, with_bias):
    generator = torch.Generator().manual_seed(0)
    weight_NK = torch.randn(shape, generator=generator).to(dtype)
    x = torch.randn(*rows, shape[1], generator=generator).to(dtype)
    bias_N = torch.randn(shape[0], generator=generator).to(dtype) if with_bias else None
    y, expected = cpu_linear(x, weight_NK, bias_N), linear(x, weight_NK, bias_N)
    assert y.shape == expected.shape and y.dtype == dtype and y.is_contiguous()
    torch.testing.assert_close(y, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * shape[1] ** 0.5)


def test_x_may_be_a_part_of_a_larger_tensor():
    weight_NK, x = torch.randn(384, 512), torch.randn(40, 1024)[:, ::2]
    torch.testing.assert_close(cpu_linear(x, weight_NK), linear(x, weight_NK), rtol=1e-5, atol=1e-4)


def test_within_the_block_the_large_layers_of_a_model_compute_so():
    small, large = torch.nn.Linear(8, 8), torch.nn.Linear(256, 512)
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 256), large, small), torch.randn(40, 8)
    expected = large(model[0](x))
    with torch.no_grad(), with_cpu_linear(model):
        assert "forward" in vars(large) and "forward" not in vars(small)
        torch.testing.assert_close(large(model[0](x)), expected, rtol=1e-5, atol=1e-4)
    assert "forward" not in vars(large)
