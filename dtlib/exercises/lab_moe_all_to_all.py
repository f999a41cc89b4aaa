"""Graders of the lab 'A MoE layer with all-to-all'.

Programs run on 2 and 4 ranks in memory, in 64 bits, with uneven and empty shares of tokens and
experts that get nothing; results and gradients are held against one process, bytes are counted.
The tasks on the whole layer are in `moe_layer_tasks`.
"""

from typing import Any

from dtlib.exercises import moe_layer_tasks  # noqa: F401  (the lab's other graders)
from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, whole
from dtlib.exercises.own_work import own_work
from dtlib.exercises.routed import (
    WIDTH,
    Batch,
    batches,
    choose,
    close,
    parts,
    random,
    same,
    same_bytes,
    same_calls,
    tensor,
)
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import record_team


@grader("ex-lab-moe-predict")
def predict(answer: Any) -> str:
    asked = ("forward", "backward", "sent_bytes")
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet(f"pass a dict with the keys {', '.join(asked)}")
    hints = {
        1: "and how do the results find their way back?",
        2: "nobody knows how many rows will come, unless it is told",
        4: "the results come back in numbers that are known by then",
        5: "that is both passes together",
    }
    number(whole(answer["forward"], "forward"), 3, "forward", mistakes=hints)
    hints = {
        1: "both journeys of the rows have a way back",
        3: "counts are whole numbers: do they have a gradient?",
        4: "the counts are known by now",
        0: "the gradients of the rows lie where the rows were computed",
    }
    number(whole(answer["backward"], "backward"), 2, "backward", mistakes=hints)
    token = 4096 * 2
    right = 4 * 2048 * 2 * token * 3 // 4
    mistakes = {
        right / 2: "one pass of two, or one copy of two",
        right / 4: "that is one journey of four",
        right * 4 / 3: "one row of four is at home already",
        right * 2 / 3: "one row of four is at home already, and there are two copies of each token",
        right * 4: "that is all ranks together",
        right / 2048: "that is one token",
    }
    number(answer["sent_bytes"], right, "sent_bytes", "bytes", tolerance=1e-6, mistakes=mistakes)
    return "the all-to-alls of one layer, and what each rank sends for its rows in a step"


@grader("ex-lab-moe-route")
def route(answer: Any) -> str:
    function(answer, "route(logits, k)")
    import torch

    for k, shift, experts in ((2, 0, 8), (1, 0, 8), (3, 0, 4), (1, 1000, 4), (2, 1000, 4)):
        where = f"k = {k}, {experts} experts" + (", logits of a thousand" if shift else "")
        logits = shift + random((6, experts), seed=k + experts)
        weight = random((6, k), seed=9)
        mine, right = (logits.clone().requires_grad_() for _ in range(2))
        with own_work():
            expert, gate = parts(call(answer, mine, k), "(expert, gate)", 2)
        for name, found in (("expert", expert), ("gate", gate)):
            if tuple(tensor(found).shape) != (6, k):
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
        same(gate, expected, f"{where}: gate", others)
        if not gate.requires_grad:
            raise NotYet(f"{where}: gate has no graph behind it, so the router learns nothing")
        (gate * weight).sum().backward()
        (expected * weight).sum().backward()
        same(mine.grad, right.grad, f"{where}: the gradient of the logits")
    return "choice, gates and the gradient of every logit, for k = 1, 2 and 3"


@grader("ex-lab-moe-sort")
def sort_copies(answer: Any) -> str:
    sort, inverse = items(answer, "(sort_copies, inverse)", 2)
    function(sort, "sort_copies(expert, experts, size)")
    function(inverse, "inverse(order)")
    import torch

    for experts, size, k, used in ((8, 4, 2, 8), (8, 4, 2, 3), (6, 3, 1, 4), (4, 2, 3, 4)):
        for tokens in (7, 0):
            where = f"{experts} experts on {size} ranks, {tokens} tokens, k = {k}"
            chosen = choose(tokens, used, k, seed=experts)
            with own_work():
                order, counts = parts(
                    call(sort, chosen.clone(), experts, size), "(order, counts)", 2
                )
            right = torch.bincount(chosen.flatten(), minlength=experts).view(size, -1)
            if tuple(tensor(counts).shape) != tuple(right.shape):
                raise NotYet(
                    f"{where}: counts has shape {list(counts.shape)}; one row for each rank, one "
                    "column for each of its experts, also of those that nobody wants"
                )
            if not torch.equal(counts.long(), right):
                raise NotYet(f"{where}: counts are not those of the experts")
            copies = tokens * k
            if sorted(tensor(order).tolist()) != list(range(copies)):
                raise NotYet(f"{where}: order must name every copy t * k + j once")
            if (chosen.flatten()[order].diff() < 0).any():
                raise NotYet(f"{where}: the copies are not sorted by expert")
            if not torch.equal(order, chosen.flatten().argsort(stable=True)):
                raise NotYet(f"{where}: copies of one expert must stay in their order")
            with own_work():
                back = tensor(call(inverse, order.clone()))
            if back.tolist() != order.argsort().tolist():
                unchanged = back.tolist() == order.tolist()
                hint = "that is order itself" if unchanged else "x[order][back] is not x"
                raise NotYet(f"{where}: inverse: {hint}")
    return "sorted, counted and undone, also where an expert, or a rank, has nothing"


