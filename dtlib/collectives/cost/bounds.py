"""What no all-reduce can better: bounds on messages, bytes and time, and a search for one."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, log2


def fewest_messages(P: int) -> int:
    """The fewest messages after which every rank has heard from every rank, by trying them all.

    This is what an all-reduce needs for a single element. Sending at the same time saves time but
    no message, so the search sends one by one: it goes through what the ranks can have heard
    after 0, 1, 2, ... messages until everybody has heard everything. The answers continue as
    2(P - 1), but the search grows so fast that P = 5 takes a thousand times as long as P = 4.

    Source: Harary & Schwenk 1974, who prove 2(P - 1) for every P.

    >>> [fewest_messages(P) for P in (1, 2, 3)]
    [0, 2, 4]
    """
    everybody = frozenset(range(P))
    heard = {tuple(frozenset([rank]) for rank in range(P))}
    messages = 0
    while (everybody,) * P not in heard:
        heard = {after for before in heard for after in _one_message_later(before)}
        messages += 1
    return messages


def _one_message_later(heard: tuple[frozenset, ...]):
    """Every state that one message can lead to, except those in which it brought nothing new."""
    for news in heard:
        for dst, known in enumerate(heard):
            if not news <= known:
                yield (*heard[:dst], known | news, *heard[dst + 1 :])


@formula(
    r"M_\text{min}",
    "",
    "Harary & Schwenk 1974",
    "messages that carry one element, or partial sums of it; no adding in the network",
)
def all_reduce_lower_bound_messages(P):
    """The fewest messages of any all-reduce of one element, over all ranks together.

    Until some rank has heard from everyone, each of the other P - 1 must have sent; at that moment
    each of these P - 1 still lacks something, and must yet receive.

    >>> all_reduce_lower_bound_messages(P=4)
    6
    """
    return 2 * (P - 1)


@formula(r"V_\text{min}", "B", "Patarasuk & Yuan 2009", "no compression, no adding in the network")
def all_reduce_lower_bound_bytes(n, P):
    """The fewest bytes that the busiest rank of any all-reduce sends.

    2(P - 1) messages for each element, shared evenly by P ranks.

    >>> all_reduce_lower_bound_bytes(n=1000, P=4)
    1500.0
    """
    return 2 * (P - 1) / P * n


@formula(
    r"T_\text{min}",
    "s",
    "Chan, Heimlich, Purkayastha & van de Geijn 2007",
    "one-port alpha-beta model; no compression, no adding in the network",
)
def all_reduce_lower_bound_time(n, P, alpha, beta):
    """A time that no all-reduce undercuts; that one reaches both terms at once is not claimed.

    A message at most doubles what a rank has heard of, hence ceil(log2 P) latencies, and the
    busiest rank sends at least `all_reduce_lower_bound_bytes`.

    >>> round(all_reduce_lower_bound_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.035015
    """
    return ceil(log2(P)) * alpha + all_reduce_lower_bound_bytes(n, P) / beta
