"""What a model keeps of the tokens that it has read, by its spec."""

from dtlib.efficiency.architecture.cost import grouped_cache_bytes, latent_cache_bytes
from dtlib.formulas.require import require, require_count, require_divisor
from dtlib.models.spec import TransformerSpec


def kv_bytes(
    spec: TransformerSpec,
    seq: int = 1,
    *,
    window: int | None = None,
    full_layers: int = 0,
    element_bytes: float = 2,
    tp: int = 1,
) -> int:
    """Bytes of one sequence's cache on one of `tp` ranks: keys and values, or latents.

    Equation: 2 A_kv d_h numbers for each token and layer; with `mla` d_c + d_r. Tensor parallelism
    divides key heads, down to one on each rank; a latent belongs to all heads, so each rank has it.
    Arguments: `spec`; `seq` tokens; `window`, tokens that a token sees in all layers but
    `full_layers`; `element_bytes` of one number; `tp` ranks. Returns bytes, exact.
    Raises ValueError for counts that are not whole or do not fit the spec.
    Source: Shazeer 2019; Ainslie et al. 2023; DeepSeek-AI 2024; Jiang et al. 2023.

    >>> from dtlib.foundations import published_models
    >>> llama, deepseek = published_models["llama-3.1-70b"], published_models["deepseek-v3"]
    >>> kv_bytes(llama), kv_bytes(deepseek)
    (327680, 70272)
    >>> kv_bytes(llama, tp=8), kv_bytes(deepseek, tp=8)
    (40960, 70272)
    """
    _check(spec, seq, window, full_layers, element_bytes, tp)
    near, windowed = (seq, 0) if window is None else (min(seq, window), spec.layers - full_layers)
    whole = _layer_bytes(spec, seq, element_bytes, tp)
    part = _layer_bytes(spec, near, element_bytes, tp)
    return (spec.layers - windowed) * whole + windowed * part


def _layer_bytes(spec, seq, element_bytes, tp):
    if spec.mla:
        return latent_cache_bytes(1, spec.mla.kv_rank, spec.mla.rope_dim, seq, element_bytes)
    heads = max(1, spec.kv_heads // tp)
    return grouped_cache_bytes(1, heads, spec.head_dim, seq, element_bytes)


def _check(spec, seq, window, full_layers, element_bytes, tp):
    owner = "kv_bytes"
    require_count(owner, seq=seq, tp=tp)
    require_count(owner, 0, full_layers=full_layers)
    require(element_bytes > 0, owner, "element_bytes", element_bytes, "positive")
    if window is not None:
        require_count(owner, window=window)
    require(window or not full_layers, owner, "full_layers", full_layers, "0 without a window")
    allowed = f"at most layers, {spec.layers}"
    require(full_layers <= spec.layers, owner, "full_layers", full_layers, allowed)
    require_divisor(owner, "tp", tp, "heads", spec.heads)
    if not spec.mla:
        fits = max(tp, spec.kv_heads) % min(tp, spec.kv_heads) == 0
        allowed = f"a divisor or a multiple of kv_heads, which is {spec.kv_heads}"
        require(fits, owner, "tp", tp, allowed)
