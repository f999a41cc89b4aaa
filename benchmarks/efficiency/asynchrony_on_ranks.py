"""Servers, queues and shared memory on real processes, beside their simulations.

Ranks sleep for as long as a gradient, a sample or an update takes, so that a few cores suffice.

staleness-on-ranks   labels "asynchronous staleness", "asynchronous seconds" and so for each rule:
                     of each gradient its staleness, and the seconds of the run; about it: idle
                     shares, measured and simulated
post-training        labels "cap 0 staleness" and so for each cap; about it: idle shares of both
                     sides, measured and simulated with the same lengths
hogwild              labels "share 0.001" and so: of each run the share of increments that were lost

    python -m benchmarks.efficiency.asynchrony_on_ranks     (three minutes, nearly all of it asleep)
"""

import random
from multiprocessing import get_context, shared_memory

import numpy as np

from dtlib import launch, recordings
from dtlib.efficiency import (
    Admission,
    Asynchronous,
    StaleSynchronous,
    Synchronous,
    simulate_rollouts,
    simulate_server,
)

WORKERS, UPDATES, MEAN = 4, 600, 0.02
RULES = {
    "asynchronous": lambda: Asynchronous(WORKERS),
    "slack 1": lambda: StaleSynchronous(WORKERS, 1),
    "slack 4": lambda: StaleSynchronous(WORKERS, 4),
    "synchronous": lambda: Synchronous(WORKERS),
    "one backup": lambda: Synchronous(WORKERS, backups=1),
}
GENERATORS, BATCH, SAMPLE, TRAINING, ROUNDS = 4, 8, 0.03, 0.06, 100
CAPS = (0, 1, 2, 8)
PLACES, TIMES, PROCESSES = 4000, 20_000, 2


def updates_of(name: str) -> int:
    """A synchronous update uses several gradients."""
    return UPDATES // WORKERS if name in ("synchronous", "one backup") else UPDATES


def serve(name: str):
    """On a rank: a run of the server under a rule."""
    import time

    import torch
    import torch.distributed as dist

    from dtlib.efficiency import parameter_server

    draw = random.Random(dist.get_rank())

    def gradient(x, worker):
        time.sleep(draw.expovariate(1 / MEAN))
        return x

    return parameter_server(
        RULES[name](), gradient, torch.ones(8), dist.group.WORLD, lr=0.01, updates=updates_of(name)
    )


def measure_staleness() -> None:
    """Each rule on ranks, and in virtual time."""
    samples, about = {}, {}
    with launch(WORKERS + 1, timeout=300) as ranks:
        ranks.run(serve, "one backup")  # the first run makes the connections
        for name, rule in RULES.items():
            _, history = ranks.run(serve, name)[0]
            draw = random.Random(0)
            virtual = simulate_server(
                rule(), lambda w, d=draw: d.expovariate(1 / MEAN), updates_of(name)
            )
            samples[f"{name} staleness"] = history.staleness
            samples[f"{name} seconds"] = [round(history.arrivals[-1].time, 3)]
            about[name] = {
                "idle": round(history.idle_fraction, 4),
                "simulated idle": round(virtual.idle_fraction, 4),
                "simulated seconds": round(virtual.arrivals[-1].time, 3),
                "in flight": sum(history.ages_in_flight),
                "updates": history.updates,
            }
            print(name, about[name], flush=True)
    recordings.save(
        "staleness-on-ranks", samples, workers=WORKERS, mean=MEAN, rules=about, unit="updates; s"
    )


def length_of(n: int) -> float:
    """Seconds of sample n, log-normal with a mean of SAMPLE."""
    return SAMPLE * random.Random(n).lognormvariate(-0.5, 1.0)


def post_train_on_ranks(cap: int):
    """On a rank: a run with this cap."""
    import time

    import torch
    import torch.distributed as dist

    from dtlib.efficiency import post_train

    def generate(weights, n):
        time.sleep(length_of(n))
        return torch.zeros(4)

    def train(weights, samples, ages):
        time.sleep(TRAINING)
        return weights

    return post_train(
        Admission(BATCH, cap), generate, train, torch.zeros(4), torch.zeros(4), dist.group.WORLD,
        updates=ROUNDS,
    )  # fmt: skip


def measure_post_training() -> None:
    """Each cap on ranks, and in virtual time with the same lengths."""
    samples, about = {}, {}
    with launch(GENERATORS + 2, timeout=300) as ranks:
        for cap in CAPS:
            _, shares = ranks.run(post_train_on_ranks, cap)[0]
            n = iter(range(10**6))
            virtual = simulate_rollouts(
                Admission(BATCH, cap), GENERATORS, lambda n=n: length_of(next(n)), TRAINING, ROUNDS
            )
            samples[f"cap {cap} staleness"] = shares.staleness
            about[f"cap {cap}"] = {
                "measured": [round(x, 4) for x in (shares.generators, shares.trainer)],
                "simulated": [round(x, 4) for x in (virtual.generators, virtual.trainer)],
                "seconds": round(shares.seconds, 3),
                "simulated seconds": round(virtual.seconds, 3),
            }
            print(cap, about[f"cap {cap}"], flush=True)
    made = [length_of(n) for n in range(BATCH * ROUNDS)]
    recordings.save(
        "post-training",
        samples,
        generators=GENERATORS,
        batch=BATCH,
        training=TRAINING,
        generating=sum(made) / ROUNDS / GENERATORS,
        longest=max(made),
        caps=about,
        unit="updates; s",
    )


def add_one(name: str, share: float, seed: int) -> None:
    """In a process: many times, one more in random places of a shared array, without a lock."""
    memory = shared_memory.SharedMemory(name)
    shared = np.ndarray(PLACES, dtype=np.float64, buffer=memory.buf)
    draw = np.random.default_rng(seed)
    places = [draw.choice(PLACES, max(1, int(share * PLACES)), replace=False) for _ in range(64)]
    for turn in range(TIMES):
        shared[places[turn % 64]] += 1
    del shared
    memory.close()


def lost(share: float) -> float:
    """The share of all increments that are not there in the end."""
    memory = shared_memory.SharedMemory(create=True, size=8 * PLACES)
    shared = np.ndarray(PLACES, dtype=np.float64, buffer=memory.buf)
    shared[:] = 0
    context = get_context("fork")
    processes = [
        context.Process(target=add_one, args=(memory.name, share, seed))
        for seed in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = 1 - float(shared.sum()) / (PROCESSES * TIMES * max(1, int(share * PLACES)))
    del shared
    memory.close()
    memory.unlink()
    return found


def measure_hogwild() -> None:
    """Two processes that add to one array, in a few of its places or in all."""
    samples = {}
    for share in (0.001, 0.01, 0.1, 1.0):
        samples[f"share {share}"] = [round(lost(share), 6) for _ in range(5)]
        print(share, samples[f"share {share}"], flush=True)
    recordings.save(
        "hogwild", samples, places=PLACES, times=TIMES, processes=PROCESSES, unit="share lost"
    )


if __name__ == "__main__":
    measure_hogwild()
    measure_staleness()
    measure_post_training()
