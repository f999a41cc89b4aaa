"""What the backward pass needs from the forward pass: the kept tensors of one layer, as a table.

An operation keeps what its derivative needs: a matrix product both factors, a softmax its output,
a dropout its mask, an activation function its input. Walk through the layer, operation by
operation, and write each tensor down once: that is `kept_tensors`. Summing the table, with or
without the rows that are recomputed, divided among the ranks that share the layer, is all there is
to activation memory.

Numbers are 16 bits wide, as are the activations of mixed-precision training. What the norms keep
besides their input (one or two numbers per token) is neglected, as in the source.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kept:
    """One tensor: its numbers per token, bytes per number, and how ranks divide it.

    `along` is what tensor parallelism cuts: "heads", "kv heads" or "width". A tensor "tokens" has
    no such dimension: every rank holds it whole, unless sequence parallelism cuts it by tokens.
    `core` marks the attention core, which selective recomputation computes again.
    """

    name: str
    numbers: int
    bytes_each: int
    along: str
    core: bool = False


def kept_tensors(
    spec, seq: int, *, experts: bool, flash: bool, travels: bool = False
) -> tuple[Kept, ...]:
    """The tensors that one layer keeps, for one token of a sequence of `seq`.

    Arguments: `spec`, a TransformerSpec; `experts`, whether this layer's feed-forward block is a
    mixture of experts; `flash`, whether the scores are computed tile by tile and never stored;
    `travels`, whether attention's result is sent on to ranks with other tokens.
    Returns rows. Raises nothing.
    Source: Korthikanti et al. 2023, section 4.1; Dao et al. 2022 for what FlashAttention keeps.

    >>> from dtlib.foundations import TransformerSpec
    >>> gpt = TransformerSpec("tiny", layers=1, hidden=64, heads=4, vocab=100)
    >>> for row in kept_tensors(gpt, seq=16, experts=False, flash=True)[:3]:
    ...     print(row.name, row.numbers, row.along)
    input of the norm 64 tokens
    input of the projections 64 tokens
    queries 64 heads
    """
    feed_forward = _expert_rows(spec) if experts else _dense_rows(spec, spec.ffn)
    norm = Kept("input of the norm", spec.hidden, 2, "tokens")
    return (norm, *_attention_rows(spec, seq, flash, travels), norm, *feed_forward)


def layer_bytes(spec, rows, tokens, tp, sequence_parallel, recompute) -> int:
    """Bytes of one layer on one rank: the rows that are kept, each divided among its ranks."""
    ways = {
        "tokens": tp if sequence_parallel else 1,
        "heads": tp,
        "kv heads": min(tp, spec.kv_heads),
        "width": tp,
    }
    if recompute == "full":
        rows = rows[:1]
    if recompute == "selective":
        rows = [row for row in rows if not row.core]
    return sum(tokens * row.numbers * row.bytes_each // ways[row.along] for row in rows)


def _attention_rows(spec, seq, flash, travels):
    queries, values = spec.heads * spec.key_dim, spec.heads * spec.value_dim
    scores = spec.heads * seq
    dropout = spec.dropout
    yield Kept("input of the projections", spec.hidden, 2, "tokens")
    if spec.mla:
        latents = spec.mla.q_rank + spec.mla.kv_rank
        yield Kept("latents before their norms", latents, 2, "tokens")
        yield Kept("latents after their norms", latents, 2, "tokens")
    yield Kept("queries", queries, 2, "heads")
    yield Kept("keys", spec.kv_heads * spec.key_dim, 2, "kv heads")
    yield Kept("values", spec.kv_heads * spec.value_dim, 2, "kv heads")
    if flash:
        yield Kept("log-sum-exp of the scores", spec.heads, 4, "heads", core=True)
    else:
        yield Kept("softmax of the scores", scores, 2, "heads", core=True)
    if dropout and not flash:
        yield Kept("mask of the scores' dropout", scores, 1, "heads", core=True)
        yield Kept("scores after dropout", scores, 2, "heads", core=True)
    if travels:
        yield Kept("result of attention before it travels", values, 2, "heads", core=True)
    yield Kept("input of the output projection", values, 2, "heads")
    if dropout:
        yield Kept("mask of the output's dropout", spec.hidden, 1, "tokens")


def _dense_rows(spec, width):
    yield Kept("input of the feed-forward block", spec.hidden, 2, "tokens")
    yield from _inner_rows(spec, width)
    if spec.dropout:
        yield Kept("mask of the output's dropout", spec.hidden, 1, "tokens")


def _inner_rows(spec, width):
    if spec.gated:
        yield Kept("gate before its activation function", width, 2, "width")
        yield Kept("gate after its activation function", width, 2, "width")
        yield Kept("factor of the gate", width, 2, "width")
    else:
        yield Kept("input of the activation function", width, 2, "width")
    yield Kept("input of the second matrix", width, 2, "width")


def _expert_rows(spec):
    """A mixture of experts: every token's row is copied to each of its experts, and back."""
    moe = spec.moe
    yield Kept("input of the router", spec.hidden, 2, "tokens")
    yield Kept("probabilities of the experts", moe.experts, 4, "tokens")
    yield Kept("choice of the experts", moe.active, 8, "tokens")
    yield Kept("order of the rows by expert", moe.active, 8, "tokens")
    yield Kept("token of each row", moe.active, 8, "tokens")
    yield Kept("rows sent to the experts", moe.active * spec.hidden, 2, "tokens")
    yield from _inner_rows(spec, (moe.active + moe.shared) * moe.ffn)
    yield Kept("rows that the experts return", moe.active * spec.hidden, 2, "tokens")
    yield Kept("weight of each row", moe.active, 2, "tokens")
    if spec.dropout:
        yield Kept("mask of the output's dropout", spec.hidden, 1, "tokens")
