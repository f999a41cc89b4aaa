"""Whoever leaves one axis out of a sum trains wrong weights: exactly those, and a test sees it.

For each kind of weight and each axis over which `reduction_axes` says that its gradient is added:
one run without that sum. The gradients of this kind must be wrong, and all others right.
"""

import re
from contextlib import nullcontext
from unittest import mock

import pytest
import torch

from dtlib.composition import parallelize
from dtlib.foundations import MoE, TransformerSpec
from dtlib.layout import Layout
from dtlib.mesh import Mesh, make_groups
from dtlib.models import GPT, gradients, next_token_loss, relative_errors
from dtlib.parallelism.tensor import layers

SPECS = {
    "dense": TransformerSpec("dense", 2, 16, 4, 32, kv_heads=2, tied=True, positions=8),
    "bare": TransformerSpec("bare", 2, 16, 4, 32, kv_heads=2, norm="rms", bias=False),
    "experts": TransformerSpec("experts", 2, 16, 4, 32, norm="rms", bias=False,
                               moe=MoE(experts=4, active=2, ffn=8)),
}  # fmt: skip
DIVIDED = {"sequence_parallel": True}
SMALL = {
    # kind of weight: what its names have, the model, the layout, {an axis: what is done instead}
    "a matrix": ("query", "dense", {"dp": 2, "cp": 2, "pp": 2}, {"dp": "cp", "cp": "dp"}),
    "a norm": ("attention_norm", "dense", {"dp": 2, "cp": 2, "tp": 2} | DIVIDED,
               {"dp": "cp", "cp": "dp", "tp": "norms"}),
    "a bias after a sum": (r"(out|down)\.bias", "dense", {"dp": 4, "tp": 2} | DIVIDED,
                           {"tp": "biases"}),
    "key heads on two ranks": ("key|value", "bare", {"dp": 2, "tp": 4}, {"dp": "cp", "tp": "keys"}),
    "an expert": ("experts.1.", "experts", {"dp": 4, "pp": 2, "ep": 2}, {"replicas": "cp"}),
    "a router": ("router", "experts", {"dp": 2, "cp": 2, "tp": 2, "ep": 2} | DIVIDED,
                 {"replicas": "experts", "ep": "replicas", "tp": "norms"}),
    "a tied table": (r"^embedding", "dense", {"dp": 4, "pp": 2}, {"dp": "cp", "pp": "tie"}),
}  # fmt: skip
CASES = [(kind, axis) for kind, (*_, axes) in SMALL.items() for axis in axes]


def batch(spec):
    drawn = torch.randint(spec.vocab, (8, 9), generator=torch.Generator().manual_seed(3))
    return drawn[:, :-1], drawn[:, 1:]


def wrong_names(kind, axis) -> tuple[set, set]:
    """On a rank: the gradients that are wrong, and those that should be."""
    named, spec, layout, axes = SMALL[kind]
    spec, layout = SPECS[spec], Layout(**layout)
    whole = GPT(spec, dtype=torch.float64)
    tokens, targets = batch(spec)
    next_token_loss(whole(tokens), targets).backward()
    mesh = Mesh.of(**{a: getattr(layout, a) for a in ("pp", "dp", "cp", "tp")})
    run = parallelize(GPT(spec, dtype=torch.float64), mesh, layout)
    with leaving_out(run, named, axes.get(axis), make_groups(mesh)):
        run.forward_backward(tokens, targets)
    errors = relative_errors(run.gradients(), gradients(whole))
    return {n for n, e in errors.items() if e > 1e-12}, {n for n in errors if re.search(named, n)}


def leaving_out(run, named: str, how: str | None, groups):
    """A run whose gradients of these names miss one sum."""
    chosen = [p for p, piece in run.pieces.of.items() if re.search(named, piece.name)]
    places = run.places
    kept = groups | {"experts": places.experts, "replicas": places.sums["replicas",]}
    if how in kept:
        for parameter in chosen:
            run.replicas[parameter] = kept[how]
    if how == "tie":
        for stage in run.stages.values():
            stage.tied = {}
    if how == "norms":
        for module in (m for stage in run.stages.values() for m in stage.modules()):
            if hasattr(module, "lead_in") and set(module.parameters()) & set(chosen):
                module.lead_in = lambda parameter: parameter
    if how in ("biases", "keys"):
        return mock.patch.object(layers, "_through_f", lambda parameter, group: parameter)
    return nullcontext()


@pytest.mark.parametrize(("kind", "axis"), CASES, ids=lambda value: value)
def test_a_sum_that_is_left_out_makes_exactly_its_weights_wrong(eight, kind, axis):
    for wrong, due in eight.run(wrong_names, kind, axis):
        assert wrong and wrong == due, (kind, axis)


@pytest.mark.parametrize("kind", SMALL)
def test_with_all_sums_none_is_wrong(eight, kind):
    for wrong, _ in eight.run(wrong_names, kind, None):
        assert wrong == set()
