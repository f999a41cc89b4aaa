"""Kernels, streams, connections, shares: what holds of every run, and two famous orders."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlib.efficiency.overlap.programs import sharded_forward, tensor_parallel_backward
from dtlib.efficiency.overlap.queues import Kernel, communicating, computing, simulate_queues

SMS = Fraction(20, 132)
units = st.fractions(min_value=Fraction(1, 4), max_value=6, max_denominator=4)
shares = st.sampled_from([Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1)])


@st.composite
def programs(draw):
    kernels = []
    for i in range(draw(st.integers(1, 9))):
        sms = draw(shares)
        after = draw(st.lists(st.sampled_from(range(i)), max_size=2)) if i else []
        kernels.append(
            Kernel(str(i), draw(st.sampled_from("abc")), draw(units), "other", sms,
                   draw(st.sampled_from([0, sms])), tuple(map(str, after)))
        )  # fmt: skip
    return kernels


@given(programs(), st.sampled_from([None, 1, 2]))
def test_work_is_conserved_and_nothing_starts_before_what_it_waits_for(kernels, connections):
    timeline = simulate_queues(kernels, connections)
    spans = {span.name: span for span in timeline.spans}
    assert set(spans) == {kernel.name for kernel in kernels}
    work = sum(kernel.seconds * kernel.sms for kernel in kernels)
    assert timeline.makespan >= work  # one GPU
    for i, kernel in enumerate(kernels):
        span = spans[kernel.name]
        assert span.stop - span.start >= kernel.seconds
        before = [k.name for k in kernels[:i] if k.stream == kernel.stream]
        for name in (*kernel.after, *before):
            assert spans[name].stop <= span.start


@given(programs())
def test_with_one_connection_kernels_start_in_the_order_of_their_launches(kernels):
    spans = {span.name: span for span in simulate_queues(kernels, connections=1).spans}
    begins = [spans[kernel.name].start for kernel in kernels]
    assert begins == sorted(begins)


@given(st.integers(2, 5), units, units, units)
def test_one_connection_suits_tensor_parallelism(layers, x, comm, w):
    """The sum starts before the product that would take all of the GPU; else it waits for it."""
    program = tensor_parallel_backward(layers, x, comm, w, SMS)
    first, free = (
        simulate_queues(program, connections, signal=Fraction(1, 1000)) for connections in (1, 8)
    )
    assert first.makespan < free.makespan
    late = free.exposed_communication(0) - first.exposed_communication(0)
    assert late >= 0
    for i in range(layers):
        spans = {span.name: span for span in free.spans}
        assert spans[f"S{i}"].start >= spans[f"W{i}"].stop
        spans = {span.name: span for span in first.spans}
        assert spans[f"W{i}"].start <= spans[f"S{i}"].start + Fraction(1, 1000)


def test_one_connection_takes_the_prefetch_from_sharded_weights():
    """Implicit prefetch lives on queues of its own; explicit prefetch does not need them."""
    layers, forward, gather = 8, Fraction(4), Fraction(3)
    wide, narrow = (
        {
            ahead: simulate_queues(sharded_forward(layers, forward, gather, 4, SMS, ahead), c)
            for ahead in (0, 1)
        }
        for c in (8, 1)
    )
    assert wide[0].exposed_communication(0) == gather  # the first, which nothing can hide
    assert wide[1].makespan == narrow[1].makespan == wide[0].makespan
    assert narrow[0].exposed_communication(0) == layers * gather
    assert narrow[0].makespan == layers * (forward + gather)


def test_two_streams_are_not_parallel_where_one_kernel_takes_the_whole_gpu():
    full = [computing("A", 4), communicating("N", 4, Fraction(1, 10), [])]
    assert simulate_queues(full).makespan == 8
    assert simulate_queues(full[::-1]).makespan == pytest.approx(4 + 0.4)


def test_a_launch_that_is_slower_than_its_kernel_is_what_counts():
    kernels = [computing(str(i), Fraction(3, 1000)) for i in range(100)]
    assert simulate_queues(kernels, launch=Fraction(5, 1000)).makespan == Fraction(498, 1000)
    assert simulate_queues(kernels).makespan == Fraction(300, 1000)


@pytest.mark.parametrize(
    ("kernels", "words"),
    [
        ([computing("A", 1), computing("A", 1)], "two kernels are called 'A'"),
        ([computing("A", 1, after=["B"])], "waits for 'B'"),
        ([communicating("A", 1, sms=2)], "sms <= 1"),
        ([computing("A", -1)], "seconds of at least 0"),
        ([computing("A", 1, kind="sum")], "a kind of"),
    ],
)
def test_what_cannot_be_launched_is_refused_by_name(kernels, words):
    with pytest.raises(ValueError, match=words):
        simulate_queues(kernels)


def test_a_gpu_has_a_connection():
    with pytest.raises(ValueError, match="connections must be at least 1; got 0"):
        simulate_queues([computing("A", 1)], connections=0)
