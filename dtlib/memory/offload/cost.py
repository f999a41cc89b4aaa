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
    r"T_\text{layer}",
    "s",
    "the cycles of the pipeline: `simulate_offload`",
    "equal layers; in the long run; one lane; a buffer more than the look-ahead",
)
def streamed_layer_time(computing, transfer, alpha, lookahead):
    """How long a layer takes that is fetched while the layers before are computed.

    The arithmetic, the lane, or one turn of a buffer, which serves every (k+1)-th layer: whichever
    is longest. Without latency that is max(arithmetic, lane) for every look-ahead from 1 on, and
    their sum for none.

    >>> [streamed_layer_time(50e-3, 80e-3, 0, lookahead) for lookahead in (0, 1, 2, 3)]
    [0.13, 0.08, 0.08, 0.08]
    """
    return maximum(maximum(computing, transfer), (alpha + transfer + computing) / (lookahead + 1))


@formula(
    r"k_\text{hide}",
    "",
    "the cycles of the pipeline: `simulate_offload`",
    "equal layers; one lane; a buffer more than the look-ahead; exact arithmetic",
)
def hiding_lookahead(computing, transfer, alpha):
    """The least look-ahead that hides all that can be hidden: the latency, and not the lane.

    As many turns as the longer of arithmetic and lane fits into one turn of a buffer, less the one
    that is computed on. Without latency it is 1, however slow the lane.

    >>> [hiding_lookahead(8, 5, alpha) for alpha in (0, 3, 4, 20)]
    [1, 1, 2, 4]
    """
    return ceil((alpha + transfer + computing) / maximum(computing, transfer)) - 1


@formula(
    r"T_\text{offload}",
    "s",
    _COUNT,
    "transfers run beside the arithmetic; start and end of the pipeline neglected",
)
def offloaded_step_time(computing, comm, sync):
    """A step whose transfers run beside its arithmetic.

    The longer of the two, and what waits for both.

    >>> round(0.1 / offloaded_step_time(0.1, 0.08, 0.005), 3)
    0.952
    """
    return maximum(computing, comm) + sync


@formula(
    r"T_\text{Adam}",
    "s",
    f"{_COUNT}; Ren et al. 2021 for Adam on the processor",
    (
        "limited by the memory, not by the arithmetic; the vector instructions of a tuned "
        "kernel; gradients and weights of 2 bytes, copy of the weights and two moments of 4"
    ),
)
def cpu_adam_time(params, bandwidth):
    """How long the processor needs for one update of all parameters.

    It reads and writes 12 bytes of state for each, reads 2 of the gradient and writes 2 of the
    weight.

    >>> round(cpu_adam_time(params=10e9, bandwidth=200e9), 9)
    1.4
    """
    return (12 + 12 + 2 + 2) * params / bandwidth


@formula(
    r"T_\text{grad}",
    "s",
    "Ren et al. 2021",
    "one direction; each gradient travels once; the link to itself",
)
def gradient_offload_time(params, element_bytes, beta):
    """How long the gradients take to the host, or the new weights back.

    Every number once over the link.

    >>> gradient_offload_time(10e9, 4, 32e9), gradient_offload_time(10e9, 2, 32e9)
    (1.25, 0.625)
    """
    return element_bytes * params / beta


@formula(
    r"T_\text{weights}",
    "s",
    _COUNT,
    "every layer leaves the device after each pass; no recomputation",
)
def parameter_offload_time(params, element_bytes, beta):
    """How long the link carries weights to the device in one step.

    Every weight comes twice, for the forward and for the backward pass.

    >>> parameter_offload_time(params=70e9, element_bytes=2, beta=32e9)
    8.75
    """
    return 2 * element_bytes * params / beta


@formula(
    r"n_\text{disk}",
    "B",
    _COUNT,
    (
        "the optimizer's state lies on the disk, 12 bytes for each parameter; weights and "
        "gradients elsewhere"
    ),
)
def disk_step_bytes(params):
    """What the disk reads and writes in one step where it holds the optimizer's state.

    12 bytes for each parameter, once in each direction.

    >>> disk_step_bytes(params=500e9) / 1e12
    12.0
    """
    return (12 + 12) * params


