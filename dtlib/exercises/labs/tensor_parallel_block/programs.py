"""A tensor-parallel block, and the slips that one makes in writing it."""

from typing import Any

from dtlib.later import torch


def f(comm: Any, x: Any) -> Any:
    """Forwards nothing, backwards a sum over the ranks."""
    same = x.view_as(x)
    same.register_hook(comm.all_reduce)
    return same


def g(comm: Any, x: Any) -> Any:
    """Forwards a sum over the ranks, backwards nothing."""
    return x + (comm.all_reduce(x) - x).detach()


def nothing(comm: Any, x: Any) -> Any:
    return x.view_as(x)


def both(comm: Any, x: Any) -> Any:
    return f(comm, g(comm, x))


def gathered(comm: Any, x: Any) -> Any:
    return x + (comm.all_gather(x[None], dim=0).sum(0) - x).detach()


def cut_off(comm: Any, x: Any) -> Any:
    return comm.all_reduce(x).requires_grad_()


def in_place(comm: Any, x: Any) -> Any:
    x.data.copy_(comm.all_reduce(x))
    return x.view_as(x)


def librarys_f(comm: Any, x: Any) -> Any:
    from dtlib.parallelism.operators.adjoint import linear

    return linear(x, torch.clone, transpose=lambda dy: comm.all_reduce(dy))


def split_mlp(comm, x, w, *, f=f, g=g, bias="once", bend="inside", gathers=False):
    linear, gelu = torch.nn.functional.linear, torch.nn.functional.gelu
    up = linear(f(comm, x), w["up.weight"], w["up.bias"])
    partial = linear(gelu(up) if bend == "inside" else up, w["down.weight"])
    share = {"each": 1, "shared out": 1 / comm.size}.get(bias, 0)
    out = g(comm, partial + share * w["down.bias"])
    out = gelu(out) if bend == "after" else out
    out = out + 0 * g(comm, up.sum()) if gathers else out
    return out if share else out + w["down.bias"]


def split_shard(weights, rank, size, *, rows=("out.weight", "down.weight"), whole="norm", turn=0):
    parts = {}
    for name, weight in weights.items():
        dim = None if whole in name else 1 if name.endswith(rows) else 0
        parts[name] = cut(weight, dim, (rank + turn) % size, size)
    return parts


def attend(q, k, v, head_dim):
    from dtlib.models.gpt import causal_attention, rotary

    q, k, v = (x.unflatten(-1, (-1, head_dim)).transpose(1, 2) for x in (q, k, v))
    positions = torch.arange(q.shape[2])
    mixed = causal_attention(rotary(q, positions), rotary(k, positions), v, positions)
    return mixed.transpose(1, 2).flatten(2)


def split_block(comm, x, w, head_dim, *, f=f, g=g, place="after norm", heads=1):
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu

    def normed(x, name):
        scale = w[f"{name}_norm.weight"]
        x = f(comm, x) if place == "before norm" else x
        y = torch.nn.functional.rms_norm(x, scale.shape, scale, 1e-5)
        return f(comm, y) if place == "after norm" else y

    def read(y, name):
        return linear(f(comm, y) if place == "each" else y, w[name])

    y = normed(x, "attention")
    q, k, v = (read(y, f"attention.{n}.weight") for n in ("query", "key", "value"))
    x = x + g(comm, linear(attend(q, k, v, heads * head_dim), w["attention.out.weight"]))
    y = normed(x, "feed_forward")
    gate, up = (read(y, f"feed_forward.{n}.weight") for n in ("gate", "up"))
    return x + g(comm, linear(silu(gate) * up, w["feed_forward.down.weight"]))


def split_loss(comm, logits, targets, *, g=g, shift=True, clamp=True, mean=True):
    width = logits.shape[1]
    first = comm.rank * width
    if shift:
        logits = logits - comm.all_reduce(logits.detach().amax(1), op="max")[:, None]
    target = logits.gather(1, (targets - first).clamp(0, width - 1)[:, None])[:, 0]
    if clamp:
        target = target * ((targets >= first) & (targets < first + width))
    losses = g(comm, logits.exp().sum(1)).log() - g(comm, target)
    return losses.mean() if mean else losses.sum()


def gathered_loss(comm, logits, targets):
    whole = list(comm.all_gather(logits, 1).split(logits.shape[1], 1))
    whole[comm.rank] = logits
    return torch.nn.functional.cross_entropy(torch.cat(whole, 1), targets)


def side_of(name: str) -> int | None:
    """Along which dimension a weight of the block is cut: outputs 0, inputs 1, not at all None."""
    if "norm" in name:
        return None
    return 1 if name.endswith(("out.weight", "down.weight")) else 0


def cut(tensor: Any, dim: int | None, rank: int, P: int) -> Any:
    return tensor.clone() if dim is None else tensor.chunk(P, dim)[rank].clone()
