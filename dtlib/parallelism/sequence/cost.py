"""What sharing out a sequence costs: bytes of the three ways, the work and the time of a step.

Bytes are those that one rank sends in one layer, in one direction, forward unless the name says
otherwise. From how many tokens on a ring hides is `context_parallel_tokens` of
`dtlib.foundations.roofline.one_ratio`.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum

_RING = "Liu, Zaharia and Abbeel 2023"
_ULYSSES = "Jacobs et al. 2023"


@formula(
    symbol=r"Q_\text{scores}",
    unit="B",
    source="counting",
    conditions="all scores of one layer and one sequence, no mask",
)
def attention_score_bytes(seq, heads, element_bytes):
    """What all attention scores of one layer would fill, if they were ever kept.

    Equation: a number for every pair of tokens and every head. Arguments: `seq` tokens, `heads`,
    `element_bytes` of one number. Returns bytes. Raises nothing. Source: counting.

    >>> attention_score_bytes(seq=131072, heads=32, element_bytes=2) / 1e12
    1.099511627776
    """
    return element_bytes * heads * seq**2


@formula(
    symbol=r"Q_\text{hop}",
    unit="B",
    source=_RING,
    conditions="keys and values of one rank's tokens, one layer",
)
def ring_hop_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What a rank passes on in one step of a ring: keys and values of as many tokens as it holds.

    Equation: two rows of the model's width for each token, of which grouped heads keep a share.
    Arguments: `micro_batch` sequences of `seq` tokens, `hidden` width, `heads` of queries and
    `kv_heads` of keys and values, `cp` ranks, `element_bytes` of one number. Returns bytes.
    Raises ZeroDivisionError for no ranks or no heads. Source: Liu, Zaharia and Abbeel 2023.

    >>> ring_hop_bytes(1, 2**17, 4096, 32, 32, 8, 2) / 2**20
    256.0
    """
    return 2 * kv_heads / heads * element_bytes * micro_batch * seq / cp * hidden


@formula(
    symbol=r"Q_\text{ring}",
    unit="B",
    source=_RING,
    conditions="forward; the same backward when everything that passed by is kept; also an "
    "all-gather of the keys and values",
)
def ring_attention_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What one rank sends in one layer of ring attention, forward.

    Equation: a hop less than there are ranks, for step 0 needs nobody else's keys.
    Arguments: as of `ring_hop_bytes`. Returns bytes. Raises ZeroDivisionError for no ranks or no
    heads. Source: Liu, Zaharia and Abbeel 2023.

    >>> ring_attention_bytes(1, 2**20, 8192, 64, 64, 16, 2) / 1e9
    32.212254...
    """
    return 2 * kv_heads / heads * (cp - 1) / cp * element_bytes * micro_batch * seq * hidden


@formula(
    symbol=r"Q_\text{lean}",
    unit="B",
    source=_RING,
    conditions="backward, when keys and values travel again and collect their gradients",
)
def lean_ring_backward_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What one rank sends in one layer of ring attention, backward, when nothing was kept.

    Equation: keys and values make cp - 1 hops once more; their gradients make cp, for they must
    come home. Arguments: as of `ring_hop_bytes`. Returns bytes. Raises ZeroDivisionError for no
    ranks or no heads. Source: counting.

    >>> arguments = (1, 2**20, 8192, 64, 64, 16, 2)
    >>> lean_ring_backward_bytes(*arguments) / ring_attention_bytes(*arguments)
    2.0666...
    """
    return 2 * kv_heads / heads * (2 * cp - 1) / cp * element_bytes * micro_batch * seq * hidden


@formula(
    symbol=r"Q_\text{Ulysses}",
    unit="B",
    source=_ULYSSES,
    conditions="forward, and the same backward; cp divides the heads; key heads are copied where "
    "there are fewer than ranks",
)
def ulysses_attention_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What one rank sends in one layer for its four all-to-alls: queries, keys, values, result.

    Equation: of each of the four the rank has a share 1/cp, and of that it keeps another 1/cp.
    Arguments: as of `ring_hop_bytes`. Returns bytes. Raises ZeroDivisionError for no ranks or no
    heads. Source: Jacobs et al. 2023.

    >>> ulysses_attention_bytes(1, 2**20, 8192, 64, 64, 16, 2) / 1e9
    4.02653...
    """
    return (
        2
        * (1 + maximum(kv_heads, cp) / heads)
        * (cp - 1)
        / cp**2
        * element_bytes
        * micro_batch
        * seq
        * hidden
    )


@formula(
    symbol=r"Q_\text{ring}/Q_\text{Ulysses}",
    unit="",
    source="the two volumes",
    conditions="no more ranks than key heads",
)
def ring_over_ulysses_ratio(heads, kv_heads, cp):
    """How many times as much a ring sends as Ulysses.

    Equation: the ring sends keys and values to everybody; Ulysses sends everything once.
    Arguments: `heads` of queries, `kv_heads` of keys and values, `cp` ranks. Returns a ratio.
    Raises nothing. Source: counting.

    >>> ring_over_ulysses_ratio(heads=64, kv_heads=64, cp=16)
    8.0
    >>> round(ring_over_ulysses_ratio(heads=128, kv_heads=16, cp=16), 2)
    1.78
    """
    return kv_heads * cp / (heads + kv_heads)


@formula(
    symbol=r"W_\text{block}",
    unit="FLOP",
    source="counting",
    conditions="forward, one layer, one block of scores, no mask",
)
def ring_step_flops(micro_batch, seq, hidden, cp):
    """The work of one step of a ring: a rank's queries with one rank's keys and values.

    Equation: a score costs 2 FLOP for each number of its head, and using it costs as many.
    Arguments: `micro_batch` sequences of `seq` tokens, `hidden` width, `cp` ranks. Returns FLOP.
    Raises ZeroDivisionError for no ranks. Source: counting.

    >>> ring_step_flops(micro_batch=1, seq=1024, hidden=64, cp=4) == 4 * 256**2 * 64
    True
    """
    return 4 * micro_batch * (seq / cp) ** 2 * hidden


@formula(
    symbol=r"Q_\text{buffers}",
    unit="B",
    source=_RING,
    conditions="forward; one block of keys and values arrives while another is in use",
)
def ring_buffer_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What a rank of a ring holds at once: queries, the result, two blocks of keys and of values.

    Equation: six shares of the sequence, of which grouped heads make four smaller.
    Arguments: as of `ring_hop_bytes`. Returns bytes. Raises ZeroDivisionError for no ranks or no
    heads. Source: Liu, Zaharia and Abbeel 2023.

    >>> arguments = (1, 2**17, 4096, 32, 32, 8, 2)
    >>> ring_buffer_bytes(*arguments) / ring_hop_bytes(*arguments)
    3.0
    """
    return (2 + 4 * kv_heads / heads) * element_bytes * micro_batch * seq / cp * hidden


