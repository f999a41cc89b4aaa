"""Every communication operator's backward pass is its transpose, on real ranks.

Functions that run on ranks import what they need themselves.
"""

import pytest
import torch

from dtlib.collectives import PRIMITIVES
from dtlib.collectives.primitives import at_owners, at_root, everywhere, in_columns, in_rows
from dtlib.mesh import Copies, Partial, Replicate, Shard
from dtlib.parallelism import ADJOINTS
from dtlib.runtime import RanksError, launch


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


def test_every_line_of_the_table_is_certified_on_real_ranks(ranks):
    def gaps():
        import torch.distributed as dist

        from dtlib.parallelism import certify

        return certify(dist.group.WORLD)

    for found in ranks.run(gaps):
        assert list(found) == list(ADJOINTS)
        assert max(found.values()) < 1e-15


def test_the_transposes_follow_from_the_placements():
    """The transpose of before -> after goes from the gradient of after to that of before."""
    for line in ADJOINTS.values():
        back = ADJOINTS[line.transpose]
        assert (back.before, back.after) == (line.after.gradient, line.before.gradient)
        assert ADJOINTS[back.transpose] is line
        assert (line.forward, line.backward) == (back.backward, back.forward) or line is back


def test_the_table_is_that_of_the_primitives_and_their_adjoints():
    """Counting once is being at the one root; partial before and copies after are everywhere."""
    places = {Replicate(): {at_root}, Shard(0): {at_owners, in_rows, in_columns}}
    places |= {Partial(): {everywhere}, Copies(): {everywhere}}
    named = {
        "copy_to_ranks": "broadcast",
        "sum_over_ranks": "reduce",
        "own_slice": "scatter",
        "gather_slices": "gather",
        "all_reduce": "all-reduce",
        "all_gather": "all-gather",
        "reduce_scatter": "reduce-scatter",
        "all_to_all": "all-to-all",
    }
    assert set(ADJOINTS) - set(named) == {"shift"}  # messages from one rank to one: a permutation
    for name, primitive in named.items():
        line, primitive = ADJOINTS[name], PRIMITIVES[primitive]
        assert primitive.before in places[line.before] and primitive.after in places[line.after]
        if name != "all_to_all":  # in columns to in rows: the same exchange, read the other way
            assert primitive.adjoint() == PRIMITIVES[named[line.transpose]]


def test_operators_with_other_arguments_are_transposes_too(ranks):
    def gaps():
        import torch.distributed as dist

        from dtlib.parallelism import adjoint_gap

        world, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
        found = {}
        for dim in (0, 1, 2, -1):
            for name in ("all_gather", "reduce_scatter", "own_slice", "gather_slices"):
                found[name, dim] = adjoint_gap(name, (P, 2 * P, 3 * P), world, dim=dim)
        for by in (0, 1, 2, -1, P, P + 1):
            found["shift", by] = adjoint_gap("shift", (3, 2), world, by=by)
        counts = [[(i + 2 * j) % 3 for j in range(P)] for i in range(P)]  # some are 0
        send, receive = counts[rank], [row[rank] for row in counts]
        for kind in (tuple, __import__("torch").tensor):
            found["all_to_all", kind.__name__] = adjoint_gap(
                "all_to_all",
                (sum(send), 4),
                world,
                send_counts=kind(send),
                receive_counts=kind(receive),
            )
        none = [0] * P
        found["nothing"] = adjoint_gap(
            "all_to_all", (0, 4), world, send_counts=none, receive_counts=none
        )
        return found

    for found in ranks.run(gaps):
        assert max(found.values()) < 1e-15, found


def test_the_operators_do_what_their_names_say(ranks):
    def on_this_rank():
        import torch
        import torch.distributed as dist

        from dtlib import parallelism as p

        world, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
        every = torch.stack([torch.arange(2.0 * P) + 100 * r for r in range(P)])
        x = every[rank].clone()
        for found, expected in [
            (p.copy_to_ranks(x, world), x),
            (p.sum_over_ranks(x, world), every.sum(0)),
            (p.all_reduce(x, world), every.sum(0)),
            (p.all_gather(x, world), every.flatten()),
            (p.all_gather(x[None], world, dim=1), every.flatten()[None]),
            (p.reduce_scatter(x, world), every.sum(0)[2 * rank : 2 * rank + 2]),
            (p.all_to_all(x, world), every[:, 2 * rank : 2 * rank + 2].flatten()),
            (p.shift(x, world), every[(rank - 1) % P]),
            (p.shift((x, x[:1]), world, by=-1)[1], every[(rank + 1) % P][:1]),
            (p.own_slice(x, world, dim=0), x[2 * rank : 2 * rank + 2]),
            (p.gather_slices(x, world, dim=0), every.flatten()),
        ]:
            assert torch.equal(found, expected)
            assert found.data_ptr() != x.data_ptr()
        assert torch.equal(x, every[rank])  # nobody's input was written to

    ranks.run(on_this_rank)


