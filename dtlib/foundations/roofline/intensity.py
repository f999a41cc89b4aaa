"""Intensities: the work that each way of dividing a training step does per byte that it moves.

A step's work is a volume, a product of three lengths such as tokens x width x width. What a way of
dividing it sends is one of the volume's surfaces, a product of two. Their ratio is the third
length, and it is the only thing that helps: tokens for data parallelism, width for tensor
parallelism, depth for a pipeline, the sequence for context parallelism, the expert's own width
for expert parallelism.

Work is counted as 2 FLOP per weight and token forward and 4 backward; a layer has 12 H^2 weights
(H x 3H, H x H, H x 4H, 4H x H), and the attention scores are left out where nothing else is said.
Bytes are those that one rank sends, in one direction.
"""

from dtlib.formulas.formula import formula
from dtlib.foundations.roofline.times import ridge_intensity


@formula(
    r"I_\text{matmul}",
    "FLOP/B",
    "volume over surface of a matrix product",
    "each matrix crosses the memory interface once; tiles are large enough for that",
)
def matmul_intensity(tokens_per_rank, hidden, ffn, element_bytes):
    """The arithmetic intensity of one product of (tokens, hidden) with (hidden, ffn).

    Two FLOP for each of the tokens x hidden x ffn products, over three matrices; what is left is
    the harmonic mean of the three lengths, times two thirds.

    >>> round(matmul_intensity(tokens_per_rank=1, hidden=8192, ffn=8192, element_bytes=2), 3)
    1.0
    >>> round(matmul_intensity(tokens_per_rank=8192, hidden=8192, ffn=8192, element_bytes=2))
    2731
    """
    return 2 / element_bytes / (1 / tokens_per_rank + 1 / hidden + 1 / ffn)


@formula(
    r"Q_\text{dp}",
    "B",
    "Patarasuk and Yuan 2009",
    "an all-reduce that sends no more than it must, such as a ring",
)
def data_parallel_bytes(params, P, element_bytes):
    """What one rank sends in a step of data parallelism: its part of one all-reduce.

    The gradient once, less the part that stays, to be added up; and once to be handed on.

    >>> data_parallel_bytes(params=5e9, P=256, element_bytes=2) / 1e9
    19.921875
    """
    return 2 * (P - 1) / P * element_bytes * params


@formula(
    r"I_\text{dp}",
    "FLOP/B",
    "6 FLOP per parameter and token, over the bytes of one all-reduce",
    "dense model, one all-reduce of all gradients in a step",
)
def data_parallel_intensity(tokens_per_rank, P, element_bytes):
    """Work per byte sent in a step of data parallelism. The size of the model cancels.

    6 FLOP per parameter and token over two journeys of the gradient.

    >>> data_parallel_intensity(tokens_per_rank=15625, P=64, element_bytes=2)
    23809.5...
    """
    return 3 * tokens_per_rank / element_bytes * P / (P - 1)


@formula(
    r"I_\text{sharded}",
    "FLOP/B",
    "Rajbhandari et al. 2020, their volume of stage 3",
    ("dense model; weights are gathered forward and backward, gradients scattered, once in a step"),
)
def sharded_data_parallel_intensity(tokens_per_rank, P, element_bytes):
    """Work per byte sent when weights and gradients are sharded over the replicas.

    As data parallelism, with three journeys of the model instead of two.

    >>> sharded_data_parallel_intensity(tokens_per_rank=3000, P=4, element_bytes=2)
    4000.0
    """
    return 2 * tokens_per_rank / element_bytes * P / (P - 1)


@formula(
    r"\tau_\text{dp}",
    "",
    "intensity of data parallelism at the ridge",
    "the whole step is there to hide behind; peak rates on both sides; no latency",
)
def data_parallel_tokens(P, element_bytes, peak, beta):
    """The tokens per rank at which computing and all-reducing take the same time.

    Where the intensity of data parallelism is the ridge of the network. `beta` is what the
    all-reduce gets.

    >>> round(data_parallel_tokens(P=10**9, element_bytes=2, peak=989e12, beta=400e9))
    1648
    """
    return element_bytes / 3 * (P - 1) / P * ridge_intensity(peak, beta)


@formula(
    r"\tau_\text{backward}",
    "",
    "the same, with the 4 FLOP per parameter and token of the backward pass",
    ("only the backward pass is there to hide behind; peak rates on both sides; no latency"),
)
def backward_hiding_tokens(P, element_bytes, peak, beta):
    """The tokens per rank at which the backward pass alone takes as long as the all-reduce.

    The backward pass is two thirds of the step, so it takes half as many tokens again.

    >>> round(backward_hiding_tokens(P=10**9, element_bytes=2, peak=989e12, beta=400e9), 1)
    2472.5
    """
    return 3 / 2 * data_parallel_tokens(P, element_bytes, peak, beta)


@formula(
    r"I_\text{tensor}",
    "FLOP/B",
    "Shoeybi et al. 2019, whose four all-reduces are counted",
    (
        "layers of 12 H^2 weights, two all-reduces forward and two backward in each; "
        "the same for a reduce-scatter and an all-gather instead of each all-reduce"
    ),
)
def tensor_parallel_intensity(hidden, tp, element_bytes):
    """Work per byte sent when `tp` ranks share every layer. Tokens and depth cancel.

    72 H^2 / t FLOP per token and layer, over four all-reduces of one token's activations.

    >>> tensor_parallel_intensity(hidden=8192, tp=8, element_bytes=2)
    5266.2...
    """
    return 9 * hidden / (element_bytes * (tp - 1))


@formula(
    r"I_\text{pipeline}",
    "FLOP/B",
    "one activation forward, one gradient backward, for each token",
    (
        "equal stages of l/p layers with 12 H^2 weights each; an inner stage; idle time is "
        "not counted"
    ),
)
def pipeline_parallel_intensity(layers, hidden, p, element_bytes):
    """Work per byte sent by a stage of a pipeline. The tokens cancel.

    72 H^2 FLOP per token and layer, over H numbers to the next stage and H back.

    >>> pipeline_parallel_intensity(layers=80, hidden=8192, p=8, element_bytes=2)
    1474560.0
    """
    return 36 * hidden * layers / (element_bytes * p)


@formula(
    r"I_\text{context}",
    "FLOP/B",
    "Liu, Zaharia and Abbeel 2023, their condition for a ring of blocks",
    "attention alone, no mask, as many key heads as query heads; blocks go round",
)
def context_parallel_intensity(seq, cp, element_bytes):
    """Work per byte sent when the tokens of each sequence are shared by `cp` ranks.

    Each block of keys and values meets the rank's own queries; forward 4 FLOP for each pair and
    channel, backward twice that with twice the bytes. Width and batch cancel.

    >>> context_parallel_intensity(seq=131072, cp=8, element_bytes=2)
    18724.5...
    """
    return 2 * seq / (element_bytes * (cp - 1))


@formula(
    r"I_\text{expert}",
    "FLOP/B",
    "every token goes to its experts and back, forward and backward",
    (
        "gated experts of three matrices, tokens spread evenly over all ranks, one copy of "
        "a token for each of its experts"
    ),
)
def expert_parallel_intensity(ffn, ep, element_bytes):
    """Work per byte sent when experts are spread over `ep` ranks. Width and tokens cancel.

    18 H H_ffn FLOP per token and expert, over four journeys of H numbers, of which one in `ep`
    stays at home. How many experts a token has cancels, too.

    >>> expert_parallel_intensity(ffn=14336, ep=8, element_bytes=2)
    36864.0
    """
    return 9 * ffn / (2 * element_bytes) * ep / (ep - 1)
