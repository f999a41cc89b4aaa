"""Every check of the MoE lab: solutions pass, stubs and wrong answers fail."""

import pytest
import torch
from exercise_cases import Case, EveryExercise
from torch.nn import functional as F

from dtlib.exercises import Deadlock, TransportError
from dtlib.exercises.worlds import record_team


def route(logits, k, renormalise=None, softmax_of="all", detach=False, ascending=False):
    probability = logits.softmax(dim=-1)
    expert = probability.detach().topk(k, dim=-1).indices
    expert = expert.flip(1) if ascending else expert
    gate = probability.gather(1, expert)
    if softmax_of == "chosen":
        gate = logits.gather(1, expert).softmax(dim=-1)
    elif k > 1 if renormalise is None else renormalise:
        gate = gate / gate.sum(dim=-1, keepdim=True)
    return expert, gate.detach() if detach else gate


def route_in_one_step(logits, k):
    value, expert = logits.topk(k, dim=-1)
    return expert, value.softmax(-1) if k > 1 else (value - logits.logsumexp(1, True)).exp()


def route_of_dtlib(logits, k):
    from dtlib.parallelism import route

    return route(logits, k)[:2]


def route_by_exp(logits, k):
    expert = logits.topk(k).indices
    gate = logits.exp().gather(1, expert)
    return expert, gate / (gate if k > 1 else logits.exp()).sum(1, keepdim=True)


def sort_copies(expert, experts, size, minlength=True, stable=True, per="expert", copies=True):
    chosen = expert.flatten()
    order = chosen.argsort(stable=True)
    if not stable:
        order = len(chosen) - 1 - chosen.flip(0).argsort(stable=True)
    counts = torch.bincount(chosen, minlength=experts if minlength else 0)
    if per == "rank":
        return order, counts.reshape(size, -1).sum(1)
    if per == "reversed":
        return order, counts.reshape(size, -1).flip(0)
    if minlength:
        counts = counts.reshape(size, -1)
    return order if copies else order // expert.shape[1], counts


def inverse(order):
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return back


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, comm, x, send, receive, back):
        ctx.comm, ctx.send, ctx.receive, ctx.way = comm, send, receive, back
        return comm.all_to_all(x, send, receive)

    @staticmethod
    def backward(ctx, dy):
        counts = ctx.receive, ctx.send
        if ctx.way == "unswapped":
            counts = ctx.send, ctx.receive
        if ctx.way == "none":
            return None, dy[: sum(ctx.send)], None, None, None
        return None, ctx.comm.all_to_all(dy, *counts), None, None, None


def exchange(comm, x, send, receive, back="swapped"):
    return AllToAll.apply(comm, x, send, receive, back)


def detached_exchange(comm, x, send, receive):
    return comm.all_to_all(x, send, receive).requires_grad_()


def padded_exchange(comm, x, send, receive):
    comm.all_reduce(torch.zeros(1))
    return exchange(comm, x, send, receive)


def exchange_of_dtlib(comm, x, send, receive):
    from dtlib.parallelism.operators.adjoint import linear

    return linear(
        x,
        lambda x: comm.all_to_all(x, send, receive),
        transpose=lambda dy: comm.all_to_all(dy, receive, send),
    )


