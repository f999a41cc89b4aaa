"""Ring attention on ranks against dense attention: results, gradients, messages, products."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dtlib.exercises.judge import call, function, items
from dtlib.exercises.judges.tensors import as_tensor, normal, same_tensor
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.messages import record
from dtlib.later import np, torch

WIDTH = 3


def _state(scores: Any, values: Any) -> tuple:
    """The state of some keys, in numpy: rows that see nothing are (-inf, 0, 0)."""
    m = scores.max(1, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(m), m, 0)[:, None])
    return m, weights.sum(1), weights @ values


def merge_law(answer: Callable) -> None:
    function(answer, "merge(a, b)")
    rng = np.random.default_rng(17)
    for scale, where in ((1.0, "ordinary scores"), (1e4, "scores of ten thousand")):
        for _ in range(5):
            scores, values = scale * rng.normal(size=(4, 7)), rng.normal(size=(7, WIDTH))
            scores[0, :3] = scores[1, 3:] = scores[2] = -np.inf
            parts = [_state(scores[:, k], values[k]) for k in (slice(0, 3), slice(3, 7))]
            tensors = [tuple(torch.tensor(x) for x in part) for part in parts]
            before = [[x.clone() for x in part] for part in tensors]
            merged = _three(call(answer, *tensors), where)
            for part, old in zip(tensors, before, strict=True):
                if not all(torch.equal(x, y) for x, y in zip(part, old, strict=True)):
                    raise NotYet(f"{where}: merge changes one of the states that it was given")
            _same_state(merged, _state(scores, values), where)
    left, right = ([x.clone().requires_grad_() for x in part] for part in tensors)
    if not all(x.requires_grad for x in answer(tuple(left), tuple(right))[1:]):
        raise NotYet("the state is right, but no gradient can pass: s or o is detached")


def _three(state: Any, where: str) -> list:
    m, s, o = items(state, f"{where}: a state (m, s, o)", 3)
    for name, part in zip("mso", (m, s, o), strict=True):
        if not isinstance(part, torch.Tensor):
            raise NotYet(f"{where}: {name} is a {type(part).__name__}, not a tensor")
    return [x.detach().numpy() for x in (m, s, o)]


def _same_state(found: list, right: tuple, where: str) -> None:
    for name, got, expected in zip("mso", found, right, strict=True):
        if got.shape != expected.shape:
            raise NotYet(f"{where}: {name} has shape {got.shape}, not {expected.shape}")
    empty = ~np.isfinite(right[0])
    rows = {"a row that has seen no key": empty, "a row": ~empty}
    for what, chosen in rows.items():
        for name, got, expected in zip("mso", found, right, strict=True):
            if not np.isfinite(got[chosen]).all() and not (name == "m" and what != "a row"):
                raise NotYet(f"{where}: {name} of {what} is not finite: what is -inf minus -inf?")
            if not np.allclose(got[chosen], expected[chosen], rtol=1e-9, atol=1e-12):
                hints = {
                    "m": "the larger of the two units",
                    "s": "in which unit is each of the two sums counted?",
                    "o": "it is counted in the same unit as s",
                }
                raise NotYet(f"{where}: {name} of {what} is wrong: {hints[name]}")


def attend_law(answer: Callable) -> None:
    function(answer, "attend(q, k, v, q_positions, k_positions)")
    q, k, v = (normal(n, WIDTH, seed=seed) for n, seed in ((4, 1), (5, 2), (5, 3)))
    cases = {
        "keys that all stand before": (torch.arange(10, 14), torch.arange(5)),
        "a block with itself": (torch.arange(1, 5), torch.arange(5)),
        "positions that are out of order": (
            torch.tensor([7, 0, 9, 2]),
            torch.tensor([8, 1, 6, 3, 5]),
        ),
        "keys that all stand behind": (torch.arange(4), torch.arange(10, 15)),
    }
    for where, (rows, columns) in cases.items():
        mine = [x.clone().requires_grad_() for x in (q, k, v)]
        state = call(answer, *mine, rows, columns)
        found = _three(state, where)
        scores = (q @ k.T / math.sqrt(WIDTH)).numpy().copy()
        scores[(columns[None, :] > rows[:, None]).numpy()] = -np.inf
        _plausible(found, scores, v.numpy(), where)
        _same_state(found, _state(scores, v.numpy()), where)
        if not state[2].requires_grad:
            raise NotYet(f"{where}: no gradient can pass: o is detached from q, k and v")
        gradients = torch.autograd.grad(
            state[1].sum() + state[2].sum(), mine, allow_unused=True, materialize_grads=True
        )
        if not all(x.isfinite().all() for x in gradients):
            raise NotYet(f"{where}: the state is right, but a gradient is nan: masked rows again")
        _judge_gradients(call(answer, *mine, rows, columns), mine, rows, columns, where)


def _judge_gradients(state, mine: list, rows, columns, where: str) -> None:
    """Hold the gradients of the result o / s against softmax, for rows that see some key."""
    seen = columns[None, :] <= rows[:, None]
    some = seen.any(1)
    if not some.any():
        return
    g = normal(int(some.sum()), WIDTH, seed=4)
    q, k, v = mine
    scores = (q[some] @ k.T / math.sqrt(WIDTH)).masked_fill(~seen[some], -math.inf)
    right = torch.autograd.grad((scores.softmax(1) @ v * g).sum(), mine)
    result = state[2][some] / state[1][some][:, None]
    found = torch.autograd.grad((result * g).sum(), mine, allow_unused=True, materialize_grads=True)
    for name, got, expected in zip("qkv", found, right, strict=True):
        if not torch.allclose(got, expected, rtol=1e-9, atol=1e-12):
            raise NotYet(
                f"{where}: the state is right, and the gradient of {name} that the result o / s "
                "gives is not: only m is a unit, do not detach more than that"
            )


def _plausible(found: list, scores: Any, values: Any, where: str) -> None:
    """Name the slips that are common, before numbers are compared."""
    top = scores.max(1)
    top = top[np.isfinite(top)]
    if found[0].shape == (len(scores),) and len(top) > 1:
        given = found[0][np.isfinite(scores.max(1))]
        if np.allclose(given, top * math.sqrt(WIDTH)):
            raise NotYet(f"{where}: the scores lack their 1 / sqrt(d)")
    if found[2].shape == (len(scores), WIDTH) and np.isfinite(scores.max(1)).all():
        right = _state(scores, values)
        if np.allclose(found[2], right[2] / right[1][:, None]) and not np.allclose(right[1], 1):
            raise NotYet(f"{where}: o is divided already; divide once, at the very end")


def hop_law(answer: Callable, P: int) -> None:
    x = [normal(2, WIDTH, seed=seed) for seed in range(P)]
    y = [normal(2, WIDTH, seed=50 + seed) for seed in range(P)]

    def program(comm, mine):
        leaf = mine.requires_grad_()
        out = as_tensor(answer(comm, leaf), "hop returns")
        if not out.requires_grad:
            raise NotYet("no gradient can pass: the result has no graph behind it")
        out.backward(y[comm.rank])
        return out.detach(), leaf.grad

    trace = record(program, x, without="dtlib.parallelism")
    for rank, (out, gradient) in enumerate(trace.results):
        left, right = (rank - 1) % P, (rank + 1) % P
        if not torch.equal(out, x[left]):
            raise NotYet(f"rank {rank} does not get what its left-hand neighbour had")
        slips = {"it is its own": y[rank], "it is the left-hand neighbour's": y[left]}
        hints = {f"{hint}; whoever got x knows its gradient": y for hint, y in slips.items()}
        same_tensor(gradient, y[right], f"rank {rank}: the gradient of x", hints)
    if any(count != 2 for count in trace.sent_messages()):
        raise NotYet("a hop is one message forwards and one backwards")
    if P > 2 and trace.rounds > 4:
        raise NotYet("right, but ranks wait for one another in a row")


def ring_law(answer: Callable, P: int) -> None:
    for name, table in _tables(P, 4).items():
        _judge_ring(answer, P, table, name)


def zigzag_law(answer: Callable) -> None:
    from dtlib.parallelism.sequence.layouts import causal_work

    function(answer, "zigzag(seq, P)")
    for P in (1, 2, 3, 4, 8):
        seq = 2 * P * 6
        where = f"seq = {seq}, P = {P}"
        table = np.asarray(call(answer, seq, P))
        if table.shape != (P, seq // P):
            raise NotYet(f"{where}: the table has shape {table.shape}, not {(P, seq // P)}")
        if sorted(table.ravel().tolist()) != list(range(seq)):
            raise NotYet(f"{where}: every position belongs to exactly one rank")
        for t, step in enumerate(causal_work(table, P)):
            for rank, share in enumerate(step):
                if share != Fraction(1, 2):
                    side = "more" if share > Fraction(1, 2) else "less"
                    raise NotYet(f"{where}: in step {t} rank {rank} has {side} than half a block")
    for seq, P in ((12, 4), (6, 4)):
        try:
            given = answer(seq, P)
        except ValueError:
            continue
        except Exception as error:
            kind = type(error).__name__
            raise NotYet(f"seq = {seq}, P = {P}: raise a ValueError, not {kind}") from None
        raise NotYet(f"seq = {seq}, P = {P}: 2P pieces of one size? Got {np.asarray(given).shape}")


def thrifty_law(answer: Callable, P: int) -> None:
    for name, table in list(_tables(P, 4).items())[:2]:
        for rank, flops in enumerate(_judge_ring(answer, P, table, name)):
            if flops > _tile_flops(table, rank):
                raise NotYet(
                    f"{name}: right, but rank {rank} computes products that the mask forbids: "
                    "skip every quarter of a block that lies in the future"
                )


def _tile_flops(table: Any, rank: int) -> int:
    """What a rank must compute when blocks are cut into quarters."""
    half = table.shape[1] // 2
    parts = (slice(0, half), slice(half, None))
    needed = sum(
        theirs[b].min() <= table[rank][a].max() for theirs in table for a in parts for b in parts
    )
    return int(needed) * 2 * 2 * half * half * WIDTH


def _tables(P: int, tokens: int) -> dict:
    pieces = np.arange(P * tokens).reshape(2 * P, -1)
    shuffled = np.random.default_rng(17).permutation(P * tokens)
    return {
        "contiguous": np.arange(P * tokens).reshape(P, -1),
        "zigzag": np.concatenate([pieces[:P], pieces[: P - 1 : -1]], axis=1),
        "shuffled": shuffled.reshape(P, -1),
    }


def _judge_ring(answer: Callable, P: int, table: Any, where: str) -> list[int]:
    """Hold a ring against dense attention; return the FLOP of each rank's forward products."""
    tokens = table.shape[1]
    q, k, v, g = (normal(P * tokens, WIDTH, seed=seed) for seed in range(4))
    whole_inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    scores = whole_inputs[0] @ whole_inputs[1].T / math.sqrt(WIDTH)
    later = torch.ones(P * tokens, P * tokens).triu(1).bool()
    expected = scores.masked_fill(later, -math.inf).softmax(-1) @ whole_inputs[2]
    expected.backward(g)
    places = torch.tensor(table)
    inputs = [torch.stack([x[row] for x in (q, k, v, g)]) for row in places]

    def program(comm, mine):
        *parts, gradient = mine.unbind()
        leaves = [x.clone().requires_grad_() for x in parts]
        with _products() as counter:
            out = answer(comm, *leaves, places.clone())
        if not isinstance(out, torch.Tensor) or out.shape != (tokens, WIDTH):
            found = tuple(getattr(out, "shape", ())) or type(out).__name__
            raise NotYet(f"rank {comm.rank} returns {found}, not {(tokens, WIDTH)}")
        if not out.requires_grad:
            raise NotYet("no gradient can pass: the result has no graph behind it")
        out.backward(gradient)
        return [out.detach(), *(x.grad for x in leaves)], counter.flops

    trace = record(program, inputs, without="dtlib.parallelism")
    right = [expected.detach(), *(x.grad for x in whole_inputs)]
    for i, name in enumerate(("out", "dq", "dk", "dv")):
        for rank, (found, _) in enumerate(trace.results):
            same_tensor(found[i], right[i][places[rank]], f"{where}: {name} of rank {rank}")
    hop_bytes = 2 * tokens * WIDTH * 8
    for rank, sent in enumerate(trace.sent_bytes()):
        if sent != 2 * (P - 1) * hop_bytes:
            side = "more" if sent > 2 * (P - 1) * hop_bytes else "fewer"
            raise NotYet(
                f"{where}: right, but rank {rank} sends {side} bytes than P - 1 hops of keys and "
                "values, forwards and backwards"
            )
    return [flops for _, flops in trace.results]


def _products():
    """Counts the FLOP of this thread's matrix products, written as such or as a broadcast."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Products(TorchDispatchMode):
        flops = 0

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            name = operation.name().split(".")[0]
            if name in ("aten::mm", "aten::bmm"):
                a, b = args[:2]
                self.flops += 2 * a.numel() * b.shape[-1]
            result = operation(*args, **(kwargs or {}))
            if name == "aten::mul" and result.ndim > 2:
                a, b = (getattr(x, "shape", ()) for x in args[:2])
                self.flops += 2 * result.numel() * (result.shape not in (a, b))
            return result

    return Products()
