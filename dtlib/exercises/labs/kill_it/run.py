"""A small training run, and how to tell whether two of them will go on alike."""

import io
from typing import Any

from dtlib.exercises.verdict import NotYet
from dtlib.later import torch

ROWS, WIDTH, BATCH = 56, 6, 8


class Run:
    """A training run on shuffled rows, with dropout, momentum, a schedule and averaged weights.

    Argument: `seed`, for the first weights, the order of the rows, and what dropout drops.
    """

    def __init__(self, seed: int = 0):
        torch.manual_seed(seed)
        nn, optim = torch.nn, torch.optim
        layers = [nn.Linear(WIDTH, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, WIDTH)]
        self.model = nn.Sequential(*layers).double()
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.schedule = optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 40)
        self.average = [weight.detach().clone() for weight in self.model.parameters()]
        self.shuffler = torch.Generator().manual_seed(seed)
        self.order: list[int] = []
        self.cursor = 0

    def train(self, steps: int) -> list[float]:
        """Do some steps; their losses."""
        return [self._step(self._rows()) for _ in range(steps)]

    def __repr__(self) -> str:
        return f"run after {self.schedule.last_epoch} steps"

    def _rows(self) -> Any:
        """The next rows of the data; at the end of them they are shuffled anew."""
        if self.cursor + BATCH > len(self.order):
            self.order = torch.randperm(ROWS, generator=self.shuffler).tolist()
            self.cursor = 0
        rows = self.order[self.cursor : self.cursor + BATCH]
        self.cursor += BATCH
        data = torch.arange(ROWS * WIDTH, dtype=torch.float64).view(ROWS, WIDTH).sin()
        return data[rows]

    def _step(self, x: Any) -> float:
        loss = (self.model(x) - x.roll(1, 1)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        with torch.no_grad():
            for average, weight in zip(self.average, self.model.parameters(), strict=True):
                average.lerp_(weight, 0.1)
        return loss.item()


def things(run: Run) -> dict[str, list]:
    """What a run's next steps depend on, by name, as copies."""
    buffers = [state.get("momentum_buffer") for state in run.optimizer.state.values()]
    return {
        "the weights": _copies(run.model.parameters()),
        "the averaged weights": _copies(run.average),
        "the momentum": _copies(buffers),
        "the learning rate": [group["lr"] for group in run.optimizer.param_groups],
        "the schedule's place": [run.schedule.last_epoch],
        "the order of the rows": list(run.order),
        "the cursor": [run.cursor],
        "the shuffler": _copies([run.shuffler.get_state()]),
        "the random numbers of dropout": _copies([torch.get_rng_state()]),
    }


def differing(one: dict[str, list], other: dict[str, list]) -> list[str]:
    """The names of the things that are not the same, bit for bit."""
    return [name for name, values in one.items() if not _same(values, other[name])]


def packed(state: Any) -> bytes:
    """A state as it lies in a file. Raises NotYet for what no file of plain data can hold."""
    file = io.BytesIO()
    try:
        torch.save(state, file)
        unpacked(file.getvalue())
    except Exception:
        kind = _foreign(state) or type(state).__name__
        raise NotYet(
            f"the state cannot go into a file of plain data, for it has a {kind}: tensors, "
            "numbers, texts, lists and dicts can"
        ) from None
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """The state that another process finds in a file."""
    return torch.load(io.BytesIO(data), weights_only=True)


def _foreign(state: Any) -> str | None:
    """The kind of the first thing in a state that is no plain data."""
    if isinstance(state, dict):
        state = [*state.keys(), *state.values()]
    if isinstance(state, list | tuple):
        return next(filter(None, map(_foreign, state)), None)
    plain = state is None or torch.is_tensor(state) or isinstance(state, int | float | str | bool)
    return None if plain else type(state).__name__


def _copies(tensors: Any) -> list:
    return [t if t is None else t.detach().clone() for t in tensors]


def _same(ones: list, others: list) -> bool:
    if len(ones) != len(others):
        return False
    pairs = zip(ones, others, strict=True)
    return all(torch.equal(a, b) if torch.is_tensor(a) else a == b for a, b in pairs)