def dispatch(comm, x, expert, experts, tell=True, sort=True, index="token", detach=False):
    k, ones = expert.shape[1], [1] * comm.size
    order, counts = sort_copies(expert, experts, comm.size)
    arriving = comm.all_to_all(counts, ones, ones) if tell else counts
    send, receive = counts.sum(1).tolist(), arriving.sum(1).tolist()
    rows = x[order // k] if index == "token" else x.repeat(k, 1)[order]
    rows = exchange(comm, rows.detach() if detach else rows, send, receive)
    own = torch.arange(arriving.shape[1]).repeat(comm.size).repeat_interleave(arriving.flatten())
    by_expert = own.argsort(stable=True) if sort else torch.arange(len(own))
    return rows[by_expert], arriving.sum(0).tolist(), (order, by_expert, send, receive)


def dispatch_by_gathering(comm, x, expert, experts):
    comm.all_gather(x.new_zeros(3), 0)
    return dispatch(comm, x, expert, experts)


def dispatch_with_wide_counts(comm, x, expert, experts):
    k, P = expert.shape[1], comm.size
    order, counts = sort_copies(expert, experts, P)
    arriving = comm.all_to_all(counts.repeat(1, 2), [1] * P, [1] * P)[:, : experts // P]
    send, receive = counts.sum(1).tolist(), arriving.sum(1).tolist()
    rows = exchange(comm, x[order // k], send, receive)
    own = torch.arange(experts // P).repeat(P).repeat_interleave(arriving.flatten())
    by_expert = own.argsort(stable=True)
    return rows[by_expert], arriving.sum(0).tolist(), (order, by_expert, send, receive)


def dispatch_with_counts_of_32_bits(comm, x, expert, experts):
    class Narrow:
        def __getattr__(self, name):
            return getattr(comm, name)

        def all_to_all(self, x, send, receive):
            return comm.all_to_all(x if x.is_floating_point() else x.int(), send, receive)

    return dispatch(Narrow(), x, expert, experts)


def dispatch_with_turned_loads(comm, x, expert, experts):
    rows, loads, way = dispatch(comm, x, expert, experts)
    return rows, loads[::-1], way


def combine(comm, done, gate, way, gates="yes", unsort=True, undo=True, swap=True):
    order, by_expert, send, receive = way
    done = done[inverse(by_expert)] if unsort else done
    rows = exchange(comm, done, receive, send) if swap else exchange(comm, done, send, receive)
    copies = (rows[inverse(order)] if undo else rows).unflatten(0, gate.shape)
    if gates == "no":
        return copies.sum(1) + 0 * gate.sum()
    gate = gate.detach() if gates == "detached" else gate
    return (gate[..., None] * copies).sum(1)


def moe(comm, x, w, k, route=route, combine=combine, detach=False, skip=False, sum_router=False):
    router = w["router.weight"]
    expert, gate = route(F.linear(x.detach() if detach else x, router), k)
    rows, loads, way = dispatch(comm, x, expert, len(router))
    done = []
    for part, up, down in zip(rows.split(loads), w["experts.up"], w["experts.down"], strict=True):
        if len(part) or not skip:
            done.append(F.linear(F.gelu(F.linear(part, up)), down))
    out = combine(comm, torch.cat(done) if done else rows.new_zeros(0, x.shape[1]), gate, way)
    if sum_router:
        router.register_hook(comm.all_reduce)
    return out


def moe_all_tokens_everywhere(comm, x, w, k):
    """Every token to every rank, and a share of every result back: as many calls, more bytes."""
    P, own = comm.size, len(w["experts.up"])
    tokens = comm.all_to_all(torch.full((P,), len(x)), [1] * P, [1] * P).tolist()
    every = exchange(comm, x.repeat(P, 1), [len(x)] * P, tokens)
    expert, gate = route(F.linear(every, w["router.weight"]), k)
    out = 0 * every
    for e, (up, down) in enumerate(zip(w["experts.up"], w["experts.down"], strict=True)):
        share = (gate * (expert == comm.rank * own + e)).sum(1, keepdim=True)
        out = out + share * F.linear(F.gelu(F.linear(every, up)), down)
    return exchange(comm, out, tokens, [len(x)] * P).view(P, *x.shape).sum(0)


def moe_that_passes_rows_by_idle_experts(comm, x, w, k):
    expert, gate = route(F.linear(x, w["router.weight"]), k)
    rows, loads, way = dispatch(comm, x, expert, len(w["router.weight"]))
    work = zip(rows.split(loads), w["experts.up"], w["experts.down"], strict=True)
    done = [F.linear(F.gelu(F.linear(p, up)), down) if len(p) else p for p, up, down in work]
    return combine(comm, torch.cat(done), gate, way)


def moe_of_dtlib(comm, x, w, k):
    from dtlib.parallelism import route

    return moe(comm, x, w, k, route=lambda logits, k: route(logits, k)[:2])


def finish(everyone, replicas, grads, experts="replicas", rest="everyone", mean=False):
    teams = {"replicas": replicas, "everyone": everyone, "nobody": None}
    done = {}
    for name, g in grads.items():
        team = teams[experts if name.startswith("experts.") else rest]
        done[name] = team.all_reduce(g) if team else g
        if mean:
            done[name] = done[name] / team.size
    return done


def finish_only_router(everyone, replicas, grads):
    done = finish(everyone, replicas, grads)
    return done | {"attention.query.weight": grads["attention.query.weight"]}


def places(expert, experts, capacity, first="choices", clamp=False, late=False, drop=None):
    tokens, k = expert.shape
    queue = (expert.T if first == "choices" else expert).flatten()
    queue = queue.flip(0) if late else queue
    counts = torch.bincount(queue, minlength=experts)
    rank = inverse(queue.argsort(stable=True)) - (counts.cumsum(0) - counts)[queue]
    row = queue * capacity + rank
    if clamp:
        row = queue * capacity + rank.clamp(max=capacity - 1)
    else:
        limit = capacity if drop is None else drop
        row = torch.where(rank < limit, row, experts * capacity)
    row = row.flip(0) if late else row
    return row.reshape(k, tokens).T if first == "choices" else row.reshape(tokens, k)


def balance(comm, bias, counts, step, gamma=None, add=True):
    total = comm.all_reduce(counts.double()) if add else counts.double()
    gap = (total.mean() - total) / total.mean()
    if gamma is not None:
        return bias + gamma * gap.sign()
    return bias + 0.05 * gap.clamp(-1, 1)


def balance_with_smaller_steps(comm, bias, counts, step):
    total = comm.all_reduce(counts)
    return bias + max(0.03 * 0.97**step, 0.0005) * (total.double().mean() - total).sign()


def predicted(**changes):
    return {"forward": 3, "backward": 2, "sent_bytes": STEP_BYTES} | changes


def blind(**changes):
    right = {
        "router kept": {"router"},
        "experts summed": {"experts"},
        "gate detached": {"dX", "router"},
        "input detached": {"dX"},
    }
    return right | {name.replace("_", " "): value for name, value in changes.items()}


STEP_BYTES = 100_663_296


CASES = {
    "ex-lab-moe-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(forward=2), "unless it is told"),
            (predicted(forward=5), "both passes together"),
            (predicted(backward=3), "do they have a gradient"),
            (predicted(sent_bytes=STEP_BYTES // 2), "one pass of two, or one copy"),
            (predicted(sent_bytes=STEP_BYTES * 4 // 3), "at home already"),
            (predicted(sent_bytes=4 * STEP_BYTES), "all ranks together"),
            (3, "keys forward, backward, sent_bytes"),
        ],
        secret=[STEP_BYTES],
    ),
    "ex-lab-moe-route": Case(
        solution=route,
        also_right=[route_in_one_step],
        wrong=[
            (lambda z, k: route(z, k, renormalise=True), "1 whatever the router says"),
            (lambda z, k: route(z, k, renormalise=False), "must add up to 1"),
            (lambda z, k: route(z, k, softmax_of="chosen"), "1 whatever the router says"),
            (lambda z, k: route(z, k, detach=True), "the router learns nothing"),
            (lambda z, k: route(z, k, ascending=True), "the best must stand first"),
            (lambda z, k: route(-z, k), "does not name the k"),
            (lambda z, k: route(z, k)[::-1], "not whole ones|kind"),
            (route_by_exp, "logits of a thousand: gate is not finite"),
            (route_of_dtlib, "the work of dtlib.parallelism: write your own"),
        ],
    ),
    "ex-lab-moe-sort": Case(
        solution=(sort_copies, inverse),
        also_right=[(sort_copies, torch.argsort)],
        wrong=[
            (
                (lambda e, n, p: sort_copies(e, n, p, minlength=False), inverse),
                "also of those that nobody wants",
            ),
            ((lambda e, n, p: sort_copies(e, n, p, per="rank"), inverse), "one row for each rank"),
            (
                (lambda e, n, p: sort_copies(e, n, p, per="reversed"), inverse),
                "counts are not those",
            ),
            (
                (lambda e, n, p: sort_copies(e, n, p, stable=False), inverse),
                "must stay in their order",
            ),
            (
                (lambda e, n, p: sort_copies(e, n, p, copies=False), inverse),
                "every copy t \\* k \\+ j once",
            ),
            ((sort_copies, lambda order: order), "that is order itself"),
            ((sort_copies, lambda order: order.flip(0)), "is not x"),
            (sort_copies, "must have 2 items"),
        ],
        stub=(None, None),
    ),
    "ex-lab-moe-exchange": Case(
        solution=exchange,
        wrong=[
            (
                lambda c, x, s, r: exchange(c, x, s, r, back="unswapped"),
                "in all . rows, of an x of shape|expects . rows from rank",
            ),
            (lambda c, x, s, r: exchange(c, x, s, r, back="none"), "the gradient of x|invalid"),
            (lambda c, x, s, r: exchange(c, x, r, s), "in all|expects"),
            (detached_exchange, "the gradient of x is missing"),
            (padded_exchange, "more collectives forwards"),
            (lambda c, x, s, r: x, "returns the shape|what arrives differs"),
            (exchange_of_dtlib, "comes from dtlib.parallelism|the work of dtlib.parallelism"),
        ],
    ),
    "ex-lab-moe-dispatch": Case(
        solution=dispatch,
        also_right=[dispatch_with_counts_of_32_bits],
        wrong=[
            (lambda c, x, e, n: dispatch(c, x, e, n, tell=False), "expects . rows from rank"),
            (lambda c, x, e, n: dispatch(c, x, e, n, sort=False), "but not sorted by expert"),
            (lambda c, x, e, n: dispatch(c, x, e, n, index="copy"), "other tokens have arrived"),
            (lambda c, x, e, n: dispatch(c, x, e, n, detach=True), "no graph behind|is missing"),
            (dispatch_by_gathering, "more collectives forwards"),
            (dispatch_with_wide_counts, "right, but it sends more bytes"),
            (lambda c, x, e, n: dispatch(c, x, e, n)[:2], "must have 3 items"),
            (dispatch_with_turned_loads, "loads: the right number in all"),
        ],
    ),
    "ex-lab-moe-combine": Case(
        solution=(dispatch, combine),
        wrong=[
            (
                (dispatch, lambda c, d, g, w: combine(c, d, g, w, gates="no")),
                "as if every gate were 1",
            ),
            (
                (dispatch, lambda c, d, g, w: combine(c, d, g, w, gates="detached")),
                "the gradient of the gates is missing",
            ),
            (
                (dispatch, lambda c, d, g, w: combine(c, d, g, w, unsort=False)),
                "the result differs",
            ),
            ((dispatch, lambda c, d, g, w: combine(c, d, g, w, undo=False)), "the result differs"),
            ((dispatch, lambda c, d, g, w: combine(c, d, g, w, swap=False)), "in all|expects"),
            (dispatch, "must have 2 items"),
        ],
        stub=(None, None),
    ),
    "ex-lab-moe-layer": Case(
        solution=moe,
        wrong=[
            (
                lambda c, x, w, k: moe(
                    c, x, w, k, route=lambda z, k: route(z, k, renormalise=True)
                ),
                "P = 4, k = 1, rank 0: the output is wrong: as if every gate were 1",
            ),
            (lambda c, x, w, k: moe(c, x, w, k, detach=True), "dX differs"),
            (
                lambda c, x, w, k: moe(c, x, w, k, route=lambda z, k: route(z, k, detach=True)),
                "no gradient arrives at router.weight",
            ),
            (
                lambda c, x, w, k: moe(c, x, w, k, skip=True),
                "experts that get nothing|deadlock",
            ),
            (lambda c, x, w, k: moe(c, x, w, k, sum_router=True), "leave that to|more collectives"),
            (moe_all_tokens_everywhere, "right, but it sends more bytes"),
            (moe_that_passes_rows_by_idle_experts, "gradient of experts.up is missing"),
            (moe_of_dtlib, "the work of dtlib.parallelism"),
            (lambda c, x, w, k: x, "the output differs"),
        ],
    ),
    "ex-lab-moe-finish": Case(
        solution=finish,
        wrong=[
            (lambda e, r, g: g, "router.weight is wrong: that is this rank's share"),
            (
                lambda e, r, g: finish(e, r, g, experts="everyone"),
                "experts.up is wrong: that adds up the gradients of different experts",
            ),
            (lambda e, r, g: finish(e, r, g, rest="replicas"), "who else has it"),
            (
                lambda e, r, g: finish(e, r, g, experts="nobody"),
                "experts.up is wrong: that is this",
            ),
            (lambda e, r, g: finish(e, r, g, mean=True), "it is a mean"),
            (finish_only_router, "attention.query.weight is wrong"),
            (lambda e, r, g: None, "return a dict|returns nothing"),
        ],
    ),
    "ex-lab-moe-blind": Case(
        solution=blind(),
        also_right=[blind(router_kept=["router"], input_detached="dX")],
        wrong=[
            (blind(router_kept={"router", "dX"}), "router kept: one that is right is named"),
            (blind(router_kept=set()), "router kept: one that is wrong is missing"),
            (blind(gate_detached={"router"}), "gate detached: one that is wrong is missing"),
            (blind(input_detached={"dX", "router"}), "input detached: one that is right"),
            (blind(experts_summed={"expert"}), "the names are"),
            ({"router kept": {"router"}}, "keys router kept"),
        ],
    ),
    "ex-lab-moe-places": Case(
        solution=places,
        wrong=[
            (lambda e, n, c: places(e, n, c, first="tokens"), "before another one's first"),
            (lambda e, n, c: places(e, n, c, clamp=True), "two copies in one place"),
            (lambda e, n, c: places(e, n, c, late=True), "first come, first served"),
            (lambda e, n, c: places(e, n, c, drop=c - 1), "too many copies are dropped"),
            (lambda e, n, c: places(e, n, c, drop=99), "place|row"),
            (lambda e, n, c: places(e, n, c) - 1, "two copies in one place|another expert"),
            (lambda e, n, c: places(e, n, c).T, "shape"),
        ],
    ),
    "ex-lab-moe-balance": Case(
        solution=balance,
        also_right=[balance_with_smaller_steps],
        wrong=[
            (lambda c, b, n, s: b, "the busiest expert still has"),
            *[
                (lambda c, b, n, s, step=step: balance(c, b, n, s, gamma=step), says)
                for step, says in (
                    (0.0055, "still has"),
                    (0.0065, "still has"),
                    (0.008, "it trembles"),
                    (0.1, "still has"),
                )
            ],
            (lambda c, b, n, s: balance(c, b, n, s, add=False), "the ranks have different biases"),
            (lambda c, b, n, s: -balance(c, -b, n, s), "still has"),
            (lambda c, b, n, s: b[:2], "one finite number for each expert"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_an_all_to_all_in_memory_refuses_counts_that_do_not_fit():
    def says(program, match, kind=TransportError):
        with pytest.raises(kind, match=match):
            record_team(program, 2)

    x = torch.ones(3, 2)
    says(lambda c: c.all_to_all(x, [1, 1], [1, 1]), r"in all 2 rows, of an x of shape \[3, 2\]")
    says(
        lambda c: c.all_to_all(x, [1, 2], [1, 2]),
        "rank 0 expects 2 rows from rank 1, which sends 1",
    )
    says(lambda c: c.all_to_all(x, [3], [3]), "one number of rows for each rank")
    says(lambda c: c.all_to_all(3, [1, 2], [1, 2]), "gives a int to all-to-all")
    says(lambda c: c.rank or c.all_to_all(x, [0, 3], [0, 3]), "which has finished", Deadlock)


def test_an_all_to_all_in_memory_counts_the_rows_that_leave():
    def program(comm):
        send, receive = ([2, 1], [2, 0]) if comm.rank == 0 else ([0, 4], [1, 4])
        x = torch.arange(3.0 + comm.rank) + 10 * comm.rank
        return comm.all_to_all(x[:, None].repeat(1, 5), send, receive)[
            :, 0
        ].tolist(), comm.sent_bytes

    assert record_team(program, 2) == [([0, 1], 1 * 5 * 4), ([2, 10, 11, 12, 13], 0)]


def test_a_team_splits_into_teams_that_fail_with_it():
    groups = [[0, 2], [1, 3]]

    def program(comm):
        few = comm.split(groups)
        return few.rank, few.all_reduce(torch.tensor([comm.rank])).item()

    assert record_team(program, 4) == [(0, 2), (0, 4), (1, 2), (1, 4)]

    def leaves(comm):
        return comm.rank == 3 or comm.split(groups).all_reduce(torch.ones(1))

    with pytest.raises(Deadlock, match=r"rank 1 waits in .* for rank 3, which has finished"):
        record_team(leaves, 4)

    def crosses(comm):
        few = comm.split(groups) if comm.rank < 2 else comm
        return few.all_reduce(torch.ones(1))

    with pytest.raises(Deadlock, match=r"rank 0 waits in all-reduce .* for rank 2, which"):
        record_team(crosses, 4)


def test_what_the_blind_mistakes_do_is_computed():
    """The table that the exercise asks for: outputs are exact, and these gradients are not."""
    torch.manual_seed(0)
    w = {
        "router": torch.randn(4, 6, dtype=torch.float64),
        "up": torch.randn(4, 5, 6, dtype=torch.float64),
        "down": torch.randn(4, 6, 5, dtype=torch.float64),
    }
    x, dy = torch.randn(2, 8, 6, dtype=torch.float64)

    def program(comm, mistake):
        P, r = comm.size, comm.rank
        router = w["router"].clone().requires_grad_()
        up, down = (w[n].chunk(P)[r].clone().requires_grad_() for n in ("up", "down"))
        leaf = x.chunk(P)[r].clone().requires_grad_()
        options = {"detach": mistake == "input detached"}
        if mistake == "gate detached":
            options["combine"] = lambda *args: combine(*args, gates="detached")
        mine = {"router.weight": router, "experts.up": up, "experts.down": down}
        out = moe(comm, leaf, mine, 2, **options)
        (out * dy.chunk(P)[r]).sum().backward()
        found = router.grad if router.grad is not None else torch.zeros_like(router)
        experts = up.grad, down.grad
        if mistake != "router kept":
            found = comm.all_reduce(found)
        if mistake == "experts summed":
            experts = tuple(comm.all_reduce(g) for g in experts)
        return {"out": out.detach(), "dX": leaf.grad, "router": found, "experts": experts}

    right = record_team(program, 2, None)
    for mistake, expected in CASES["ex-lab-moe-blind"].solution.items():
        wrong = set()
        for found, good in zip(record_team(program, 2, mistake), right, strict=True):
            torch.testing.assert_close(found["out"], good["out"])
            for name in ("dX", "router", "experts"):
                a, b = found[name], good[name]
                a, b = (torch.cat([t.flatten() for t in v]) if isinstance(v, tuple) else v
                        for v in (a, b))  # fmt: skip
                if not torch.allclose(a, b, rtol=1e-10):
                    wrong.add(name)
        assert wrong == expected, mistake
