"""Answers of the lab 'Eight ranks, three axes' that no slip derives; right ones, too."""

from itertools import pairwise

import torch

from dtlib.exercises.labs.three_axes import left_out, programs

GROUPS, STAGES = "ex-axes-groups", "ex-axes-stages"
STEP, MISSING = "ex-axes-step", "ex-axes-missing"


def by_remainders(rank, sizes):
    """Right, too: strides from the last axis on."""
    found, stride = {}, 1
    for axis in [*sizes][::-1]:
        found[axis] = rank // stride % sizes[axis]
        stride *= sizes[axis]
    return found


def one_at_a_time(comm, before, behind, work, m, shape):
    """Right, too, and slow: each micro-batch there and back before the next one."""
    total = 0
    for k in range(m):
        x = None if before is None else comm.recv(shape, before).requires_grad_()
        out = work(k, x)
        if behind is None:
            (out / m).backward()
            total = total + out.detach() / m
        else:
            comm.send(out, behind)
            out.backward(comm.recv(shape, behind))
        if before is not None:
            comm.send(x.grad, before)
    return total if behind is None else None


def backwards_on_all(*args):
    """Right, too: the last micro-batch first, on all stages."""
    return programs.run_stage(*args, turned=True)


def without_a_graph(comm, before, behind, work, m, shape):
    """Forgets requires_grad_ on what arrives, so that nothing is there to send back."""
    for k in range(m):
        if before is None:
            out = work(k, None)
            comm.send(out, behind)
            out.backward(comm.recv(shape, behind))
        else:
            x = comm.recv(shape, before)
            (work(k, x) / m).backward()
            comm.send(x.grad, before)


def only_sends(comm, before, behind, work, m, shape):
    """Waits for a gradient that nobody sends."""
    for k in range(m):
        x = None if before is None else comm.recv(shape, before).requires_grad_()
        out = work(k, x)
        if behind is not None:
            comm.send(out, behind)
            comm.recv(shape, behind)


def adds_keys_twice(comm, *rest):
    def axes(name):
        return ("dp", "tp") if "embedding" not in name else ("dp", "pp")

    return programs.step(comm, *rest, axes_of=axes)


def nothing_added(*args):
    return programs.step(*args, axes_of=lambda name: ())


def raising_finder(gradients, sizes):
    return gradients[0]["head.weight"]


def by_sums(gradients, sizes):
    """Right, too: looks at each pair of neighbours, in another order."""
    for name in sorted({name for one in gradients for name in one}):
        for axis in sizes:
            if axis == "tp" and name.split(".")[-2] in programs.CUT:
                continue
            for group in programs.groups_of(sizes, {axis}):
                held = [gradients[rank][name] for rank in group if name in gradients[rank]]
                if any(not torch.equal(a, b) for a, b in pairwise(held)):
                    return [name, axis]
    return None


RIGHT = [
    (GROUPS, (by_remainders, programs.groups_of)),
    (STAGES, one_at_a_time),
    (STAGES, backwards_on_all),
    (MISSING, (by_sums, list(left_out.LEFT_OUT))),
]
WRONG = [
    (GROUPS, (programs.coordinates,), "must have 2 items"),
    (GROUPS, (lambda rank, sizes: None, programs.groups_of), "returns nothing yet"),
    (STAGES, without_a_graph, "rank 1"),
    (STAGES, only_sends, "deadlock"),
    (STEP, adds_keys_twice, "exactly two times"),
    (STEP, nothing_added, "nobody has added along dp"),
    (MISSING, (raising_finder, None), "raises KeyError"),
    (MISSING, (programs.missing, ("blocks.0.attention.value.weight", "dp")), "given program"),
    (MISSING, (programs.missing, 3), "given program"),
]
