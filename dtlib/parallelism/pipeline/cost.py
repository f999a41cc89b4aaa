"""What a pipeline waits, holds and sends: closed forms, each with the conditions under which it is.

A rank's work for one micro-batch is t_F + t_B + t_W: its stages' forward passes, gradients of the
inputs and gradients of the weights. A test holds every form to the simulator, by exact fractions.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum
from dtlib.machines.alpha_beta import message_time

_MEGATRON = "Narayanan et al. 2021"
_ZERO = "Qi et al. 2023"
_EQUAL = "equal stages, communication takes no time"
_INTERLEAVED = f"{_EQUAL}; GPipe and 1F1B for v = 1; more stages on a rank need m = k p"


@formula(r"\phi_\text{idle}", "", _MEGATRON, _INTERLEAVED)
def pipeline_bubble_fraction(p, m, v):
    """The share of all ranks' time in which they wait.

    p - 1 turns of filling and draining, beside v m of work. A share of the whole step, not of the
    work.

    >>> [round(pipeline_bubble_fraction(p=8, m=48, v=v), 4) for v in (1, 2)]
    [0.1273, 0.068]
    """
    return (p - 1) / (v * m + p - 1)


@formula(r"T_\text{pipe}", "s", _MEGATRON, _INTERLEAVED)
def pipeline_step_time(p, m, v, f, b, w):
    """How long a step takes, from the first forward pass to the last gradient.

    m turns of work, and p - 1 turns of filling and draining that are 1/v as long.

    >>> pipeline_step_time(p=4, m=8, v=1, f=1, b=1, w=1)
    33.0
    """
    return (m + (p - 1) / v) * (f + b + w)


@formula(r"N_\text{1F1B}", "", "Fan et al. 2021", "one stage on each rank")
def one_f_one_b_peak_count(p, m, rank):
    """How many micro-batches a rank holds at most under 1F1B.

    Those that fill the ranks below it, and its own. GPipe's is m.

    >>> [one_f_one_b_peak_count(p=4, m=16, rank=r) for r in range(4)]
    [4, 3, 2, 1]
    """
    return minimum(m, p - rank)


@formula(
    r"N_\text{interleaved}", "", _MEGATRON, "v stages on each rank, v >= 2, m = k p, at least 2 p"
)
def interleaved_peak_count(p, v, rank):
    """How many micro-batches a rank holds at most when its stages interleave.

    (v - 1) p + 2 (p - 1 - r) stages ahead, and one, each 1/v of a rank's share. In micro-batches of
    a rank's whole share.

    >>> interleaved_peak_count(p=4, v=2, rank=0)
    5.5
    """
    return p + (p - 1 - 2 * rank) / v


@formula(
    r"N_\text{interleaved}^m", "", _MEGATRON, "v stages on each rank, v >= 2, m a multiple of p"
)
def interleaved_held_count(p, m, v, rank):
    """How many micro-batches a rank holds at most when stages interleave, however few there are.

    As many as with many of them, but no more than there are.

    >>> [interleaved_held_count(p=4, m=m, v=2, rank=0) for m in (4, 16)]
    [4, 5.5]
    """
    return minimum(m, interleaved_peak_count(p, v, rank))


@formula(
    r"T_\text{zero}",
    "s",
    _ZERO,
    f"{_EQUAL}; c = 1 or 2; m at least c (p - 1) + 1; t_W at most t_F and t_B",
)
def zero_bubble_wait_time(p, c, f, b, w):
    """How long a rank waits between its first and its last action, when W is put off.

    Each of p - 1 stages costs a forward and a backward pass, and saves c W. `c` is 1 for ZB-H1 and
    2 for ZB-H2. The wait is that of the rank that waits longest.

    >>> [zero_bubble_wait_time(p=8, c=c, f=1, b=1, w=1) for c in (1, 2)]
    [7, 0]
    """
    return maximum(0, (p - 1) * (f + b - c * w))


@formula(
    r"T_\text{least}",
    "s",
    "appendix B of Qi et al. 2023, carried on to the last B",
    "equal stages, one on each rank; the last rank owes at most N_off W when its last B begins",
)
def zero_bubble_least_wait_time(p, f, b, w, hop_time, put_off):
    """What some rank waits at least, between its first and its last action, under any schedule.

    Rank 0 begins p - 1 forward passes and messages before the last rank does, and its last B ends
    p - 1 messages and input gradients after the last rank's. In between the last rank does all its
    F and B and the W that it does not put off.

    >>> [zero_bubble_least_wait_time(p=8, f=1, b=1, w=1, hop_time=0, put_off=k) for k in (7, 14)]
    [7, 0]
    """
    return maximum(0, (p - 1) * (f + b + 2 * hop_time) - put_off * w)


@formula(r"N_\text{zero}", "", _ZERO, "whole c, m at least as large")
def zero_bubble_peak_count(p, c):
    """How many micro-batches every rank holds at most, when W is put off.

    c for each of p - 1 stages, and one. `c` is 1 for ZB-H1 and 2 for ZB-H2.

    >>> [zero_bubble_peak_count(p=8, c=c) for c in (1, 2)]
    [8, 15]
    """
    return c * (p - 1) + 1


@formula(
    r"T_\text{dual}",
    "s",
    "DeepSeek-AI 2024",
    (
        f"{_EQUAL}; p and m even, m at least 2 p; t_F = t_B, t_W at most as long; a shared "
        "forward and backward pass takes as long as both"
    ),
)
def dual_pipe_wait_time(p, f, b, w):
    """How long a rank of DualPipe waits between its first and its last action.

    (p/2 - 1)(F&B + B - 3 W), where F&B is the time of a forward and a whole backward pass that
    share a rank, B that of a whole backward pass. `f`, `b` and `w` are a stage's.

    >>> dual_pipe_wait_time(p=8, f=1, b=1, w=1)
    6.0
    """
    return (p / 2 - 1) * ((f + b + w) + (b + w) - 3 * w)


@formula(r"Q_\text{pipe}", "B", _MEGATRON, "neighbouring stages are on different ranks")
def pipeline_sent_bytes(n, m, p, v):
    """What all ranks of a pipeline send in one step.

    n bytes across each of p v - 1 borders, m times there and m times back. `n` is a layer's output
    for one micro-batch. A rank between two others sends 2 m v n of them.

    >>> n = 2 * 2 * 4096 * 8192  # two sequences, two bytes for a number
    >>> [pipeline_sent_bytes(n, m=32, p=8, v=v) / 1e9 for v in (1, 2)]
    [60.129542144, 128.84901888]
    """
    return 2 * m * n * (p * v - 1)


@formula(
    r"T_\text{bubble}",
    "s",
    _MEGATRON,
    "equal stages; GPipe or 1F1B, interleaved if v is more than 1",
)
def pipeline_bubble_time(computing, p, m, v):
    """The time for which a rank of a pipeline waits in one step.

    The first micro-batch reaches the last rank p - 1 turns late, and the last gradient comes back
    as late; a turn is 1/m of the rank's work, or 1/v of that where stages interleave.

    >>> pipeline_bubble_time(computing=32.0, p=8, m=32, v=1)
    7.0
    """
    return (p - 1) / (v * m) * computing


@formula(
    r"T_\text{sends}",
    "s",
    _MEGATRON,
    "a stage waits for each message; stages that follow each other",
)
def pipeline_send_time(n, m, alpha, beta):
    """The time for which a stage of a pipeline sends in one step.

    One message to the next stage and one back to the one before, per micro-batch. `n` is a layer's
    output.

    >>> round(pipeline_send_time(n=50e6, m=10, alpha=0, beta=50e9), 3)
    0.02
    """
    return 2 * m * message_time(n, alpha, beta)
