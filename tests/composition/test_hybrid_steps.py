"""Several steps of a run with all strategies: what adds up, what waits, what is scaled and counted.

The functions that run on the ranks compare with one process there.
"""

from contextlib import contextmanager, nullcontext
from functools import partial
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from hybrid_cases import SPECS, some_batches

from dtlib.composition import parallelize
from dtlib.composition.hybrid import parallel
from dtlib.layout import Layout
from dtlib.memory import ShardedGradScaler
from dtlib.memory.zero.square import NormalisedSGD
from dtlib.mesh import Mesh
from dtlib.models import GPT, next_token_loss, relative_errors
from dtlib.parallelism import pipeline, tensor_parallel_layer_bytes, vocab_loss_bytes
from dtlib.parallelism.pipeline import pipeline_sent_bytes

THREE = {"dp": 2, "pp": 2, "tp": 2}


def run_of(kind, layout, weights=torch.float64, **options):
    layout = Layout(**layout)
    mesh = Mesh.of(**{axis: getattr(layout, axis) for axis in ("dp", "cp", "pp", "tp")})
    return parallelize(GPT(SPECS[kind], dtype=weights), mesh, layout, **options)


@contextmanager
def added_again(replicas, late):
    """Sums of earlier steps are added once more."""
    yield
    for parameter, group in replicas.items():
        dist.all_reduce(parameter.grad, group=group)


FORGOTTEN = {
    "what comes late": {"added_late": lambda *_: set()},
    "what was there": {"added_once": added_again},
}


def added_up(kind, layout, forget=None, **options) -> float:
    """The largest error of gradients that two batches have left."""
    batches = some_batches(SPECS[kind], 8, 8, 2)
    whole = GPT(SPECS[kind], dtype=torch.float64)
    with mock.patch.multiple(parallel, **FORGOTTEN[forget]) if forget else nullcontext():
        run = run_of(kind, layout, **options)
        run.optimizer(torch.optim.SGD, lr=1.0)
        for tokens, targets in batches:
            next_token_loss(whole(tokens), targets).backward()
            run.forward_backward(tokens, targets)
    due = {name: p.grad for name, p in whole.named_parameters()}
    found = run.gradients()
    run.close()
    return max(relative_errors(found, due).values())


