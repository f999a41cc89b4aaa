"""How good is a time? Algorithm bandwidth, bus bandwidth, and the bytes that no algorithm spares.

Algorithm bandwidth is bytes over seconds. Bus bandwidth multiplies it with the share of the buffer
that the busiest port has to carry whatever the algorithm, and so compares with a port's bandwidth,
however many ranks there are. That share follows from the two tables of the primitive.
"""

from fractions import Fraction

from dtlib.collectives.primitives import PRIMITIVES, Primitive
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, log2

NCCL_TESTS = "NCCL tests, doc/PERFORMANCE.md"


@formula(r"B_\text{alg}", "B/s", NCCL_TESTS, "n is the whole buffer, of all parts together")
def algorithm_bandwidth(n, time):
    """Bytes over seconds: what a call seems to reach.

    The buffer of one rank, over the time. For an all-gather the buffer is what is there in the end,
    for a reduce-scatter what was there at first.

    >>> algorithm_bandwidth(n=10**9, time=0.01)
    100000000000.0
    """
    return n / time


@formula(
    r"f_\text{AR}", "", NCCL_TESTS, "all-reduce by messages between ranks, no adding in the network"
)
def all_reduce_bus_factor(P):
    """What a port carries in an all-reduce at least, over the buffer.

    2 (P - 1) messages for each element, shared by P ranks.

    >>> all_reduce_bus_factor(8)
    1.75
    """
    return 2 * (P - 1) / P


@formula(
    r"f_\text{AG}", "", NCCL_TESTS, "all-gather, reduce-scatter, all-to-all, scatter and gather"
)
def all_gather_bus_factor(P):
    """What a port carries in an all-gather, a reduce-scatter, ... at least, over the buffer.

    Every part but the rank's own.

    >>> all_gather_bus_factor(8)
    0.875
    """
    return (P - 1) / P


def bus_factor(operation: str, P):
    """The factor of an operation's bus bandwidth, as NCCL tests defines it.

    Arguments: ``operation``, a name of `PRIMITIVES`; ``P`` ranks. Returns a ratio: 1 for a
    broadcast and a reduction. Raises ValueError for another operation.

    >>> [bus_factor(name, P=4) for name in ("all-reduce", "all-gather", "broadcast")]
    [1.5, 0.75, 1]
    """
    if operation not in PRIMITIVES:
        raise ValueError(f"operation must be one of {', '.join(PRIMITIVES)}; got {operation!r}")
    if operation in ("broadcast", "reduce"):
        return 1
    return all_reduce_bus_factor(P) if operation == "all-reduce" else all_gather_bus_factor(P)


def bus_bandwidth(operation: str, n, time, P):
    """Bytes per second and direction that the busiest port carries if the algorithm wastes none.

    Equation: `algorithm_bandwidth` times `bus_factor`. It is below the bandwidth of a port as long
    as messages go from rank to rank: a network that adds by itself may seem to exceed it.
    Arguments: ``operation``, a name of `PRIMITIVES`; ``n`` bytes of a rank's buffer; ``time`` in
    seconds; ``P`` ranks. Returns bytes/s. Raises ValueError for another operation.
    Source: NCCL tests, doc/PERFORMANCE.md.

    >>> from dtlib.collectives import ring_all_reduce_time
    >>> seconds = ring_all_reduce_time(n=10**9, P=8, alpha=0, beta=50e9)
    >>> round(bus_bandwidth("all-reduce", 10**9, seconds, P=8))
    50000000000
    """
    return algorithm_bandwidth(n, time) * bus_factor(operation, P)


def busiest_port_fraction(primitive: Primitive, P: int) -> Fraction:
    """What no algorithm for a primitive spares its busiest port, over the buffer of a rank.

    It is the largest of three: what a rank must send because it holds something that others want;
    what a rank must receive because it wants what others hold; and an equal share of all messages.
    A chunk with H holders and W wanters takes H - 1 messages to add up and W - 1 to spread, and one
    more where no rank is both. That is proven where H or W is 1, or both are all ranks.
    Returns a Fraction: a bound, and the bus factor of NCCL tests, for each of `PRIMITIVES`.

    >>> busiest_port_fraction(PRIMITIVES["all-reduce"], P=4)
    Fraction(3, 2)
    >>> busiest_port_fraction(PRIMITIVES["broadcast"], P=4)
    Fraction(1, 1)
    """
    chunks = primitive.cells(P)
    held, wanted = (at.table(P, chunks) for at in (primitive.before, primitive.after))
    holders, wanters = held.sum(axis=0), wanted.sum(axis=0)
    must_send = (held & (wanters - wanted > 0)).sum(axis=1).max()
    must_receive = (wanted & (holders - held > 0)).sum(axis=1).max()
    messages = (holders + wanters - 2 + ~(held & wanted).any(axis=0)).sum()
    buffer = int(max(table.sum(axis=1).max() for table in (held, wanted)))
    ports = int(must_send), int(must_receive), Fraction(int(messages), P)
    return Fraction(max(ports)) / buffer


def lower_bound_time(primitive: Primitive, n, P: int, alpha, beta):
    """Seconds that no algorithm for a primitive undercuts; that one meets them is not claimed.

    Equation: ceil(log2 P) rounds, because a round at most doubles how many ranks have something of
    one rank, or one rank of how many; and `busiest_port_fraction` of the buffer through one port.
    Arguments: ``primitive``, one of `PRIMITIVES`; ``n`` bytes of a rank's buffer; ``P`` ranks;
    ``alpha`` seconds; ``beta`` bytes/s per direction. Returns seconds. Holds for one port per rank
    and rounds in step, without compression or adding in the network.
    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> round(lower_bound_time(PRIMITIVES["broadcast"], 10**9, 8, alpha=5e-6, beta=50e9), 6)
    0.020015
    """
    return ceil(log2(P)) * alpha + busiest_port_fraction(primitive, P) * n / beta
