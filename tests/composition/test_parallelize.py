"""All strategies in one run equal one process: gradients, loss, norm, and weights after steps."""

from functools import partial

import pytest
import torch
from hybrid_cases import (
    SPECS,
    errors_of,
    largest_errors,
    on_ranks,
    one_process,
    some_batches,
    wrong,
)

from dtlib.composition.hybrid.parallel import parallelize
from dtlib.layout import Layout
from dtlib.mesh import Mesh
from dtlib.models import GPT
from dtlib.parallelism import pipeline
from dtlib.parallelism.sequence import layouts
from dtlib.runtime import RankError

THREE = {"dp": 2, "pp": 2, "tp": 2}
SP = {"sequence_parallel": True}
EQUAL = {
    "three axes": ("new", THREE, {}),
    "sequence parallelism, ZeRO 1": ("old", THREE | SP | {"zero": 1}, {}),
    "ZeRO 2, a tied table on two stages": ("old", THREE | SP | {"zero": 2}, {}),
    "ZeRO 3": ("new", THREE | {"zero": 3}, {}),
    "ZeRO 3, tied, no pipeline": ("old", {"dp": 4, "tp": 2, "zero": 3}, {}),
    "interleaved, another order of axes": (
        "new", THREE | {"interleave": 2}, {"order": ("pp", "tp", "dp")}),
    "gpipe, two sequences at a time": (
        "old", THREE | {"micro_batch": 2}, {"schedule": pipeline.gpipe}),
    "zero bubble": ("old", THREE, {"schedule": partial(pipeline.zero_bubble, c=1)}),
    "zero bubble, searched for": (
        "old", THREE, {"schedule": partial(pipeline.automatic_schedule, memory=3, w=0.5)}),
    "zero bubble on a V, tied on one rank": (
        "old", THREE | SP | {"interleave": 2}, {"schedule": pipeline.zb_v}),
    "dual pipe, every stage twice, ZeRO 2": (
        "old", THREE | {"interleave": 1, "zero": 2}, {"schedule": pipeline.dual_pipe}),
    "uneven stages": ("new", {"pp": 2, "dp": 4, "stages": (3, 1)}, {}),
    "everything again": ("old", THREE | {"recompute": "full"}, {}),
    "the core again, sharded": ("old", THREE | SP | {"recompute": "selective", "zero": 3, "pp": 1,
                                                     "dp": 4}, {}),
    "segments of two layers": ("new", THREE | {"recompute": "full", "segment": 2}, {}),
    "tokens and their halves": ("new", {"cp": 2, "dp": 2, "tp": 2, "zero": 1} | SP, {}),
    "keys gathered": ("old", {"cp": 2, "pp": 2, "tp": 2},
                      {"attention": "all-gather", "tokens": layouts.contiguous}),
    "heads for tokens": ("old", {"cp": 4, "dp": 2}, {"attention": "ulysses"}),
    "more ranks than key heads": ("new", {"tp": 4, "dp": 2} | SP, {}),
    "experts": ("experts", THREE | SP | {"ep": 2}, {}),
    "experts on data x context": ("experts", {"dp": 2, "cp": 2, "pp": 2, "ep": 4, "zero": 2}, {}),
    "five axes": ("experts", {"cp": 2, "tp": 2, "pp": 2, "ep": 2} | SP, {}),
    "replicated experts, ZeRO 3": ("experts", {"dp": 4, "tp": 2, "zero": 3}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", EQUAL.values(), ids=EQUAL)
def test_every_gradient_the_norm_and_the_weights_are_those_of_one_process(eight, case):
    kind, layout, options = case
    assert wrong(largest_errors(eight, kind, layout, **options)) == {}


def test_twenty_steps_of_adam_end_in_the_weights_of_one_process(eight):
    errors = largest_errors(eight, "old", THREE | SP | {"zero": 1}, steps=20)
    assert wrong(errors, tolerance=1e-10) == {}


def only(kept):
    """Add gradients over this group alone, whatever the rule says."""

    def change(run):
        group = kept(run.places)
        run.replicas = dict.fromkeys(run.replicas, group)

    return change


def is_noticed(ranks, kind, layout, change) -> bool:
    """Whether the gradients of a changed run are wrong; its ranks may say different things."""
    found = ranks.run(on_ranks, kind, Layout(**layout), tuple(layout_axes(layout)), 8, 8, 1, change)
    return all(
        "gradients" in wrong(errors_of(one, one_process(kind, 8, 8, 1)), 1e-3) for one in found
    )


def layout_axes(layout):
    return [axis for axis in ("dp", "cp", "pp", "tp") if axis in layout]


@pytest.mark.parametrize(
    "kind, layout, kept",
    [
        ("new", {"dp": 2, "cp": 2, "tp": 2}, lambda places: places.cp),
        ("new", {"dp": 2, "cp": 4}, lambda places: places.tp),
        ("experts", {"dp": 4, "tp": 2, "ep": 2}, lambda places: places.experts),
    ],
    ids=["dp", "cp and dp", "replicas of experts"],
)
def test_sabotage_an_axis_that_is_left_out_shows(eight, kind, layout, kept):
    assert is_noticed(eight, kind, layout, only(kept))


def test_sabotage_a_norm_whose_share_is_not_added_over_tp_shows(eight):
    def forget(run):
        for stage in run.stages.values():
            for module in stage.modules():
                if hasattr(module, "lead_in"):
                    module.lead_in = lambda parameter: parameter

    assert is_noticed(eight, "new", THREE | SP, forget)


def test_sabotage_a_mean_of_the_micro_batches_means_shows(eight):
    def average(run):
        whole = run._loss
        run._loss = lambda y, t, count: whole(y, t, count=8 * max(1, int((t != -100).sum())))

    assert is_noticed(eight, "new", THREE, average)


def bfloat16_errors(kind, layout):
    import torch

    from dtlib.models.equality import relative_errors, worst

    spec, layout = SPECS[kind], Layout(**layout)
    ((tokens, targets),) = some_batches(spec, 8, 8, 1)
    found = {}
    for dtype in (None, torch.bfloat16):
        run = parallelize(GPT(spec), Mesh.of(dp=2, pp=2, tp=2), layout, dtype=dtype)
        run.forward_backward(tokens, targets)
        found[dtype] = run.gradients()
    kinds = {x.dtype for x in found[torch.bfloat16].values()}
    return kinds, worst(relative_errors(found[torch.bfloat16], found[None]))[1]


def test_in_sixteen_bits_it_computes_otherwise_and_keeps_gradients_in_thirty_two(eight):
    for kinds, error in eight.run(bfloat16_errors, "new", THREE | SP):
        assert kinds == {torch.float32}
        assert 1e-4 < error < 0.5


def told(kind, mesh, layout, sequences=8, seq=8, **options):
    """What a rank is told that wants this."""
    spec = SPECS[kind]
    ((x, y),) = some_batches(spec, sequences, seq, 1)
    try:
        parallelize(GPT(spec), Mesh.of(**mesh), Layout(**layout), **options).forward_backward(x, y)
    except (ValueError, RuntimeError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "says, kind, mesh, layout, options",
    [
        ("the mesh's dp is 4, but must be 2, as in the layout", "new", {"dp": 4, "tp": 2},
         {"dp": 2, "tp": 2, "pp": 2}, {}),
        ("an axis of the mesh is 'ep'", "experts", {"ep": 8}, {"dp": 8}, {}),
        ("tp is 8, but must be a divisor of heads, which is 4", "new", {"tp": 8}, {"tp": 8}, {}),
        ("ep is 2, but must be 1: the model has no experts", "new", {"dp": 8},
         {"dp": 8, "ep": 2}, {}),
        ("zero is 3, but must be below 3: an expert has other replicas", "experts", {"dp": 8},
         {"dp": 8, "ep": 2, "zero": 3}, {}),
        ("zero is 3, but must be below 3: a table of the first stage", "old", THREE,
         THREE | {"zero": 3}, {}),
        ("pp is 8, but must be a divisor of the 4 layers", "new", {"pp": 8}, {"pp": 8}, {}),
        ("attention is 'flash', but must be one of", "new", THREE, THREE, {"attention": "flash"}),
        ("interleave is 1, but must be 2, as many stages as ZB-V gives each rank", "new", THREE,
         THREE, {"schedule": pipeline.zb_v}),
        ("offload is ('optimizer',), but must be ()", "new", THREE,
         THREE | {"offload": ["optimizer"]}, {}),
        ("batch is 7, but must be a multiple of dp x micro_batch, which is 2", "new", THREE, THREE,
         {"sequences": 7}),
        ("tp is 2, but must be a divisor of the tokens of a rank of cp, which is 7", "new", THREE,
         THREE | SP, {"seq": 7}),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_said_on_every_rank(eight, says, kind, mesh, layout, options):
    for message in eight.run(told, kind, mesh, layout, **options):
        assert says in message


def gradients_without_an_optimizer():
    run = parallelize(GPT(SPECS["new"]), Mesh.of(dp=8), Layout(dp=8, zero=1))
    run.gradients()


def test_with_zero_the_optimizer_has_the_gradients(eight):
    with pytest.raises(RankError, match="the optimizer adds up gradients: make it first"):
        eight.run(gradients_without_an_optimizer)
