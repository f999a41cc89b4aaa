"""Products of rounded factors: nothing is lost without rounding, and each factor is rounded."""

import pytest
import torch
from torch import nn

from dtlib.efficiency import (
    BF16,
    E4M3,
    E5M2,
    Recipe,
    RoundedLinear,
    block_quantise,
    cast,
    eight_bit_product_time,
    eight_bit_side,
    round_products,
    sixteen_bit_product_time,
)
from dtlib.models.gpt import GPT
from dtlib.models.spec import TransformerSpec


def gradients(layer, x, dy):
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(dy)
    return y.detach(), x.grad, layer.weight.grad, None if layer.bias is None else layer.bias.grad


def case(bias=True):
    torch.manual_seed(0)
    linear = nn.Linear(64, 32, bias=bias)
    return linear, torch.randn(2, 32, 64), torch.randn(2, 32, 32)


def test_a_recipe_that_rounds_nothing_is_the_layer_itself():
    linear, x, dy = case()
    due = gradients(linear, x, dy)
    linear.zero_grad()
    rounded = RoundedLinear(linear, Recipe(None))
    for found, right in zip(gradients(rounded, x, dy), due, strict=True):
        assert torch.allclose(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [BF16, E4M3, E5M2], ids=lambda kind: kind.name)
def test_each_of_the_three_products_has_rounded_factors(kind):
    linear, x, dy = case(bias=False)
    y, dx, dw, _ = gradients(RoundedLinear(linear, Recipe(kind)), x, dy)
    xq, wq, dq = cast(x, kind), cast(linear.weight, kind), cast(dy, kind)
    assert torch.allclose(y, xq @ wq.T, rtol=1e-5, atol=1e-5)
    assert torch.allclose(dx, dq @ wq, rtol=1e-5, atol=1e-5)
    assert torch.allclose(dw, dq.flatten(0, 1).T @ xq.flatten(0, 1), rtol=1e-5, atol=1e-4)
    assert not torch.allclose(y, x @ linear.weight.T, rtol=1e-5, atol=1e-5)


def test_the_weights_gradient_has_scales_along_the_tokens():
    linear, x, dy = case(bias=False)
    _, _, dw, _ = gradients(RoundedLinear(linear, Recipe(E4M3, "tile", 16)), x, dy)

    def along_tokens(t):
        return block_quantise(t.flatten(0, 1).T.contiguous(), E4M3, 16).values

    def along_channels(t):
        return block_quantise(t.flatten(0, 1), E4M3, 16).values.T

    due = along_tokens(dy) @ along_tokens(x).T
    assert torch.allclose(dw, due, rtol=1e-5, atol=1e-4)
    assert not torch.allclose(dw, along_channels(dy) @ along_channels(x).T, rtol=1e-5, atol=1e-4)


def test_only_the_layers_of_the_blocks_are_replaced():
    spec = TransformerSpec("tiny", 1, 32, 2, 11, norm="rms", bias=False)
    model = round_products(GPT(spec), Recipe(E4M3, "tile", 32))
    kinds = [type(m).__name__ for m in model.modules()]
    assert kinds.count("Linear") == 1 and kinds.count("RoundedLinear") >= 5
    assert sum(p.numel() for p in model.parameters()) == spec.params()
    with pytest.raises(ValueError, match="one with blocks"):
        round_products(nn.Linear(2, 2), Recipe(E4M3))
    with pytest.raises(ValueError, match="scale is 'row'"):
        Recipe(E4M3, "row")


def test_the_side_is_where_the_two_times_meet_without_starts():
    for given in ({"bandwidth": 3.35e12, "peak": 989e12}, {"bandwidth": 8e12, "peak": 2250e12}):
        for cast_bytes in (3, 5):
            side = eight_bit_side(cast_bytes=cast_bytes, **given)
            eight = eight_bit_product_time(side=side, cast_bytes=cast_bytes, launch=0, **given)
            sixteen = sixteen_bit_product_time(side=side, launch=0, peak=given["peak"])
            assert eight == pytest.approx(sixteen)
            half = {"side": side / 2, "launch": 0}
            assert eight_bit_product_time(cast_bytes=cast_bytes, **half, **given) > (
                sixteen_bit_product_time(peak=given["peak"], **half)
            )
