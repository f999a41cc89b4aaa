"""What is alive at each moment of a step, and the one property that memory has: it adds.

The nouns are `Life`, a thing with bytes and two moments, and `LiveSet`, some lives and the names of
the moments. The peak is the largest sum of what lives at one time, which is at most the sum of the
largest: things that never meet share their room. `training_lives` builds the lives of whole steps,
layer by layer; `dtlib.memory.live_draw` draws them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dtlib.errors import DtlibError
from dtlib.formulas.require import (
    is_number,
    require,
    require_count,
    require_not_negative,
    require_type,
)
from dtlib.formulas.units import format_quantity
from dtlib.memory.account.gpt import gpt_kept_tensors
from dtlib.memory.account.state import StateRecipe, recipes
from dtlib.models.spec import TransformerSpec

KINDS = "weights", "optimizer", "gradients", "activations", "loss"


class LiveSetError(DtlibError, ValueError):
    """More is alive at some moment than there is room for, or a life that cannot be."""


class Life(NamedTuple):
    """Something that occupies `bytes` from moment `born` up to, and without, moment `dies`."""

    name: str
    kind: str
    bytes: float
    born: int
    dies: int


class LiveSet:
    """Lives on a line of moments; what is alive at one of them is added up.

    Arguments: `lives`; `moments`, their names in order. Raises LiveSetError for a life that does
    not begin before it ends, or lies outside, or has less than no bytes; TypeError for no `Life`.

    >>> chain = LiveSet([Life("x", "activations", 3, 0, 4), Life("y", "activations", 2, 1, 3),
    ...                  Life("dW", "gradients", 2, 3, 4)], ["in", "up", "down", "out"])
    >>> chain.curve(), chain.peak_bytes, chain.moments[chain.fullest]
    ([3, 5, 5, 5], 5, 'up')
    >>> sum(max(chain.curve(kind)) for kind in ("activations", "gradients"))
    7
    """

    def __init__(self, lives: Iterable[Life], moments: Sequence[str]):
        self.lives, self.moments = list(lives), list(moments)
        for life in self.lives:
            require_type("LiveSet", Life, **{"a life": life})
            inside = 0 <= life.born < life.dies <= len(self.moments)
            if not (inside and is_number(life.bytes) and life.bytes >= 0):
                raise LiveSetError(f"{life}: born before it dies, among {len(self.moments)} "
                                   "moments, with at least 0 bytes")  # fmt: skip

    def at(self, moment: int) -> list[Life]:
        """What is alive at a moment."""
        return [life for life in self.lives if life.born <= moment < life.dies]

    def curve(self, kind: str = "") -> list[float]:
        """Bytes alive at each moment, of one kind or of all."""
        steps = [0] * (len(self.moments) + 1)
        for life in self.lives:
            if kind in ("", life.kind):
                steps[life.born] += life.bytes
                steps[life.dies] -= life.bytes
        alive, found = 0, []
        for change in steps[:-1]:
            alive += change
            found.append(alive)
        return found

    @property
    def peak_bytes(self) -> float:
        """The largest sum of what lives at one time."""
        return max(self.curve())

    @property
    def fullest(self) -> int:
        """The first moment at which the sum is largest."""
        curve = self.curve()
        return curve.index(max(curve))

    def peak_of(self, begins: str) -> float:
        """The largest sum among the moments whose names begin so, such as "step 2"."""
        pairs = zip(self.moments, self.curve(), strict=True)
        return max(alive for name, alive in pairs if name.startswith(begins))

    def by_kind(self, moment: int) -> dict[str, float]:
        """Bytes alive at a moment, kind by kind, in the order of their first lives."""
        found: dict[str, float] = {}
        for life in self.at(moment):
            found[life.kind] = found.get(life.kind, 0) + life.bytes
        return found


def check_fits(live: LiveSet, capacity: float) -> None:
    """Raise LiveSetError at the first moment when more is alive than `capacity` bytes hold.

    >>> check_fits(LiveSet([Life("x", "weights", 9e9, 0, 1)], ["load"]), 8e9)
    Traceback (most recent call last):
    dtlib.memory.live.LiveSetError: load: 9 GB alive, 8 GB there: weights 9 GB
    """
    require_type("check_fits", LiveSet, live=live)
    good = is_number(capacity) and capacity >= 0
    require(good, "check_fits", "capacity", capacity, "a number of bytes")
    for moment, alive in enumerate(live.curve()):
        if alive > capacity:
            parts = ", ".join(
                f"{kind} {format_quantity(size, 'B')}"
                for kind, size in live.by_kind(moment).items()
            )
            raise LiveSetError(
                f"{live.moments[moment]}: {format_quantity(alive, 'B')} alive, "
                f"{format_quantity(capacity, 'B')} there: {parts}"
            )


def training_lives(
    spec,
    layer_bytes: float,
    loss_bytes: float,
    *,
    recipe: StateRecipe | str = "mixed",
    steps: int = 2,
    micro_batches: int = 1,
    lazy_moments: bool = True,
    keep_gradients: bool = False,
) -> LiveSet:
    """The lives of some training steps on one rank, layer by layer.

    A layer's activations live from its forward to its backward pass, its gradients from there to
    the update; the optimizer's moments from the first update on, if they are made lazily, as
    torch does; what the loss needs, at the moment of the loss.
    Arguments: `spec`, a TransformerSpec; `layer_bytes` that a layer keeps of one micro-batch;
    `loss_bytes` of logits and what goes with them; `recipe`, a StateRecipe or its name; `steps`;
    `micro_batches` of a step; `lazy_moments`; `keep_gradients`, whether the update leaves them in
    place (zeroed, not freed). What a recipe holds of gradients counts with them, master copies
    and moments as "optimizer". Returns a LiveSet whose moments have names such as
    "step 1 forward 3". Raises ValueError for counts below 1 and bytes below 0.

    >>> from dtlib.foundations import TransformerSpec
    >>> spec = TransformerSpec("tiny", layers=2, hidden=16, heads=2, vocab=32)
    >>> live = training_lives(spec, layer_bytes=1e6, loss_bytes=1e5, recipe="32-bit")
    >>> live.moments[:6]
    ['step 1 forward 1', 'step 1 forward 2', 'step 1 loss', 'step 1 backward 2', \
'step 1 backward 1', 'step 1 table']
    >>> live.peak_bytes == 1e6 * 2 + 1e5 + 4 * 3 * spec.params() + 4 * spec.vocab * spec.hidden
    True
    """
    require_type("training_lives", TransformerSpec, spec=spec)
    require_count("training_lives", steps=steps, micro_batches=micro_batches)
    require_not_negative("training_lives", layer_bytes=layer_bytes, loss_bytes=loss_bytes)
    recipe = recipes[recipe] if isinstance(recipe, str) else recipe
    require_type("training_lives", StateRecipe, recipe=recipe)
    moments = _moments(spec.layers, steps, micro_batches)
    when = {name: number for number, name in enumerate(moments)}
    end = len(moments)
    params = spec.params()
    lives = [Life("weights", "weights", recipe.weights * params, 0, end)]
    if recipe.master:
        lives.append(Life("master copy", "optimizer", recipe.master * params, 0, end))
    if recipe.moments:
        first = when["step 1 update"] if lazy_moments else 0
        lives.append(Life("moments", "optimizer", recipe.moments * params, first, end))
    width = recipe.gradients + recipe.passing + recipe.main
    parts = _parameters_by_part(spec)
    for step in range(1, steps + 1):
        for batch in range(micro_batches):
            lives += _activations(spec, layer_bytes, loss_bytes, when, _prefix(step, batch))
        if step > 1 and keep_gradients:
            continue
        after = end if keep_gradients else when[f"step {step} update"] + 1
        for part, count in parts.items():
            born = when[_prefix(step, 0) + part]
            lives.append(Life(f"gradients, {part}", "gradients", width * count, born, after))
    return LiveSet(lives, moments)


def gpt_lives(spec, seq: int, micro_batch: int, **options) -> LiveSet:
    """The lives of `dtlib.models.GPT` in 32 bits, with what autograd keeps of it, to the byte.

    Beside the softmax that is kept, the loss needs its gradient and that of the logits.
    Arguments: `spec`, `seq`, `micro_batch` as for `gpt_kept_tensors`; `options` of
    `training_lives`. Returns a LiveSet. Raises what those raise.

    >>> from dtlib.foundations import TransformerSpec
    >>> spec = TransformerSpec("tiny", 2, 16, 2, 32, positions=8, dropout=False)
    >>> gpt_lives(spec, seq=8, micro_batch=2).peak_bytes
    143616.0
    """
    rows = gpt_kept_tensors(spec, seq, micro_batch, 4)
    ends = sum(row.bytes for row in rows if row.reason.endswith("an end of the model"))
    inside = sum(row.bytes for row in rows) - ends
    logits = 4 * seq * micro_batch * spec.vocab
    return training_lives(spec, inside / spec.layers, ends + 2 * logits, recipe="32-bit", **options)


def _prefix(step: int, batch: int) -> str:
    return f"step {step} " if batch == 0 else f"step {step}.{batch + 1} "


def _moments(layers: int, steps: int, micro_batches: int) -> list[str]:
    found = []
    for step in range(1, steps + 1):
        for batch in range(micro_batches):
            prefix = _prefix(step, batch)
            found += [f"{prefix}forward {layer}" for layer in range(1, layers + 1)]
            found.append(prefix + "loss")
            found += [f"{prefix}backward {layer}" for layer in range(layers, 0, -1)]
            found.append(prefix + "table")
        found.append(f"step {step} update")
    return found


def _parameters_by_part(spec) -> dict[str, int]:
    """Parameters by the moment at which their gradients appear; layers are taken as equal."""
    parts = spec.parameter_parts()
    ends = {"embedding", "positions", "head"}
    inside = spec.params() - sum(parts.get(name, 0) for name in ends)
    found = {f"backward {layer}": inside / spec.layers for layer in range(spec.layers, 0, -1)}
    at_loss = parts.get("embedding", 0) if spec.tied else parts.get("head", 0)
    return found | {
        "loss": at_loss,
        "table": sum(parts.get(name, 0) for name in ends) - at_loss,
    }


def _activations(spec, layer_bytes, loss_bytes, when, prefix) -> list[Life]:
    lives = [
        Life(f"layer {layer}", "activations", layer_bytes,
             when[f"{prefix}forward {layer}"], when[f"{prefix}backward {layer}"] + 1)
        for layer in range(1, spec.layers + 1)
    ]  # fmt: skip
    at = when[prefix + "loss"]
    return [*lives, Life("logits", "loss", loss_bytes, at, at + 1)]
