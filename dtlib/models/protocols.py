"""What a module must have, by name, for a strategy to divide it: a model of yours may be another.

Each protocol is a list of attributes, and `isinstance(module, DecoderModel)` looks for them.
`require_parts` raises with the first module that lacks one and its name.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class DecoderModel(Protocol):
    """A table of words, blocks in a row, a norm and a head: `tensor_parallel`, `stages_of`.

    `spec` says the number of `positions` (then there is a `position_embedding`), of `kv_heads`,
    whether the head is `tied` to the table, and that there is no `moe`, as in a `TransformerSpec`.
    """

    spec: Any
    embedding: Any
    blocks: Iterable
    norm: Any
    head: Any


@runtime_checkable
class DecoderBlock(Protocol):
    """Two halves that add to the stream, each behind a norm: `TensorParallelBlock`."""

    attention_norm: Any
    attention: Any
    feed_forward_norm: Any
    feed_forward: Any


@runtime_checkable
class HeadedAttention(Protocol):
    """Attention of which a rank may have some heads: it reads their numbers when it runs."""

    heads: int
    kv_heads: int
    query: Any
    key: Any
    value: Any
    out: Any


@runtime_checkable
class WidenedFeedForward(Protocol):
    """A matrix that widens, with a `gate` beside it or not, and one that narrows again."""

    up: Any
    down: Any


@runtime_checkable
class PositionedModel(Protocol):
    """Blocks with an `attention` each, and `forward(tokens_bs, positions)`: `context_parallel`.

    Token j of a sequence stands at `positions[j]`; all but attention works token by token.
    """

    blocks: Iterable
    forward: Callable


@runtime_checkable
class MixingAttention(Protocol):
    """Attention whose exchange of tokens is a function that can be replaced: `context_parallel`.

    `mix(q_bnsd, k_bmsd, v_bmsd, positions)` gives each query its mean of the values.
    """

    heads: int
    kv_heads: int
    mix: Callable


@runtime_checkable
class ExpertMixture(Protocol):
    """Experts in a list, a linear layer that scores them, and how many see a token: `MoELayer`.

    `shared` experts, of which there may be none, see every token.
    """

    router: Any
    experts: Iterable
    active: int
    shared: Iterable


def parts_of(protocol: type) -> list[str]:
    """The attributes that a protocol names.

    >>> parts_of(ExpertMixture)
    ['router', 'experts', 'active', 'shared']
    """
    return list(protocol.__annotations__)


def require_parts(owner: str, protocol: type, module, name: str = "model") -> None:
    """Raise TypeError unless the module has what the protocol names.

    Arguments: `owner`, what needs it; `name`, how the module is called there.

    >>> require_parts("tensor_parallel", WidenedFeedForward, 3, "blocks[0].feed_forward")
    Traceback (most recent call last):
    TypeError: tensor_parallel: blocks[0].feed_forward must have .up and .down (a \
WidenedFeedForward): int has no .up, .down
    """
    missing = [f".{part}" for part in parts_of(protocol) if not hasattr(module, part)]
    if missing:
        *first, last = (f".{part}" for part in parts_of(protocol))
        raise TypeError(
            f"{owner}: {name} must have {', '.join(first)} and {last} (a {protocol.__name__}): "
            f"{type(module).__name__} has no {', '.join(missing)}"
        )
