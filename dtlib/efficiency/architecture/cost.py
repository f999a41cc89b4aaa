"""What architectures keep, send and compute for each token, in closed form.

Caches are those of one sequence. What a rank sends in context parallelism is in chapter 17's room.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum

_LATENT = "DeepSeek-AI 2024, in either order of the products"
_COUNTED = "products with weights and scores; no softmax, no norm; every query meets every key"


@formula(
    r"Q_\text{grouped}", "B", "Shazeer 2019; Ainslie et al. 2023", "every layer sees all tokens"
)
def grouped_cache_bytes(layers, kv_heads, head_dim, seq, element_bytes):
    """The keys and values of one sequence: a key and a value for each key head, layer and token.

    As many key heads as heads is multi-head attention, one is multi-query.

    >>> grouped_cache_bytes(layers=1, kv_heads=128, head_dim=128, seq=1, element_bytes=2)
    65536
    """
    return 2 * layers * kv_heads * head_dim * seq * element_bytes


@formula(
    r"Q_\text{window}", "B", "Beltagy et al. 2020; Jiang et al. 2023", "every layer has the window"
)
def windowed_cache_bytes(layers, kv_heads, head_dim, seq, window, element_bytes):
    """The same where a token sees a window only: what no later token can see need not be kept.

    >>> windowed_cache_bytes(1, 8, 128, seq=32768, window=4096, element_bytes=2)
    16777216
    """
    return 2 * layers * kv_heads * head_dim * minimum(seq, window) * element_bytes


@formula(r"Q_\text{latent}", "B", "DeepSeek-AI 2024", "the same on every tensor-parallel rank")
def latent_cache_bytes(layers, latent, rope_dim, seq, element_bytes):
    """The latents of one sequence, and the rotary key that all heads share.

    No head appears in it.

    >>> latent_cache_bytes(layers=1, latent=512, rope_dim=64, seq=1, element_bytes=2)
    1152
    """
    return layers * (latent + rope_dim) * seq * element_bytes


@formula(r"A_\text{equal}", "", "the two caches set equal", "heads of the same width")
def latent_equal_kv_heads(latent, rope_dim, head_dim):
    """The number of key heads whose cache is as large as a latent's.

    >>> latent_equal_kv_heads(latent=512, rope_dim=64, head_dim=128)
    2.25
    """
    return (latent + rope_dim) / (2 * head_dim)


@formula(r"W_\text{explicit}", "FLOP", _LATENT, _COUNTED)
def explicit_latent_flops(queries, seq, heads, latent, nope_dim, rope_dim, value_dim):
    """Latent attention of one layer that first makes every head's keys and values.

    The expansion of each cached token, then a score and its use for each query and token.

    >>> explicit_latent_flops(1, 1, heads=1, latent=5, nope_dim=2, rope_dim=3, value_dim=4)
    78
    """
    return (
        2
        * heads
        * seq
        * (latent * (nope_dim + value_dim) + queries * (nope_dim + rope_dim + value_dim))
    )


@formula(r"W_\text{absorbed}", "FLOP", _LATENT, _COUNTED)
def absorbed_latent_flops(queries, seq, heads, latent, nope_dim, rope_dim, value_dim):
    """The same with the expansion moved to the queries and to the result.

    Each query is expanded instead of each cached token; a score is as long as a latent.

    >>> absorbed_latent_flops(1, 1, heads=1, latent=5, nope_dim=2, rope_dim=3, value_dim=4)
    86
    """
    return 2 * heads * queries * (latent * (nope_dim + value_dim) + seq * (2 * latent + rope_dim))


@formula(r"N_\text{absorb}", "", "the two counts set equal", "2 d_c is more than d_n + d_v")
def absorbing_queries(seq, latent, nope_dim, value_dim):
    """How many new tokens may ask one cache before the explicit order does less arithmetic.

    >>> round(absorbing_queries(seq=1e9, latent=512, nope_dim=128, value_dim=128), 1)
    170.7
    """
    return (
        seq
        * latent
        * (nope_dim + value_dim)
        / (latent * (nope_dim + value_dim) + seq * (2 * latent - nope_dim - value_dim))
    )


@formula(r"I_\text{grouped}", "FLOP/B", "counting", "one new token; the cache is read once")
def grouped_attention_intensity(heads, kv_heads, element_bytes):
    """The arithmetic of attention for each byte of the cache.

    Every head that shares a key multiplies with it, and with its value.

    >>> grouped_attention_intensity(heads=64, kv_heads=8, element_bytes=2)
    8.0
    """
    return 2 * heads / (kv_heads * element_bytes)


@formula(
    r"I_\text{latent}", "FLOP/B", "counting", "one new token, absorbed; the cache is read once"
)
def latent_attention_intensity(heads, latent, rope_dim, element_bytes):
    """The arithmetic of absorbed latent attention for each byte of the cache.

    All heads share the latent, as key and as value.

    >>> round(latent_attention_intensity(heads=128, latent=512, rope_dim=64, element_bytes=2), 1)
    241.8
    """
    return 2 * heads * (2 * latent + rope_dim) / ((latent + rope_dim) * element_bytes)


@formula(
    r"T_\text{decode}",
    "s",
    "Williams, Waterman and Patterson 2009",
    "one new token for each sequence; peak rates; bytes and arithmetic at the same time",
)
def decoding_step_time(weight_bytes, micro_batch, cache_bytes, bandwidth, token_flops, peak):
    """The least time of a step of decoding.

    The weights are read once for all sequences, each cache for its own sequence alone.

    >>> [decoding_step_time(8, b, 2, bandwidth=2, token_flops=3, peak=1) for b in (1, 4)]
    [5.0, 12.0]
    """
    return maximum(
        (weight_bytes + micro_batch * cache_bytes) / bandwidth, micro_batch * token_flops / peak
    )


@formula(r"b_\text{turn}", "", "the two terms set equal", "the step is bound by memory")
def turning_batch(weight_bytes, cache_bytes):
    """The number of sequences whose caches are as many bytes as the weights.

    Beyond it a step reads more of what it keeps than of what it knows.

    >>> turning_batch(weight_bytes=15e9, cache_bytes=1e9)
    15.0
    """
    return weight_bytes / cache_bytes


@formula(r"s_\text{reach}", "", "Jiang et al. 2023 name it", "an upper bound, and all layers alike")
def window_reach_tokens(layers, window):
    """How many tokens can have any influence on a token, itself among them.

    Each layer carries something over window - 1 places at most.

    >>> window_reach_tokens(layers=32, window=4096)
    131041
    """
    return layers * (window - 1) + 1


@formula(r"Q_\text{halo}", "B", "counting", "forward; the window is no longer than a rank's share")
def halo_bytes(micro_batch, kv_heads, head_dim, window, element_bytes):
    """What a rank sends in one layer of windowed attention over a shared-out sequence.

    The keys and values of its last tokens, to one neighbour: no sequence, no number of ranks.

    >>> halo_bytes(micro_batch=1, kv_heads=8, head_dim=128, window=4097, element_bytes=2)
    16777216
    """
    return 2 * micro_batch * kv_heads * head_dim * (window - 1) * element_bytes


@formula(
    r"Q_\text{limited}",
    "B",
    "DeepSeek-AI 2024",
    "one layer, forward; an upper bound, as if all of its nodes were others",
)
def node_limited_bytes(tokens_per_rank, most_nodes, hidden, element_bytes):
    """What a rank sends out and gets back when a token travels once to each of a few nodes.

    >>> node_limited_bytes(tokens_per_rank=4096, most_nodes=4, hidden=7168, element_bytes=2)
    469762048
    """
    return 2 * tokens_per_rank * most_nodes * hidden * element_bytes


@formula(r"Q_\text{state}", "B", "Katharopoulos et al. 2020", "without a normaliser")
def linear_state_bytes(layers, heads, head_dim, element_bytes):
    """The state of attention without softmax: a square matrix for each head, however long the text.

    >>> linear_state_bytes(layers=1, heads=32, head_dim=128, element_bytes=4)
    2097152
    """
    return layers * heads * head_dim**2 * element_bytes


@formula(r"s_\text{equal}", "", "state and cache set equal", "numbers of as many bytes in both")
def state_equal_tokens(heads, kv_heads, head_dim):
    """The length of text from which a cache is larger than a state.

    >>> state_equal_tokens(heads=32, kv_heads=8, head_dim=128)
    256.0
    """
    return heads * head_dim / (2 * kv_heads)