def test_a_tuple_travels_together_and_comes_back_with_zeros_for_what_was_not_used(ranks):
    def on_this_rank():
        import torch
        import torch.distributed as dist

        from dtlib.parallelism import counted, shift

        rank, P = dist.get_rank(), dist.get_world_size()
        k, v = (torch.full((2,), float(rank), requires_grad=True) for _ in "kv")
        with counted(dist.group.WORLD) as log:
            moved, _unused = shift((k, v), dist.group.WORLD)
            (moved * (rank + 1)).sum().backward()
        assert k.grad.tolist() == [float((rank + 1) % P + 1)] * 2
        assert v.grad.tolist() == [0.0, 0.0]
        return log.calls

    assert ranks.run(on_this_rank) == [{"send": 4}] * ranks.n


def test_gradients_of_gradients_pass(ranks):
    """With S the sum over P ranks of x = 1. L = S^2/2 counted once: dL/dx = S = P, and the sum of
    that over the ranks has the gradient P. Counted on every rank: P S, and P^2."""

    def on_this_rank():
        import torch
        import torch.distributed as dist

        from dtlib.parallelism import all_reduce, sum_over_ranks

        world, P = dist.group.WORLD, dist.get_world_size()
        twice = []
        for operator in (sum_over_ranks, all_reduce):
            x = torch.ones(3, dtype=torch.float64, requires_grad=True)
            (first,) = torch.autograd.grad(
                operator(x, world).square().sum() / 2, x, create_graph=True
            )
            (second,) = torch.autograd.grad(first.sum(), x)
            twice.append((first[0].item(), second[0].item()))
        return twice, P

    for twice, P in ranks.run(on_this_rank):
        assert twice == [(P, P), (P * P, P * P)]


# What goes wrong, and how it looks


def mlp_on_ranks(f, g):
    """Differences (loss, dW1, dW2, dX) of a tensor-parallel MLP to the dense one, as ratios."""
    import torch
    import torch.distributed as dist

    world, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x, w1, w2 = (torch.randn(*s, dtype=torch.float64) for s in [(6, 8), (8, 16), (16, 8)])
    x_ref, w1_ref, w2_ref = (t.clone().requires_grad_() for t in (x, w1, w2))
    expected = (torch.tanh(x_ref @ w1_ref) @ w2_ref).square().sum()
    expected.backward()
    x.requires_grad_()
    mine1 = w1.chunk(P, dim=1)[rank].clone().requires_grad_()
    mine2 = w2.chunk(P, dim=0)[rank].clone().requires_grad_()
    loss = g(torch.tanh(f(x, world) @ mine1) @ mine2, world).square().sum()
    loss.backward()

    def error(found, reference):
        return ((found - reference).abs().max() / reference.abs().max()).item()

    return (
        error(loss, expected),
        error(mine1.grad, w1_ref.grad.chunk(P, dim=1)[rank]),
        error(mine2.grad, w2_ref.grad.chunk(P, dim=0)[rank]),
        error(x.grad, x_ref.grad),
        (mine1.grad / w1_ref.grad.chunk(P, dim=1)[rank]).median().item(),
    )


def test_f_and_g_make_a_tensor_parallel_mlp_equal_to_the_dense_one(ranks):
    from dtlib.parallelism import copy_to_ranks, sum_over_ranks

    for *errors, _ in ranks.run(mlp_on_ranks, copy_to_ranks, sum_over_ranks):
        assert max(errors) < 1e-12


def test_without_f_only_the_input_gradient_is_wrong(ranks):
    from dtlib.parallelism import sum_over_ranks

    for loss, dw1, dw2, dx, _ in ranks.run(mlp_on_ranks, lambda x, group: x, sum_over_ranks):
        assert max(loss, dw1, dw2) < 1e-12
        assert dx > 0.1


def test_an_all_reduce_with_itself_as_transpose_is_no_g_and_makes_gradients_p_times(ranks):
    from dtlib.parallelism import all_reduce, copy_to_ranks

    for loss, _, dw2, _, times in ranks.run(mlp_on_ranks, copy_to_ranks, all_reduce):
        assert loss < 1e-12
        assert times == pytest.approx(ranks.n, rel=1e-12)
        assert dw2 == pytest.approx(ranks.n - 1, rel=1e-12)


def test_torchs_own_differentiable_all_reduce_is_that_same_wrong_g(ranks):
    def torchs(x, group):
        import torch.distributed.nn.functional as nnf

        return nnf.all_reduce(x, group=group)

    from dtlib.parallelism import copy_to_ranks

    for *_, times in ranks.run(mlp_on_ranks, copy_to_ranks, torchs):
        assert times == pytest.approx(ranks.n, rel=1e-12)


def test_an_all_reduce_in_place_is_silently_no_part_of_the_graph(ranks):
    """It happens to be a right g, whose backward is the identity; and a wrong all_reduce."""

    def in_place(x, group):
        import torch.distributed as dist

        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    def gaps(operator):
        import torch.distributed as dist

        from dtlib.mesh import Copies, Partial, Replicate
        from dtlib.parallelism import adjoint_gap

        world = dist.group.WORLD
        return (
            adjoint_gap(operator, (4, 3), world, before=Partial(), after=Replicate()),
            adjoint_gap(operator, (4, 3), world, before=Partial(), after=Copies()),
        )

    for as_g, as_all_reduce in ranks.run(gaps, in_place):
        assert as_g < 1e-15
        assert as_all_reduce > 0.1


