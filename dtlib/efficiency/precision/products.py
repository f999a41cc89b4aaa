"""Matrix products whose factors have few bits, forward and backward: fp8 training, emulated.

The nouns: `Recipe`, what becomes of a factor before a product, and `RoundedLinear`, a linear layer
whose three products obey one. Products themselves are in float32, as tensor cores add them up.
"""

from dataclasses import dataclass

import torch
from torch import nn

from dtlib.efficiency.precision.blocks import block_quantise
from dtlib.efficiency.precision.formats import FloatFormat
from dtlib.efficiency.precision.rounding import cast
from dtlib.formulas.require import require, require_count


@dataclass(frozen=True)
class Recipe:
    """How the factors of a product are rounded: to which format, and with whose scale.

    Arguments: `kind`, or None to leave all as it is; `scale`, "none", "tensor" (one for a factor)
    or "tile": as many neighbours as `tile` along the sum for activations and gradients, a square of
    `tile` for weights.
    Raises ValueError for another scale. Source of the tiles: DeepSeek-AI 2024, section 3.3.
    """

    kind: FloatFormat | None
    scale: str = "none"
    tile: int = 128

    def __post_init__(self):
        scales = ("none", "tensor", "tile")
        require(self.scale in scales, "Recipe", "scale", self.scale, f"one of {scales}")
        require_count("Recipe", tile=self.tile)

    def factor(self, x_tk: torch.Tensor) -> torch.Tensor:
        """An activation or a gradient, as the product sees it; the last dimension is summed."""
        return self._rounded(x_tk, self.tile)

    def weight(self, w_ok: torch.Tensor) -> torch.Tensor:
        """A weight: squares are the same seen from both of its sides."""
        return self._rounded(w_ok, (self.tile, self.tile))

    def _rounded(self, x: torch.Tensor, tile) -> torch.Tensor:
        if self.kind is None:
            return x
        if self.scale == "none":
            return cast(x, self.kind)
        block = tile if self.scale == "tile" else None
        return block_quantise(x, self.kind, block).values


class RoundedLinear(nn.Module):
    """`linear` with its weights, whose products round their factors as the recipe says.

    Its output, its two gradients and the weights themselves stay in float32.

    >>> from dtlib.efficiency.precision.formats import E4M3
    >>> layer = RoundedLinear(nn.Linear(2, 1, bias=False), Recipe(E4M3))
    >>> with torch.no_grad():
    ...     _ = layer.weight.copy_(torch.tensor([[0.3, 1.0]]))
    >>> layer(torch.tensor([[1.0, 0.0]])).item()
    0.3125
    """

    def __init__(self, linear: nn.Linear, recipe: Recipe):
        super().__init__()
        self.weight, self.bias, self.recipe = linear.weight, linear.bias, recipe

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product, and the bias if there is one."""
        y = _Product.apply(x.flatten(0, -2), self.weight, self.recipe).unflatten(0, x.shape[:-1])
        return y if self.bias is None else y + self.bias


class _Product(torch.autograd.Function):
    """y = x w', and its two gradients; each of the three products rounds its own two factors."""

    @staticmethod
    def forward(ctx, x_tk, w_ok, recipe):
        ctx.save_for_backward(x_tk, w_ok)
        ctx.recipe = recipe
        return recipe.factor(x_tk) @ recipe.weight(w_ok).T

    @staticmethod
    def backward(ctx, dy_to):
        x_tk, w_ok = ctx.saved_tensors
        recipe = ctx.recipe
        dy_ot, x_kt = dy_to.T.contiguous(), x_tk.T.contiguous()
        dx_tk = recipe.factor(dy_to) @ recipe.weight(w_ok)
        dw_ok = recipe.factor(dy_ot) @ recipe.factor(x_kt).T
        return dx_tk, dw_ok, None


def round_products(model: nn.Module, recipe: Recipe) -> nn.Module:
    """Replace every linear layer of the model's `blocks`; embedding, head and norms stay.

    Returns the model. Raises ValueError for a model without blocks.
    """
    blocks = getattr(model, "blocks", None)
    require(blocks is not None, "round_products", "model", type(model).__name__, "one with blocks")
    for parent in list(blocks.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                setattr(parent, name, RoundedLinear(child, recipe))
    return model