@formula(
    symbol=r"T_\text{ring attention}",
    unit="s",
    source=_RING,
    conditions="no mask, forward, one sequence, one layer; a hop runs beside the step before it",
)
def ring_attention_time(seq, hidden, heads, kv_heads, cp, element_bytes, peak, alpha, beta):
    """The attention of one layer on a ring: a first step, then steps and hops side by side.

    Equation: of a step and the hop that runs beside it the longer one counts; the last step has
    no hop to wait for. Arguments: as of `ring_hop_bytes`, `peak` FLOP/s, `alpha` seconds, `beta`
    bytes/s per direction. Returns seconds. Raises ZeroDivisionError for a rate of 0.
    Source: Liu, Zaharia and Abbeel 2023.

    >>> arguments = (2**17, 4096, 32, 32, 8, 2, 1e15)
    >>> [round(1e3 * ring_attention_time(*arguments, 0, beta), 2) for beta in (50e9, 5e9)]
    [41.98, 380.21]
    """
    return ring_step_flops(1, seq, hidden, cp) / peak + (cp - 1) * maximum(
        ring_step_flops(1, seq, hidden, cp) / peak,
        alpha + ring_hop_bytes(1, seq, hidden, heads, kv_heads, cp, element_bytes) / beta,
    )


@formula(
    symbol=r"T_\text{gathered attention}",
    unit="s",
    source="ring all-gather, then attention",
    conditions="no mask, forward, one sequence, one layer; nothing overlaps",
)
def all_gather_attention_time(seq, hidden, heads, kv_heads, cp, element_bytes, peak, alpha, beta):
    """The attention of one layer when all keys and values are fetched first.

    Equation: cp - 1 hops, then cp steps. Arguments: as of `ring_attention_time`. Returns seconds.
    Raises ZeroDivisionError for a rate of 0. Source: counting.

    >>> arguments = (2**17, 4096, 32, 32, 8, 2, 1e15)
    >>> [round(1e3 * all_gather_attention_time(*arguments, 0, beta), 2) for beta in (50e9, 5e9)]
    [72.77, 410.99]
    """
    return (cp - 1) * (
        alpha + ring_hop_bytes(1, seq, hidden, heads, kv_heads, cp, element_bytes) / beta
    ) + cp * ring_step_flops(1, seq, hidden, cp) / peak


@formula(
    symbol=r"T_\text{Ulysses}",
    unit="s",
    source=_ULYSSES,
    conditions="no mask, forward, one sequence, one layer; nothing overlaps; cp divides the heads",
)
def ulysses_attention_time(seq, hidden, heads, kv_heads, cp, element_bytes, peak, alpha, beta):
    """The attention of one layer with four all-to-alls, each of cp - 1 messages from every rank.

    Equation: starts, bytes, and the same work as any other way. Arguments: as of
    `ring_attention_time`. Returns seconds. Raises ZeroDivisionError for a rate of 0.
    Source: Jacobs et al. 2023.

    >>> arguments = (2**17, 4096, 32, 32, 8, 2, 1e15)
    >>> [round(1e3 * ulysses_attention_time(*arguments, 0, beta), 2) for beta in (50e9, 5e9)]
    [44.58, 129.14]
    """
    return (
        4 * (cp - 1) * alpha
        + ulysses_attention_bytes(1, seq, hidden, heads, kv_heads, cp, element_bytes) / beta
        + cp * ring_step_flops(1, seq, hidden, cp) / peak
    )


@formula(
    symbol=r"t_\text{contiguous}",
    unit="",
    source="the largest block of each step",
    conditions="causal mask, contiguous layout, steps in time with each other",
)
def contiguous_causal_steps(cp):
    """How many whole blocks of time a causal ring takes with contiguous shares.

    Equation: the first step is half a block on every rank; in every later one somebody has a whole
    one. Arguments: `cp` ranks. Returns a time in blocks. Raises nothing. Source: counting.

    >>> contiguous_causal_steps(8)
    7.5
    """
    return cp - 1 / 2


@formula(
    symbol=r"t_\text{zigzag}",
    unit="",
    source="the largest block of each step",
    conditions="causal mask, zigzag layout, steps in time with each other",
)
def zigzag_causal_steps(cp):
    """How many whole blocks of time a causal ring takes with zigzag shares.

    Equation: every block is half a block. Arguments: `cp` ranks. Returns a time in blocks.
    Raises nothing. Source: counting.

    >>> zigzag_causal_steps(8)
    4.0
    """
    return cp / 2
