"""The link that is measured in the exercises of chapter 4, and what is said of it."""

import pytest

from dtlib.exercises import PracticeLink, check
from dtlib.exercises.practice.link import BudgetSpent

GB, KB = 10**9, 10**3


def test_a_practice_link_counts_its_own_time():
    link = PracticeLink(2e-6, 50e9, budget=1e-4)
    link.round_trip(100 * KB)
    assert link.clock() == 2 * (2e-6 + 1e5 / 50e9)
    link.all_reduce(800 * KB)
    assert link.clock() == 2 * (2e-6 + 1e5 / 50e9) + 14 * (2e-6 + 1e5 / 50e9)
    with pytest.raises(BudgetSpent, match="are spent"):
        link.round_trip(1 * GB)


def test_a_practice_link_is_slow_once_and_late_at_times():
    link = PracticeLink(1e-6, 1e9, cold=5e-3, spikes=0.05, seed=1)
    times = []
    for _ in range(2000):
        start = link.clock()
        link.round_trip(0)
        times.append(link.clock() - start)
    assert times[0] >= 5e-3
    late = sum(t > 10e-6 for t in times[1:]) / 1999
    assert 0.03 < late < 0.07


def test_a_slope_that_changes_is_no_jump():
    def kink(n):
        return 1e-6 + n / 1e9 if n < 1e6 else 1e-6 + 1e-3 + (n - 1e6) / 1e8

    assert check("ex-without-the-property", (kink, 1e6))
