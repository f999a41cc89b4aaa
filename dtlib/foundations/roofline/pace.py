"""How long one GPU works on a micro-batch: products, attention, and streams.

The nouns:

- **Products**: the multiplications with weights; `gemm_time` knows their time from their shapes.
  A step of thousands of long ones keeps only a share of the speed that each reaches alone.
- **Attention**: the scores and what is summed with them, fused, at a share of the peak.
- **Streams**: everything else (norms, activation functions, residuals, masks) moves bytes through
  memory and does hardly any arithmetic: each byte that is kept for the backward pass is touched a
  few times.
"""

from collections import defaultdict

import numpy as np

from dtlib.formulas.formula import formula
from dtlib.foundations.roofline.gemm import gemm_time
from dtlib.machines.machine import GPU


@formula(
    r"T_\text{work}",
    "s",
    "Williams, Waterman and Patterson 2009",
    "work that is bound by arithmetic, divided evenly",
)
def arithmetic_time(flops, P, peak, peak_fraction):
    """The time of arithmetic that runs at a share of the peak.

    The work over the rate of all ranks.

    >>> arithmetic_time(flops=1e18, P=100, peak=1e15, peak_fraction=0.5)
    20.0
    """
    return flops / (P * peak * peak_fraction)


@formula(
    r"T_\text{long}",
    "s",
    "counting",
    "the power of long products lowers the clock for the whole step, by the same share",
)
def sustained_time(alone_time, sustained):
    """The time of products in a step, where the clock is lower than for one product by itself.

    >>> sustained_time(alone_time=3.0, sustained=0.75)
    4.0
    """
    return alone_time / sustained


@formula(
    r"T_\text{stage}", "s", "counting", "every rank of a pipeline has an equal part of the layers"
)
def stage_time(micro_time, m, p):
    """The time that one rank spends in a step on its part of every micro-batch.

    Its part of the layers, for each micro-batch.

    >>> stage_time(micro_time=0.8, m=16, p=4)
    3.2
    """
    return micro_time * m / p


@formula(
    r"T_\text{stream}",
    "s",
    "Ivanov et al. 2021, for what is bound by memory",
    "these operations are bound by memory, and are fused as far as the constant says",
)
def streaming_time(touches, kept_bytes, m, p, bandwidth, bandwidth_fraction):
    """The time of all that is neither a product nor attention: bytes through memory.

    Every byte that is kept for the backward pass is written or read so many times.

    >>> streaming_time(8, kept_bytes=10e9, m=4, p=2, bandwidth=2e12, bandwidth_fraction=0.8)
    0.1
    """
    return touches * kept_bytes * m / p / (bandwidth * bandwidth_fraction)


def product_times(spec, keys, gpu: GPU, dtype: str = "bf16") -> np.ndarray:
    """Seconds of all products with weights for each (tp, ep, tokens) of `keys`, on one rank.

    Equation: for every matrix one product forward and two backward, for its inputs and for the
    weights; matrices of one part with the same input are one product, as libraries fuse them.
    Arguments: `spec`, a TransformerSpec; `keys`, rows of `tp` ranks that share every matrix, `ep`
    that share the experts, and the `tokens` of a micro-batch; `gpu`; `dtype`.
    Returns six rows: of layers forward and backward, of the head, and of experts.
    Raises ValueError as `gemm_time` does. Source: `gemm_time`.

    >>> from dtlib.foundations import catalog, published_models
    >>> llama = published_models["llama-3.1-8b"]
    >>> forward, backward, *_ = product_times(llama, [(1, 1, 8192)], catalog["h100-sxm"])
    >>> bool(1.9 < backward / forward < 2.2)
    True
    """
    shapes, owners, weights = [], [], []
    for place, (tp, ep, tokens) in enumerate(keys):
        for rows, inner, columns, count, kind in weight_products(spec, tp, ep, tokens):
            for shape, backward in (
                ((rows, columns, inner), 0),
                ((rows, inner, columns), 1),
                ((inner, columns, rows), 1),
            ):
                shapes.append(shape)
                owners.append((2 * kind + backward, place))
                weights.append(count)
    unique, places = np.unique(np.array(shapes), axis=0, return_inverse=True)
    seconds = gemm_time(*unique.T.astype(float), gpu, dtype)[places.ravel()]
    found = np.zeros((6, len(keys)))
    np.add.at(found, tuple(np.array(owners).T), seconds * np.array(weights))
    return found


def weight_products(spec, tp: int, ep: int, tokens: int):
    """The products of one micro-batch on one rank: rows, inner, columns, how many, and their kind.

    Kinds are 0 for layers, 1 for the head, 2 for experts. The first matrix of a block is cut by
    columns and the last one by rows; matrices of one part with the same input are one product.
    Experts are loaded evenly: a rank of `ep` has its share of them, and each gets the copies that
    are due to it from all.
    """
    fused = defaultdict(int)
    for weight in spec.weights():
        if not weight.multiplied:
            continue
        rows, count, kind = tokens, weight.multiplied, 1 if weight.part == "head" else 0
        if weight.name.startswith("expert "):
            moe = spec.moe
            rows = -(-tokens * ep * moe.active // moe.experts)
            count, kind = spec.expert_layers * -(-moe.experts // ep), 2
        inner, columns = weight.shape
        if weight.name.endswith(("output", "down")):
            yield rows, -(-inner // tp), columns, count, kind
        else:
            fused[weight.part, rows, inner, count, kind] += -(-columns // tp)
    for (_, rows, inner, count, kind), columns in fused.items():
        yield rows, inner, columns, count, kind
