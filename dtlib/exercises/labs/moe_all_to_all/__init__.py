"""The lab 'A MoE layer with all-to-all'."""

from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.labs.moe_all_to_all import programs as ours
from dtlib.exercises.labs.moe_all_to_all.laws import (
    combine_law,
    dispatch_law,
    exchange_law,
    route_law,
    sort_law,
)
from dtlib.exercises.labs.moe_all_to_all.layer_laws import (
    balance_law,
    finish_law,
    layer_law,
    places_law,
)
from dtlib.exercises.verdict import NotYet

# fmt: off
_SENT = 4 * 2048 * 2 * (4096 * 2) * 3 / 4

predict = Numbers(
    "ex-lab-moe-predict",
    About("Predict the journeys", "compute", 1, 6,
          "count a layer's all-to-alls and bytes before running"),
    [
        Asked("forward", 3, slips={1: "and how do the results find their way back?",
              2: "nobody knows how many rows will come, unless it is told",
              4: "the results come back in numbers that are known by then",
              5: "that is both passes together"}),
        Asked("backward", 2, slips={1: "both journeys of the rows have a way back",
              3: "counts are whole numbers: do they have a gradient?",
              4: "the counts are known by now",
              0: "the gradients of the rows lie where the rows were computed"}),
        Asked("sent_bytes", _SENT, "bytes", {_SENT / 2: "one pass of two, or one copy of two",
              _SENT / 4: "that is one journey of four",
              _SENT * 4 / 3: "one row of four is at home already",
              _SENT * 2 / 3: "a row of four is at home already, and each token has two copies",
              _SENT * 4: "that is all ranks together", _SENT / 2048: "that is one token"},
              tolerance=1e-6),
    ],
    "the all-to-alls of one layer, and what each rank sends for its rows in a step",
    keyed=True,
)


def _with(program, **slip):
    """A function that makes a program with a slip, of as many arguments as the page asks for."""
    return lambda: lambda *args: program(*args, **slip)


route = Made(
    "ex-lab-moe-route",
    About("Choose experts", "design", 2, 10,
          "choose experts and weigh them so that the router can learn", needs="torch"),
    route_law,
    lambda: ours.route,
    "choice, gates and the gradient of every logit, for k = 1, 2 and 3",
    {
        "1 whatever the router says": _with(ours.route, renormalise=True),
        "must add up to 1": _with(ours.route, renormalise=False),
        "whatever the router says": _with(ours.route, softmax_of="chosen"),
        "the router learns nothing": _with(ours.route, detach=True),
        "the best must stand first": _with(ours.route, ascending=True),
        "does not name the k": lambda: lambda logits, k: ours.route(-logits, k),
        "not whole ones": lambda: lambda logits, k: ours.route(logits, k)[::-1],
        "logits of a thousand: gate is not finite": lambda: ours.route_by_exp,
        "the work of dtlib.parallelism: write your own": lambda: ours.route_of_dtlib,
    },
)


def _sorting(**slip):
    return lambda: (_with(ours.sort_copies, **slip)(), ours.inverse)


sort_copies = Made(
    "ex-lab-moe-sort",
    About("Sort, count, undo", "design", 1, 8, "sort copies by expert and keep the way back",
          needs="torch"),
    sort_law,
    lambda: (ours.sort_copies, ours.inverse),
    "sorted, counted and undone, also where an expert, or a rank, has nothing",
    {
        "also of those that nobody wants": _sorting(minlength=False),
        "one row for each rank": _sorting(per="rank"),
        "counts are not those": _sorting(per="reversed"),
        "must stay in their order": _sorting(stable=False),
        "every copy t * k + j once": _sorting(copies=False),
        "that is order itself": lambda: (ours.sort_copies, lambda order: order),
        "is not x": lambda: (ours.sort_copies, lambda order: order.flip(0)),
        "must have 2 items": lambda: ours.sort_copies,
    },
)

