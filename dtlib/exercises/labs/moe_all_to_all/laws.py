"""Routing, sorting and the journeys of rows, against one process; what leaves is counted."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.judge import call, function, functions, items, whole
from dtlib.exercises.judges.tensors import as_tensor, close, normal, same_calls, same_tensor
from dtlib.exercises.labs.moe_all_to_all.batches import (
    WIDTH,
    Batch,
    batches,
    choose,
    parts,
    same_bytes,
)
from dtlib.exercises.labs.moe_all_to_all.own_work import own_work
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.team import record_team
from dtlib.later import torch


def route_law(answer: Callable) -> None:
    function(answer, "route(logits, k)")
    for k, shift, experts in ((2, 0, 8), (1, 0, 8), (3, 0, 4), (1, 1000, 4), (2, 1000, 4)):
        where = f"k = {k}, {experts} experts" + (", logits of a thousand" if shift else "")
        logits = shift + normal(6, experts, seed=k + experts)
        weight = normal(6, k, seed=9)
        mine, right = (logits.clone().requires_grad_() for _ in range(2))
        with own_work():
            expert, gate = parts(call(answer, mine, k), "(expert, gate)", 2)
        for name, found in (("expert", expert), ("gate", gate)):
            if tuple(as_tensor(found, name).shape) != (6, k):
                raise NotYet(f"{where}: {name} has shape {list(found.shape)}, not {[6, k]}")
        if expert.dtype != torch.int64:
            raise NotYet(f"{where}: expert has numbers of kind {expert.dtype}, not whole ones")
        best = logits.argsort(dim=1, descending=True)[:, :k]
        if not torch.equal(expert.sort(dim=1).values, best.sort(dim=1).values):
            raise NotYet(f"{where}: expert does not name the k with the largest logits")
        if not torch.equal(expert, best):
            raise NotYet(f"{where}: the right experts; the best must stand first")
        raw = right.softmax(dim=1).gather(1, best)
        expected = raw / raw.sum(dim=1, keepdim=True) if k > 1 else raw
        others = {
            "that is 1 whatever the router says, and it will learn nothing": torch.ones_like(raw),
            "the gates of a token must add up to 1": raw,
            "softmax over the chosen alone is 1 for k = 1": logits.gather(1, best).softmax(1),
        }
        same_tensor(gate, expected, f"{where}: gate", others)
        if not gate.requires_grad:
            raise NotYet(f"{where}: gate has no graph behind it, so the router learns nothing")
        (gate * weight).sum().backward()
        (expected * weight).sum().backward()
        same_tensor(mine.grad, right.grad, f"{where}: the gradient of the logits")


def sort_law(answer: tuple) -> None:
    sort, inverse = functions(answer, "sort_copies(expert, experts, size)", "inverse(order)")
    for experts, size, k, used in ((8, 4, 2, 8), (8, 4, 2, 3), (6, 3, 1, 4), (4, 2, 3, 4)):
        for tokens in (7, 0):
            where = f"{experts} experts on {size} ranks, {tokens} tokens, k = {k}"
            chosen = choose(tokens, used, k, seed=experts)
            order, counts = parts(call(sort, chosen.clone(), experts, size), "(order, counts)", 2)
            right = torch.bincount(chosen.flatten(), minlength=experts).view(size, -1)
            if tuple(as_tensor(counts, "counts").shape) != tuple(right.shape):
                raise NotYet(
                    f"{where}: counts has shape {list(counts.shape)}; one row for each rank, one "
                    "column for each of its experts, also of those that nobody wants"
                )
            if not torch.equal(counts.long(), right):
                raise NotYet(f"{where}: counts are not those of the experts")
            copies = tokens * k
            if sorted(as_tensor(order, "order").tolist()) != list(range(copies)):
                raise NotYet(f"{where}: order must name every copy t * k + j once")
            if (chosen.flatten()[order].diff() < 0).any():
                raise NotYet(f"{where}: the copies are not sorted by expert")
            if not torch.equal(order, chosen.flatten().argsort(stable=True)):
                raise NotYet(f"{where}: copies of one expert must stay in their order")
            back = as_tensor(call(inverse, order.clone()), "inverse returns")
            if back.tolist() != order.argsort().tolist():
                unchanged = back.tolist() == order.tolist()
                hint = "that is order itself" if unchanged else "x[order][back] is not x"
                raise NotYet(f"{where}: inverse: {hint}")


def exchange_law(answer: Callable, P: int) -> None:
    for empty in (False, True) if P > 2 else (False,):
        rows = normal(P, P, seed=1000 + P).abs().mul(3).long().tolist()
        if empty:
            rows = [[0] * P if src == 1 else [0 if dst == 2 else n for dst, n in enumerate(row)]
                    for src, row in enumerate(rows)]  # fmt: skip
        back = [[rows[src][dst] for src in range(P)] for dst in range(P)]
        x = [normal(sum(rows[r]), WIDTH, seed=r) for r in range(P)]
        y = [normal(sum(back[r]), WIDTH, seed=50 + r) for r in range(P)]

        def program(comm, rows=rows, back=back, x=x, y=y):
            leaf, r = x[comm.rank].clone().requires_grad_(), comm.rank
            out = as_tensor(answer(comm, leaf, list(rows[r]), list(back[r])), f"rank {r}")
            if tuple(out.shape) != (sum(back[r]), WIDTH):
                raise NotYet(f"rank {r} returns the shape {list(out.shape)}")
            if not out.requires_grad:
                raise NotYet("the result has no graph behind it, so no gradient can pass")
            forward = len(comm.calls)
            (out * y[r]).sum().backward()
            return out.detach(), leaf.grad, forward, len(comm.calls) - forward, leaf.detach()

        where = "with empty messages, " if empty else ""
        results = record_team(program, P)
        expected, gradients = _moved(x, rows), _moved(y, back)
        for rank, (out, grad, forward, backward, after) in enumerate(results):
            if not torch.equal(after, x[rank]):
                raise NotYet(f"{where}exchange changes its input on rank {rank}")
            same_tensor(out, expected[rank], f"{where}rank {rank}: what arrives")
            others = {
                "that is what comes out of sending x again": expected[rank],
                "that is dy as it came": y[rank],
            }
            same_tensor(grad, gradients[rank], f"{where}rank {rank}: the gradient of x", others)
            same_calls(f"{where}rank {rank}", (forward, backward), (1, 1))


def _moved(whole: list, rows: list) -> list:
    """What each rank has after an all-to-all in which rank r sends rows[r][q] rows to rank q."""
    cut = [part.split(row) for part, row in zip(whole, rows, strict=True)]
    return [torch.cat([pieces[q] for pieces in cut]) for q in range(len(whole))]


def dispatch_law(answer: Callable, P: int) -> None:
    for batch in batches(P):
        own = batch.experts // P
        weight = torch.arange(1.0, batch.experts + 1, dtype=torch.float64)

        def program(comm, batch=batch, own=own, weight=weight):
            leaf, r = batch.x[comm.rank].clone().requires_grad_(), comm.rank
            made = answer(comm, leaf, batch.expert[r].clone(), batch.experts)
            rows, loads, _ = parts(made, "(rows, loads, way)", 3)
            forward, sent = len(comm.calls), comm.sent_bytes
            loads = [whole(n, "a load") for n in items(loads, f"rank {r}: loads", own)]
            _check_rows(as_tensor(rows, f"rank {r}"), loads, batch, r, own)
            if not rows.requires_grad:
                raise NotYet(f"{batch.name}: rows have no graph behind them, no gradient can pass")
            pieces = rows.split(loads)
            mine = weight[r * own : (r + 1) * own]
            sum((part**2).sum() * w for part, w in zip(pieces, mine, strict=True)).backward()
            return leaf.grad, forward, len(comm.calls) - forward, sent

        for rank, (grad, forward, backward, sent) in enumerate(record_team(program, P)):
            where = f"{batch.name}, rank {rank}"
            total = weight[batch.expert[rank]].sum(dim=1, keepdim=True)
            same_tensor(grad, 2 * batch.x[rank] * total, f"{where}: the gradient of x")
            same_calls(where, (forward, backward), (2, 1))
            rows, count = batch.away(rank)[0] * WIDTH * 8, (P - 1) * own
            right = rows + count * (4 if sent == rows + count * 4 else 8)  # counts of 32 bits do
            same_bytes(where, sent, right, "the counts and the rows that leave")


def _check_rows(rows: Any, loads: list, batch: Batch, rank: int, own: int) -> None:
    where = f"{batch.name}, rank {rank}"
    wanted = []
    for e in range(rank * own, (rank + 1) * own):
        hits = [x[(chosen == e).any(dim=1)]
                for x, chosen in zip(batch.x, batch.expert, strict=True)]  # fmt: skip
        wanted.append(torch.cat(hits))
    if loads != [len(w) for w in wanted]:
        hint = "the right number in all" if sum(loads) == sum(map(len, wanted)) else "wrong"
        raise NotYet(f"{where}: loads: {hint}; one number for each expert of this rank")
    if tuple(rows.shape) != (sum(loads), WIDTH):
        raise NotYet(f"{where}: rows has shape {list(rows.shape)}, not {[sum(loads), WIDTH]}")
    for e, (part, right) in enumerate(zip(rows.detach().split(loads), wanted, strict=True)):
        if not close(part[part[:, 0].argsort()], right[right[:, 0].argsort()]):
            arrived, all_right = rows.detach(), torch.cat(wanted)
            here = close(arrived[arrived[:, 0].argsort()], all_right[all_right[:, 0].argsort()])
            hint = "all rows that should be here are, but not sorted by expert" if here else (
                "other tokens have arrived than those that want it")  # fmt: skip
            raise NotYet(f"{where}: expert {rank * own + e}: {hint}")


def combine_law(answer: tuple, P: int) -> None:
    for batch in batches(P):
        own = batch.experts // P
        gates = [normal(*e.shape, seed=70 + r).abs() for r, e in enumerate(batch.expert)]
        dy = [normal(*x.shape, seed=90 + r) for r, x in enumerate(batch.x)]

        def program(comm, batch=batch, own=own, gates=gates, dy=dy):
            r = comm.rank
            x, gate = (t[r].clone().requires_grad_() for t in (batch.x, gates))
            made = answer[0](comm, x, batch.expert[r].clone(), batch.experts)
            rows, loads, way = parts(made, "(rows, loads, way)", 3)
            before = comm.sent_bytes
            pieces = enumerate(rows.split([int(n) for n in loads]), r * own + 1)
            done = torch.cat([torch.tanh(part * e) for e, part in pieces])
            out = as_tensor(answer[1](comm, done, gate, way), f"rank {r}")
            if tuple(out.shape) != tuple(x.shape):
                raise NotYet(f"{batch.name}, rank {r}: shape {list(out.shape)}, not that of x")
            forward, sent = len(comm.calls), comm.sent_bytes - before
            if not out.requires_grad:
                raise NotYet(f"{batch.name}: the result has no graph behind it")
            (out * dy[r]).sum().backward()
            return out.detach(), x.grad, gate.grad, forward, len(comm.calls) - forward, sent

        for rank, found in enumerate(record_team(program, P)):
            out, dx, dgate, forward, backward, sent = found
            where = f"{batch.name}, rank {rank}"
            x, gate = (t[rank].clone().requires_grad_() for t in (batch.x, gates))
            done = torch.tanh(x[:, None] * (batch.expert[rank] + 1)[..., None])
            expected = (gate[..., None] * done).sum(dim=1)
            (expected * dy[rank]).sum().backward()
            others = {
                "as if every gate were 1": done.sum(dim=1),
                "as if every gate were 1 / k": done.mean(dim=1),
            }
            same_tensor(out, expected, f"{where}: the result", others)
            same_tensor(dgate, gate.grad, f"{where}: the gradient of the gates")
            same_tensor(dx, x.grad, f"{where}: dX")
            same_calls(where, (forward, backward), (3, 2))
            right = batch.away(rank)[1] * WIDTH * 8
            same_bytes(where, sent, right, "the results that go home")
