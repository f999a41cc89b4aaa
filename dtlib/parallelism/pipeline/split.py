"""The backward pass in two parts: B, the gradient of the input, and W, that of the weights.

A linear layer y = x A' has two products in its backward pass, dx = dy A and dA = dy' x. Neither
needs the other. `deferring` lets autograd do the first one only: the second is put on a list, to be
done by `do_weights` when there is time. No product is done twice, and nothing is computed again.

What is no linear layer, a norm or an embedding, has few weights or no input gradient; its weight
gradients are done in B.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

PutOff = list[Callable[[], None]]


class _Linear(torch.autograd.Function):
    """x A' + bias, whose backward pass leaves the gradients of A and bias for later."""

    @staticmethod
    def forward(ctx, put_off: PutOff, x, weight, bias):
        ctx.save_for_backward(x, weight)
        ctx.put_off, ctx.weight, ctx.bias = put_off, weight, bias
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        ctx.put_off.append(lambda: _weights(x, dy, ctx.weight, ctx.bias))
        return None, dy @ weight if ctx.needs_input_grad[1] else None, None, None


def _weights(x, dy, weight, bias) -> None:
    """Add dA = dy' x, and the sum of dy, to what the parameters have collected."""
    x, dy = x.flatten(0, -2), dy.flatten(0, -2)
    if weight.requires_grad:
        _add(weight, dy.t() @ x)
    if bias is not None and bias.requires_grad:
        _add(bias, dy.sum(0))


def _add(parameter, gradient) -> None:
    parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


class _Deferring(TorchFunctionMode):
    def __init__(self, put_off: PutOff):
        super().__init__()
        self.put_off = put_off

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.linear:
            x, *parameters = _linear_arguments(*args, **(kwargs or {}))
            if all(map(_is_a_parameter, parameters)):
                return _Linear.apply(self.put_off, x, *parameters)
        return function(*args, **(kwargs or {}))


def _linear_arguments(input, weight, bias=None) -> tuple:
    return input, weight, bias


def _is_a_parameter(weight) -> bool:
    """And no result of other parameters, through which the gradient would have to go on."""
    return weight is None or weight.is_leaf


@contextmanager
def deferring() -> Iterator[PutOff]:
    """Forward passes in this block leave their weights' gradients for `do_weights`.

    Gives the list on which the backward pass will put them; from there they go to ``.grad``. A
    weight that is itself computed, as under weight normalisation, is left to autograd, in B.

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
    """Do what a backward pass put off, and let go of what was kept for it."""
    with torch.no_grad():
        for job in put_off:
            job()
    put_off.clear()