exchange = OnRanks(
    "ex-lab-moe-exchange",
    About("An all-to-all with a way back", "design", 2, 10,
          "write an uneven all-to-all whose backward pass is its transpose", needs="torch"),
    "exchange(comm, x, send, receive)",
    ours.exchange,
    exchange_law,
    "uneven and empty parts, and a gradient that goes back the way the rows came",
    {
        "rows": {"back": "unswapped"},
        "P = 2": {"back": "none"},
        "in all": lambda comm, x, send, receive: ours.exchange(comm, x, receive, send),
        "the gradient of x is missing":
            lambda comm, *args: comm.all_to_all(*args).requires_grad_(),
        "more collectives forwards": ours.padded_exchange,
        "rank 0": lambda comm, x, send, receive: x,
        "dtlib.parallelism: write your own": ours.exchange_of_dtlib,
    },
)

dispatch = OnRanks(
    "ex-lab-moe-dispatch",
    About("To the experts", "design", 3, 15, "bring every copy to its expert, counts first",
          needs="torch"),
    "dispatch(comm, x, expert, experts)",
    ours.dispatch,
    dispatch_law,
    "every copy at its expert; two messages to each rank forwards, one backwards",
    {
        "rows from rank": {"tell": False},
        "but not sorted by expert": {"sort": False},
        "other tokens have arrived": {"index": "copy"},
        "no graph behind": {"detach": True},
        "more collectives forwards": ours.dispatch_by_gathering,
        "right, but it sends more bytes": ours.dispatch_with_wide_counts,
        "must have 3 items": lambda *args: ours.dispatch(*args)[:2],
        "loads: the right number in all":
            lambda *args: tuple(x[::-1] if type(x) is list else x for x in ours.dispatch(*args)),
    },
)


def _combining(**slip):
    return ours.dispatch, _with(ours.combine, **slip)()


combine = OnRanks(
    "ex-lab-moe-combine",
    About("And back", "design", 3, 12, "bring results home by the transpose of the way out",
          needs="torch"),
    ("dispatch(comm, x, expert, experts)", "combine(comm, done, gate, way)"),
    (ours.dispatch, ours.combine),
    combine_law,
    "result, dX and the gradient of every gate, with uneven and with empty messages",
    {
        "as if every gate were 1": _combining(gates="no"),
        "the gradient of the gates is missing": _combining(gates="detached"),
        "the result differs": _combining(unsort=False),
        "result differs": _combining(undo=False),
        "rank": _combining(swap=False),
        "must have 2 items": ours.dispatch,
    },
)

layer = OnRanks(
    "ex-lab-moe-layer",
    About("The layer", "design", 2, 10, "hold a layer over ranks to every gradient of one process",
          needs="torch"),
    "moe(comm, x, w, k)",
    ours.moe,
    layer_law,
    "output, dX and every gradient of one process; three all-to-alls forwards, two backwards",
    {
        "P = 4: k = 1, rank 0: the output is wrong: as if every gate were 1":
            {"route": _with(ours.route, renormalise=True)()},
        "dX differs": {"detach": True},
        "no gradient arrives at router.weight": {"route": _with(ours.route, detach=True)()},
        "P = 4": {"skip": True},
        "P = 2": {"sum_router": True},
        "right, but it sends more bytes": ours.moe_all_tokens_everywhere,
        "gradient of experts.up is missing": ours.moe_that_passes_rows_by_idle_experts,
        "the work of dtlib.parallelism": ours.moe_of_dtlib,
        "the output differs": lambda comm, x, w, k: x,
    },
)

finish = OnRanks(
    "ex-lab-moe-finish",
    About("Who adds up what", "design", 2, 8,
          "sum each gradient over the ranks that hold a copy", needs="torch"),
    "finish(everyone, replicas, grads)",
    ours.finish,
    finish_law,
    "each gradient summed over the ranks that hold a copy, and over no other",
    {
        "router.weight is wrong: that is this rank's share": lambda everyone, few, grads: grads,
        "experts.up is wrong: that adds up the gradients of different": {"experts": "everyone"},
        "who else has it": {"rest": "replicas"},
        "experts.up is wrong: that is this": {"experts": "nobody"},
        "it is a mean": {"mean": True},
        "attention.query.weight is wrong": ours.finish_only_router,
        "return a dict": lambda everyone, few, grads: None,
    },
    sizes=(4, 2),
)

