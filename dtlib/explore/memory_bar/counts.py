"""What the page must know of models and of the account, to count as `rank_memory` does."""

from dataclasses import replace

from dtlib.formulas.sheet import Sheet
from dtlib.layout import Layout, even_stages
from dtlib.machines.hardware import catalog
from dtlib.memory.account.allocator import AllocatorModel
from dtlib.memory.account.layers import repeated_token_bytes, token_bytes
from dtlib.memory.account.rank import rank_memory
from dtlib.memory.account.state import StateRecipe, parameter_groups
from dtlib.models.published import published_models
from dtlib.models.spec import TransformerSpec

WAYS = [2**k for k in range(15)]
SHORTEST = 1024  # tokens of a sequence
POLICIES = {  # what is recomputed, by how many layers
    ("none", 1): "nothing",
    ("selective", 1): "the attention core",
    ("full", 1): "all but each layer's input",
    ("full", 4): "all but every fourth layer's input",
}
ALLOCATOR = AllocatorModel()
CONSTANTS = {"logit_width": 10, "ahead_bytes": ALLOCATOR.ahead_bytes,
             "reserve_fraction": ALLOCATOR.reserve_fraction}  # fmt: skip
_PARTS = ("weights", "gradients", "passing", "main", "master", "moments")


def every_line() -> Sheet:
    """A sheet of every line there can be: two kinds of layers, all divisions, all sums.

    >>> sheet = every_line()
    >>> "again" in sheet.lines["moving"].parts, "expert_again" in sheet.lines["moving"].parts
    (True, True)
    """
    account = rank_memory(
        published_models["deepseek-v3"],
        Layout(tp=2, cp=2, dp=2, ep=2, zero=3, sequence_parallel=True, recompute="full"),
        seq=4096, recipe=StateRecipe("everything", passing=2, main=4), allocator=ALLOCATOR,
        gpu=catalog["h100-sxm"],
    )  # fmt: skip
    lines = {}
    for name, entry in account.lines.items():
        if name == "again":  # of two kinds of layers the account has the one that needs more
            for kind in ("", "expert_"):
                feeds = {"repeated_bytes": f"{kind}layer_again", "layer_bytes": f"{kind}layer"}
                lines[kind + name] = replace(entry, inputs=feeds)
        elif "again" in entry.parts:
            lines[name] = replace(entry, parts=(*entry.parts, "expert_again"))
        else:
            lines[name] = entry
    return Sheet(account.given, lines)


def recipe_counts(recipe: StateRecipe) -> dict[str, float]:
    """Bytes for each parameter."""
    return {part: getattr(recipe, part) for part in _PARTS}


def model_counts(spec: TransformerSpec) -> dict:
    """A model's parameters by where they lie, what its tokens leave, and how it may be cut."""
    return {
        "layers": spec.layers, "expertLayers": spec.expert_layers,
        "experts": spec.moe.experts if spec.moe else 0, "hidden": spec.hidden,
        "vocab": spec.vocab, "kvHeads": spec.kv_heads,
        "keyBytes": token_bytes(spec, experts=bool(spec.expert_layers)).keys,
        "groups": [vars(group) | {"kind": group.kind} for group in parameter_groups(spec)],
        "tokens": {
            f"{policy} {int(flash)}": _token_counts(spec, flash=flash, recompute=policy)
            for policy, _ in POLICIES
            for flash in (False, True)
        },
        "tps": [tp for tp in WAYS[:5] if _divides(spec, tp)],
        "stages": [even_stages(spec.layers, pp) for pp in WAYS[:5] if pp <= spec.layers],
    }  # fmt: skip


def _token_counts(spec: TransformerSpec, **options) -> dict:
    """Bytes of a token that a layer keeps, and that it makes again, for each kind of layer."""
    kinds = {"dense": spec.layers > spec.expert_layers, "mixed": spec.expert_layers > 0}
    return {
        kind: {
            "kept": vars(token_bytes(spec, experts=kind == "mixed", **options)),
            "again": vars(repeated_token_bytes(spec, experts=kind == "mixed", **options)),
        }
        for kind, there in kinds.items()
        if there
    }


def _divides(spec: TransformerSpec, tp: int) -> bool:
    try:
        rank_memory(spec, seq=SHORTEST, tp=tp)
    except ValueError:
        return False
    return True
