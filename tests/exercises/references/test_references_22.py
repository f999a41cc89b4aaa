"""The references of chapter 22's exercises are what the simulation does."""

from fractions import Fraction

from dtlib.exercises.chapters.memory import ch22
from dtlib.exercises.judges.evictions import fetches, fewest
from dtlib.memory import simulate_offload


def test_the_repaired_law_is_the_simulation():
    for c, t, a in ((50, 80, 0), (80, 50, 0), (50, 40, 100), (8, 5, 20)):
        for buffers in (1, 2, 3, 5):
            run = simulate_offload(60 * buffers, c, t, alpha=a, lookahead=buffers - 1)
            law = ch22.third_buffer.reference(*map(Fraction, (c, t, a, buffers)))
            assert run.layer_time(20 * buffers) == law


def test_the_least_lookahead_is_the_least_that_the_simulation_needs():
    for c, t, a in ((5, 8, 0), (8, 5, 3), (8, 5, 4), (3, 3, 17)):
        k = ch22.least_lookahead.reference(c, t, a)
        took = [
            simulate_offload(60 * (n + 1), c, t, alpha=a, lookahead=n).layer_time(20 * (n + 1))
            for n in (k - 1, k, k + 3)
        ]
        assert took[0] > took[1] == took[2] == max(c, t)


def test_the_farthest_use_is_best_where_the_least_recent_one_is_worst():
    loop = [*range(5)] * 3
    assert fewest(tuple(loop), 3) == fetches(ch22.farthest_use.solution(), loop, 3)
    assert fetches(lambda here, coming: here[0], loop, 3) == len(loop)
