"""What expert parallelism sends, drops, wastes and waits for, in closed form.

Bytes are those that one rank sends, in one direction; `tokens_per_rank` tokens live on it.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil


@formula(
    r"Q_\text{route}",
    "B",
    "a copy of every token to each of its experts, and back",
    "tokens are spread evenly over the experts; nothing is dropped; one layer, forward",
)
def routed_bytes(tokens_per_rank, chosen, hidden, ep, element_bytes):
    """What one rank sends in the forward pass of one layer: the copies out, and as many results.

    Two journeys of H numbers for each copy of a token, of which one in P_ep is at home. The
    backward pass makes both journeys again.

    >>> routed_bytes(tokens_per_rank=1024, chosen=1, hidden=4096, ep=8, element_bytes=2)
    14680064.0
    """
    return 2 * (ep - 1) / ep * tokens_per_rank * chosen * hidden * element_bytes


@formula(
    r"Q_\text{padded}",
    "B",
    "Lepikhin et al. 2021, whose buffers have a fixed size",
    "every rank sends all its places at every expert, filled or not; one layer, forward",
)
def padded_routed_bytes(tokens_per_rank, chosen, hidden, ep, element_bytes, capacity_factor):
    """The same with buffers of fixed size: the padding travels, too.

    As `routed_bytes`, times the capacity factor.

    >>> padded_routed_bytes(1024, 1, 4096, 8, 2, capacity_factor=1.25) / 14680064
    1.25
    """
    return capacity_factor * routed_bytes(tokens_per_rank, chosen, hidden, ep, element_bytes)


@formula(
    r"C_\text{expert}",
    "",
    "Lepikhin et al. 2021; Fedus et al. 2022",
    "the tokens of one rank, or of whatever is counted together",
)
def expert_capacity(tokens_per_rank, chosen, experts, capacity_factor):
    """The places that these tokens have at each expert.

    The mean number of copies for an expert, times the capacity factor, rounded up.

    >>> expert_capacity(tokens_per_rank=64, chosen=2, experts=8, capacity_factor=1.25)
    20
    """
    return ceil(capacity_factor * tokens_per_rank * chosen / experts)


@formula(
    r"w_\text{pad}",
    "",
    "count of the places: those that are not filled",
    "all places are computed; the capacity is not rounded up",
)
def padding_fraction(dropped, capacity_factor):
    """The share of all places that stay empty, when a share of the copies is dropped.

    Of c places for each copy, the copies that are not dropped fill 1 - d.

    >>> padding_fraction(dropped=0.37, capacity_factor=1.25)
    0.496
    """
    return 1 - (1 - dropped) / capacity_factor


@formula(
    r"T_\text{experts}",
    "s",
    "the layer ends with its busiest expert",
    "one expert on each rank; two FLOP per weight and copy, three matrices",
)
def busiest_expert_time(tokens_per_rank, chosen, hidden, ffn, peak, busiest):
    """How long the experts' forward pass takes: as long as that of the busiest.

    The work of an even share, 6 H H_ffn FLOP for each copy, times the busiest load over the mean.

    >>> busiest_expert_time(1000, 2, 1000, 1000, peak=12e9, busiest=2.5)
    2.5
    """
    return busiest * 6 * tokens_per_rank * chosen * hidden * ffn / peak
