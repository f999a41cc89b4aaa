"""The loss of a model's last stream, a few tokens at a time: no rank ever holds all logits."""

import torch

from dtlib.formulas.require import require_count
from dtlib.parallelism.operators import messages
from dtlib.parallelism.tensor.vocab_loss import IGNORED, vocab_parallel_cross_entropy


def chunked_cross_entropy(
    x_bsh: torch.Tensor, head_vh: torch.Tensor, targets_bs: torch.Tensor, size: int, group
) -> torch.Tensor:
    """The mean loss of logits x W' that are made, used and dropped for `size` tokens at a time.

    Equation: the loss is a sum over tokens, so its gradients are too: dx_t = (p_t - 1_t) W and
    dW = sum_t (p_t - 1_t)' x_t, with p_t the softmax of token t. Each piece adds its share at once.
    Arguments: `x_bsh`, whole on every rank; `head_vh`, this rank's words of the head; `targets_bs`,
    words of the whole vocabulary, -100 where there is none; `size`, tokens of a piece; `group`.
    Returns `vocab_parallel_cross_entropy` of all logits. Its gradients are ready by then, those of
    the head added in 32 bits; `backward` gives them away, once.
    Raises ValueError for no token in a piece, and what that function raises; RuntimeError for a
    second backward pass.
    Source: torchtitan 2026, chunked loss.
    """
    require_count("chunked_cross_entropy", size=size)
    return _Chunked.apply(x_bsh, head_vh, targets_bs, size, group)


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_bsh, head_vh, targets_bs, size, group):
        x_th, targets_t = x_bsh.flatten(0, -2), targets_bs.flatten()
        count = (targets_t != IGNORED).sum()
        wide = torch.promote_types(head_vh.dtype, torch.float32)  # many pieces are added up
        total, dx_th, dhead_vh = 0.0, torch.empty_like(x_th), torch.zeros_like(head_vh, dtype=wide)
        for first in range(0, len(x_th), size):
            piece = slice(first, first + size)
            total += _add_piece(
                x_th[piece], head_vh, targets_t[piece], dx_th[piece], dhead_vh, group
            )
        ctx.gradients = dx_th.div_(count).view_as(x_bsh), dhead_vh.div_(count), head_vh.dtype
        return total / count

    @staticmethod
    def backward(ctx, gradient):
        if ctx.gradients is None:
            raise RuntimeError("chunked_cross_entropy: backward ran before and gave them away")
        (dx_bsh, dhead_vh, dtype), ctx.gradients = ctx.gradients, None
        return dx_bsh.mul_(gradient), dhead_vh.mul_(gradient).to(dtype), None, None, None


def _add_piece(x_th, head_vh, targets_t, dx_th, dhead_vh, group):
    """The summed loss of a piece; its gradients go where they belong, and its logits away."""
    logits_tv = (x_th @ head_vh.T).requires_grad_()
    with torch.enable_grad():
        loss = vocab_parallel_cross_entropy(logits_tv, targets_t, group, "sum")
    (slope_tv,) = torch.autograd.grad(loss, logits_tv)
    dx_th.copy_(messages.all_reduce(slope_tv @ head_vh, group))
    dhead_vh.addmm_(slope_tv.T.to(dhead_vh.dtype), x_th.to(dhead_vh.dtype))
    return loss.detach()
