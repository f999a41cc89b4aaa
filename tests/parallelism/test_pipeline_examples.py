"""Random pipelines on real ranks against one process that calls the same stages in turn.

Every schedule, odd sizes, uneven micro-batches, frozen, tied and unused parameters, several tensors
at a border, bf16 autocast, groups that do not begin at rank 0. In 64-bit numbers everything agrees
to 1e-12; under autocast every bit does.
"""

import contextlib
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from dtlib.parallelism.pipeline import (
    automatic_schedule,
    dual_pipe,
    dual_pipe_v,
    gpipe,
    interleaved,
    one_f_one_b,
    zb_v,
    zero_bubble,
)
from dtlib.runtime import launch

RANKS = 4


@st.composite
def schedules(draw):
    p = draw(st.integers(1, 3))
    m = draw(st.integers(1, 5))
    return draw(
        st.sampled_from(
            [
                gpipe(p, m),
                one_f_one_b(p, m),
                interleaved(p, p * (1 + m // 3), 2),
                zero_bubble(p, m, draw(st.sampled_from([0, 1, 1.5, 2]))),
                automatic_schedule(p, m, draw(st.integers(1, 2 * p)), w=0.5, kept=0.25),
                zb_v(p, m),
                dual_pipe_v(p, 2 * p + m % 3),
                dual_pipe(2, 4 + 2 * (m % 3)),
            ]
        )
    )


@st.composite
def pipelines(draw):
    schedule = draw(schedules())
    size, some = st.integers(1, 5), st.lists(st.booleans(), min_size=6, max_size=6)
    return {
        "schedule": schedule,
        "first_rank": draw(st.integers(0, RANKS - schedule.p)),
        "widths": draw(st.lists(size, min_size=schedule.stages + 1, max_size=schedule.stages + 1)),
        "rows": schedule.m + draw(st.integers(0, 4)),
        "frozen": draw(some),
        "unused": draw(some),
        "tied": draw(st.booleans()),
        "passed": draw(st.sampled_from(["nothing", "numbers", "words"])),
        "autocast": draw(st.booleans()),
    }


class Piece(nn.Module):
    """A linear layer and a norm; a shared scale; what else comes is passed on, and used at last."""

    def __init__(self, a: int, b: int, table: nn.Parameter | None, unused: bool, last: bool):
        super().__init__()
        self.linear, self.norm, self.table = nn.Linear(a, b), nn.LayerNorm(b), table
        self.never = nn.Linear(b, 2) if unused else None
        self.last = last

    def forward(self, x, *passed):
        y = x.sum(-1, keepdim=True) / 3 + self.norm(self.linear(x)).tanh()
        y = y if self.table is None else y * (1 + self.table.mean())
        if not self.last:
            return (y, *passed) if passed else y
        return y + sum(extra.to(y.dtype).mean() for extra in passed)


def pieces(example) -> list[Piece]:
    schedule, widths = example["schedule"], example["widths"]
    torch.manual_seed(0)
    n, tied = schedule.stages, example["tied"] and schedule.stages > 1 and not example["autocast"]
    table = nn.Parameter(torch.randn(3))
    stages = []
    for s in range(n):
        shared = table if tied and s in (0, n // 2, n - 1) else None
        stage = Piece(widths[s], widths[s + 1], shared, example["unused"][s % 6], s == n - 1)
        stage.linear.requires_grad_(not example["frozen"][s % 6])
        stage.tied = {} if shared is None else {"table": tuple(sorted({0, n // 2, n - 1}))}
        stages.append(stage if example["autocast"] else stage.double())
    for stage in stages:  # double() gives each its own
        if stage.table is not None:
            stage.table = stages[0].table
    return stages


def batch(example):
    """Micro-batches, of sizes that differ by one, and targets."""
    torch.manual_seed(1)
    dtype = torch.float32 if example["autocast"] else torch.float64
    m, rows, widths = example["schedule"].m, example["rows"], example["widths"]
    x, y = torch.randn(rows, widths[0], dtype=dtype), torch.randn(rows, widths[-1], dtype=dtype)
    extra = torch.randint(9, (rows, 2)) if example["passed"] == "words" else torch.randn(rows, 2, 1)
    extras = [] if example["passed"] == "nothing" else [extra.tensor_split(m)]
    return list(zip(x.tensor_split(m), *extras, strict=True)), list(y.tensor_split(m))


def low(example):
    return torch.autocast("cpu", torch.bfloat16, enabled=example["autocast"])


def loss_of(y, target):
    return F.mse_loss(y.float() if y.dtype == torch.bfloat16 else y, target)


def alone(example):
    stages, (inputs, targets) = pieces(example), batch(example)
    count, whole = sum(y.numel() for y in targets), 0
    for given, target in zip(inputs, targets, strict=True):
        with low(example):
            for stage in stages:
                given = stage(*given) if isinstance(given, tuple) else stage(given)
            loss = target.numel() / count * loss_of(given, target)
        loss.backward()
        whole += loss.item()
    return whole, stages


def errors(examples, forget=False):
    """On a rank, for each example: the largest difference from one process, None without a part."""
    from dtlib.parallelism.pipeline import copies

    nothing = mock.patch.object(copies.Copies, "add", lambda *_: None)
    with nothing if forget else contextlib.nullcontext():
        return [error_of(example) for example in examples]


def error_of(example):
    from dtlib.parallelism.pipeline import run

    schedule, first = example["schedule"], example["first_rank"]
    group = dist.new_group(range(first, first + schedule.p))
    if not first <= dist.get_rank() < first + schedule.p:
        return None
    stages, (inputs, targets) = pieces(example), batch(example)
    held = {s: stages[s] for s in schedule.stages_of(dist.get_rank(group))}
    with low(example):
        done = run(schedule, held, inputs, targets, loss_of, group)
    whole, right = alone(example)
    gaps = [abs(done.loss - whole) / abs(whole)]
    for s, stage in held.items():
        for (name, p), q in zip(stage.named_parameters(), right[s].parameters(), strict=True):
            if q.grad is None or p.grad is None:
                assert p.grad is None and q.grad is None, (s, name)
            else:
                gaps.append((p.grad - q.grad).abs().max().item() / (1 + q.grad.abs().max().item()))
    dist.destroy_process_group(group)
    return max(gaps)


@pytest.fixture(scope="module")
def ranks():
    with launch(RANKS, timeout=120) as four:
        yield four


def test_every_random_pipeline_equals_one_process(ranks, examples):
    drawn = examples(pipelines(), 25)
    for on_rank in ranks.run(errors, drawn):
        for example, error in zip(drawn, on_rank, strict=True):
            exact = example["autocast"] and example["schedule"].name != "DualPipe"
            allowed = 0 if exact else 1e-2 if example["autocast"] else 1e-12
            assert error is None or error <= allowed, (error, example)


def test_sabotage_without_the_sum_of_copies_some_random_pipeline_differs(ranks, examples):
    drawn = examples(pipelines(), 25)
    copied = [e for e in drawn if e["tied"] and not e["autocast"] and e["schedule"].p > 1][:3]
    assert copied
    found = ranks.run(errors, copied, forget=True)
    assert max(error for on_rank in found for error in on_rank if error is not None) > 1e-9
