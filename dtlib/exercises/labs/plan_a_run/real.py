"""The lab on real ranks: what a machine can do, what a step sends, whether it is right, its time.

Each function runs on every rank of a world. A time is that of the slowest rank, on all of them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
import torch.distributed as dist

from dtlib.composition import parallelize
from dtlib.exercises.labs.plan_a_run.job import Job
from dtlib.layout import Layout
from dtlib.mesh import Mesh
from dtlib.models import GPT, next_token_loss, relative_errors

SEQUENCES = (1, 2, 4, 8, 16)  # of a pass
BYTES = (4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304)  # of a message


def seconds_of(run: Callable[[], object], alone: bool = False) -> float:
    """How long the slowest rank takes; `alone`, how long rank 0 does, while the others wait."""
    dist.barrier()
    begin = time.perf_counter()
    if not alone or dist.get_rank() == 0:
        run()
    taken = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
    if alone:
        dist.broadcast(taken, 0)
    else:
        dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return taken.item()


def samples_of(job: Job, rounds: int) -> dict[str, list[tuple[int, float]]]:
    """Pairs (size, seconds) of four kinds, round by round, with the first round left out.

    "alone": a pass of so many sequences on rank 0, forward and backward, while the others wait;
    "crowd": the same on all ranks at once; "sum": an all-reduce of so many bytes among all ranks;
    "hop": every rank sends so many bytes to the next one.
    """
    torch.set_num_threads(1)
    model, tokens = GPT(job.spec, seed=0), batch_of(job)
    found: dict[str, list] = {kind: [] for kind in ("alone", "crowd", "sum", "hop")}
    for turn in range(rounds + 1):
        for b in SEQUENCES:
            rows = tokens[:b]

            def one_pass(rows=rows):
                next_token_loss(model(rows[:, :-1]), rows[:, 1:]).backward()

            found["alone"] += [(b, seconds_of(one_pass, alone=True))] * (turn > 0)
            found["crowd"] += [(b, seconds_of(one_pass))] * (turn > 0)
        for n in BYTES:
            x = torch.zeros(n // 4)
            total = seconds_of(lambda x=x: dist.all_reduce(x))
            hop = seconds_of(lambda x=x: _hop(x))
            found["sum"] += [(n, total)] * (turn > 0)
            found["hop"] += [(n, hop)] * (turn > 0)
    return found


def _hop(x: torch.Tensor) -> None:
    rank, P = dist.get_rank(), dist.get_world_size()
    arriving = dist.irecv(torch.empty_like(x), (rank - 1) % P)
    dist.send(x, (rank + 1) % P)
    arriving.wait()


def batch_of(job: Job) -> torch.Tensor:
    """The tokens of a step, the same on every rank; the last column is only a target."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(job.spec.vocab, (job.batch, job.seq + 1), generator=generator)


@contextmanager
def running(layout: Layout, job: Job, dtype: torch.dtype = torch.float32) -> Iterator:
    """The job's model on all ranks as a layout says, and its batch; its groups are given back."""
    torch.set_num_threads(1)
    mesh = Mesh.of(dp=layout.dp, pp=layout.pp, tp=layout.tp)
    run = parallelize(GPT(job.spec, seed=0).to(dtype), mesh, layout)
    try:
        yield run, batch_of(job)
    finally:
        run.close()


def counted_traffic(layout: Layout, job: Job) -> dict[str, tuple[int, float]]:
    """Calls of this rank in a step, and bytes that it sends, along each axis of several ranks."""
    with running(layout, job) as (run, tokens), run.counted() as logs:
        run.forward_backward(tokens[:, :-1], tokens[:, 1:])
    found = {}
    for axis, group, kind in (
        ("tp", "tp", "all_reduce"), ("pp", "pp", "send"), ("dp", "tokens", "all_reduce"),
    ):  # fmt: skip
        if getattr(layout, axis) > 1:
            found[axis] = logs[group].calls[kind], float(logs[group].bytes[kind])
    return found


def largest_error(layout: Layout, job: Job) -> float:
    """The largest relative error of any gradient of a step, beside those of one process."""
    alone = GPT(job.spec, seed=0).double()
    with running(layout, job, torch.float64) as (run, tokens):
        next_token_loss(alone(tokens[:, :-1]), tokens[:, 1:]).backward()
        run.forward_backward(tokens[:, :-1], tokens[:, 1:])
        due = {name: weight.grad for name, weight in alone.named_parameters()}
        return max(relative_errors(run.gradients(), due).values())


@contextmanager
def trials_of(layouts: Mapping[str, Layout], job: Job) -> Iterator[dict[str, Callable]]:
    """For each name a function that runs one step of that layout on all ranks; its seconds."""
    with ExitStack() as stack:
        yield {
            name: _trial(*stack.enter_context(running(layout, job)))
            for name, layout in layouts.items()
        }


def _trial(run, tokens: torch.Tensor) -> Callable[[], float]:
    optimizer = run.optimizer(torch.optim.SGD, lr=0.01)

    def step():
        run.forward_backward(tokens[:, :-1], tokens[:, 1:])
        optimizer.step()
        optimizer.zero_grad()

    return lambda: seconds_of(step)