_SPOILED = {
    "router kept": {"router"},
    "experts summed": {"experts"},
    "gate detached": {"dX", "router"},
    "input detached": {"dX"},
}
_WHY = {
    "router kept": "who has seen which tokens?",
    "experts summed": "the tensors have the same shape; are they the same experts?",
    "gate detached": "what reaches the router, and what would have gone through it to x?",
    "input detached": "x goes two ways into the layer; which of them is cut?",
}


def _blind_law(answer: Any) -> None:
    if not isinstance(answer, dict) or set(answer) != set(_SPOILED):
        raise NotYet(f"pass a dict with the keys {', '.join(_SPOILED)}")
    for mistake, wrong in _SPOILED.items():
        given = answer[mistake]
        if not isinstance(given, str | set | frozenset | list | tuple):
            raise NotYet(f"{mistake}: a set of names, got {given!r}")
        given = {given} if isinstance(given, str) else set(given)
        if not given <= {"dX", "router", "experts"}:
            raise NotYet(f"{mistake}: the names are dX, router and experts, got {answer[mistake]}")
        if given != wrong:
            kind = "one that is right is named" if given - wrong else "one that is wrong is missing"
            raise NotYet(f"{mistake}: {kind}: {_WHY[mistake]}")


blind = Made(
    "ex-lab-moe-blind",
    About("Mistakes that no loss shows", "compute", 2, 8,
          "say which gradients a mistake spoils when the loss is exact"),
    _blind_law,
    lambda: _SPOILED,
    "four mistakes that no loss shows, and who does",
    {
        "router kept: one that is right is named":
            lambda: _SPOILED | {"router kept": {"router", "dX"}},
        "router kept: one that is wrong is missing": lambda: _SPOILED | {"router kept": set()},
        "gate detached: one that is wrong is missing":
            lambda: _SPOILED | {"gate detached": {"router"}},
        "input detached: one that is right":
            lambda: _SPOILED | {"input detached": {"dX", "router"}},
        "the names are": lambda: _SPOILED | {"experts summed": "expert"},
        "keys router kept": lambda: {"router kept": {"router"}},
    },
)

places = Made(
    "ex-lab-moe-places",
    About("A fixed number of places", "design", 2, 12,
          "give places to copies and drop who is late", needs="torch"),
    places_law,
    lambda: ours.places,
    "first choices first, no place twice, and who is late is dropped",
    {
        "before another one's first": _with(ours.places, first="tokens"),
        "two copies in one place": _with(ours.places, clamp=True),
        "first come, first served": _with(ours.places, late=True),
        "too many copies are dropped": lambda: lambda e, n, c: ours.places(e, n, c, drop=c - 1),
        "place": _with(ours.places, drop=99),
        "copies in one place": lambda: lambda e, n, c: ours.places(e, n, c) - 1,
        "shape": lambda: lambda e, n, c: ours.places(e, n, c).T,
    },
)

balance = OnRanks(
    "ex-lab-moe-balance",
    About("Balance", "design", 3, 15,
          "steer a skewed router without trembling, alike on all ranks", needs="torch"),
    "balance(comm, bias, counts, step)",
    ours.balance,
    balance_law,
    "the busiest expert ends at {} times the mean, on all ranks alike",
    {
        "the busiest expert still has": lambda comm, bias, counts, step: bias,
        "is it on its way": {"gamma": 0.0055},
        "or beyond": {"gamma": 0.1},
        "it trembles": {"gamma": 0.008},
        "the ranks have different biases": {"add": False},
        "still has": lambda comm, bias, *args: -ours.balance(comm, -bias, *args),
        "one finite number for each expert": lambda comm, bias, counts, step: bias[:2],
    },
    sizes=(4,),
)
