"""How long it takes to build a pipeline schedule, to check it, and to find its simulated time.

    python benchmarks/parallelism/simulate_pipelines.py

Goal: less than 0.1 s for 1F1B of 64 stages and 512 micro-batches, from nothing to the makespan. The
seconds are the processor's own, the least of several runs, so that other work counts little.
"""

from functools import partial
from time import process_time

from dtlib.formulas.units import format_quantity
from dtlib.parallelism.pipeline import (
    check_schedule,
    gpipe,
    interleaved,
    one_f_one_b,
    simulate,
    zb_v,
    zero_bubble,
)

P, M = 64, 512
BUILDERS = {
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved, v = 2": partial(interleaved, v=2),
    "ZB-H1": partial(zero_bubble, c=1),
    "ZB-V": zb_v,
}


def seconds(work, repetitions: int = 7) -> float:
    """The least processor time of ``work``."""
    times = []
    for _ in range(repetitions):
        before = process_time()
        work()
        times.append(process_time() - before)
    return min(times)


def main() -> None:
    works = {
        "build": lambda build: build(P, M),
        "build, check": lambda build: check_schedule(build(P, M)),
        "build, simulate": lambda build: simulate(build(P, M), 0.3, 0.4, 0.3, 0.01).makespan,
        "... with spans": lambda build: simulate(build(P, M), 0.3, 0.4, 0.3, 0.01).spans,
    }
    print(f"{f'{P} ranks, {M} micro-batches':28}" + "".join(f"{name:>17}" for name in works))
    for name, build in BUILDERS.items():
        times = (format_quantity(seconds(partial(work, build)), "s", 3) for work in works.values())
        print(f"{name:28}" + "".join(f"{time:>17}" for time in times))


if __name__ == "__main__":
    main()
