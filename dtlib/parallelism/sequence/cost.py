"""What sharing out a sequence costs: bytes of the three ways, the work and the time of a step.

Bytes are those that one rank sends in one layer, in one direction, forward unless the name says
otherwise. From how many tokens on a ring hides is `context_parallel_tokens` of
`dtlib.foundations.roofline.one_ratio`.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum

_RING = "Liu, Zaharia and Abbeel 2023"
_ULYSSES = "Jacobs et al. 2023"


@formula(r"Q_\text{scores}", "B", "counting", "all scores of one layer and one sequence, no mask")
def attention_score_bytes(seq, heads, element_bytes):
    """What all attention scores of one layer would fill, if they were ever kept.

    A number for every pair of tokens and every head.

    >>> attention_score_bytes(seq=131072, heads=32, element_bytes=2) / 1e12
    1.099511627776
    """
    return element_bytes * heads * seq**2


@formula(r"Q_\text{hop}", "B", _RING, "keys and values of one rank's tokens, one layer")
def ring_hop_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What a rank passes on in one step of a ring: keys and values of as many tokens as it holds.

    Two rows of the model's width for each token, of which grouped heads keep a share.

    >>> ring_hop_bytes(1, 2**17, 4096, 32, 32, 8, 2) / 2**20
    256.0
    """
    return 2 * kv_heads / heads * element_bytes * micro_batch * seq / cp * hidden


@formula(
    r"Q_\text{ring}",
    "B",
    _RING,
    (
        "forward; the same backward when everything that passed by is kept; also an "
        "all-gather of the keys and values"
    ),
)
def ring_attention_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What one rank sends in one layer of ring attention, forward.

    A hop less than there are ranks, for step 0 needs nobody else's keys.

    >>> ring_attention_bytes(1, 2**20, 8192, 64, 64, 16, 2) / 1e9
    32.212254...
    """
    return 2 * kv_heads / heads * (cp - 1) / cp * element_bytes * micro_batch * seq * hidden


@formula(
    r"Q_\text{lean}",
    "B",
    _RING,
    "backward, when keys and values travel again and collect their gradients",
)
def lean_ring_backward_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What one rank sends in one layer of ring attention, backward, when nothing was kept.

    Keys and values make cp - 1 hops once more; their gradients make cp, for they must come home.

    >>> arguments = (1, 2**20, 8192, 64, 64, 16, 2)
    >>> lean_ring_backward_bytes(*arguments) / ring_attention_bytes(*arguments)
    2.0666...
    """
    return 2 * kv_heads / heads * (2 * cp - 1) / cp * element_bytes * micro_batch * seq * hidden


@formula(
    r"Q_\text{Ulysses}",
    "B",
    _ULYSSES,
    (
        "forward, and the same backward; cp divides the heads; key heads are copied where "
        "there are fewer than ranks"
    ),
)
def ulysses_attention_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What one rank sends in one layer for its four all-to-alls: queries, keys, values, result.

    Of each of the four the rank has a share 1/cp, and of that it keeps another 1/cp.

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


@formula(r"Q_\text{ring}/Q_\text{Ulysses}", "", "the two volumes", "no more ranks than key heads")
def ring_over_ulysses_ratio(heads, kv_heads, cp):
    """How many times as much a ring sends as Ulysses.

    The ring sends keys and values to everybody; Ulysses sends everything once.

    >>> ring_over_ulysses_ratio(heads=64, kv_heads=64, cp=16)
    8.0
    >>> round(ring_over_ulysses_ratio(heads=128, kv_heads=16, cp=16), 2)
    1.78
    """
    return kv_heads * cp / (heads + kv_heads)


@formula(r"W_\text{block}", "FLOP", "counting", "forward, one layer, one block of scores, no mask")
def ring_step_flops(micro_batch, seq, hidden, cp):
    """The work of one step of a ring: a rank's queries with one rank's keys and values.

    A score costs 2 FLOP for each number of its head, and using it costs as many.

    >>> ring_step_flops(micro_batch=1, seq=1024, hidden=64, cp=4) == 4 * 256**2 * 64
    True
    """
    return 4 * micro_batch * (seq / cp) ** 2 * hidden


