"""The part of the account that no input changes: weights, gradients, master copy, moments.

The noun is `StateRecipe`: how many bytes each of them has for one parameter. What a rank holds of
them depends on how many parameters are its own (`stage_params` counts them, stage by stage) and on
the ZeRO stage, which says what the replicas divide.
"""

from dataclasses import dataclass

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum
from dtlib.formulas.require import (
    is_number,
    require,
    require_count,
    require_divisor,
    require_type,
)
from dtlib.layout import require_zero
from dtlib.memory.account.formulas import gradient_shards, optimizer_shards, weight_shards
from dtlib.models.spec import TransformerSpec

_ZERO = "Rajbhandari et al. 2020"


@dataclass(frozen=True)
class StateRecipe:
    """Bytes per parameter of everything that training holds of a model.

    `weights` multiply; `gradients` are kept until the step; `passing` are gradients that the
    backward pass makes and adds to those, and that no replica divides; `main` are gradients in
    32 bits beside them; `master` is the copy that the optimizer changes, and `moments` what it
    remembers. Replicas divide main, master and moments from ZeRO stage 1 on, the gradients from
    stage 2 on, the weights in stage 3.
    Raises ValueError for bytes that are no number of at least 0.

    >>> recipes["mixed"].total, recipes["32-bit sums"].total, recipes["passing"].total
    (16, 18, 20)
    >>> [recipes["mixed"].per_parameter(zero, 8) for zero in range(4)]
    [16.0, 5.5, 3.75, 2.0]
    """

    name: str
    weights: float = 2
    gradients: float = 2
    passing: float = 0
    main: float = 0
    master: float = 4
    moments: float = 8
    source: str = ""

    def __post_init__(self):
        owner = f"StateRecipe {self.name!r}"
        for part in ("weights", "gradients", "passing", "main", "master", "moments"):
            value = getattr(self, part)
            good = is_number(value) and value >= 0
            require(good, owner, part, value, "a number of bytes of at least 0")

    @property
    def total(self) -> float:
        """Bytes per parameter when nothing is divided."""
        return self.weights + self.gradients + self.passing + self.divided

    @property
    def divided(self) -> float:
        """Bytes per parameter that stage 1 divides."""
        return self.main + self.master + self.moments

    def per_parameter(self, zero: int, dp: int) -> float:
        """Bytes per parameter that a rank holds under a stage of ZeRO with so many replicas.

        Raises ValueError for a stage that is not 0 to 3, or no replicas.
        """
        require_zero("StateRecipe.per_parameter", zero)
        require_count("StateRecipe.per_parameter", dp=dp)
        return (
            self.weights / weight_shards(zero, dp)
            + self.gradients / gradient_shards(zero, dp)
            + self.passing
            + self.divided / optimizer_shards(zero, dp)
        )


_MEGATRON = "Megatron-LM, distributed optimizer's table of bytes per parameter"
_RECIPES = (
    StateRecipe("mixed", source=_ZERO),
    StateRecipe("32-bit sums", gradients=4, source=_MEGATRON),
    StateRecipe("passing", gradients=4, passing=2, source="nanotron, gradients added in 32 bits"),
    StateRecipe("16-bit sums", main=4, source=_MEGATRON),
    StateRecipe("32-bit", weights=4, gradients=4, master=0, source=_MEGATRON),
    StateRecipe("momentum", moments=4, source="one moment, with a master copy"),
    StateRecipe("sgd", moments=0, source="no moments, with a master copy"),
    StateRecipe("8-bit Adam", moments=2, source="Dettmers et al. 2022, without the scales"),
)


class _Recipes(dict):
    def __missing__(self, name):
        raise KeyError(f"no recipe {name!r}; known: {', '.join(self)}")


recipes = _Recipes({recipe.name: recipe for recipe in _RECIPES})


@formula(r"M_\text{w}", "B", _ZERO, "stages 0 to 3; the parts are equal")
def held_weight_bytes(params, element_bytes, zero, dp):
    """What a rank holds of the weights that multiply.

    So many bytes for each parameter; stage 3 divides them among the replicas. `params` are this
    rank's without ZeRO.

    >>> [held_weight_bytes(params=7e9, element_bytes=2, zero=z, dp=8) / 1e9 for z in (2, 3)]
    [14.0, 1.75]
    """
    return element_bytes * params / weight_shards(zero, dp)


