"""A step of decoding: what it reads and computes, of a spec, for the roofline to turn into time."""

from typing import NamedTuple

from dtlib.efficiency.architecture.cache import kv_bytes
from dtlib.formulas.require import require, require_positive
from dtlib.models.spec import TransformerSpec


class DecodingCosts(NamedTuple):
    """Of one step: bytes of weights, read once; bytes of cache and FLOP, for each sequence."""

    weight_bytes: int
    cache_bytes: int
    token_flops: int


def decoding_costs(
    spec: TransformerSpec, seq: int, *, window: int | None = None, element_bytes: float = 2
) -> DecodingCosts:
    """What one step of decoding costs, with `seq` tokens in each sequence's cache.

    Equation: all weights but the tables in which tokens are looked up; `kv_bytes`; two FLOP for
    each weight that a token is multiplied with, and the scores. Latent attention is absorbed, whose
    expansion of a query is as much work as that of a token.
    Returns `DecodingCosts`. Raises ValueError for a mixture of experts, of which a step reads the
    more the more sequences it has, and as `kv_bytes`.
    Source: Pope et al. 2022.

    >>> from dtlib.foundations import published_models
    >>> costs = decoding_costs(published_models["llama-3.1-8b"], seq=8192)
    >>> round(costs.weight_bytes / 1e9, 2), round(costs.cache_bytes / 1e9, 2)
    (15.01, 1.07)
    """
    require(spec.moe is None, "decoding_costs", "moe", spec.moe, "None: a dense model")
    looked_up = ("embedding", "positions")
    read = sum(w.size * w.held for w in spec.weights() if w.part not in looked_up)
    read += spec.vocab * spec.hidden if spec.tied else 0
    met = seq if window is None else min(seq, window)
    per_pair = spec.key_dim + spec.value_dim
    if spec.mla:
        per_pair = 2 * spec.mla.kv_rank + spec.mla.rope_dim
    scores = 2 * spec.layers * spec.heads * met * per_pair
    cache = kv_bytes(spec, seq, window=window, element_bytes=element_bytes)
    return DecodingCosts(read * element_bytes, cache, 2 * spec.matmul_params() + scores)


def largest_batch(memory: float, costs: DecodingCosts) -> int:
    """The number of sequences whose caches fit beside the weights, in bytes of `memory`.

    >>> largest_batch(40, DecodingCosts(weight_bytes=10, cache_bytes=7, token_flops=1))
    4
    """
    require_positive("largest_batch", memory=memory)
    allowed = f"more than the weights, {costs.weight_bytes}"
    require(memory > costs.weight_bytes, "largest_batch", "memory", memory, allowed)
    return int((memory - costs.weight_bytes) // costs.cache_bytes)