def test_the_certificate_refuses_every_operator_under_another_ones_placements(ranks):
    """Its sabotage twin: f as the identity, g as an all-reduce, gathers mixed up."""

    def gaps():
        import torch
        import torch.distributed as dist

        from dtlib import parallelism as p
        from dtlib.mesh import Copies, Partial, Replicate, Shard

        world, P = dist.group.WORLD, dist.get_world_size()
        shape = (2 * P, 3)

        def gap(operator, before, after):
            return p.adjoint_gap(operator, shape, world, before, after)

        return {
            "no f": gap(lambda x, group: torch.clone(x), Replicate(), Copies()),
            "all_reduce as g": gap(p.all_reduce, Partial(), Replicate()),
            "g as all_reduce": gap(p.sum_over_ranks, Partial(), Copies()),
            "gather once as all_gather": gap(
                lambda x, group: p.gather_slices(x, group, 0), Shard(), Copies()
            ),
            "all_gather as gather once": gap(p.all_gather, Shard(), Replicate()),
            "slice of each as slice of one": gap(
                lambda x, group: x.chunk(P)[dist.get_rank()], Replicate(), Shard()
            ),
        }

    for found in ranks.run(gaps):
        assert min(found.values()) > 1e-3, found


# Bad input


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("reduce_scatter(torch.ones(3 * P + 1), world)", "is not a multiple of P ="),
        ("own_slice(torch.ones(2, P + 1), world, dim=1)", r"x.shape\[1\] = .* is not a multiple"),
        ("all_gather(torch.ones(2), world, dim=1)", "dim = 1; a tensor of shape"),
        ("all_to_all(torch.ones(P + 1), world)", "is not a multiple of P ="),
        ("all_to_all(torch.ones(5), world, [2] * P, [2] * P)", "x has 5 rows"),
        ("all_to_all(torch.ones(5), world, [5], [5])", "one count for each of the"),
        ("all_to_all(torch.ones(P), world, [P + 1] + [0] * (P - 2) + [-1], [1] * P)", "from 0 on"),
        ("all_to_all(torch.ones(P), world, [1] * P)", "receive_counts = None; give the counts"),
        ("all_reduce(torch.ones(2), None)", "group = None; a process group is given explicitly"),
        ("adjoint_gap('al_reduce', (2,), world)", "operator = 'al_reduce'; the table has"),
        ("adjoint_gap(all_reduce, (2,), world, Shard(), 'once')", "after = 'once'; a placement"),
    ],
)
def test_an_error_names_the_argument_its_value_and_the_rule(ranks, call, says):
    def on_this_rank(call):
        import torch
        import torch.distributed as dist

        from dtlib import mesh, parallelism

        names = {
            "torch": torch,
            "Shard": mesh.Shard,
            "world": dist.group.WORLD,
            "P": dist.get_world_size(),
        }
        names |= {name: getattr(parallelism, name) for name in ("all_reduce", "all_gather")}
        names |= {name: getattr(parallelism, name) for name in ("all_to_all", "own_slice")}
        names |= {name: getattr(parallelism, name) for name in ("reduce_scatter", "adjoint_gap")}
        eval(call, names)

    with pytest.raises(RanksError, match=says):
        ranks.run(on_this_rank, call)


def test_how_far_an_operator_is_off_does_not_depend_on_its_size(ranks):
    """A power of two changes no digit, so wrong operators 2^66 times smaller are as wrong."""

    def gaps(scale):
        import torch.distributed as dist

        from dtlib.mesh import Replicate, Shard
        from dtlib.parallelism import adjoint_gap
        from dtlib.parallelism.operators.adjoint import linear

        world, rank = dist.group.WORLD, dist.get_rank()

        def differs(x, group):
            return x * scale * (1 + rank)

        def doubled(x, group):
            return linear(x, lambda x: scale * x, transpose=lambda y: 2 * scale * y)

        return (
            adjoint_gap(differs, (4, 3), world, before=Replicate(), after=Replicate()),
            adjoint_gap(doubled, (4, 3), world, before=Shard(), after=Shard()),
        )

    P, plain = ranks.n, ranks.run(gaps, 1.0)
    assert ranks.run(gaps, 2.0**-66) == plain == ranks.run(gaps, 2.0**66)
    for different, twice in plain:
        assert different == pytest.approx((P - 1) / P, rel=1e-12)  # of P times x, P - 1 too much
        assert twice > 0.01


def test_the_table_shows_itself():
    assert "| `copy_to_ranks` | `sum_over_ranks` | nothing / all-reduce |" in (
        ADJOINTS._repr_markdown_()
    )
    assert "reduce_scatter" in repr(ADJOINTS)


def test_importing_the_room_imports_no_torch():
    import subprocess
    import sys

    code = "import sys, dtlib.parallelism; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert torch  # the operators need it, the formulas of the room do not
