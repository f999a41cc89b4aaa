"""Attention on shares of a sequence equals attention: result, every gradient, every byte sent.

The functions that run on the ranks import what they need themselves.
"""

from fractions import Fraction

import pytest

from dtlib.runtime import launch

LAYOUTS = ("contiguous", "zigzag", "striped")
METHODS = ("ring", "all-gather", "ulysses", "lean ring")
B, N, S, D = 2, 8, 16, 4


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


def run(method, layout, kv_heads, causal, spoil=None, dtype="float64", tiles=2):
    """On a rank: the worst error of result, dq, dk, dv, against torch's own attention; the log."""
    import torch
    import torch.distributed as dist

    from dtlib.models import relative_errors, worst
    from dtlib.parallelism import counted
    from dtlib.parallelism.sequence import attention as library
    from dtlib.parallelism.sequence import layouts
    from dtlib.parallelism.sequence.lean import lean_ring_attention

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    drawn = torch.Generator().manual_seed(17)
    shapes = [(B, N, S, D), (B, kv_heads, S, D), (B, kv_heads, S, D), (B, N, S, D)]
    q, k, v, g = (torch.randn(s, generator=drawn, dtype=getattr(torch, dtype)) for s in shapes)
    whole = [x.clone().requires_grad_() for x in (q, k, v)]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    expected = sdpa(*whole, is_causal=causal, enable_gqa=True)
    expected.backward(g)

    table = getattr(layouts, layout)(S, P)
    own = torch.as_tensor(table[rank])
    share = [x[:, :, own].clone().requires_grad_() for x in (q, k, v)]
    functions = dict(library_functions(library), **{"lean ring": lean_ring_attention})
    given = table if spoil != "local positions" else table % (S // P)
    undo = spoilt(library, spoil)
    with counted(group) as forward:
        out = functions[method](*share, given if causal else None, group, tiles)
    with counted(group) as backward:
        out.backward(g[:, :, own].contiguous())
    undo()
    found = {"out": out.detach(), **dict(zip("qkv", (x.grad for x in share), strict=True))}
    right = {"out": expected.detach(), **dict(zip("qkv", (x.grad for x in whole), strict=True))}
    right = {name: x[:, :, own] for name, x in right.items()}
    return worst(relative_errors(found, right)), (forward.calls, forward.bytes), backward.bytes


def library_functions(library):
    return {
        "ring": library.ring_attention,
        "all-gather": library.all_gather_attention,
        "ulysses": library.ulysses_attention,
    }


def spoilt(library, how):
    """Break the library on this rank; returns what mends it."""
    import torch

    shift, inverse = library.shift, library.heads_to_sequence
    if how == "K without V":
        library.shift = lambda pair, group: (shift(pair, group)[0], pair[1])
    if how == "heads as tokens":
        library.heads_to_sequence = lambda x, group: torch.cat(
            library.all_to_all(torch.stack(x.chunk(group.size(), dim=2)), group).unbind(), dim=2
        ).reshape(x.shape[0], -1, x.shape[2] // group.size(), x.shape[3])

    def mend():
        library.shift, library.heads_to_sequence = shift, inverse

    return mend


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_and_layout_equals_attention_in_result_and_gradients(ranks, method, layout):
    for causal in (True, False):
        for kv_heads in (8, 2, 1):
            for (name, error), _, _ in ranks.run(run, method, layout, kv_heads, causal):
                assert error < 1e-12, (causal, kv_heads, name)


@pytest.mark.parametrize("method", METHODS)
def test_in_single_precision_to_rounding(ranks, method):
    for (name, error), _, _ in ranks.run(run, method, "zigzag", 2, True, None, "float32"):
        assert error < 1e-5, name


@pytest.mark.parametrize("method", METHODS)
def test_in_half_precision_to_its_eight_bits(ranks, method):
    for (name, error), _, _ in ranks.run(run, method, "zigzag", 2, True, None, "bfloat16"):
        assert error < 2**-5, name


def differentiate_twice():
    import torch
    import torch.distributed as dist

    from dtlib.parallelism import lean_ring_attention
    from dtlib.parallelism.sequence import layouts

    P = dist.get_world_size()
    q, k, v = torch.ones(3, 1, 1, 2, 4).unbind()
    q.requires_grad_()
    out = lean_ring_attention(q, k, v, layouts.contiguous(2 * P, P), dist.group.WORLD)
    (gradient,) = torch.autograd.grad((out**2).sum(), q, create_graph=True)
    try:
        gradient.sum().backward()
    except RuntimeError as error:
        return str(error)


def test_the_lean_ring_refuses_to_be_differentiated_twice(ranks):
    assert all("once_differentiable" in said for said in ranks.run(differentiate_twice))


@pytest.mark.parametrize("tiles", [1, 3, 8])
def test_however_a_block_is_cut(ranks, tiles):
    for method in ("ring", "lean ring"):
        for (name, error), _, _ in ranks.run(
            run, method, "zigzag", 2, True, None, "float64", tiles
        ):
            assert error < 1e-12, name


@pytest.mark.parametrize("kv_heads", [8, 2, 1])
def test_every_byte_is_that_of_the_formula(ranks, kv_heads):
    from dtlib.parallelism.sequence import cost

    P = ranks.n
    sizes = {
        "micro_batch": B, "seq": S, "hidden": N * D, "heads": N, "kv_heads": kv_heads,
        "cp": Fraction(P), "element_bytes": 8,
    }  # fmt: skip
    ring, lean = cost.ring_attention_bytes(**sizes), cost.lean_ring_backward_bytes(**sizes)
    for method, operation, sent, back in (
        ("ring", "send", ring, ring),
        ("lean ring", "send", ring, lean),
        ("ulysses", "all_to_all", *[cost.ulysses_attention_bytes(**sizes)] * 2),
    ):
        for _, (calls, forward), backward in ranks.run(run, method, "zigzag", kv_heads, True):
            assert forward == {operation: sent}
            assert backward == {operation: back}
            assert calls[operation] == (4 if method == "ulysses" else 2 * (P - 1))
    for _, (calls, forward), backward in ranks.run(run, "all-gather", "zigzag", kv_heads, True):
        assert (calls, forward) == ({"all_gather": 2}, {"all_gather": ring})
        assert backward == {"reduce_scatter": ring}


@pytest.mark.parametrize(
    ("spoil", "method"),
    [("local positions", "ring"), ("K without V", "ring"), ("heads as tokens", "ulysses")],
)
def test_sabotage_is_noticed(ranks, spoil, method):
    errors = [error for (_, error), _, _ in ranks.run(run, method, "contiguous", 8, True, spoil)]
    assert max(errors) > 0.1


def refused(function, shape_q, shape_k, rows):
    import torch
    import torch.distributed as dist

    from dtlib.parallelism.sequence import attention as library

    q, k = torch.zeros(shape_q), torch.zeros(shape_k)
    table = torch.arange(rows * shape_q[2]).reshape(rows, -1)
    try:
        getattr(library, function)(q, k, k, table, dist.group.WORLD)
    except ValueError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize(
    ("function", "heads", "kv_heads", "said"),
    [
        ("ulysses_attention", 6, 6, "P is 4, but must be a divisor of the query heads, which is 6"),
        ("ulysses_attention", 12, 6, "kv_heads is 6, but must be a multiple or a divisor of P = 4"),
        ("ring_attention", 4, 3, "kv_heads is 3, but must be a divisor of heads, which is 4"),
    ],
)
def test_heads_that_do_not_fit_are_refused(function, heads, kv_heads, said):
    with launch(4, timeout=60) as ranks:
        for message in ranks.run(refused, function, (1, heads, 4, 2), (1, kv_heads, 4, 2), 4):
            assert said in message
        for message in ranks.run(refused, "ring_attention", (1, 2, 4, 2), (1, 2, 4, 2), 2):
            assert "the shape of positions is (2, 4), but must be (4, 4): one row for" in message