@formula(
    r"M_\text{g}",
    "B",
    _ZERO,
    "stages 0 to 3; the parts are equal; kept from one micro-batch to the next",
)
def held_gradient_bytes(params, element_bytes, zero, dp):
    """What a rank holds of the gradients.

    So many bytes for each parameter; from stage 2 on divided among the replicas. `params` are this
    rank's without ZeRO.

    >>> [held_gradient_bytes(params=7e9, element_bytes=2, zero=z, dp=8) / 1e9 for z in (1, 2)]
    [14.0, 1.75]
    """
    return element_bytes * params / gradient_shards(zero, dp)


@formula(r"M_\text{o}", "B", _ZERO, "stages 0 to 3; the parts are equal")
def held_optimizer_bytes(params, element_bytes, zero, dp):
    """What a rank holds of something that only the optimizer needs: master copy or moments.

    So many bytes for each parameter; from stage 1 on divided among the replicas. `params` are this
    rank's without ZeRO.

    >>> [held_optimizer_bytes(params=7e9, element_bytes=12, zero=z, dp=8) / 1e9 for z in (0, 1)]
    [84.0, 10.5]
    """
    return element_bytes * params / optimizer_shards(zero, dp)


@dataclass(frozen=True)
class StageParams:
    """Parameters of one rank of one stage: of its layers, of its tables, and of its experts.

    `experts` are divided by expert parallelism and shared by fewer replicas than the rest.
    """

    layers: int
    tables: int
    experts: int

    @property
    def shared(self) -> int:
        """Parameters that all replicas hold: everything but the experts."""
        return self.layers + self.tables

    @property
    def total(self) -> int:
        return self.shared + self.experts


def stage_params(
    spec,
    first_layer: int = 0,
    layers: int | None = None,
    *,
    first: bool = True,
    last: bool = True,
    tp: int = 1,
    ep: int = 1,
) -> StageParams:
    """Exactly the parameters that one rank of a pipeline stage holds.

    Equation: its layers' weights, each divided as tensor parallelism divides it: norms, routers,
    latents and the biases that are added after a sum are whole on every rank, and so is a head of
    keys of which there are fewer than ranks. The first stage has the table of tokens, the last one
    the head and the last norm; a table that serves both lies on both.
    Arguments: `spec`; `first_layer`, counted from 0, and `layers` of the stage (all); `first` and
    `last`, whether it is at an end; `tp` ranks share a layer, `ep` ranks its experts.
    Returns `StageParams`. Raises ValueError for layers that are not there, or ranks that do not
    divide what they share. Source: Shoeybi et al. 2019; Narayanan et al. 2021.

    >>> from dtlib.foundations import published_models
    >>> llama = published_models["llama-3.1-8b"]
    >>> stage_params(llama).total == llama.params()
    True
    >>> stage_params(llama, 0, 8, last=False, tp=4)
    StageParams(layers=436273152, tables=131334144, experts=0)
    """
    require_type("stage_params", TransformerSpec, spec=spec)
    require_count("stage_params", 0, first_layer=first_layer)
    layers = spec.layers - first_layer if layers is None else layers
    _check_stage(spec, first_layer, layers, tp, ep)
    dense, mixed = layer_kinds(spec, first_layer, layers)
    return divided_params(
        parameter_groups(spec), dense, mixed, first=first, last=last, tp=tp, ep=ep,
        kv_heads=spec.kv_heads,
    )  # fmt: skip


def layer_kinds(spec, first_layer, layers) -> tuple:
    """How many of a stage's layers have an ordinary block, and how many a mixture of experts.

    Numbers or arrays.
    """
    border = spec.layers - spec.expert_layers
    dense = maximum(0, minimum(first_layer + layers, border) - first_layer)
    return dense, layers - dense


