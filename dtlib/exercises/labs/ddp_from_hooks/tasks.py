"""Tasks for data parallelism: modules, their rows, and what the reader's wrapper does with them.

A `Task` is small enough that one process can compute its gradients too. `run` gives each replica
its rows and a wrapper around its copy of the module, and returns what happened, step by step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.exercises.judges.tensors import normal
from dtlib.exercises.worlds.replicas import ReplicaTrace, record_replicas

CAP = 300  # bytes of a bucket: some hold several parameters, one is over the cap


class Task(NamedTuple):
    """A module, and for each rank its micro-batches of (x, y), whose losses are to be averaged."""

    module: Any
    batches: list


class Step(NamedTuple):
    """One step of a run: what rank 0 logged in it, and the gradients of every rank."""

    trace: ReplicaTrace
    number: int
    gradients: list

    @property
    def events(self) -> list:
        ends = [-1] + [i for i, e in enumerate(self.trace.events[0]) if e.text == "step ends"]
        return self.trace.events[0][ends[self.number] + 1 : ends[self.number + 1]]

    @property
    def starts(self) -> list[int]:
        """Where in the log an all-reduce starts."""
        return [i for i, event in enumerate(self.events) if event.what == "starts"]


def run(answer, task, steps=1, quiet=False, after=None) -> list:
    """The steps of the reader's wrapper on each replica: (trace, gradients by rank) each."""
    import copy
    from contextlib import nullcontext

    from dtlib.models import gradients

    def program(comm):
        module = copy.deepcopy(task.module)
        module.rank = comm.rank
        for name, p in module.named_parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(lambda _, name=name: comm.note(f"has {name}"))
        wrapped = answer(module, comm, CAP)
        if after:
            after(module)
        found = []
        for _ in range(steps):
            module.zero_grad()
            batches = task.batches[comm.rank]
            for i, (x, y) in enumerate(batches):
                silent = quiet and i < len(batches) - 1
                with wrapped.no_sync() if silent else nullcontext():
                    (loss(module, x, y) / len(batches)).backward()
                comm.note("quiet" if silent else "backward ends")
            wrapped.finish()
            comm.note("step ends")
            found.append(gradients(module))
        return found

    trace = record_replicas(program, len(task.batches))
    return [
        Step(trace, number, [found[number] for found in trace.results]) for number in range(steps)
    ]


def plan(module) -> list[int]:
    """Numbers in each bucket, by the rule of the lab."""
    sizes: list[int] = []
    room = -1
    for p in reversed([p for p in module.parameters() if p.requires_grad]):
        if p.nbytes > room:
            sizes.append(0)
            room = CAP
        sizes[-1] += p.numel()
        room -= p.nbytes
    return sizes


def _fill(module):
    import torch

    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=seed))
    return module.double()


def _batches(ranks, micro_batches, width=6):
    """Rows for each rank and micro-batch; all micro-batches have as many."""
    return [
        [
            (normal(4, width, seed=100 + 10 * r + a), normal(4, 1, seed=500 + 10 * r + a))
            for a in range(micro_batches)
        ]
        for r in range(ranks)
    ]


def chain(ranks: int, micro_batches: int = 1) -> Task:
    from torch import nn

    layers = [nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 1)]
    return Task(_fill(nn.Sequential(*layers)), _batches(ranks, micro_batches))


def branches(used: Callable) -> Task:
    """Two branches; `used(rank)` says which of them a rank runs, in which order."""
    from torch import nn

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.rank = nn.Linear(6, 9), nn.Linear(6, 4), 0

        def forward(self, x):
            return sum(
                getattr(self, name)(x).tanh().sum(1, keepdim=True) for name in used(self.rank)
            )

    return Task(_fill(Branches()), _batches(2, 1))


def tied() -> Task:
    from torch import nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.middle, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
            self.last.weight = self.first.weight

        def forward(self, x):
            return self.last(self.middle(self.first(x).tanh())).tanh().sum(1, keepdim=True)

    return Task(_fill(Tied()), _batches(2, 1))


def freeze(module: Any) -> None:
    """Take the gradients from the middle layer of a chain."""
    module[2].requires_grad_(False)


def frozen() -> Task:
    task = chain(ranks=2)
    freeze(task.module)
    return task


def reference_gradients(task: Task, after: Callable | None = None) -> dict:
    """Gradients of one process that has all batches: each rank in turn, the mean over all."""
    import copy

    from dtlib.models import gradients

    module = copy.deepcopy(task.module)
    if after:
        after(module)
    ranks, micro_batches = len(task.batches), len(task.batches[0])
    for rank, batches in enumerate(task.batches):
        module.rank = rank
        for x, y in batches:
            (loss(module, x, y) / (ranks * micro_batches)).backward()
    return gradients(module)


def loss(module, x, y):
    return ((module(x) - y) ** 2).mean()
