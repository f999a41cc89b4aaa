"""The alpha-beta model: a message costs a fixed time and a time per byte."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, sqrt


@formula(
    "T",
    "s",
    "Hockney 1994",
    "one message on an idle link; alpha and beta belong to one path and one protocol",
)
def message_time(n, alpha, beta):
    """Time from the start of a send until the last byte has arrived.

    A fixed latency plus the bytes divided by the bandwidth.

    >>> message_time(n=10**6, alpha=5e-6, beta=50e9)
    2.5e-05
    """
    return alpha + n / beta


@formula(
    "n_{1/2}",
    "B",
    "Hockney and Jesshope 1988",
    "one message; a collective has a half-performance size of its own",
)
def half_performance_bytes(alpha, beta):
    """The message size at which latency and transfer take the same time.

    Latency times bandwidth. Below it a message pays for latency, above it for bytes.

    >>> half_performance_bytes(alpha=2e-6, beta=50e9)
    100000.0
    """
    return alpha * beta


@formula(r"\beta_\text{eff}", "B/s", "Hockney 1994", "one message, alpha-beta model")
def effective_bandwidth(n, alpha, beta):
    """Bytes per second that one message of `n` bytes sees, latency included.

    The bytes divided by the time of the message. Below `beta`.

    >>> effective_bandwidth(n=100_000, alpha=2e-6, beta=50e9)
    25000000000.0
    """
    return n / message_time(n, alpha, beta)


@formula(r"\eta", "", "Hockney 1994", "one message, alpha-beta model")
def bandwidth_efficiency(n, alpha, beta):
    """The share of the bandwidth that one message of `n` bytes reaches.

    The effective bandwidth over `beta`, which depends only on n and the half-performance size.

    >>> bandwidth_efficiency(n=100_000, alpha=2e-6, beta=50e9)
    0.5
    """
    return n / (n + half_performance_bytes(alpha, beta))


@formula(
    r"T_\text{ping-pong}",
    "s",
    "Hockney 1994",
    "the second message starts when the first has arrived; both ways cost the same",
)
def ping_pong_time(n, alpha, beta):
    """Time until `n` bytes have gone to another rank and come back.

    Twice the time of one message; half of a measured ping-pong is a sample of it.

    >>> ping_pong_time(n=10**6, alpha=5e-6, beta=50e9)
    5e-05
    """
    return 2 * message_time(n, alpha, beta)


@formula(
    r"T_\text{chunked}",
    "s",
    "Hockney 1994",
    "the messages follow one another on one link; nothing overlaps",
)
def chunked_time(n, k, alpha, beta):
    """Time to send `n` bytes over one link as `k` messages of equal size.

    k latencies, and every byte once: cutting adds (k - 1) latencies.

    >>> chunked_time(n=10**9, k=1000, alpha=5e-6, beta=50e9)
    0.025
    """
    return k * alpha + n / beta


@formula(
    r"T_\text{chain}",
    "s",
    "Hockney 1994, applied to every hop",
    (
        "equal hops; a rank forwards a chunk when it has all of it, and receives the next "
        "one meanwhile"
    ),
)
def pipelined_chain_time(n, k, h, alpha, beta):
    """Time until `n` bytes, cut into `k` chunks, have crossed a chain of `h` hops.

    The first chunk needs h steps, and each of the other k - 1 arrives one step later.

    >>> pipelined_chain_time(n=8 * 10**6, k=1, h=8, alpha=0, beta=1e9)
    0.064
    >>> pipelined_chain_time(n=8 * 10**6, k=8, h=8, alpha=0, beta=1e9)
    0.015
    """
    return (h + k - 1) * (alpha + n / k / beta)


@formula(
    r"k_\text{best}",
    "",
    "minimum of the pipelined chain's time over k",
    "taken as a real number, at least 1: (h - 1) n is at least alpha beta",
)
def pipelined_chain_best_chunks(n, h, alpha, beta):
    """The number of chunks for which a chain of `h` hops is fastest.

    Where the derivative of `pipelined_chain_time` with respect to k is zero. Not rounded: try the
    whole numbers on either side of it.

    >>> pipelined_chain_best_chunks(n=8 * 10**6, h=9, alpha=1e-6, beta=1e9)
    252.982...
    """
    return sqrt((h - 1) * n / (alpha * beta))


@formula(
    r"T_\text{best}",
    "s",
    "the pipelined chain's time at its best number of chunks",
    "the best number of chunks is at least 1, and need not be whole",
)
def pipelined_chain_best_time(n, h, alpha, beta):
    """The least time in which `n` bytes can cross a chain of `h` hops in equal chunks.

    `pipelined_chain_time` at `pipelined_chain_best_chunks`, which is a square.

    >>> pipelined_chain_best_time(n=8 * 10**6, h=1, alpha=1e-6, beta=1e9)
    0.008
    """
    return (sqrt((h - 1) * alpha) + sqrt(n / beta)) ** 2


@formula(
    r"T_\text{LogGP}",
    "s",
    "Alexandrov et al. 1995",
    "one message; the gap between messages and the number of ranks play no part",
)
def loggp_time(n, L, o, G):
    """Time of one message of `n` bytes in the LogGP model.

    Overhead at the sender, n - 1 gaps between bytes, the way, overhead at the receiver.

    >>> loggp_time(n=1, L=4e-6, o=1e-6, G=1e-9)
    6e-06
    """
    return L + 2 * o + (n - 1) * G


@formula(r"T_\text{burst}", "s", "Alexandrov et al. 1995", "the sender never waits for an arrival")
def loggp_burst_time(n, k, L, o, gap, G):
    """Time until the last of `k` messages has arrived that one rank sends back to back.

    A message leaves when the processor is free again, and the gap and the bytes of the one before
    are over; only the last one's way is waited for.

    >>> loggp_burst_time(n=1, k=1000, L=4e-6, o=1e-6, gap=2e-6, G=1e-9)
    0.00200...
    """
    return (k - 1) * maximum(o, gap + (n - 1) * G) + loggp_time(n, L, o, G)


@formula(
    r"\alpha_\text{LogGP}",
    "s",
    "Alexandrov et al. 1995, read as alpha and beta",
    "one message; G is usually far smaller than L and o",
)
def loggp_alpha(L, o, G):
    """The alpha for which the alpha-beta model gives the time of LogGP, with beta = 1/G.

    What a message of no bytes would cost.

    >>> loggp_alpha(L=4e-6, o=1e-6, G=0)
    6e-06
    """
    return L + 2 * o - G


@formula(
    r"\beta_\text{LogGP}",
    "B/s",
    "Alexandrov et al. 1995, read as alpha and beta",
    "one long message",
)
def loggp_beta(G):
    """The beta for which the alpha-beta model gives the time of LogGP.

    The inverse of the gap per byte.

    >>> loggp_beta(G=2e-11)
    50000000000.0
    """
    return 1 / G