def divided_params(groups, dense, mixed, *, first, last, tp, ep, kv_heads) -> StageParams:
    """`StageParams` of a stage of so many layers without and with experts; numbers or arrays.

    `groups` are the model's `parameter_groups`.
    """
    copies = {
        "first": first * 1, "last": last * 1, "either end": (first | last) * 1,
        "dense": dense, "mixed": mixed, "all": dense + mixed, "experts": mixed,
    }  # fmt: skip
    ways = {"whole": 1, "tp": tp, "kv heads": minimum(tp, kv_heads)}
    found = {"layers": 0, "tables": 0, "experts": 0}
    for group in groups:
        parts = ways[group.cut] * (ep if group.home == "experts" else 1)
        found[group.kind] = found[group.kind] + copies[group.home] * group.count // parts
    return StageParams(**found)


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that lie together and are cut alike, counted for one layer or one table.

    `home`: the "first" or the "last" stage, "either end" of the pipeline (a table that serves
    both), or a layer: "dense" ones, "mixed" ones (with experts), "all" of them; the "experts" of a
    mixed layer. `cut`: "tp" where tensor parallelism divides them, "kv heads" where it does so up
    to the heads of keys, or "whole".
    """

    home: str
    cut: str
    count: int

    @property
    def kind(self) -> str:
        """Where `StageParams` counts them: "tables", "layers" or "experts"."""
        if self.home == "experts":
            return "experts"
        return "layers" if self.home in ("dense", "mixed", "all") else "tables"


def parameter_groups(spec) -> tuple[ParameterGroup, ...]:
    """All that decides which parameters a rank holds, whatever the split.

    >>> from dtlib.foundations import published_models
    >>> for group in parameter_groups(published_models["llama-3.1-8b"])[:3]:
    ...     print(group.home, group.cut, group.count)
    first tp 525336576
    all tp 33554432
    all kv heads 8388608
    """
    require_type("parameter_groups", TransformerSpec, spec=spec)
    found = {}
    for weight in spec.weights():
        home, copies = _home(spec, weight)
        key = home, _cut(spec, weight)
        found[key] = found.get(key, 0) + copies * weight.size
    return tuple(ParameterGroup(*key, count) for key, count in found.items() if count)


def shape_params(spec, dense, mixed, tp) -> int:
    """A rank's part of one matrix of each shape in a stage with (1) or without (0) either kind.

    Numbers or arrays; `tp` ranks share a layer.
    """
    ends = {"first": 1, "last": 0, "ep": 1, "kv_heads": spec.kv_heads}
    return divided_params(matrix_groups(spec), dense, mixed, tp=tp, **ends).total


def matrix_groups(spec) -> tuple[ParameterGroup, ...]:
    """The matrices of a layer of each kind, where one expert stands for all: their shapes, once.

    Attention, which every layer has, is at home in the "first" one.

    >>> from dtlib.foundations import published_models
    >>> llama = published_models["llama-3.1-8b"]
    >>> sum(g.count for g in matrix_groups(llama)) * llama.layers / llama.params()
    0.8691...
    """
    found = {}
    for weight in spec.weights():
        if weight.part in ("attention", "feed-forward") and len(weight.shape) == 2:
            home, copies = _home(spec, weight)
            key = "first" if home == "all" else home, _cut(spec, weight)
            found[key] = found.get(key, 0) + (1 if home == "experts" else copies) * weight.size
    return tuple(ParameterGroup(*key, count) for key, count in found.items())


def _home(spec, weight) -> tuple[str, int]:
    """Where a weight belongs, and how many copies of it are there."""
    if weight.part in ("embedding", "positions"):
        return ("either end" if weight.part == "embedding" and spec.tied else "first"), 1
    if weight.part == "head":
        return "last", weight.held
    if weight.part == "norms" and weight.name.startswith("last"):
        return "last", 1
    if weight.name.startswith("expert"):
        return "experts", spec.moe.experts
    if weight.part == "router" or weight.name.startswith("shared"):
        return "mixed", weight.held // spec.expert_layers
    return ("dense" if weight.part == "feed-forward" else "all"), 1


def _cut(spec, weight) -> str:
    """How tensor parallelism cuts a weight."""
    bias = weight.name.endswith("bias")
    after_sum = bias and ("output" in weight.name or "down" in weight.name)
    latent = "latent" in weight.name
    if after_sum or latent or weight.part in ("norms", "positions", "router"):
        return "whole"
    if weight.name.removesuffix(" bias") in ("key", "value") and not spec.mla:
        return "kv heads"
    return "tp"


def _check_stage(spec, first_layer, layers, tp, ep):
    owner = f"stage_params of {spec.name!r}"
    require_count(owner, 0, first_layer=first_layer, layers=layers)
    allowed = f"at most {spec.layers - first_layer}, what is left of {spec.layers} layers"
    require(first_layer + layers <= spec.layers, owner, "layers", layers, allowed)
    require_divisor(owner, "tp", tp, "heads", spec.heads)
    require_divisor(owner, "tp", tp, "vocab", spec.vocab)
    require_divisor(owner, "ep", ep, "experts", spec.moe.experts if spec.moe else 1)
