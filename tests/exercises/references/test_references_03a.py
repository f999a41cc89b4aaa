"""What the exercises of chapter 3a compare with, found in another way."""

from dtlib.exercises.chapters.foundations.ch03a import _fetches, _size, _traces, _waiting_time
from dtlib.foundations import prefetch


def test_the_recursion_waits_as_long_as_the_library_with_a_worker_for_each_batch():
    for _, (fetches, step, depth) in _traces():
        run = prefetch(fetches, step, depth, depth)
        waited = run.stopped - run.started - step * len(fetches)
        assert _waiting_time(fetches, step, depth) == waited
        assert _waiting_time(fetches, step, depth, first=True) == waited + run.started


def test_no_depth_does_with_fewer_workers_than_the_least():
    for _, (fetches, step) in _fetches():
        workers, depth = _size(fetches, step)
        smaller = [(workers - 1, d) for d in range(1, 65)] if workers > 1 else []
        for size in [*smaller, (workers, depth - 1)]:
            assert min(size) == 0 or prefetch(fetches, step, *size).busy_fraction < 0.95