@formula(
    r"Q_\text{buffers}",
    "B",
    _RING,
    "forward; one block of keys and values arrives while another is in use",
)
def ring_buffer_bytes(micro_batch, seq, hidden, heads, kv_heads, cp, element_bytes):
    """What a rank of a ring holds at once: queries, the result, two blocks of keys and of values.

    Six shares of the sequence, of which grouped heads make four smaller.

    >>> arguments = (1, 2**17, 4096, 32, 32, 8, 2)
    >>> ring_buffer_bytes(*arguments) / ring_hop_bytes(*arguments)
    3.0
    """
    return (2 + 4 * kv_heads / heads) * element_bytes * micro_batch * seq / cp * hidden


@formula(
    r"T_\text{ring attention}",
    "s",
    _RING,
    "no mask, forward, one sequence, one layer; a hop runs beside the step before it",
)
def ring_attention_time(seq, hidden, heads, kv_heads, cp, element_bytes, peak, alpha, beta):
    """The attention of one layer on a ring: a first step, then steps and hops side by side.

    Of a step and the hop that runs beside it the longer one counts; the last step has no hop to
    wait for.

    >>> arguments = (2**17, 4096, 32, 32, 8, 2, 1e15)
    >>> [round(1e3 * ring_attention_time(*arguments, 0, beta), 2) for beta in (50e9, 5e9)]
    [41.98, 380.21]
    """
    return ring_step_flops(1, seq, hidden, cp) / peak + (cp - 1) * maximum(
        ring_step_flops(1, seq, hidden, cp) / peak,
        alpha + ring_hop_bytes(1, seq, hidden, heads, kv_heads, cp, element_bytes) / beta,
    )


@formula(
    r"T_\text{gathered attention}",
    "s",
    "ring all-gather, then attention",
    "no mask, forward, one sequence, one layer; nothing overlaps",
)
def all_gather_attention_time(seq, hidden, heads, kv_heads, cp, element_bytes, peak, alpha, beta):
    """The attention of one layer when all keys and values are fetched first.

    Cp - 1 hops, then cp steps.

    >>> arguments = (2**17, 4096, 32, 32, 8, 2, 1e15)
    >>> [round(1e3 * all_gather_attention_time(*arguments, 0, beta), 2) for beta in (50e9, 5e9)]
    [72.77, 410.99]
    """
    return (cp - 1) * (
        alpha + ring_hop_bytes(1, seq, hidden, heads, kv_heads, cp, element_bytes) / beta
    ) + cp * ring_step_flops(1, seq, hidden, cp) / peak


@formula(
    r"T_\text{Ulysses}",
    "s",
    _ULYSSES,
    "no mask, forward, one sequence, one layer; nothing overlaps; cp divides the heads",
)
def ulysses_attention_time(seq, hidden, heads, kv_heads, cp, element_bytes, peak, alpha, beta):
    """The attention of one layer with four all-to-alls, each of cp - 1 messages from every rank.

    Starts, bytes, and the same work as any other way.

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
    r"t_\text{contiguous}",
    "",
    "the largest block of each step",
    "causal mask, contiguous layout, steps in time with each other",
)
def contiguous_causal_steps(cp):
    """How many whole blocks of time a causal ring takes with contiguous shares.

    The first step is half a block on every rank; in every later one somebody has a whole one.

    >>> contiguous_causal_steps(8)
    7.5
    """
    return cp - 1 / 2


@formula(
    r"t_\text{zigzag}",
    "",
    "the largest block of each step",
    "causal mask, zigzag layout, steps in time with each other",
)
def zigzag_causal_steps(cp):
    """How many whole blocks of time a causal ring takes with zigzag shares.

    Every block is half a block.

    >>> zigzag_causal_steps(8)
    4.0
    """
    return cp / 2
