"""All nine ways to divide two matrices compute the same; what they send is what the table says."""

from itertools import product

import pytest
import torch

from dtlib.parallelism.tensor import splits
from dtlib.parallelism.tensor.splits import CUTS, split_steps
from dtlib.runtime import launch

HIDDEN, FFN, TOKENS = 8, 16, 4
WAYS = list(product(CUTS, CUTS))


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


def split_errors(first, second):
    import torch.distributed as dist
    from torch.nn.functional import gelu

    from dtlib.models import relative_errors
    from dtlib.parallelism import counted
    from dtlib.parallelism.tensor.splits import CUTS, own_part, run_split

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(2)
    shapes = {"X": (4, 8), "W1": (8, 16), "W2": (16, 8)}
    tensors = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }
    toward = torch.randn(4, 8, generator=generator, dtype=torch.float64)
    whole = {name: t.clone().requires_grad_() for name, t in tensors.items()}
    y = gelu(whole["X"] @ whole["W1"]) @ whole["W2"]
    (y * toward).sum().backward()
    own = {name: t.clone().requires_grad_() for name, t in tensors.items()}
    with counted(group) as forward:
        found = run_split(own["X"], own["W1"], own["W2"], first, second, group)
    with counted(group) as backward:
        (found * toward).sum().backward()
    cuts = {"W1": CUTS[first][2], "W2": CUTS[second][2]}
    pairs = {"Y": (found, y), "X": (own["X"].grad, whole["X"].grad)}
    for name, cut in cuts.items():
        pairs[name] = tuple(own_part(t.grad, cut, rank, P) for t in (own[name], whole[name]))
    errors = relative_errors(
        {name: pair[0] for name, pair in pairs.items()},
        {name: pair[1] for name, pair in pairs.items()},
    )
    return errors, forward, backward


@pytest.mark.parametrize(("first", "second"), WAYS)
def test_every_way_computes_y_and_its_gradients_and_sends_what_it_says(ranks, first, second):
    steps = split_steps(first, second, HIDDEN, FFN)
    for errors, *logs in ranks.run(split_errors, first, second):
        assert max(errors.values()) <= 1e-12
        for way, log in zip(("forward", "backward"), logs, strict=True):
            said = sum(step.sent_bytes(way, ranks.n, TOKENS, 8) for step in steps)
            assert log.total_bytes == said
            messages = [m for step in steps if (m := getattr(step, way)) != "nothing"]
            assert sum(log.calls.values()) == len(messages)


def test_columns_then_rows_alone_divides_both_with_one_collective_each_way():
    divided = [way for way in WAYS if "undivided" not in way]
    single = [
        way
        for way in divided
        if sum(step.forward != "nothing" for step in split_steps(*way, 8, 32)) == 1
    ]
    assert single == [("columns", "rows")]
    sent = {
        way: [
            sum(step.sent_bytes(direction, 8, 1, 1) for step in split_steps(*way, 8, 32))
            / (7 / 8 * 8)
            for direction in ("forward", "backward")
        ]
        for way in divided
    }
    assert sent == {
        ("columns", "columns"): [5, 6],
        ("columns", "rows"): [2, 2],
        ("rows", "columns"): [9, 9],
        ("rows", "rows"): [6, 5],
    }


def test_sabotage_partial_sums_that_go_through_the_bend_are_wrong(monkeypatch):
    def late(first):
        import torch.distributed as dist
        from torch.nn.functional import gelu

        from dtlib.parallelism import own_slice, sum_over_ranks

        group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
        generator = torch.Generator().manual_seed(2)
        x, w = (torch.randn(8, 8, generator=generator, dtype=torch.float64) for _ in range(2))
        part = own_slice(x, group, 1) @ w.chunk(P)[rank]
        right = gelu(sum_over_ranks(part, group))
        return float((sum_over_ranks(gelu(part), group) - right).abs().max() / right.abs().max())

    with launch(2, timeout=60) as two:
        assert min(two.run(late, "rows")) > 0.1


def test_another_cut_is_refused():
    with pytest.raises(ValueError, match="second is 'diagonal', but must be one of"):
        splits.split_steps("rows", "diagonal", 8, 32)