@grader("ex-lab-moe-exchange")
def exchange(answer: Any) -> str:
    function(answer, "exchange(comm, x, send, receive)")
    import torch

    for P, empty in ((2, False), (4, False), (4, True)):
        rows = random((P, P), seed=P).abs().mul(3).long().tolist()
        if empty:
            rows = [[0] * P if src == 1 else [0 if dst == 2 else n for dst, n in enumerate(row)]
                    for src, row in enumerate(rows)]  # fmt: skip
        back = [[rows[src][dst] for src in range(P)] for dst in range(P)]
        x = [random((sum(rows[r]), WIDTH), seed=r) for r in range(P)]
        y = [random((sum(back[r]), WIDTH), seed=50 + r) for r in range(P)]

        def program(comm, rows=rows, back=back, x=x, y=y):
            leaf, r = x[comm.rank].clone().requires_grad_(), comm.rank
            with own_work():
                out = tensor(answer(comm, leaf, list(rows[r]), list(back[r])), r)
            if tuple(out.shape) != (sum(back[r]), WIDTH):
                raise NotYet(f"rank {r} returns the shape {list(out.shape)}")
            if not out.requires_grad:
                raise NotYet("the result has no graph behind it, so no gradient can pass")
            forward = len(comm.calls)
            (out * y[r]).sum().backward()
            return out.detach(), leaf.grad, forward, len(comm.calls) - forward, leaf.detach()

        where = f"P = {P}" + (", with empty messages" if empty else "")
        results = record_team(program, P)
        expected, gradients = _moved(x, rows), _moved(y, back)
        for rank, (out, grad, forward, backward, after) in enumerate(results):
            if not torch.equal(after, x[rank]):
                raise NotYet(f"{where}: exchange changes its input on rank {rank}")
            same(out, expected[rank], f"{where}: rank {rank}: what arrives")
            others = {"that is what comes out of sending x again": expected[rank], "": y[rank]}
            same(grad, gradients[rank], f"{where}: rank {rank}: the gradient of x", others)
            same_calls(f"{where}, rank {rank}", forward, backward, 1, 1)
    return "uneven and empty parts, and a gradient that goes back the way the rows came"


def _moved(whole: list, rows: list) -> list:
    """What each rank has after an all-to-all in which rank r sends rows[r][q] rows to rank q."""
    import torch

    cut = [part.split(row) for part, row in zip(whole, rows, strict=True)]
    return [torch.cat([pieces[q] for pieces in cut]) for q in range(len(whole))]


@grader("ex-lab-moe-dispatch")
def dispatch(answer: Any) -> str:
    function(answer, "dispatch(comm, x, expert, experts)")
    import torch

    for batch in batches():
        P, own = len(batch.x), batch.experts // len(batch.x)
        weight = torch.arange(1.0, batch.experts + 1, dtype=torch.float64)

        def program(comm, batch=batch, own=own, weight=weight):
            leaf, r = batch.x[comm.rank].clone().requires_grad_(), comm.rank
            with own_work():
                made = answer(comm, leaf, batch.expert[r].clone(), batch.experts)
            rows, loads, _ = parts(made, "(rows, loads, way)", 3)
            forward, sent = len(comm.calls), comm.sent_bytes
            loads = [whole(n, "a load") for n in items(loads, f"rank {r}: loads", own)]
            _check_rows(tensor(rows, r), loads, batch, r, own)
            if not rows.requires_grad:
                raise NotYet(f"{batch.name}: rows have no graph behind them, no gradient can pass")
            pieces = rows.split(loads)
            mine = weight[r * own : (r + 1) * own]
            sum((part**2).sum() * w for part, w in zip(pieces, mine, strict=True)).backward()
            return leaf.grad, forward, len(comm.calls) - forward, sent

        for rank, (grad, forward, backward, sent) in enumerate(record_team(program, P)):
            where = f"{batch.name}, rank {rank}"
            total = weight[batch.expert[rank]].sum(dim=1, keepdim=True)
            same(grad, 2 * batch.x[rank] * total, f"{where}: the gradient of x")
            same_calls(where, forward, backward, 2, 1)
            rows, count = batch.away(rank)[0] * WIDTH * 8, (P - 1) * own
            right = rows + count * (4 if sent == rows + count * 4 else 8)  # counts of 32 bits do
            same_bytes(where, sent, right, "the counts and the rows that leave")
    return "every copy at its expert; two messages to each rank forwards, one backwards"


def _check_rows(rows: Any, loads: list, batch: Batch, rank: int, own: int) -> None:
    import torch

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


@grader("ex-lab-moe-combine")
def combine(answer: Any) -> str:
    dispatch, back = items(answer, "(dispatch, combine)", 2)
    function(dispatch, "dispatch(comm, x, expert, experts)")
    function(back, "combine(comm, done, gate, way)")
    import torch

    for batch in batches():
        P, own = len(batch.x), batch.experts // len(batch.x)
        gates = [random(e.shape, seed=70 + r).abs() for r, e in enumerate(batch.expert)]
        dy = [random(x.shape, seed=90 + r) for r, x in enumerate(batch.x)]

        def program(comm, batch=batch, own=own, gates=gates, dy=dy):
            r = comm.rank
            x, gate = (t[r].clone().requires_grad_() for t in (batch.x, gates))
            with own_work():
                made = dispatch(comm, x, batch.expert[r].clone(), batch.experts)
                rows, loads, way = parts(made, "(rows, loads, way)", 3)
                before = comm.sent_bytes
                pieces = enumerate(rows.split([int(n) for n in loads]), r * own + 1)
                done = torch.cat([torch.tanh(part * e) for e, part in pieces])
                out = tensor(back(comm, done, gate, way), r)
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
            same(out, expected, f"{where}: the result", others)
            same(dgate, gate.grad, f"{where}: the gradient of the gates")
            same(dx, x.grad, f"{where}: dX")
            same_calls(where, forward, backward, 3, 2)
            right = batch.away(rank)[1] * WIDTH * 8
            same_bytes(where, sent, right, "the results that go home")
    return "result, dX and the gradient of every gate, with uneven and with empty messages"
