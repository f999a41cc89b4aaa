"""What chapter 20's exercise on prefetching compares with, found in another way."""

import pytest

from dtlib.exercises.chapters.memory.ch20 import _pass_time, _passes


def memory_given_back(gathers, computes, sizes, room):
    """The moments at which memory is given back, one after the other."""
    free, network, before, held = 0.0, 0.0, 0.0, []
    for gather, compute, size in zip(gathers, computes, sizes, strict=True):
        while sum(s for _, s in held) + size > room:
            free = max(free, held.pop(0)[0])
        network = max(network, free) + gather
        before = max(network, before) + compute
        held.append((before, size))
    return before


def test_a_pass_takes_as_long_as_its_memory_is_late():
    passes = [case for _, case in _passes()]
    simulated = [memory_given_back(*case) for case in passes]
    assert [_pass_time(*case) for case in passes] == pytest.approx(simulated)
    assert [_pass_time(*case, serial=False) for case in passes] != pytest.approx(simulated)