@formula(
    r"T_\text{disk}",
    "s",
    _COUNT,
    ("reads and writes share the disk and do not overlap; the same bytes as the formula above"),
)
def disk_step_time(params, read_rate, write_rate):
    """How long the disk reads and writes in one step where it holds the optimizer's state.

    12 bytes for each parameter at the rate of each direction.

    >>> round(disk_step_time(params=500e9, read_rate=28e9, write_rate=28e9))
    429
    """
    return 12 * params / read_rate + 12 * params / write_rate


@formula(
    r"I_\text{param}",
    "FLOP/B",
    _INFINITY,
    f"{_WORK}; weights and gradients of 2 bytes; weights fetched three times",
)
def parameter_intensity(tokens_per_rank):
    """The work of a step for each byte of weights and gradients that must move.

    2 + 2 + 4 FLOP for each weight and token; three fetches of the weight and one return of its
    gradient.

    >>> parameter_intensity(tokens_per_rank=4096)
    4096.0
    """
    return (2 + 2 + 4) * tokens_per_rank / ((3 + 1) * 2)


@formula(
    r"I_\text{optim}",
    "FLOP/B",
    _INFINITY,
    f"{_WORK}; a gradient of 4 bytes travels with the 12 of the state",
)
def optimizer_intensity(tokens_per_rank):
    """The work of a step for each byte of the optimizer's state that must move.

    8 FLOP for each weight and token; 16 bytes are read and written.

    >>> optimizer_intensity(tokens_per_rank=4096)
    1024.0
    """
    return (2 + 2 + 4) * tokens_per_rank / (2 * 16)


@formula(
    r"I_\text{act}",
    "FLOP/B",
    _INFINITY,
    f"{_WORK}; layers of 12 H^2 weights; the input of every k-th layer is kept, 2 bytes",
)
def activation_intensity(hidden, segment):
    """The work of a step for each byte of kept inputs that must move.

    8 FLOP for each of the segment's weights, against one number that is written and read.

    >>> round(312e12 / activation_intensity(hidden=8192, segment=1) / 1e9, 1)  # GB/s, an A100
    1.6
    """
    return (2 + 2 + 4) * 12 * hidden**2 * segment / (2 * 2 * hidden)


@formula(r"\beta_\text{hide}", "B/s", _COUNT, "perfect overlap; peak arithmetic rate")
def hiding_bandwidth(peak, intensity):
    """The bandwidth from which transfers can hide behind the arithmetic.

    The bytes that the work of one second brings along. Both directions together if the intensity
    counts both.

    >>> round(hiding_bandwidth(312e12, activation_intensity(8192, 1)) / 1e9, 1)
    1.6
    """
    return peak / intensity


@formula(
    r"T_\text{packed}",
    "s",
    _COUNT,
    "all is unpacked after all has arrived; the codec's rate counts unpacked bytes",
)
def packed_transfer_time(n, beta, squeeze, codec):
    """A transfer of packed bytes that are unpacked when they have arrived.

    Fewer bytes over the link, and all of them through the codec. `n` counts the unpacked bytes.

    >>> [round(packed_transfer_time(10e9, 7e9, 1.5, codec), 2) for codec in (2e9, 50e9)]
    [5.95, 1.15]
    """
    return n / (squeeze * beta) + n / codec


@formula(
    r"C_\text{even}",
    "B/s",
    _COUNT,
    (
        "one after the other; where pieces are unpacked while others travel, the link's own "
        "rate is enough"
    ),
)
def codec_breakeven_rate(beta, squeeze):
    """The rate from which packing pays where the codec waits for the link.

    Where the time in the codec is the time that the link saves.

    >>> round(codec_breakeven_rate(7e9, 1.5) / 1e9, 9)
    21.0
    """
    return beta / (1 - 1 / squeeze)
