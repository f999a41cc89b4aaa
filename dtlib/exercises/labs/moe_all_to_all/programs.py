"""A mixture-of-experts layer over ranks, and the slips that one makes in writing it."""

from dtlib.later import torch


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


def exchange(comm, x, send, receive, back="swapped"):
    class AllToAll(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return comm.all_to_all(x, send, receive)

        @staticmethod
        def backward(ctx, dy):
            if back == "none":
                return dy[: sum(send)]
            return comm.all_to_all(dy, *((receive, send) if back == "swapped" else (send, receive)))

    return AllToAll.apply(x)


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


def combine(comm, done, gate, way, gates="yes", unsort=True, undo=True, swap=True):
    order, by_expert, send, receive = way
    done = done[inverse(by_expert)] if unsort else done
    rows = exchange(comm, done, receive, send) if swap else exchange(comm, done, send, receive)
    copies = (rows[inverse(order)] if undo else rows).unflatten(0, gate.shape)
    if gates == "no":
        return copies.sum(1) + 0 * gate.sum()
    gate = gate.detach() if gates == "detached" else gate
    return (gate[..., None] * copies).sum(1)


def expert_of(rows, up, down):
    linear, gelu = torch.nn.functional.linear, torch.nn.functional.gelu
    return linear(gelu(linear(rows, up)), down)


def moe(comm, x, w, k, route=route, combine=combine, detach=False, skip=False, sum_router=False):
    router = w["router.weight"]
    expert, gate = route(torch.nn.functional.linear(x.detach() if detach else x, router), k)
    rows, loads, way = dispatch(comm, x, expert, len(router))
    done = []
    for part, up, down in zip(rows.split(loads), w["experts.up"], w["experts.down"], strict=True):
        if len(part) or not skip:
            done.append(expert_of(part, up, down))
    out = combine(comm, torch.cat(done) if done else rows.new_zeros(0, x.shape[1]), gate, way)
    if sum_router:
        router.register_hook(comm.all_reduce)
    return out


def moe_all_tokens_everywhere(comm, x, w, k):
    """Every token to every rank, and a share of every result back: as many calls, more bytes."""
    P, own = comm.size, len(w["experts.up"])
    tokens = comm.all_to_all(torch.full((P,), len(x)), [1] * P, [1] * P).tolist()
    every = exchange(comm, x.repeat(P, 1), [len(x)] * P, tokens)
    expert, gate = route(torch.nn.functional.linear(every, w["router.weight"]), k)
    out = 0 * every
    for e, (up, down) in enumerate(zip(w["experts.up"], w["experts.down"], strict=True)):
        share = (gate * (expert == comm.rank * own + e)).sum(1, keepdim=True)
        out = out + share * expert_of(every, up, down)
    return exchange(comm, out, tokens, [len(x)] * P).view(P, *x.shape).sum(0)


def moe_that_passes_rows_by_idle_experts(comm, x, w, k):
    expert, gate = route(torch.nn.functional.linear(x, w["router.weight"]), k)
    rows, loads, way = dispatch(comm, x, expert, len(w["router.weight"]))
    work = zip(rows.split(loads), w["experts.up"], w["experts.down"], strict=True)
    done = [expert_of(p, up, down) if len(p) else p for p, up, down in work]
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
