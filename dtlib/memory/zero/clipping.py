"""Clipping by the norm of the whole gradient, of which every rank holds parts and copies.

The nouns:

- **Part**: a parameter of this rank, or a piece of one: what tensor, pipeline, expert or fully
  sharded parallelism has left here.
- **Copies**: on how many ranks of the group the same numbers lie. Each counts its share of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf

import torch
import torch.distributed as dist
from torch import nn

from dtlib.formulas.require import require, require_count
from dtlib.runtime.names import all_gather_single
from dtlib.runtime.process_group import ranks_of


def clip_gradients(
    parts: Iterable[nn.Parameter],
    max_norm: float,
    group,
    *,
    copies: Mapping[nn.Parameter, float] | None = None,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> torch.Tensor:
    """Scale the gradients of all ranks' parts so that their common norm is at most `max_norm`.

    Equation: the square of the norm is the sum of the parts' squares: one all-reduce of one number.
    What lies on c ranks counts 1/c on each of them.
    Arguments: `parts`, whose gradients are reduced already (`FullySharded.parameters()`);
    `max_norm`, positive; `group`, of the ranks that have the whole model among them; `copies`, of
    the parts that lie on several of its ranks (`copies_held`); `norm_type`, p of the p-norm, or
    infinity; `error_if_nonfinite`, whether a norm that is not finite is an error, on every rank.
    Returns the norm before, the same on all ranks. Raises ValueError for another bound or norm, and
    for no part; RuntimeError for a norm that is not finite.
    """
    good = isinstance(max_norm, int | float) and max_norm > 0
    require(good, "clip_gradients", "max_norm", max_norm, "a positive number")
    good = isinstance(norm_type, int | float) and norm_type > 0
    require(good, "clip_gradients", "norm_type", norm_type, "a positive number, or infinity")
    parts = list(dict.fromkeys(parts))
    require(bool(parts), "clip_gradients", "parts", parts, "at least one parameter")
    norm = _norm(parts, copies or {}, norm_type, group)
    if error_if_nonfinite and not norm.isfinite():
        raise RuntimeError(f"clip_gradients: the norm of all gradients is {norm.item()}")
    for part in parts:
        if part.grad is not None:
            part.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0).to(part.grad))
    return norm


def _norm(parts, copies, p: float, group) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float64, device=parts[0].device)
    for part in parts:
        if part.grad is not None and part.grad.numel():
            sizes = part.grad.detach().to(total).abs()
            if p == inf:
                total = total.maximum(sizes.max())
            else:
                total += sizes.pow(p).sum() / copies.get(part, 1)
    if p == inf:  # gathered: a maximum over ranks may lose what is not a number
        largest = total.new_empty(dist.get_world_size(group))
        all_gather_single(largest, total[None], group=group)
        return largest.max()
    dist.all_reduce(total, group=group)
    return total.pow(1 / p)


def copies_held(module: nn.Module, group, stages: int = 1) -> dict[nn.Parameter, float]:
    """On how many ranks of the group each parameter of a module lies, read off its layers.

    Equation: copies = ranks / (pieces of the parameter x stages); a weight that u stages use, v of
    them here, counts v/u of that. A divided layer says into how many different ``pieces`` its
    parameters are cut; a stage of a pipeline, which are ``tied``; others lie on every rank.
    Arguments: `module`, all that this rank has of a model (stages: an ``nn.ModuleList``); `group`,
    all ranks of all axes, replicas too; `stages`, the ranks of a pipeline that have different ones.
    Returns a dict for `clip_gradients`. Raises ValueError for ranks that pieces and stages do not
    divide.
    """
    require_count("copies_held", stages=stages)
    _, ranks = ranks_of(group)
    pieces = dict.fromkeys(module.parameters(), 1)
    used, here = dict.fromkeys(pieces, 1), Counter()
    for layer in module.modules():
        for name, count in getattr(layer, "pieces", {}).items():
            pieces[layer.get_parameter(name)] = count
        for name, places in getattr(layer, "tied", {}).items():
            used[layer.get_parameter(name)] = len(places)
            here[layer.get_parameter(name)] += 1
    for count in set(pieces.values()):
        good, allowed = ranks % (count * stages) == 0, f"a multiple of {count} pieces x {stages}"
        require(good, "copies_held", "the number of ranks", ranks, f"{allowed} stages")
    return {
        part: ranks // (count * stages) * used[part] / (here[part] or 1)
        for part, count in pieces.items()
    }
