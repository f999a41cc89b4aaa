"""The whole layer against one process: its gradients, who adds up what, capacity and balance."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.judge import call, function
from dtlib.exercises.judges.tensors import as_tensor, close, normal, same_calls, same_tensor
from dtlib.exercises.labs.moe_all_to_all.batches import WIDTH, Batch, choose, same_bytes
from dtlib.exercises.labs.moe_all_to_all.own_work import own_work
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.team import record_team
from dtlib.later import torch

INNER = 7
DEAD = -50.0  # a weight for the constant column that makes the router avoid an expert
LAYERS = (
    ("k = 2", 4, 2, [4, 3], ()),
    ("k = 2", 8, 2, [3, 5, 2, 4], ()),
    ("k = 1", 4, 1, [3, 5, 2, 4], ()),
    ("one rank without tokens", 8, 2, [3, 0, 5, 2], ()),
    ("rank 2 with experts that get nothing", 8, 2, [3, 5, 2, 4], (4, 5)),
)


def layer_law(answer: Callable, P: int) -> None:
    for where, experts, k, tokens, dead in LAYERS:
        if len(tokens) == P:
            w = _weights(experts, dead)
            x = [normal(t, WIDTH, seed=1000 + r) for r, t in enumerate(tokens)]
            for part in x:
                part[:, 0] = 1
            _judge_layer(answer, where, w, x, k)


def _judge_layer(answer: Callable, where: str, w: dict, x: list, k: int) -> None:
    tokens, P = [len(part) for part in x], len(x)
    dy = [normal(*part.shape, seed=1030 + r) for r, part in enumerate(x)]
    results = record_team(_both_passes, P, answer, w, x, dy, k)
    whole = {name: p.clone().requires_grad_() for name, p in w.items()}
    every = torch.cat(x).requires_grad_()
    expected = _one_process(every, whole, k)
    (expected * torch.cat(dy)).sum().backward()
    ones = _one_process(every, whole, k, gates=False).split(tokens)
    for rank, (out, *_) in enumerate(results):
        others = {"as if every gate were 1": ones[rank]}
        right = expected.split(tokens)[rank]
        same_tensor(out, right, f"{where}, rank {rank}: the output", others)
    for name in ("experts.up", "experts.down"):
        for rank, (_, grads, *_) in enumerate(results):
            right = whole[name].grad.chunk(P)[rank]
            same_tensor(grads[name], right, f"{where}, rank {rank}: the gradient of {name}")
    shares = [grads["router.weight"] for _, grads, *_ in results]
    _router(shares, whole["router.weight"].grad, where)
    chosen = [(part @ w["router.weight"].T).topk(k, dim=1).indices for part in x]
    batch = Batch(where, len(w["router.weight"]), x, chosen)
    for rank, (_, grads, calls, sent) in enumerate(results):
        same_tensor(grads["dX"], every.grad.split(tokens)[rank], f"{where}, rank {rank}: dX")
        same_calls(f"{where}, rank {rank}", calls, (3, 2))
        rows, count = 2 * sum(batch.away(rank)) * WIDTH * 8, (P - 1) * batch.experts // P
        right = rows + count * (4 if sent == rows + count * 4 else 8)  # counts of 32 bits do
        what = "the counts and the rows, there and back, in both passes"
        same_bytes(f"{where}, rank {rank}", sent, right, what)


def _both_passes(comm: Any, answer: Callable, w: dict, x: list, dy: list, k: int) -> tuple:
    r, P = comm.rank, comm.size
    mine = {
        name: (p if name == "router.weight" else p.chunk(P)[r]).clone().requires_grad_()
        for name, p in w.items()
    }
    leaf = x[r].clone().requires_grad_()
    with own_work():
        out = as_tensor(answer(comm, leaf, mine, k), f"rank {r}")
    forward = len(comm.calls)
    if tuple(out.shape) != tuple(leaf.shape):
        raise NotYet(f"rank {r}: shape {list(out.shape)}, not that of x")
    if not out.requires_grad:
        raise NotYet("the result has no graph behind it, so nothing learns")
    (out * dy[r]).sum().backward()
    grads = {name: p.grad for name, p in mine.items()} | {"dX": leaf.grad}
    return out.detach(), grads, (forward, len(comm.calls) - forward), comm.sent_bytes


def _router(shares: list, right: Any, where: str) -> None:

    if any(share is None for share in shares):
        raise NotYet(f"{where}: no gradient arrives at router.weight: where was it detached?")
    if all(close(share, right) for share in shares):
        raise NotYet(f"{where}: the router's gradient is summed already: leave that to `finish`")
    if not close(sum(shares), right):
        nothing = all(float(share.abs().max()) < 1e-12 for share in shares)
        hint = "is zero: what does a gate that is always 1 teach?" if nothing else (
            "is wrong even when all ranks' are added")  # fmt: skip
        raise NotYet(f"{where}: the gradient of router.weight {hint}")


def _weights(experts: int, dead: tuple) -> dict:
    w = {
        "router.weight": normal(experts, WIDTH, seed=1005),
        "experts.up": normal(experts, INNER, WIDTH, seed=1006),
        "experts.down": normal(experts, WIDTH, INNER, seed=1007),
    }
    for expert in dead:
        w["router.weight"][expert, 0] = DEAD
    return w


def _one_process(x: Any, w: dict, k: int, gates: bool = True):
    """The layer as a sum over all experts, in which most gates are zero."""
    from torch.nn import functional as F

    probability = F.linear(x, w["router.weight"]).softmax(dim=1)
    used = torch.zeros_like(probability)
    used.scatter_(1, probability.detach().topk(k, dim=1).indices, 1.0)
    gate = probability * used
    if k > 1:
        gate = gate / gate.sum(dim=1, keepdim=True)
    gate = gate if gates else used
    hidden = F.gelu(torch.einsum("th,efh->tef", x, w["experts.up"]))
    return torch.einsum("te,tef,ehf->th", gate, hidden, w["experts.down"])


def finish_law(answer: Callable, P: int) -> None:

    shapes = {"router.weight": (4, 3), "experts.up": (2, 3), "experts.down": (3, 2)}
    shapes |= {"attention.query.weight": (3, 3)}
    for copies in (2, 1) if P > 2 else (2,):
        ep = P // copies
        where = f"every expert on {copies} ranks"
        grads = [
            {name: normal(*shapes[name], seed=10 * r + i) for i, name in enumerate(shapes)}
            for r in range(P)
        ]
        groups = [list(range(e, P, ep)) for e in range(ep)]

        def program(comm, grads=grads, groups=groups):
            replicas = comm.split(groups)
            mine = {name: g.clone() for name, g in grads[comm.rank].items()}
            found = answer(comm, replicas, mine)
            return found, comm.sent_bytes, replicas.sent_bytes

        for rank, (found, sent_all, sent_few) in enumerate(record_team(program, P)):
            if not isinstance(found, dict) or set(found) != set(shapes):
                raise NotYet(f"{where}: return a dict with the names of grads")
            for name in shapes:
                all_of_them = [g[name] for g in grads]
                few = [g[name] for r, g in enumerate(grads) if r % ep == rank % ep]
                right = sum(few) if name.startswith("experts.") else sum(all_of_them)
                others = {
                    "that is this rank's share, and nobody has added": grads[rank][name],
                    "that adds up the gradients of different experts": sum(all_of_them),
                    "that adds up the ranks with the same experts; who else has it?": sum(few),
                    "it is a mean; the losses of the ranks add up": right / len(all_of_them),
                }
                same_tensor(found[name], right, f"{where}, rank {rank}: {name}", others)
            numbers = {n: grads[0][n].numel() * 8 for n in shapes}
            shared = sum(b for n, b in numbers.items() if not n.startswith("experts."))
            own = sum(numbers.values()) - shared
            same_bytes(f"{where}, rank {rank}", sent_all, 2 * (P - 1) / P * shared, "it takes")
            right_few = 2 * (copies - 1) / copies * own
            same_bytes(f"{where}, rank {rank}", sent_few, right_few, "it takes")


def places_law(answer: Callable) -> None:
    function(answer, "places(expert, experts, capacity)")
    for tokens, used, experts, k, capacity in (
        (6, 4, 4, 2, 3),
        (8, 3, 4, 2, 2),
        (5, 4, 6, 1, 1),
        (4, 3, 3, 3, 9),
        (0, 4, 4, 2, 2),
    ):
        expert = choose(tokens, used, k, seed=tokens)
        where = f"{tokens} tokens, {experts} experts, k = {k}, {capacity} places each"
        with own_work():
            found = as_tensor(call(answer, expert.clone(), experts, capacity), "places returns")
        if tuple(found.shape) != (tokens, k):
            raise NotYet(f"{where}: shape {list(found.shape)}, not {[tokens, k]}")
        found, right = found.tolist(), _places(expert.tolist(), experts, capacity)
        if found == right:
            continue
        if found == _places(expert.tolist(), experts, capacity, by_token=True):
            raise NotYet(f"{where}: a second choice takes a place before another one's first")
        nowhere = experts * capacity
        rows = [row for one in found for row in one if row != nowhere]
        if len(set(rows)) < len(rows):
            raise NotYet(f"{where}: two copies in one place")
        if any(not 0 <= row < nowhere for row in rows):
            raise NotYet(f"{where}: a row beyond the places; who is dropped gets the row E * C")
        for one, theirs in zip(found, expert.tolist(), strict=True):
            for row, e in zip(one, theirs, strict=True):
                if row != nowhere and row // capacity != e:
                    raise NotYet(f"{where}: a copy stands in a place of another expert")
        dropped = sum(one.count(nowhere) for one in right)
        if len(rows) != tokens * k - dropped:
            side = "few" if len(rows) > tokens * k - dropped else "many"
            raise NotYet(f"{where}: too {side} copies are dropped")
        raise NotYet(f"{where}: places are taken in another order than first come, first served")


def _places(expert: list, experts: int, capacity: int, by_token: bool = False) -> list:
    """One copy after the other, in plain Python."""
    taken, rows = [0] * experts, [[0] * len(one) for one in expert]
    k = len(expert[0]) if expert else 0
    queue = [(t, j) for j in range(k) for t in range(len(expert))]
    for t, j in sorted(queue) if by_token else queue:
        e = expert[t][j]
        free = taken[e] < capacity
        rows[t][j] = e * capacity + taken[e] if free else experts * capacity
        taken[e] += 1
    return rows


STEPS, SOON, CALM = 200, 1.15, 1.08


def balance_law(answer: Callable, P: int) -> str:
    seen = []
    for experts, skew, seed in ((8, 1.0, 0), (8, 0.4, 1)):
        where = f"skew {skew}"
        ratios = record_team(_balanced, P, answer, experts, skew, seed, where)[0]
        early, late = (sum(part) / len(part) for part in (ratios[30:50], ratios[-50:]))
        if early > SOON:
            raise NotYet(
                f"{where}: in steps 30 to 50 the busiest expert still has {early:.3f} times the "
                f"mean load; below {SOON} is asked for: is it on its way, or beyond?"
            )
        if late > CALM:
            raise NotYet(
                f"{where}: it arrives, but over the last 50 of {STEPS} steps the busiest has "
                f"{late:.3f} times the mean load: it trembles; below {CALM} is asked for"
            )
        seen.append(f"{late:.2f}")
    return " and ".join(seen)


def _balanced(comm: Any, answer: Any, experts: int, skew: float, seed: int, where: str) -> list:
    """Busiest over mean, step by step: skewed routers whose tokens differ from rank to rank."""
    tokens, k = 512, 2
    liked = skew * torch.linspace(1.5, -1.5, experts, dtype=torch.float64)
    liked = liked + 0.5 * normal(experts, seed=1000 + 100 * seed + comm.rank)
    drawn = torch.Generator().manual_seed(1 + 10 * seed + comm.rank)
    bias, ratios = torch.zeros(experts, dtype=torch.float64), []
    for step in range(STEPS):
        noise = torch.randn(tokens, experts, generator=drawn, dtype=torch.float64)
        score = (liked + noise).sigmoid() + bias
        chosen = score.topk(k, dim=1).indices
        counts = torch.bincount(chosen.flatten(), minlength=experts)
        total = comm.all_reduce(counts).double()
        ratios.append(float(total.max() / total.mean()))
        before = len(comm.calls)
        with own_work():
            made = answer(comm, bias.clone(), counts.clone(), step)
        bias = as_tensor(made, f"rank {comm.rank}").double()
        if tuple(bias.shape) != (experts,) or not bool(bias.isfinite().all()):
            raise NotYet(f"{where}: a bias is one finite number for each expert, got {bias}"[:200])
        numbers = sum(made.numbers for made in comm.calls[before:])
        if numbers > 4 * experts:
            raise NotYet(f"{where}: one small sum over the ranks is enough in a step")
        if not torch.equal(comm.all_reduce(bias, op="max"), -comm.all_reduce(-bias, op="max")):
            raise NotYet(
                f"{where}, step {step}: the ranks have different biases: each has its own layer now"
            )
    return ratios
