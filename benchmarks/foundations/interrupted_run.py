"""A training run whose ranks are killed, and what more ranks cost: recordings of chapter 5.

    interrupted-run-2-ranks   two ranks train a small network, are killed at random and resume
    scaling-1-2-4-ranks       seconds of one step of the same batch on 1, 2 and 4 ranks

The steps that are lost depend on the seeds alone and are the same on every machine; the seconds are
this machine's.
"""

import itertools
import random
import tempfile
import time
from pathlib import Path

from dtlib import launch, recordings
from dtlib.runtime import RankDied

STEPS, SAVE_EVERY, MEAN_LIFE, RANKS = 120, 10, 60, 2  # all in steps; MEAN_LIFE of one rank
RUNS = 12
WIDTH, BATCH = 256, 256


def train(path, steps, save_every, victim, dies_after, width, batch):
    """On each rank: resume, train, save; the victim kills itself in the middle of a step."""
    import os
    import signal
    import time

    import torch
    import torch.distributed as dist

    def note(word):
        with open(f"{path}.log", "a") as log:
            log.write(f"{word} {time.monotonic()}\n")

    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 0
    if os.path.exists(path):
        saved = torch.load(path)
        first = saved["step"]
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    dist.barrier()
    if rank == 0:
        note("work")
    for step in range(first, steps):
        x = torch.randn(batch, width, generator=torch.Generator().manual_seed(step))
        mine = x[rank * batch // ranks : (rank + 1) * batch // ranks]
        optimizer.zero_grad()
        (model(mine) - mine.flip(1)).square().sum().div(batch).backward()
        if rank == victim and step - first == dies_after:
            note("kill")
            os.kill(os.getpid(), signal.SIGKILL)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if (step + 1) % save_every == 0:
            if rank == 0:
                note("write")
                torch.save(
                    {"step": step + 1, "model": model.state_dict(),
                     "optimizer": optimizer.state_dict()},
                    f"{path}.new",
                )  # fmt: skip
                os.replace(f"{path}.new", path)
                note("written")
            dist.barrier()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def lives(seed):
    """Which rank dies next and after how many whole steps: one exponential clock for each rank."""
    draw = random.Random(seed)
    while True:
        clocks = [draw.expovariate(1 / MEAN_LIFE) for _ in range(RANKS)]
        yield clocks.index(min(clocks)), int(min(clocks))


def executed_steps(seed) -> int:
    """The whole steps that a run of this seed executes, by arithmetic alone."""
    done = total = 0
    for _, life in lives(seed):
        if done + life >= STEPS:
            return total + STEPS - done
        total += life
        done = (done + life) // SAVE_EVERY * SAVE_EVERY
    raise AssertionError


def interrupted(ranks, seed, path):
    """Train to the end through every death; the parameters, the whole steps and the deaths."""
    import torch

    total = deaths = done = 0
    for victim, life in lives(seed):
        try:
            final = ranks.run(train, path, STEPS, SAVE_EVERY, victim, life, WIDTH, BATCH)[0]
            return final, total + STEPS - done, deaths
        except RankDied as error:
            assert error.rank == victim
            deaths += 1
            total += life
            done = torch.load(path)["step"] if Path(path).exists() else 0
    raise AssertionError


def noted(path) -> dict[str, list[float]]:
    """Seconds from a kill until work goes on, and of every checkpoint."""
    events = [line.split() for line in Path(f"{path}.log").read_text().splitlines()]
    found = {"restart": [], "write": []}
    for (word, start), (after, stop) in itertools.pairwise(events):
        if (word, after) == ("kill", "work"):
            found["restart"].append(float(stop) - float(start))
        if (word, after) == ("write", "written"):
            found["write"].append(float(stop) - float(start))
    return found


def measure_interrupted() -> None:
    import torch

    times = {"uninterrupted": [], "interrupted": [], "restart": [], "write": []}
    executed, deaths = [], []
    with tempfile.TemporaryDirectory() as folder, launch(RANKS) as ranks:
        for run in range(-1, RUNS):
            plain, killed = f"{folder}/plain{run}", f"{folder}/killed{run}"
            start = time.perf_counter()
            reference = ranks.run(train, plain, STEPS, SAVE_EVERY, 0, STEPS, WIDTH, BATCH)[0]
            middle = time.perf_counter()
            final, steps, died = interrupted(ranks, run, killed)
            stop = time.perf_counter()
            assert torch.equal(final, reference)
            assert steps == executed_steps(run)
            if run >= 0:
                times["uninterrupted"].append(round(middle - start, 5))
                times["interrupted"].append(round(stop - middle, 5))
                for label, seconds in noted(killed).items():
                    times[label] += [round(t, 6) for t in seconds]
                executed.append(steps)
                deaths.append(died)
    recordings.save(
        "interrupted-run-2-ranks", times, unit="s", ranks=RANKS, steps=STEPS,
        save_every=SAVE_EVERY, mean_life_steps=MEAN_LIFE, executed=executed, deaths=deaths,
    )  # fmt: skip


def step_seconds(steps, width, batch):
    """On each rank: the seconds of steps that all ranks share."""
    import time

    import torch
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width)
    )
    x = torch.randn(batch, width)[rank * batch // ranks : (rank + 1) * batch // ranks]
    seconds = []
    for _ in range(steps + 3):
        dist.barrier()
        start = time.perf_counter()
        model.zero_grad()
        (model(x) - x).square().sum().div(batch).backward()
        if ranks > 1:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        seconds.append(time.perf_counter() - start)
    return seconds[3:]


def measure_scaling() -> None:
    samples = {}
    for count in (1, 2, 4):
        with launch(count) as ranks:
            by_rank = ranks.run(step_seconds, 31, 2 * WIDTH, 4 * BATCH)
        slowest = [max(times) for times in zip(*by_rank, strict=True)]
        samples[f"{count} rank{'s' * (count > 1)}"] = [round(t, 6) for t in slowest]
    recordings.save("scaling-1-2-4-ranks", samples, unit="s", batch=4 * BATCH, width=2 * WIDTH)
