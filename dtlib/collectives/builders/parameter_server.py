"""The parameter server: workers push their parts to servers, which add, and pull the sums.

Each of ``shards`` servers keeps one part of the vector. The servers are ranks of their own
(dedicated), or some of the workers are servers as well (colocated).
"""

from dtlib.collectives.cost.ring_and_tree import ONE_PORT
from dtlib.collectives.primitives import Holding, Primitive
from dtlib.collectives.schedule import Schedule, Send
from dtlib.formulas.formula import formula

FEWER_SHARDS = f"{ONE_PORT}; at most as many shards as workers"


def parameter_server_all_reduce(P: int, shards: int) -> Schedule:
    """Every rank passes chunk s to rank s, which adds; then rank s passes the sum to every rank.

    Colocated: the ranks 0 ... ``shards`` - 1 are servers as well. One shard is a flat all-reduce;
    P shards send as many bytes as a ring, in two rounds of P - 1 messages for every port.
    Raises ValueError for more shards than ranks.

    Source: Li, Andersen, Park et al. 2014.

    >>> print(parameter_server_all_reduce(3, shards=2))
    parameter server: 3 ranks, 2 chunks, 2 rounds, 8 messages
    round 0: 1→0 adds chunk 0, 2→0 adds chunk 0, 0→1 adds chunk 1, 2→1 adds chunk 1
    round 1: 0→1 keeps chunk 0, 0→2 keeps chunk 0, 1→0 keeps chunk 1, 1→2 keeps chunk 1
    """
    if not 1 <= shards <= P:
        raise ValueError(f"shards must be 1 to P = {P}; got shards = {shards}")
    push = [Send(r, s, s, reduce=True) for s in range(shards) for r in range(P) if r != s]
    push = Schedule(P, shards, [push])
    return (push >> push.reversed()).named("parameter server")


def dedicated_parameter_server(P: int, shards: int) -> Schedule:
    """Worker s passes chunk s to server s, which keeps it; the others theirs, which it adds; back.

    The workers are ranks 0 ... P - 1, the servers ranks P ... P + ``shards`` - 1. A server has
    nothing at first, so it keeps what comes first: that is what the identity of a sum is for.
    Raises ValueError for more shards than workers.

    Source: Li, Andersen, Park et al. 2014.

    >>> print(dedicated_parameter_server(2, shards=1))
    dedicated parameter server: 3 ranks, 1 chunk, 3 rounds, 4 messages
    round 0: 0→2 keeps chunk 0
    round 1: 1→2 adds chunk 0
    round 2: 2→0 keeps chunk 0, 2→1 keeps chunk 0
    """
    if not 1 <= shards <= P:
        raise ValueError(f"shards must be 1 to P = {P}; got shards = {shards}")
    first = [Send(s, P + s, s) for s in range(shards)]
    others = [Send(r, P + s, s, True) for s in range(shards) for r in range(P) if r != s]
    pull = [Send(P + s, r, s) for s in range(shards) for r in range(P)]
    return Schedule(P + shards, shards, [first, others, pull], "dedicated parameter server")


def all_reduce_of_workers(P: int) -> Primitive:
    """The all-reduce among the first ``P`` ranks; what the others end with is not said.

    >>> from dtlib.collectives import check_primitive
    >>> check_primitive(dedicated_parameter_server(6, shards=2), all_reduce_of_workers(6))
    """
    workers = Holding(f"at ranks 0..{P - 1}", lambda rank, chunk, ranks, chunks: rank < P)
    return Primitive("all-reduce of the workers", workers, workers)


@formula(r"V_\text{PS}", "B", "Li, Andersen, Park et al. 2014", "servers of their own")
def dedicated_parameter_server_received_bytes(n, P, shards):
    """Bytes that a server of its own receives, and sends.

    Its part, from each of `P` workers.

    >>> dedicated_parameter_server_received_bytes(n=1000, P=8, shards=4)
    2000.0
    """
    return P * n / shards


@formula(r"T_\text{PS}", "s", "Li, Andersen, Park et al. 2014", FEWER_SHARDS)
def dedicated_parameter_server_time(n, P, shards, alpha, beta):
    """Time of an all-reduce by servers of their own.

    A server's port takes one part from each of `P` workers, then hands one to each.

    >>> round(dedicated_parameter_server_time(7e8, P=256, shards=16, alpha=0, beta=200e9), 3)
    0.112
    """
    return 2 * P * (alpha + n / (shards * beta))


@formula(r"T_\text{PS coloc}", "s", "Li, Andersen, Park et al. 2014", FEWER_SHARDS)
def parameter_server_all_reduce_time(n, P, shards, alpha, beta):
    """Time of an all-reduce by servers that are workers as well.

    A server's port takes one part from each other rank, then hands one to each.

    >>> round(parameter_server_all_reduce_time(1e9, P=8, shards=8, alpha=5e-6, beta=50e9), 6)
    0.03507
    """
    return 2 * (P - 1) * (alpha + n / (shards * beta))


@formula(
    r"\frac{T_\text{PS}}{T_\text{ring}}",
    "",
    "Li, Andersen, Park et al. 2014",
    f"bytes only, servers of their own; {FEWER_SHARDS}",
)
def parameter_server_over_ring_ratio(P, shards):
    """How many times as long as a ring a parameter server takes, where latency does not count.

    2 P n / shards through a server's port, 2 (P - 1) n / P through each of a ring's.

    >>> round(parameter_server_over_ring_ratio(P=256, shards=16), 2)
    16.06
    """
    return P**2 / (shards * (P - 1))
