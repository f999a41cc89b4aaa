"""The backward pass in two parts: B, the gradient of the input, and W, that of the weights.

A linear layer y = x A' has two products in its backward pass, dx = dy A and dA = dy' x. Neither
needs the other. `deferring` gives each a node of its own in autograd's graph: the usual backward
pass goes through the first only, and `do_weights` is a second backward pass, through the others,
when there is time. No product is done twice, nothing is computed again, and whoever waits for a
parameter's gradient, such as a hook of data parallelism, is called as in any backward pass.

What is no linear layer, a norm or an embedding, has few weights or no input gradient; its weight
gradients are done in B.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

PutOff = list[torch.Tensor]


class _Half(NamedTuple):
    """The weights' half of a layer: where its backward pass begins, and the x and dy it needs."""

    begin: torch.Tensor
    factors: list


class _ForInput(torch.autograd.Function):
    """x A' + bias, whose backward pass is that of x; then the weights' half may be done."""

    @staticmethod
    def forward(ctx, x, asks, weight, bias, put_off: PutOff, half: _Half):
        ctx.save_for_backward(x, weight)
        ctx.put_off, ctx.half = put_off, half
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        ctx.half.factors[:] = x.flatten(0, -2), dy.flatten(0, -2)
        ctx.put_off.append(ctx.half.begin)
        return dy @ weight if ctx.needs_input_grad[0] else None, *[None] * 5


class _ForWeights(torch.autograd.Function):
    """A number that stands for the weights in x A' + bias; its backward pass is theirs."""

    @staticmethod
    def forward(ctx, factors: list, weight, bias):
        ctx.factors = factors
        return weight.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        x, dy = ctx.factors
        ctx.factors.clear()
        _, of_weight, of_bias = ctx.needs_input_grad
        return None, dy.t() @ x if of_weight else None, dy.sum(0) if of_bias else None


class _Deferring(TorchFunctionMode):
    def __init__(self, put_off: PutOff):
        super().__init__()
        self.put_off = put_off

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.linear and torch.is_grad_enabled() and not _is_kept_elsewhere():
            x, *parameters = _linear_arguments(*args, **(kwargs or {}))
            if all(map(_is_a_parameter, parameters)) and _wants_a_gradient(parameters):
                return _linear(self.put_off, *_autocast(x, *parameters))
        return function(*args, **(kwargs or {}))


def _linear(put_off: PutOff, x, weight, bias) -> torch.Tensor:
    """x A' + bias, of which the weights' part waits; y asks for a gradient even if x does not."""
    factors: list = []
    half = _Half(_ForWeights.apply(factors, weight, bias), factors)
    asks = torch.empty(0, requires_grad=True)
    values = weight.detach(), None if bias is None else bias.detach()
    return _ForInput.apply(x, asks, *values, put_off, half)


def _linear_arguments(input, weight, bias=None) -> tuple:
    return input, weight, bias


def _is_a_parameter(weight) -> bool:
    """And no result of other tensors, to which the gradient would have to go on in B."""
    return weight is None or weight.is_leaf


def _wants_a_gradient(parameters) -> bool:
    return any(p is not None and p.requires_grad for p in parameters)


def _is_kept_elsewhere() -> bool:
    """Whether somebody decides what is kept for the backward pass, and may compute it again."""
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)  # torch >= 2.5
    return hooks is not None and hooks(True) is not None


def _autocast(*tensors) -> list:
    """A linear layer's arguments in the dtype in which autocast would compute with them."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(tensors)
    low = torch.get_autocast_dtype(device)
    return [x if x is None or x.dtype == torch.float64 else x.to(low) for x in tensors]


@contextmanager
def deferring() -> Iterator[PutOff]:
    """Forward passes in this block leave their weights' gradients for `do_weights`.

    Gives the list on which the backward pass will put them; from there they go to ``.grad``. A
    weight that is itself computed, as under weight normalisation, is left to autograd, in B; so is
    what is computed again (recomputation) or kept elsewhere (offloading).

    >>> layer = torch.nn.Linear(2, 1)
    >>> x = torch.ones(3, 2, requires_grad=True)
    >>> with deferring() as put_off:
    ...     y = layer(x).sum()
    >>> y.backward()
    >>> x.grad is not None, layer.weight.grad
    (True, None)
    >>> do_weights(put_off)
    >>> layer.weight.grad, layer.bias.grad
    (tensor([[3., 3.]]), tensor([3.]))
    """
    put_off: PutOff = []
    with _Deferring(put_off):
        yield put_off


def do_weights(put_off: PutOff) -> None:
    """Do what a backward pass put off, in one backward pass, and let go of what was kept for it."""
    if put_off:
        torch.autograd.backward(put_off)
    put_off.clear()