CASES = {
    **{f"ZeRO {zero}": ("new", THREE | {"zero": zero}, {}) for zero in range(4)},
    **{f"two copies of a stage, ZeRO {zero}": (
        "new", THREE | {"zero": zero}, {"schedule": pipeline.dual_pipe}) for zero in range(4)},
    "a tied table, ZeRO 2": ("old", THREE | {"zero": 2}, {}),
    "experts, ZeRO 2": ("experts", {"dp": 4, "tp": 2, "ep": 2, "zero": 2}, {}),
    "W apart, ZeRO 3": ("new", {"dp": 4, "pp": 2, "zero": 3},
                        {"schedule": partial(pipeline.zero_bubble, c=1)}),
    "a V of uneven stages": ("new", {"dp": 4, "pp": 2, "interleave": 2, "stages": (2, 2)},
                             {"schedule": pipeline.zb_v}),
    "segments": ("experts", {"dp": 2, "cp": 2, "tp": 2, "recompute": "full", "segment": 3}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_of_two_batches_add_up(eight, case):
    kind, layout, options = case
    for error in eight.run(added_up, kind, layout, **options):
        assert error < 1e-12


SABOTAGE = {
    "a stage's other copy": ("what comes late", "new", 2, {"schedule": pipeline.dual_pipe}),
    "a tied table": ("what comes late", "old", 2, {}),
    "the first batch": ("what was there", "new", 0, {}),
}


@pytest.mark.parametrize("case", SABOTAGE.values(), ids=SABOTAGE)
def test_sabotage_gradients_that_are_taken_too_early_or_twice_are_wrong(eight, case):
    forget, kind, zero, options = case
    for error in eight.run(added_up, kind, THREE | {"zero": zero}, forget, **options):
        assert error > 1e-3


FOUR_REPLICAS = {"cp": 2, "dp": 2, "pp": 2, "interleave": 2}


def table_of_both_ends(forget=None):
    """This rank's gradient of the tied table; the stages differ in what else they send."""
    with mock.patch.multiple(parallel, **FORGOTTEN[forget]) if forget else nullcontext():
        run = run_of("old", FOUR_REPLICAS)
        for tokens, targets in some_batches(SPECS["old"], 8, 16, 1):
            run.forward_backward(tokens, targets)
    found = [p.grad for p, piece in run.pieces.of.items() if piece.name == "embedding.weight"]
    run.close()
    return found[0]


def test_a_tied_table_gets_the_same_bits_on_both_of_its_stages(eight):
    first, *others = eight.run(table_of_both_ends)
    assert all(torch.equal(first, other) for other in others)


def test_sabotage_a_table_added_among_what_one_stage_alone_has_differs_in_bits(eight):
    first, *others = eight.run(table_of_both_ends, "what comes late")
    assert not all(torch.equal(first, other) for other in others)
    assert all((first - other).abs().max() < 1e-15 for other in others)


def scaled_steps(layout, scale, steps=4):
    """Weights, rates and the scale after steps in fp16 whose loss is scaled."""
    run = run_of("new", layout, torch.float32, dtype=torch.float16)
    optimizer = run.optimizer(torch.optim.SGD, lr=0.1)
    scaler = ShardedGradScaler("cpu", init_scale=scale)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    losses = []
    for tokens, targets in some_batches(SPECS["new"], 8, 8, steps):
        factor = scaler.scale(torch.ones(())).item()
        losses.append(run.forward_backward(tokens, targets, factor).item())
        scaler.unscale_(optimizer)
        run.clip(1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        rates.step()
    weights = run.state_dict()
    run.close()
    return weights, optimizer.param_groups[0]["lr"], scaler.get_scale(), losses


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize(
    "more", [{}, {"zero": 1}, {"zero": 3}, {"zero": 3, "recompute": "full"}], ids=str
)
def test_a_scaled_loss_trains_the_same_and_all_ranks_skip_what_overflows(eight, more):
    plain, _, _, losses_then = eight.run(scaled_steps, THREE, 1.0)[0]
    for weights, rate, scale, losses in eight.run(scaled_steps, THREE | more, 2.0**8):
        assert rate == pytest.approx(0.1 / 4) and scale == 2.0**8
        assert max(relative_errors(weights, plain).values()) < 2e-2
        assert losses == pytest.approx(losses_then, rel=1e-3)
    after = {scale for _, _, scale, _ in eight.run(scaled_steps, THREE | more, 2.0**30)}
    assert len(after) == 1 and after.pop() < 2.0**30


def kept_apart():
    """Whether each of the optimizers of a step keeps the state of its own flat tensors only."""
    run = run_of("experts", {"dp": 4, "tp": 2, "ep": 2, "zero": 1})
    optimizer = run.optimizer(torch.optim.AdamW)
    seen = [optimizer.state.get(flat.own, {}) for flat in optimizer.flats]
    for tokens, targets in some_batches(SPECS["experts"], 8, 8, 1):
        run.forward_backward(tokens, targets)
        optimizer.step()
    owned = [{flat.own for flat in one.flats} for one in optimizer.optimizers]
    kept = [set(one.state) for one in optimizer.optimizers]
    run.close()
    return not any(seen), len(owned) > 1, owned == kept, set(optimizer.state) == set.union(*owned)


def test_each_optimizer_keeps_the_state_of_its_own_parts_and_of_no_other(eight):
    assert set(eight.run(kept_apart)) == {(True,) * 4}


def refuses_others():
    with pytest.raises(ValueError, match="optimizer NormalisedSGD is not elementwise"):
        run_of("new", THREE).optimizer(NormalisedSGD, lr=1.0)


def test_an_optimizer_that_looks_beyond_a_piece_is_refused(eight):
    eight.run(refuses_others)


def sent():
    """What a rank sends in a step on three axes, by group; its place and its parameters."""
    run = run_of("new", THREE)
    ((tokens, targets),) = some_batches(SPECS["new"], 8, 8, 1)
    with run.counted() as logs:
        run.forward_backward(tokens, targets)
    own = sum(p.numel() for p in run.parameters())
    run.close()
    return run.places.at, own, {name: log.bytes for name, log in logs.items()}


def test_the_bytes_of_each_axis_are_those_of_its_formula(eight):
    m, layers, stream = 4, 2, {"micro_batch": 1, "seq": 8, "tp": 2, "element_bytes": 8}
    layer = tensor_parallel_layer_bytes(hidden=16, **stream)
    border = pipeline_sent_bytes(8 * 16 * 8, m, p=2, v=1)
    for at, own, logs in eight.run(sent):
        ends = layer / 2 + (vocab_loss_bytes(**stream) if at["pp"] else 0)  # embedding; head, loss
        assert logs["tp"]["all_reduce"] == m * (2 * layers * layer + ends)
        assert logs["pp"]["send"] == border / 2  # one rank there, the other back
        assert logs["tokens"]["all_reduce"] == 8 * own + 8  # gradients; and the loss
        assert logs["cp"] == logs["experts"] == logs["copies"]
