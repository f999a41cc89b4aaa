"""The part of the account that the input makes: what the layers keep for the backward pass.

`dtlib.models.activations` lists the tensors that a layer keeps, operation by operation. Here
the list is sorted by what divides it (`TokenBytes`), which is all that a formula needs to know, and
a recompute policy strikes rows from it. A policy is "none", "selective" (the attention core),
"full" (all but the layer's input), or the names of the rows that are computed again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, minimum
from dtlib.formulas.require import require, require_count, require_divisor, require_type
from dtlib.layout import Layout
from dtlib.memory.account.state import layer_kinds
from dtlib.models.activations import Kept, kept_tensors
from dtlib.models.spec import TransformerSpec

_KORTHIKANTI = "Korthikanti et al. 2023"
_INPUT = "input of the norm"
Policy = str | Iterable[str]


@dataclass(frozen=True)
class TokenBytes:
    """What one layer keeps for one token, in bytes, by what divides it.

    `stream`: between the matrices, whole on every rank without sequence parallelism; `split`:
    heads and inner numbers; `keys`: keys and values; `pair`: for each pair of tokens (the scores).
    """

    stream: int
    split: int
    keys: int
    pair: int


def token_bytes(
    spec,
    *,
    experts: bool = False,
    flash: bool = True,
    recompute: Policy = "none",
    fused: Iterable[str] = (),
    travels: bool = False,
):
    """The rows that one layer keeps, summed by what divides them.

    Arguments: `spec`, a TransformerSpec; `experts`, whether the layer has a mixture of experts;
    `flash` for attention that stores no scores; `recompute`, a policy; `fused`, names of rows that
    fused kernels do without; `travels`, whether attention's result is sent on.
    Returns `TokenBytes`. Raises ValueError for a policy that is unknown, or names rows that the
    layer has not, or the input that everything else is computed from.
    Source: Korthikanti et al. 2023, section 4.

    >>> from dtlib.foundations import TransformerSpec
    >>> gpt = TransformerSpec("tiny", layers=1, hidden=64, heads=4, vocab=100)
    >>> token_bytes(gpt, flash=False)
    TokenBytes(stream=640, split=1280, keys=256, pair=20)
    >>> token_bytes(gpt, recompute="full")
    TokenBytes(stream=128, split=0, keys=0, pair=0)
    """
    rows = _kept_rows(spec, experts, flash, recompute, travels)
    return _by_division(pair for pair in rows if pair[0].name not in fused)


def repeated_token_bytes(spec, *, recompute: Policy = "none", **options):
    """The rows that a policy strikes: what a layer makes again, just before its backward pass.

    Arguments and errors as for `token_bytes`; together the two are the whole layer.
    """
    whole = token_bytes(spec, **options)
    kept = token_bytes(spec, recompute=recompute, **options)
    return TokenBytes(*(getattr(whole, n) - getattr(kept, n) for n in TokenBytes.__annotations__))


def activation_bytes(
    spec,
    seq: int,
    micro_batch: int = 1,
    *,
    tp: int = 1,
    cp: int = 1,
    sequence_parallel: bool = False,
    recompute: Policy = "none",
    segment: int = 1,
    flash: bool = True,
    layers: int | None = None,
    first_layer: int = 0,
) -> int:
    """Bytes that a rank keeps of one micro-batch in its layers, in 16 bits.

    Equation: the rows of every layer, each divided among the ranks that share it. With `segment`
    k > 1 and "full", only the input of every k-th layer is kept.
    Arguments: `spec`; `seq` tokens, of which each of `cp` ranks has its part; `micro_batch`
    sequences; `tp` ranks share each layer; `sequence_parallel` if they divide the stream too;
    `recompute`, a policy; `flash`; `layers` of the rank from `first_layer` on (all).
    Returns bytes. Raises ValueError, naming argument, value and rule, for what does not divide.
    Source: Korthikanti et al. 2023.

    >>> from dtlib.foundations import published_models
    >>> llama = published_models["llama-3.1-8b"]
    >>> activation_bytes(llama, seq=8192, tp=8, sequence_parallel=True, cp=2) / 2**30
    2.564453125
    >>> activation_bytes(llama, 8192) == llama.activation_bytes(8192)
    True
    """
    require_type("activation_bytes", TransformerSpec, spec=spec)
    require_count("activation_bytes", 0, first_layer=first_layer)
    left = spec.layers - first_layer
    layers = left if layers is None else layers
    require_count("activation_bytes", 0, layers=layers)
    require(layers <= left, "activation_bytes", "layers", layers, f"at most {left}, what is left")
    layout = Layout(
        tp=tp, cp=cp, micro_batch=micro_batch, sequence_parallel=sequence_parallel, flash=flash,
        recompute=recompute, segment=segment,
    )  # fmt: skip
    check_layers(spec, seq, layout)
    dense, mixed = layer_kinds(spec, first_layer, layers)
    ranks = tp if sequence_parallel else 1
    found = 0
    for experts, count in ((False, dense), (True, mixed)):
        if count:
            row = token_bytes(spec, experts=experts, flash=flash, recompute=recompute)
            one = (
                row.stream // ranks
                + (row.split + row.pair * seq) // tp
                + row.keys // min(tp, spec.kv_heads)
            )
            found += -(-count // segment) * (seq // cp) * micro_batch * one
    return found


def check_layers(spec, seq: int, layout: Layout) -> None:
    """Raise ValueError unless every rank gets a whole share of a layer."""
    owner = f"activation account of {spec.name!r}"
    require_count(owner, seq=seq)
    require_divisor(owner, "cp", layout.cp, "seq", seq)
    spec._check_division(seq // layout.cp, layout.tp, layout.sequence_parallel)


def _kept_rows(spec, experts, flash, recompute, travels) -> list[tuple[Kept, Kept]]:
    """Every kept row for sequences of one and of two tokens: what grows belongs to pairs."""
    require_type("token_bytes", TransformerSpec, spec=spec)
    require(bool(spec.moe) or not experts, "token_bytes", "experts", experts, "False: it has none")
    options = {"experts": experts, "flash": flash, "travels": travels}
    short, long = (kept_tensors(spec, seq, **options) for seq in (1, 2))
    rows = list(zip(short, long, strict=True))
    if recompute == "full":
        return rows[:1]
    if recompute in ("none", "selective"):
        return [pair for pair in rows if recompute == "none" or not pair[0].core]
    return _without(spec, rows, recompute)


def _without(spec, rows, recompute):
    owner = f"recompute policy for {spec.name!r}"
    known = list(dict.fromkeys(row.name for row, _ in rows if row.name != _INPUT))
    policies = "'none', 'selective', 'full' or names of kept tensors"
    good = isinstance(recompute, Iterable) and not isinstance(recompute, str)
    require(good, owner, "recompute", recompute, policies)
    struck = set(recompute)
    for name in sorted(struck):
        require(name in known, owner, "a name in recompute", name, f"one of {', '.join(known)}")
    return [pair for pair in rows if pair[0].name not in struck]


def _by_division(rows) -> TokenBytes:
    found = dict.fromkeys(TokenBytes.__annotations__, 0)
    kinds = {"tokens": "stream", "heads": "split", "width": "split", "kv heads": "keys"}
    for short, long in rows:
        growth = long.numbers - short.numbers
        found["pair"] += growth * short.bytes_each
        found[kinds[short.along]] += (short.numbers - growth) * short.bytes_each
    return TokenBytes(**found)


@formula(
    r"M_\text{layer}^\text{rank}",
    "B",
    _KORTHIKANTI,
    "16-bit activations; every rank has an equal share; experts evenly loaded",
)
def kept_layer_bytes(
    seq, micro_batch, cp, stream_bytes, stream_ranks, split_bytes, pair_bytes, tp, key_bytes,
    kv_heads,
):  # fmt: skip
    """What one layer keeps of one micro-batch on one rank, whatever its architecture.

    For each of the rank's tokens, the stream, the heads and inner numbers with the pairs of all
    tokens, and keys and values, each divided among the ranks that share it. The four kinds of bytes
    are as `token_bytes` counts them.

    >>> kept_layer_bytes(seq=2048, micro_batch=1, cp=1, stream_bytes=10 * 12288, stream_ranks=8,
    ...                  split_bytes=20 * 12288, pair_bytes=0, tp=8, key_bytes=4 * 12288,
    ...                  kv_heads=96) / 2**20
    102.0
    """
    return (
        seq * micro_batch / cp
        * (
            stream_bytes / stream_ranks
            + (split_bytes + pair_bytes * seq) / tp
            + key_bytes / minimum(tp, kv_heads)
        )
    )  # fmt: skip


@formula(
    r"M_\text{layer}^\text{gated}",
    "B",
    "counting the tensors of Touvron et al. 2023 as Korthikanti et al. 2023 do",
    (
        "RMS norms, SwiGLU, no dropout, FlashAttention, 16-bit activations, sequence "
        "parallelism; no more ranks than heads of keys; a fused SwiGLU keeps 2 H_ffn less"
    ),
)
def gated_layer_bytes(seq, micro_batch, hidden, heads, kv_heads, ffn, tp, cp):
    """What a layer like Llama's keeps of one micro-batch on one rank.

    12 bytes for each number of the stream, 4 more for its share of keys and values, 4 per head for
    FlashAttention, 8 for each inner number.

    >>> gated_layer_bytes(seq=2048, micro_batch=1, hidden=4096, heads=32, kv_heads=32, ffn=11008,
    ...                   tp=1, cp=1) * 32 / 1e9
    10.074718208
    """
    return (
        seq * micro_batch / (cp * tp)
        * (12 * hidden + 4 * hidden * kv_heads / heads + 4 * heads + 8 * ffn)
    )  # fmt: skip


@formula(
    r"M_\text{layer}^\text{tp}",
    "B",
    _KORTHIKANTI,
    "classical layer with dropout, 16-bit activations, scores kept; their equation 2",
)
def tensor_layer_bytes(seq, micro_batch, hidden, heads, tp):
    """What a classical layer keeps on one of several tensor-parallel ranks.

    10 of the 34 bytes are between the matrices, whole on every rank.

    >>> tensor_layer_bytes(seq=2048, micro_batch=1, hidden=12288, heads=96, tp=8) / 2**20
    552.0
    """
    return seq * micro_batch * hidden * (10 + 24 / tp + 5 * heads * seq / (hidden * tp))


@formula(
    r"M_\text{layer}^\text{sp}",
    "B",
    _KORTHIKANTI,
    "classical layer with dropout, 16-bit activations, scores kept; their equation 4",
)
def sequence_layer_bytes(seq, micro_batch, hidden, heads, tp):
    """What it keeps when sequence parallelism divides what is between the matrices as well.

    Everything, divided by the ranks.

    >>> sequence_layer_bytes(seq=2048, micro_batch=1, hidden=12288, heads=96, tp=8) / 2**20
    342.0
    """
    return seq * micro_batch * hidden / tp * (34 + 5 * heads * seq / hidden)


@formula(
    r"M_\text{act}^\text{stage}",
    "B",
    "Narayanan et al. 2021; Chen et al. 2016 for segments",
    "equal layers, equal micro-batches",
)
def stage_kept_bytes(layer_bytes, layers, segment, in_flight):
    """What a rank keeps of all micro-batches that are under way, in its layers of one kind.

    So many bytes for each micro-batch and layer, or for each segment where only the first layer of
    a segment keeps something. `layers` are the rank's.

    >>> [stage_kept_bytes(layer_bytes=1e8, layers=10, segment=k, in_flight=4) / 1e9 for k in (1, 4)]
    [4.0, 1.2]
    """
    return in_flight * ceil(layers / segment) * layer_bytes


@formula(
    r"M_\text{again}",
    "B",
    "Chen et al. 2016",
    "one segment is repeated at a time, and all of it before its backward pass",
)
def segment_work_bytes(repeated_bytes, layer_bytes, segment):
    """What a rank holds besides while it repeats a segment of its forward pass.

    What each layer of the segment had not kept, and the inputs of all its layers but the first,
    which is there.

    >>> [segment_work_bytes(repeated_bytes=9e8, layer_bytes=1e8, segment=k) / 1e9 for k in (1, 4)]
    [0.9, 3.9]
    """
    return segment * repeated_bytes + (segment - 1) * layer_bytes


@formula(
    r"s_\text{cross}",
    "",
    _KORTHIKANTI,
    "classical layer with dropout, scores kept; width of a head fixed",
)
def score_crossover_seq(hidden, heads):
    """The length of a sequence at which the scores need as much memory as all the rest of a layer.

    34 H / 5 A, which only the width of a head decides.

    >>> score_crossover_seq(hidden=4096, heads=32)
    870.4
    """
    return 34 * hidden / (5 * heads)
