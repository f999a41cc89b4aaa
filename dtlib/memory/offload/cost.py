"""What offloading costs: times, bytes and intensities, as formulas.

Two borders stand beside the other strategies in `dtlib.foundations.roofline.one_ratio`: weights can
come from the host behind the arithmetic from `parameter_offload_tokens` on, and a layer's input can
go there and back from `activation_offload_width` on. Here is the rest: what hides what, what the
optimizer's state costs where it lies, and how much work each kind of tensor brings for its bytes.

Bytes are counted per direction. Mixed precision, as everywhere: weights and gradients of 2 bytes,
and 12 in the optimizer, its copy of the weights and two moments.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, maximum

_COUNT = "counting"
_INFINITY = "Rajbhandari et al. 2021, whose counts these are"
_WORK = "dense model, attention's scores neglected; the forward pass is computed twice"


@formula(
    symbol=r"T_\text{layer}",
    unit="s",
    source="the cycles of the pipeline: `simulate_offload`",
    conditions="equal layers; in the long run; one lane; a buffer more than the look-ahead",
)
def streamed_layer_time(computing, transfer, alpha, lookahead):
    """How long a layer takes that is fetched while the layers before are computed.

    Equation: the arithmetic, the lane, or one turn of a buffer, which serves every (k+1)-th layer:
    whichever is longest. Without latency that is max(arithmetic, lane) for every look-ahead from 1
    on, and their sum for none.
    Arguments: `computing` and `transfer`, seconds of one layer; `alpha`, latency in seconds;
    `lookahead`, layers. Returns seconds. Raises nothing. Source: the cycles of the pipeline.

    >>> [streamed_layer_time(50e-3, 80e-3, 0, lookahead) for lookahead in (0, 1, 2, 3)]
    [0.13, 0.08, 0.08, 0.08]
    """
    return maximum(maximum(computing, transfer), (alpha + transfer + computing) / (lookahead + 1))


@formula(
    symbol=r"k_\text{hide}",
    unit="",
    source="the cycles of the pipeline: `simulate_offload`",
    conditions="equal layers; one lane; a buffer more than the look-ahead; exact arithmetic",
)
def hiding_lookahead(computing, transfer, alpha):
    """The least look-ahead that hides all that can be hidden: the latency, and not the lane.

    Equation: as many turns as the longer of arithmetic and lane fits into one turn of a buffer,
    less the one that is computed on. Without latency it is 1, however slow the lane.
    Arguments: `computing` and `transfer`, seconds of one layer; `alpha`, latency in seconds.
    Returns a count. Raises ZeroDivisionError for layers that take no time. Source: counting.

    >>> [hiding_lookahead(8, 5, alpha) for alpha in (0, 3, 4, 20)]
    [1, 1, 2, 4]
    """
    return ceil((alpha + transfer + computing) / maximum(computing, transfer)) - 1


@formula(
    symbol=r"T_\text{offload}",
    unit="s",
    source=_COUNT,
    conditions="transfers run beside the arithmetic; start and end of the pipeline neglected",
)
def offloaded_step_time(computing, comm, sync):
    """A step whose transfers run beside its arithmetic.

    Equation: the longer of the two, and what waits for both.
    Arguments: `computing`, `comm` and `sync` in seconds. Returns seconds. Raises nothing.
    Source: counting.

    >>> round(0.1 / offloaded_step_time(0.1, 0.08, 0.005), 3)
    0.952
    """
    return maximum(computing, comm) + sync


@formula(
    symbol=r"T_\text{Adam}",
    unit="s",
    source=f"{_COUNT}; Ren et al. 2021 for Adam on the processor",
    conditions="limited by the memory, not by the arithmetic; the vector instructions of a tuned "
    "kernel; gradients and weights of 2 bytes, copy of the weights and two moments of 4",
)
def cpu_adam_time(params, bandwidth):
    """How long the processor needs for one update of all parameters.

    Equation: it reads and writes 12 bytes of state for each, reads 2 of the gradient and writes 2
    of the weight.
    Arguments: `params`, a count; `bandwidth`, bytes/s of the host's memory. Returns seconds.
    Raises ZeroDivisionError for a bandwidth of 0. Source: counting.

    >>> round(cpu_adam_time(params=10e9, bandwidth=200e9), 9)
    1.4
    """
    return (12 + 12 + 2 + 2) * params / bandwidth


@formula(
    symbol=r"T_\text{grad}",
    unit="s",
    source="Ren et al. 2021",
    conditions="one direction; each gradient travels once; the link to itself",
)
def gradient_offload_time(params, element_bytes, beta):
    """How long the gradients take to the host, or the new weights back.

    Equation: every number once over the link. Arguments: `params`; `element_bytes` of one
    gradient, `beta` bytes/s of the link in that direction. Returns seconds.
    Raises ZeroDivisionError for a bandwidth of 0. Source: Ren et al. 2021.

    >>> gradient_offload_time(10e9, 4, 32e9), gradient_offload_time(10e9, 2, 32e9)
    (1.25, 0.625)
    """
    return element_bytes * params / beta


@formula(
    symbol=r"T_\text{weights}",
    unit="s",
    source=_COUNT,
    conditions="every layer leaves the device after each pass; no recomputation",
)
def parameter_offload_time(params, element_bytes, beta):
    """How long the link carries weights to the device in one step.

    Equation: every weight comes twice, for the forward and for the backward pass.
    Arguments: `params`; `element_bytes` of one weight; `beta` bytes/s to the device. Returns
    seconds. Raises ZeroDivisionError for a bandwidth of 0. Source: counting.

    >>> parameter_offload_time(params=70e9, element_bytes=2, beta=32e9)
    8.75
    """
    return 2 * element_bytes * params / beta


@formula(
    symbol=r"n_\text{disk}",
    unit="B",
    source=_COUNT,
    conditions="the optimizer's state lies on the disk, 12 bytes for each parameter; weights and "
    "gradients elsewhere",
)
def disk_step_bytes(params):
    """What the disk reads and writes in one step where it holds the optimizer's state.

    Equation: 12 bytes for each parameter, once in each direction.
    Arguments: `params`, a count. Returns bytes. Raises nothing. Source: counting.

    >>> disk_step_bytes(params=500e9) / 1e12
    12.0
    """
    return (12 + 12) * params


@formula(
    symbol=r"T_\text{disk}",
    unit="s",
    source=_COUNT,
    conditions="reads and writes share the disk and do not overlap; the same bytes as the formula "
    "above",
)
def disk_step_time(params, read_rate, write_rate):
    """How long the disk reads and writes in one step where it holds the optimizer's state.

    Equation: 12 bytes for each parameter at the rate of each direction.
    Arguments: `params`; `read_rate` and `write_rate`, bytes/s. Returns seconds.
    Raises ZeroDivisionError for a rate of 0. Source: counting.

    >>> round(disk_step_time(params=500e9, read_rate=28e9, write_rate=28e9))
    429
    """
    return 12 * params / read_rate + 12 * params / write_rate


@formula(
    symbol=r"I_\text{param}",
    unit="FLOP/B",
    source=_INFINITY,
    conditions=f"{_WORK}; weights and gradients of 2 bytes; weights fetched three times",
)
def parameter_intensity(tokens_per_rank):
    """The work of a step for each byte of weights and gradients that must move.

    Equation: 2 + 2 + 4 FLOP for each weight and token; three fetches of the weight and one return
    of its gradient.
    Arguments: `tokens_per_rank`, a count. Returns FLOP/B. Raises nothing.
    Source: Rajbhandari et al. 2021.

    >>> parameter_intensity(tokens_per_rank=4096)
    4096.0
    """
    return (2 + 2 + 4) * tokens_per_rank / ((3 + 1) * 2)


@formula(
    symbol=r"I_\text{optim}",
    unit="FLOP/B",
    source=_INFINITY,
    conditions=f"{_WORK}; a gradient of 4 bytes travels with the 12 of the state",
)
def optimizer_intensity(tokens_per_rank):
    """The work of a step for each byte of the optimizer's state that must move.

    Equation: 8 FLOP for each weight and token; 16 bytes are read and written.
    Arguments: `tokens_per_rank`, a count. Returns FLOP/B. Raises nothing.
    Source: Rajbhandari et al. 2021.

    >>> optimizer_intensity(tokens_per_rank=4096)
    1024.0
    """
    return (2 + 2 + 4) * tokens_per_rank / (2 * 16)


@formula(
    symbol=r"I_\text{act}",
    unit="FLOP/B",
    source=_INFINITY,
    conditions=f"{_WORK}; layers of 12 H^2 weights; the input of every k-th layer is kept, 2 bytes",
)
def activation_intensity(hidden, segment):
    """The work of a step for each byte of kept inputs that must move.

    Equation: 8 FLOP for each of the segment's weights, against one number that is written and read.
    Arguments: `hidden`; `segment`, layers between two kept inputs. Returns FLOP/B.
    Raises ZeroDivisionError for a width of 0. Source: Rajbhandari et al. 2021.

    >>> round(312e12 / activation_intensity(hidden=8192, segment=1) / 1e9, 1)  # GB/s, an A100
    1.6
    """
    return (2 + 2 + 4) * 12 * hidden**2 * segment / (2 * 2 * hidden)


@formula(
    symbol=r"\beta_\text{hide}",
    unit="B/s",
    source=_COUNT,
    conditions="perfect overlap; peak arithmetic rate",
)
def hiding_bandwidth(peak, intensity):
    """The bandwidth from which transfers can hide behind the arithmetic.

    Equation: the bytes that the work of one second brings along.
    Arguments: `peak` FLOP/s; `intensity` FLOP/B. Returns bytes/s, both directions together if the
    intensity counts both. Raises ZeroDivisionError for no work. Source: counting.

    >>> round(hiding_bandwidth(312e12, activation_intensity(8192, 1)) / 1e9, 1)
    1.6
    """
    return peak / intensity


@formula(
    symbol=r"T_\text{packed}",
    unit="s",
    source=_COUNT,
    conditions="all is unpacked after all has arrived; the codec's rate counts unpacked bytes",
)
def packed_transfer_time(n, beta, squeeze, codec):
    """A transfer of packed bytes that are unpacked when they have arrived.

    Equation: fewer bytes over the link, and all of them through the codec.
    Arguments: `n` bytes, unpacked; `beta` bytes/s of the link; `squeeze`, how many times fewer they
    are packed; `codec` bytes/s. Returns seconds. Raises ZeroDivisionError for a rate of 0.
    Source: counting.

    >>> [round(packed_transfer_time(10e9, 7e9, 1.5, codec), 2) for codec in (2e9, 50e9)]
    [5.95, 1.15]
    """
    return n / (squeeze * beta) + n / codec


@formula(
    symbol=r"C_\text{even}",
    unit="B/s",
    source=_COUNT,
    conditions="one after the other; where pieces are unpacked while others travel, the link's own "
    "rate is enough",
)
def codec_breakeven_rate(beta, squeeze):
    """The rate from which packing pays where the codec waits for the link.

    Equation: where the time in the codec is the time that the link saves.
    Arguments: `beta` bytes/s of the link; `squeeze`, how many times fewer bytes. Returns bytes/s.
    Raises ZeroDivisionError where packing saves nothing. Source: counting.

    >>> round(codec_breakeven_rate(7e9, 1.5) / 1e9, 9)
    21.0
    """
    return beta / (1 - 1 / squeeze)
