"""Four axes on eight ranks: one process's gradients, and which of them a wrong group spoils."""

import pytest
import torch

from dtlib.composition import parallelize
from dtlib.foundations import MoE, TransformerSpec, published_models
from dtlib.layout import Layout
from dtlib.memory import rank_memory
from dtlib.mesh import Mesh, make_groups
from dtlib.models import GPT, gradients, next_token_loss, relative_errors
from dtlib.parallelism import counted, ring_attention_bytes

SPEC = TransformerSpec(
    "tiny", layers=2, hidden=16, heads=4, kv_heads=2, vocab=16, norm="rms", bias=False,
    gated=True, tied=True, moe=MoE(experts=4, active=2, ffn=16),
)  # fmt: skip
LAYOUTS = [
    Layout(dp=2, cp=2, tp=2, ep=4, sequence_parallel=True, micro_batch=2),
    Layout(dp=2, cp=2, pp=2, ep=2, micro_batch=2),
    Layout(cp=2, tp=2, pp=2, ep=2, sequence_parallel=True, micro_batch=2),
]


@pytest.fixture(scope="module")
def due():
    model = GPT(SPEC, dtype=torch.float64)
    tokens, targets = data()
    loss = next_token_loss(model(tokens), targets)
    loss.backward()
    return loss.item(), gradients(model)


def data():
    draw = torch.Generator().manual_seed(25)
    tokens = torch.randint(16, (8, 17), generator=draw)
    return tokens[:, :-1], tokens[:, 1:]


def mesh_of(layout):
    return Mesh.of(**{axis: getattr(layout, axis) for axis in ("pp", "dp", "cp", "tp")})


def one_step(layouts):
    found = []
    for layout in layouts:
        run = parallelize(GPT(SPEC, dtype=torch.float64), mesh_of(layout), layout)
        with counted(run.places.cp) as ring:
            loss = run.forward_backward(*data())
        found.append((loss.item(), run.gradients(), ring.bytes["send"]))
    return found


@pytest.fixture(scope="module")
def steps(eight):
    return eight.run(one_step, LAYOUTS)


def test_four_axes_equal_one_process_in_every_gradient(steps, due):
    for of_rank in steps:
        for loss, found, _ in of_rank:
            assert loss == pytest.approx(due[0], rel=1e-12)
            assert found.keys() == due[1].keys()
            assert max(relative_errors(found, due[1]).values()) < 1e-12


def test_the_ring_sends_what_the_formula_says(steps):
    for number, layout in enumerate(LAYOUTS):
        once = ring_attention_bytes(
            micro_batch=2, seq=16, hidden=16 / layout.tp, heads=4, kv_heads=2, cp=2, element_bytes=8
        )
        times = 2 * (2 / layout.pp) * layout.micro_batches(8)
        assert {of_rank[number][2] for of_rank in steps} == {times * once}


def by_other_groups(changes):
    """The losses and gradients of a step whose gradients are added over the groups of a change."""
    mesh, found = mesh_of(LAYOUTS[0]), []
    along = make_groups(mesh)
    for dense, expert in changes:
        run = parallelize(GPT(SPEC, dtype=torch.float64), mesh, LAYOUTS[0])
        right = {"tokens": run.places.tokens, "replicas": run.places.sums["replicas",]}
        groups = {**along, **right}
        run.replicas = {
            p: groups[expert if group is right["replicas"] else dense]
            for p, group in run.replicas.items()
        }
        found.append((run.forward_backward(*data()).item(), run.gradients()))
    return found


def test_a_wrong_group_is_found_by_name_and_by_no_loss(eight, due):
    changes = {
        ("tokens", "replicas"): set(),
        ("dp", "replicas"): {"dense"},
        ("cp", "replicas"): {"dense"},
        ("tokens", "tokens"): {"experts"},
        ("tokens", "dp"): {"experts"},
        ("dp", "tokens"): {"dense", "experts"},
    }
    loss, right = due
    kinds = {name: "experts" if "experts" in name else "dense" for name in right}
    found = eight.run(by_other_groups, list(changes))[0]
    for (seen, grads), spoilt in zip(found, changes.values(), strict=True):
        errors = relative_errors(grads, right)
        assert seen == pytest.approx(loss, rel=1e-12)
        assert {n for n, e in errors.items() if e > 1e-9} == {
            name for name, kind in kinds.items() if kind in spoilt
        }


def test_experts_leave_the_optimizers_state_as_large_as_it_was():
    spec = published_models["mixtral-8x22b"]
    layout = Layout(dp=4, cp=2, tp=8, pp=4, zero=1, sequence_parallel=True)
    held = {ep: rank_memory(spec, layout, ep=ep, seq=65536).terms() for ep in (1, 2, 4, 8)}
    for ep, terms in held.items():
        for part in ("expert_master", "expert_moments"):
            assert terms[part] == pytest.approx(held[1][part], rel=1e-9)
        assert terms["expert_weights"] == pytest.approx(held[1]["expert_weights"] / ep, rel=1e-9)
