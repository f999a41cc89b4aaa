"""Cross-entropy of logits whose words are divided among ranks, from three numbers per token."""

import torch
import torch.distributed as dist

from dtlib.formulas.require import require
from dtlib.parallelism.operators.adjoint import sum_over_ranks
from dtlib.parallelism.tensor.layers import own_words
from dtlib.runtime.process_group import ranks_of

IGNORED = -100  # a target that does not count, as in torch


def vocab_parallel_cross_entropy(
    logits_bsv: torch.Tensor, targets_bs: torch.Tensor, group, reduction: str = "mean"
) -> torch.Tensor:
    """The loss of whole logits, of which this rank has equally many words as every other.

    Equation: log(sum_r sum_v exp(l_v - m)) - (l_target - m), with m the largest logit of all ranks.
    Three all-reduces of one number for each token: m, the sum of exponentials, and the target's
    logit, which one rank has. The gradient, softmax minus one-hot, needs no further message.
    Arguments: `logits_bsv`, this rank's words; `targets_bs`, words of the whole vocabulary, -100
    where there is none; `group`; `reduction`, "mean" over the targets that count (NaN if there are
    none), or "sum".
    Returns the same number on every rank (replicated loss), in 32 bits for logits of 16.
    Raises ValueError for another reduction, other shapes, and targets that are no words.
    Source: Shoeybi et al. 2019, section 3.
    """
    words = logits_bsv.shape[-1]
    first = _checked(logits_bsv, targets_bs, group, reduction)
    logits_bsv = logits_bsv.to(torch.promote_types(logits_bsv.dtype, torch.float32))
    largest_bs = logits_bsv.detach().amax(-1)
    dist.all_reduce(largest_bs, op=dist.ReduceOp.MAX, group=group)
    shifted_bsv = logits_bsv - largest_bs[..., None]
    total_bs = sum_over_ranks(shifted_bsv.exp().sum(-1), group)
    place_bs, mine_bs = own_words(targets_bs, first, words)
    picked_bs = shifted_bsv.gather(-1, place_bs[..., None])[..., 0]
    target_bs = sum_over_ranks(picked_bs.where(mine_bs, torch.zeros_like(picked_bs)), group)
    losses = (total_bs.log() - target_bs)[targets_bs != IGNORED]
    return losses.sum() if reduction == "sum" else losses.mean()


def _checked(logits, targets, group, reduction) -> int:
    """The first of this rank's words."""
    owner, (rank, P), words = "vocab_parallel_cross_entropy", ranks_of(group), logits.shape[-1]
    require(reduction in ("mean", "sum"), owner, "reduction", reduction, "'mean' or 'sum'")
    found, shape = tuple(targets.shape), tuple(logits.shape[:-1])
    require(found == shape, owner, "the shape of targets", found, f"{shape}, as of the logits")
    wrong = (targets != IGNORED) & ((targets < 0) | (targets >= P * words))
    if wrong.any():
        allowed = f"from 0 to {P * words - 1}, or {IGNORED}"
        require(False, owner, "a target", int(targets[wrong][0]), allowed)
    return rank * words
