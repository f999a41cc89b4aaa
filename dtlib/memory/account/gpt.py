"""What autograd keeps of `dtlib.models.GPT`, tensor by tensor: the account at its plainest.

The reference model is written to be read, not to save memory, and torch keeps more of it than the
derivatives need. Every row says whether the account lists it (`reason` is empty) or why it is there
besides. A test holds the sum equal to what a meter of saved tensors finds, to the byte.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dtlib.formulas.require import require, require_count, require_type
from dtlib.models.spec import TransformerSpec

_INDEX = 8  # bytes of one index


class GPTTensor(NamedTuple):
    """One kind of kept tensor: its bytes in the whole model, and why the account lacks it."""

    name: str
    bytes: int
    reason: str = ""


def gpt_kept_tensors(
    spec, seq: int, micro_batch: int = 1, element_bytes: int = 2
) -> tuple[GPTTensor, ...]:
    """Every tensor that the forward pass of a `GPT` and its loss leave for the backward pass.

    Weights, tokens and targets are not counted, which are there anyway.
    Arguments: `spec` as `GPT` takes it; `seq` tokens, `micro_batch` sequences; `element_bytes`, 2
    or 4. Returns rows, equal layers added up. Raises ValueError for a spec that `GPT` cannot build,
    or another width. Source: counting; torch on a CPU.

    >>> from dtlib.foundations import TransformerSpec
    >>> spec = TransformerSpec("tiny", 2, 64, 4, 100, positions=64, dropout=False)
    >>> rows = gpt_kept_tensors(spec, seq=32)
    >>> account = sum(row.bytes for row in rows if not row.reason)
    >>> account == spec.activation_bytes(32, flash=False)
    True
    >>> sum(row.bytes for row in rows) - account
    17538
    """
    require_type("gpt_kept_tensors", TransformerSpec, spec=spec)
    owner = f"gpt_kept_tensors of {spec.name!r}"
    require_count(owner, seq=seq, micro_batch=micro_batch)
    allowed = f"at most {spec.positions}, the rows of its table of positions"
    require(not 0 < spec.positions < seq, owner, "seq", seq, allowed)
    require(element_bytes in (2, 4), owner, "element_bytes", element_bytes, "2 or 4")
    require(spec.mla is None, owner, "mla", spec.mla, "None: GPT has no latent attention")
    shape = spec, seq, micro_batch * seq, element_bytes
    found = []
    for layers, feed_forward in (
        (spec.layers - spec.expert_layers, _feed_forward),
        (spec.expert_layers, _experts),
    ):
        if layers:
            rows = (*_norm(*shape), *_attention(*shape), *_norm(*shape), *feed_forward(*shape))
            found += [row._replace(bytes=layers * row.bytes) for row in rows]
    return (*found, *_ends(*shape))


def _norm(spec, _, rows, e) -> Iterator[GPTTensor]:
    if spec.norm == "layer":
        yield GPTTensor("input of the norm", rows * spec.hidden * e)
        yield GPTTensor("mean and deviation", 2 * rows * e, "neglected, a number or two per token")
        return
    yield GPTTensor("input of the norm", rows * spec.hidden * e)
    wider = "torch's own RMS norm widens its input to 32 bits on a CPU"
    yield GPTTensor("input of the norm in 32 bits, the rest", rows * spec.hidden * (4 - e), wider)
    again = "torch keeps the normed input too, before it is scaled"
    yield GPTTensor("normed input in 32 bits", rows * spec.hidden * 4, again)
    yield GPTTensor("deviation", rows * 4, "neglected, a number or two per token")


def _attention(spec, seq, rows, e) -> Iterator[GPTTensor]:
    wide, narrow = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    yield GPTTensor("input of the projections", rows * spec.hidden * e)
    yield GPTTensor("queries", rows * wide * e)
    yield GPTTensor("keys and values", 2 * rows * narrow * e)
    copies = "keys and values are copied for each head of queries that shares them"
    yield GPTTensor("copies of keys and values", 2 * rows * (wide - narrow) * e, copies)
    yield GPTTensor("softmax of the scores", rows * seq * spec.heads * e)
    yield GPTTensor("mask", seq * seq, "a byte for each pair of tokens, for all heads")
    if not spec.positions:
        turns = 4 * seq * (spec.head_dim // 2) * e
        yield GPTTensor("cos and sin", turns, "computed anew for queries and for keys")
    yield GPTTensor("input of the output projection", rows * wide * e)


def _feed_forward(spec, _, rows, e) -> Iterator[GPTTensor]:
    yield GPTTensor("input of the feed-forward block", rows * spec.hidden * e)
    yield GPTTensor("inner numbers", _inner(spec) * rows * spec.ffn * e)


def _experts(spec, _, rows, e) -> Iterator[GPTTensor]:
    """Every token's row, once for each of its experts: copies = rows x active of them, in all."""
    moe, loop = spec.moe, "the plain loop over experts; the account's layer sorts rows instead"
    copies = rows * moe.active
    yield GPTTensor("input of the router", rows * spec.hidden * e)
    yield GPTTensor("probabilities of the experts", rows * moe.experts * e)
    yield GPTTensor("choice of the experts", copies * _INDEX)
    if moe.active > 1:
        yield GPTTensor("probabilities of the chosen, and their sum", (copies + rows) * e, loop)
    yield GPTTensor("row and place of each copy", 2 * copies * _INDEX)
    yield GPTTensor("rows that enter the experts", copies * spec.hidden * e)
    inner = (copies + rows * moe.shared) * moe.ffn
    yield GPTTensor("inner numbers", _inner(spec) * inner * e)
    yield GPTTensor("rows that the experts return", copies * spec.hidden * e)
    yield GPTTensor("weight of each copy", copies * e)
    yield GPTTensor("weighted rows", copies * spec.hidden * e, loop)


def _ends(spec, seq, rows, e) -> Iterator[GPTTensor]:
    """What is no layer: places of learned positions, the last norm, the head and the loss."""
    ends = "no layer: an end of the model"
    if spec.positions:
        yield GPTTensor("places", seq * _INDEX, ends)
    for row in _norm(spec, seq, rows, e):
        yield row._replace(name=f"last norm: {row.name}", reason=ends)
    yield GPTTensor("input of the head", rows * spec.hidden * e, ends)
    yield GPTTensor("logarithm of the softmax", rows * spec.vocab * e, ends)
    yield GPTTensor("number of targets", e, ends)


def _inner(spec) -> int:
    """Inner tensors that a block keeps: a gate makes four, an activation function two."""
    return 4 if spec.gated else 2
