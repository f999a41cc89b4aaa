"""How long one GPU works on a micro-batch: products, attention, streams, and the gaps between.

The nouns:

- **Products**: the multiplications with weights; `gemm_time` knows their time from their shapes.
- **Attention**: the scores and what is summed with them, fused, at a share of the peak.
- **Streams**: everything else (norms, activation functions, residuals, masks) moves bytes through
  memory and does hardly any arithmetic: each byte that is kept for the backward pass is touched a
  few times.
- **Gaps**: a layer is some dozens of kernels, and small ones end before the next is there.

`PaceModel` holds the constants, each with its reason. They were fitted once, together.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

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


@formula(
    r"T_\text{gap}",
    "s",
    "counting",
    "the same for every layer and every GPU, which is a coarse assumption",
)
def gap_time(idle, passes, layers, m, p):
    """The time in which a rank waits for its own kernels to start.

    So much for every pass through every layer.

    >>> gap_time(idle=0.0005, passes=3, layers=32, m=8, p=4)
    0.096
    """
    return idle * passes * layers * m / p


@dataclass(frozen=True)
class PaceModel:
    """What an estimate assumes about every GPU's code: four constants.

    - `attention_fraction`: share of the peak that fused attention reaches, forward and backward.
    - `touches`: a kept tensor is written and read once in the forward pass, as is one that is not
      kept; the backward pass does the same again with the gradients.
    - `idle`: gaps of one layer's pass; an optimised, compiled or captured step has fewer.
    - `line_fraction`: share of a link's line rate that collectives reach after protocol overhead.
    """

    attention_fraction: float = 0.4
    touches: float = 8
    idle: float = 5e-4
    line_fraction: float = 0.8


def products_time(spec, tokens: int, gpu: GPU, *, tp: int = 1, dtype: str = "bf16"):
    """The time of all products of one micro-batch, in all layers, on one of `tp` ranks.

    Equation: for every matrix one product forward and two backward, for its inputs and for the
    weights; matrices with the same input are one product, as libraries fuse them.
    Arguments: `spec`, a TransformerSpec; `tokens` of the micro-batch; `gpu`; `tp` ranks that share
    every matrix; `dtype`. Returns (forward, backward) in seconds. Raises ValueError as
    `gemm_time` does. Source: `gemm_time`.

    >>> from dtlib.foundations import catalog, published_models
    >>> llama = published_models["llama-3.1-8b"]
    >>> forward, backward = products_time(llama, 8192, catalog["h100-sxm"])
    >>> 1.9 < backward / forward < 2.2
    True
    """
    return _products_time(spec, tokens, gpu.name, gpu, tp, dtype)


@lru_cache(maxsize=1024)
def _products_time(spec, tokens, name, gpu, tp, dtype):
    forward = backward = 0.0
    for (inner, columns), copies in _products(spec, tp).items():
        forward += copies * gemm_time(tokens, columns, inner, gpu, dtype)
        backward += copies * gemm_time(tokens, inner, columns, gpu, dtype)
        backward += copies * gemm_time(inner, columns, tokens, gpu, dtype)
    return forward, backward


def _products(spec, tp: int) -> dict[tuple[int, int], int]:
    """The matrices (inner, columns) that one rank multiplies with, and how many of each.

    The first matrix of a block is cut by columns and the last one by rows; those of one part that
    have the same input are one product.
    """
    fused = defaultdict(int)
    found: dict[tuple[int, int], int] = defaultdict(int)
    for weight in spec.weights():
        if not weight.multiplied:
            continue
        inner, columns = weight.shape
        if weight.name.endswith(("output", "down")):
            found[-(-inner // tp), columns] += weight.multiplied
        else:
            fused[weight.part, inner, weight.multiplied] += -(-columns // tp)
    for (_, inner, copies), columns in fused.items():
        found[inner, columns] += copies
    return dict(found)
