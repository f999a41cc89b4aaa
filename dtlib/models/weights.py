"""The weights of a transformer, listed: each kind once, with its shape and its number of copies.

The lists below are the architecture. A reader who knows what a model is made of finds every matrix
here; whoever adds an architecture adds its matrices here, and every count follows.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Weight:
    """A matrix (inputs, outputs) or a vector, of which the model has several copies.

    `held` copies are stored, `active` of them belong to the path of one token, and a token is
    multiplied with `multiplied`. A table in which tokens are looked up is active, but multiplies
    nothing; an output matrix that is tied to it multiplies, but is not stored a second time.
    """

    part: str
    name: str
    shape: tuple[int, ...]
    held: int
    active: int
    multiplied: int

    @property
    def size(self) -> int:
        """Parameters of one copy."""
        return math.prod(self.shape)


def list_weights(spec) -> Iterator[Weight]:
    """Every kind of weight of a TransformerSpec: tables, attention, feed-forward, norms, head."""
    yield _table("embedding", "tokens", spec.vocab, spec.hidden)
    if spec.positions:
        yield _table("positions", "learned positions", spec.positions, spec.hidden)
    yield from _latent_attention(spec) if spec.mla else _attention(spec)
    dense_layers = spec.layers - spec.expert_layers
    if dense_layers:
        yield from _block(spec, "feed-forward", spec.ffn, dense_layers)
    if spec.expert_layers:
        yield from _experts(spec)
    yield from _norms(spec)
    held = 0 if spec.tied else 1
    yield Weight("head", "vocabulary", (spec.hidden, spec.vocab), held, held, 1)


def _table(part, name, rows, width):
    return Weight(part, name, (rows, width), 1, 1, 0)


def _linear(part, name, inputs, outputs, bias, held, active=None):
    active = held if active is None else active
    yield Weight(part, name, (inputs, outputs), held, active, active)
    if bias:
        yield Weight(part, f"{name} bias", (outputs,), held, active, 0)


def _norm(spec, part, name, width, held):
    yield Weight(part, name, (width,), held, held, 0)
    if spec.norm == "layer" and spec.bias:
        yield Weight(part, f"{name} bias", (width,), held, held, 0)


def _attention(spec):
    def projection(name, inputs, outputs, bias):
        return _linear("attention", name, inputs, outputs, bias, spec.layers)

    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    yield from projection("query", spec.hidden, queries, spec.qkv_bias)
    yield from projection("key", spec.hidden, keys, spec.qkv_bias)
    yield from projection("value", spec.hidden, keys, spec.qkv_bias)
    yield from projection("output", queries, spec.hidden, spec.bias)


def _latent_attention(spec):
    def projection(name, inputs, outputs, bias):
        return _linear("attention", name, inputs, outputs, bias, spec.layers)

    mla, heads = spec.mla, spec.heads
    yield from projection("query latent", spec.hidden, mla.q_rank, spec.qkv_bias)
    yield from projection("query", mla.q_rank, heads * spec.key_dim, False)
    yield from projection(
        "key-value latent and rotary key", spec.hidden, mla.kv_rank + mla.rope_dim, spec.qkv_bias
    )
    yield from projection(
        "key and value", mla.kv_rank, heads * (mla.nope_dim + mla.value_dim), False
    )
    yield from projection("output", heads * mla.value_dim, spec.hidden, spec.bias)


def _block(spec, name, width, held, active=None):
    def matrix(which, inputs, outputs):
        return _linear("feed-forward", f"{name} {which}", inputs, outputs, spec.bias, held, active)

    if spec.gated:
        yield from matrix("gate", spec.hidden, width)
    yield from matrix("up", spec.hidden, width)
    yield from matrix("down", width, spec.hidden)


def _experts(spec):
    moe, layers = spec.moe, spec.expert_layers
    yield from _linear("router", "router", spec.hidden, moe.experts, False, layers)
    yield from _block(spec, "expert", moe.ffn, layers * moe.experts, layers * moe.active)
    if moe.shared:
        yield from _block(spec, "shared expert", moe.ffn, layers * moe.shared)


def _norms(spec):
    yield from _norm(spec, "norms", "before attention", spec.hidden, spec.layers)
    yield from _norm(spec, "norms", "before feed-forward", spec.hidden, spec.layers)
    if spec.mla:
        yield Weight("norms", "query latent", (spec.mla.q_rank,), spec.layers, spec.layers, 0)
        yield Weight("norms", "key-value latent", (spec.mla.kv_rank,), spec.layers, spec.layers, 0)
    yield from _norm(spec, "norms", "last", spec.hidden, 1)
