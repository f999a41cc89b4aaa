"""The transformer that a script trains, from the shapes of one step of it.

No name of a module is read, and none of a parameter: heads and their width are those of attention,
layers are how often it is called, and what a layer's products leave no choice about is its block.
What a rank of tp has is a part, so sizes that are divided are counted tp times. A description must
have as many parameters as the script.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from dtlib.composition.planner.script.reader import ScriptError
from dtlib.composition.planner.script.reading import ScriptReading
from dtlib.composition.planner.script.shapes import ScriptAttention
from dtlib.models.spec import TransformerSpec

NEAR = 0.01  # norms of queries and keys, which a spec does not have, are less
_INSTEAD = "say which it is: --model NAME or --config FILE"


@dataclass(frozen=True)
class _Block:
    """The widths of a rank's part of a layer: feed-forward block, and heads of keys."""

    ffn: int
    gated: bool
    key_heads: int


def describe_model(reading: ScriptReading) -> TransformerSpec:
    """The model of a script whose step was read.

    Arguments: `reading`, of `read_script`. Returns a TransformerSpec that is named for the script.
    Raises ScriptError, saying what was missing and how to give the model instead, for a step
    without attention, without a table of tokens, or with layers that differ or are no block of
    attention and a dense feed-forward; for a pipeline, of which one stage is seen; and where the
    description has another number of parameters.
    """
    if reading.layout.pp > 1:
        _ask(reading, "of a pipeline one stage is seen")
    seen, calls = _attention(reading)
    layers = _whole(reading, calls / reading.micro_batches, "layers")
    hidden, tables = _tables(reading)
    shares = _shares(reading, seen)
    words = {cols for inner, cols in shares if inner == hidden}
    tp = reading.layout.tp
    ends = {(rows, cols) for rows in tables for cols in words
            if cols in (rows, rows * tp) or cols * tp == rows}  # fmt: skip
    found = [
        spec
        for rows, cols in ends
        for block in _blocks(_in_a_layer(shares, hidden, cols, layers), hidden, seen)
        for spec in _specs(reading, layers, hidden, seen, block, max(rows, cols))
    ]
    if not ends:
        _ask(reading, "no product has as many columns as a table has words")
    if not found:
        _ask(reading, "its layers are no equal blocks of attention and a feed-forward of one width")
    return _nearest(reading, found)


def _attention(reading: ScriptReading) -> tuple[ScriptAttention, int]:
    seen = reading.shapes.attention
    if not seen:
        _ask(reading, "no attention was seen in its forward pass")
    if len(seen) > 1:
        _ask(reading, f"its forward pass has attention of {len(seen)} shapes")
    return seen[0]


def _tables(reading: ScriptReading) -> tuple[int, list[int]]:
    """The width of the tables that were looked up, and the rows of each."""
    widths = {width for _, width in reading.shapes.tables}
    if len(widths) != 1:
        _ask(reading, f"tables of {len(widths)} widths were looked up, not of one")
    return widths.pop(), [rows for rows, _ in reading.shapes.tables]


def _shares(reading: ScriptReading, seen: ScriptAttention) -> Counter:
    """By (inner, columns): how many products there were for each token."""
    tokens = seen.sequences * seen.tokens * reading.micro_batches
    shares: Counter = Counter()
    for rows, inner, columns, times in reading.shapes.products:
        shares[inner, columns] += times * rows / tokens
    return shares


def _in_a_layer(shares: Counter, hidden: int, words: int, layers: int) -> Counter:
    """The products of one layer, or none where they do not divide among the layers."""
    left = Counter(shares)
    left[hidden, words] -= 1
    counts = {shape: share / layers for shape, share in left.items() if share}
    if any(abs(count - round(count)) > 1e-6 or count < 0 for count in counts.values()):
        return Counter()
    return Counter({shape: round(count) for shape, count in counts.items()})


def _blocks(products: Counter, hidden: int, seen: ScriptAttention) -> list[_Block]:
    """The blocks that a layer's products can be; of several those with the keys that were seen."""
    numbers = seen.heads * seen.width
    rest = products - Counter([(numbers, hidden)])
    if rest.total() != products.total() - 1:
        return []
    found = []
    for inner, columns in rest:
        for gated, first in ((False, [inner]), (True, [inner, inner]), (True, [2 * inner])):
            block = Counter([(inner, hidden), *((hidden, each) for each in first)])
            if columns != hidden or not block <= rest:
                continue
            heads = _key_heads(rest - block, hidden, seen)
            found += [_Block(inner, gated, heads)] if heads else []
    exact = [block for block in found if block.key_heads == seen.key_heads]
    return exact or found


def _key_heads(projections: Counter, hidden: int, seen: ScriptAttention) -> int:
    """Heads with keys of their own, of which what is left projects queries, keys and values."""
    columns = sum(cols * count for (_, cols), count in projections.items())
    heads, odd = divmod(columns - seen.heads * seen.width, 2 * seen.width)
    alone = all(inner == hidden for inner, _ in projections)
    good = alone and not odd and 0 < heads <= seen.heads and seen.heads % heads == 0
    return heads if good else 0


def _specs(
    reading: ScriptReading, layers: int, hidden: int, seen: ScriptAttention, block: _Block, words
) -> Iterator[TransformerSpec]:
    """What shapes alone do not say: biases, tied tables, a table of places, what tp divides."""
    tp, done = reading.layout.tp, reading.shapes.operations
    layer_norm = "native_layer_norm" in done
    heads = seen.heads * tp
    for keys, vocab in product(
        dict.fromkeys((block.key_heads * tp, block.key_heads)), dict.fromkeys((words, words * tp))
    ):
        for tied, bias, qkv_bias, places in product(
            (False, True),
            (False, True),
            (False, True),
            _places(reading, hidden, vocab, seen.tokens),
        ):
            yield TransformerSpec(
                reading.script, layers, hidden, heads, vocab, ffn=block.ffn * tp, kv_heads=keys,
                head_dim=seen.width, gated=block.gated, tied=tied, bias=bias, qkv_bias=qkv_bias,
                norm="layer" if layer_norm else "rms", positions=places,
                dropout="native_dropout" in done, context=seen.tokens * reading.layout.cp,
                source="read from the script",
            )  # fmt: skip


def _places(reading: ScriptReading, hidden: int, vocab: int, tokens: int) -> Iterable[int]:
    """Rows that a learned table of places may have, among them none."""
    shapes = Counter(param.shape for param in reading.params)
    alone = [shape for shape, count in shapes.items() if count == 1 and shape[-1:] == (hidden,)]
    rows = {prod(shape) // hidden for shape in alone}
    return [0, *sorted(each for each in rows if each >= tokens and each != vocab)]


def _nearest(reading: ScriptReading, found: list[TransformerSpec]) -> TransformerSpec:
    """The description with the script's parameters: as many, or nearly."""
    count = reading.param_count
    spec = min(found, key=lambda each: abs(each.params() - count))
    if abs(spec.params() - count) > NEAR * count:
        said = f"the nearest description of its shapes has {spec.params():,} parameters"
        _ask(reading, f"{said}, but {count:,} were seen")
    return spec


def _whole(reading: ScriptReading, value: float, name: str) -> int:
    if value != int(value):
        _ask(reading, f"a micro-batch calls attention {value:.2f} times, which are no {name}")
    return int(value)


def _ask(reading: ScriptReading, why: str) -> None:
    raise ScriptError(f"{reading.script}: {why}, so its model is not known; {_INSTEAD}")
