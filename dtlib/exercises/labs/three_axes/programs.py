"""Eight ranks on three axes, and the slips that one makes in putting them together."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from dtlib.exercises.labs.three_axes.model import CUT, SPEC, attend, f, g, loss_of, norm
from dtlib.later import torch


def coordinates(rank: int, sizes: dict[str, int], *, last: bool = True) -> dict[str, int]:
    found = {}
    for axis in reversed(sizes) if last else sizes:
        rank, found[axis] = divmod(rank, sizes[axis])
    return {axis: found[axis] for axis in sizes}


def groups_of(sizes: dict, axes: Iterable[str], *, places: Callable = coordinates) -> list:
    groups: dict[tuple, list[int]] = {}
    for rank, _ in enumerate(product(*map(range, sizes.values()))):
        fixed = tuple(i for axis, i in places(rank, sizes).items() if axis not in axes)
        groups.setdefault(fixed, []).append(rank)
    return list(groups.values())


def block(tp, x, w, head_dim, *, f=f, g=g, place="behind", keys=None):
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu

    def read(x, scale):
        return norm(f(tp, x), scale) if place == "before" else f(tp, norm(x, scale))

    y = read(x, w["attention_norm.weight"])
    own = {name: w[f"attention.{name}.weight"] for name in ("query", "key", "value")}
    if keys:
        own |= {name: keys(tp, own[name]) for name in ("key", "value")}
    q, k, v = (linear(y, matrix) for matrix in own.values())
    x = x + g(tp, linear(attend(q, k, v, head_dim), w["attention.out.weight"]))
    y = read(x, w["feed_forward_norm.weight"])
    gate, up = (linear(y, w[f"feed_forward.{name}.weight"]) for name in ("gate", "up"))
    return x + g(tp, linear(silu(gate) * up, w["feed_forward.down.weight"]))


def run_stage(comm, before, behind, work, m, shape, *, mean=True, turned=False, back=None):
    """All micro-batches forward, then all backward, and the mean loss on the last stage."""
    inputs, outputs = [], []
    for k in range(m):
        x = None if before is None else comm.recv(shape, before).requires_grad_()
        out = work(k, x)
        if behind is not None:
            comm.send(out, behind)
        inputs.append(x)
        outputs.append(out)
    for k in range(m - 1, -1, -1) if turned else range(m):
        if behind is None:
            (outputs[k] / (m if mean else 1)).backward()
        else:
            outputs[k].backward(comm.recv(shape, behind))
        if before is not None:
            comm.send(inputs[k].grad if back is None else back(inputs[k].grad), before)
    return sum(out.detach() for out in outputs) / m if behind is None else None


def axes_of(name: str) -> tuple[str, ...]:
    """Over which axes the gradients of a weight are added, once all micro-batches are done."""
    if name == "embedding.weight":
        return "dp", "pp"
    return ("dp", "tp") if ".key." in name or ".value." in name else ("dp",)


def step(comm, sizes, weights, tokens, targets, m, *, axes_of=axes_of, mean=True, rows="own"):
    at = coordinates(comm.rank, sizes)
    teams = {axis: comm.split(groups_of(sizes, {axis})) for axis in sizes}
    pipe = next(group for group in groups_of(sizes, {"pp"}) if comm.rank in group)
    before = pipe[at["pp"] - 1] if at["pp"] > 0 else None
    behind = pipe[at["pp"] + 1] if at["pp"] + 1 < len(pipe) else None
    mine = at["dp"] if rows == "own" else 0
    tokens, targets = (part.chunk(sizes["dp"])[mine].chunk(m) for part in (tokens, targets))
    table = weights.get("embedding.weight")

    def work(k, x):
        x = torch.nn.functional.embedding(tokens[k], table) if before is None else x
        for layer in range(SPEC.layers):
            start = f"blocks.{layer}."
            w = {n.removeprefix(start): v for n, v in weights.items() if n.startswith(start)}
            x = block(teams["tp"], x, w, SPEC.head_dim) if w else x
        if behind is not None:
            return x
        return loss_of(x, weights["norm.weight"], table, targets[k]) / (sizes["dp"] if mean else 1)

    run_stage(comm, before, behind, work, m, (*tokens[0].shape, SPEC.hidden))
    return {name: _added(w.grad, teams, axes_of(name)) for name, w in weights.items()}


def _added(gradient: Any, teams: dict, axes: Iterable[str]) -> Any:
    for axis in axes:
        gradient = teams[axis].all_reduce(gradient)
    return gradient


def missing(gradients, sizes, *, axes=("dp", "pp", "tp"), cut=tuple(CUT)):
    """The weight and the axis along which its copies have other gradients, or None."""
    for axis in axes:
        for group in groups_of(sizes, {axis}):
            held = [gradients[rank] for rank in group]
            for name, first in held[0].items():
                copied = all(name in one for one in held)
                if axis == "tp" and name.split(".")[-2] in cut:
                    copied = False
                if copied and not all(torch.allclose(one[name], first) for one in held):
                    return name, axis
    return None
