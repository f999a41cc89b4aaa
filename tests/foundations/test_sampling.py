"""The tokens: every sample once an epoch, in the same order after a crash and on more ranks."""

import json
import random
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlib.foundations.data.sampling import (
    EpochError,
    ShuffleBuffer,
    check_epoch,
    global_batch,
    mixed,
    rank_share,
)


def flat(batches) -> list[int]:
    return list(chain.from_iterable(batches))


def run(steps, samples=24, batch=8, seed=0):
    return [global_batch(step, samples, batch, seed).tolist() for step in steps]


def test_every_sample_comes_once_in_every_epoch_and_epochs_differ():
    epochs = [flat(run(range(3 * e, 3 * e + 3))) for e in range(4)]
    for epoch in epochs:
        check_epoch(epoch, 24)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert run(range(3), seed=1) != run(range(3), seed=2)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.integers(0, 9))
def test_a_crash_and_another_number_of_ranks_change_nothing(before, after, crash):
    def on(P, steps):
        return [flat(rank_share(batch, rank, P) for rank in range(P)) for batch in run(steps)]

    assert on(before, range(crash)) + on(after, range(crash, 9)) == run(range(9))


def test_sabotage_a_shuffle_for_every_rank_repeats_samples():
    shares = [rank_share(global_batch(0, 24, 24, seed=rank), rank, 2) for rank in range(2)]
    with pytest.raises(EpochError, match=r"twice or more: .* never: "):
        check_epoch(np.concatenate(shares), 24)


def test_sabotage_a_position_that_is_ahead_of_the_training_loses_samples():
    asked, trained, depth = 5, 1, 4
    seen = run([*range(trained), *range(asked, 6)], samples=48)
    assert asked == trained + depth
    with pytest.raises(EpochError, match="never"):
        check_epoch(flat(seen), 48)


def test_the_checker_names_the_first_of_each():
    check_epoch(range(5), 5)
    with pytest.raises(EpochError, match=r"twice or more: 1 of 4 .* is 3; never: 1 of 4 .* is 2"):
        check_epoch([0, 1, 3, 3], 4)
    with pytest.raises(EpochError, match="sample 4 comes, but there are only 4"):
        check_epoch(range(5), 4)


STREAMS = st.tuples(st.integers(1, 40), st.integers(1, 50), st.integers(0, 3))


@given(STREAMS)
def test_a_buffer_gives_every_sample_once_and_none_long_before_its_turn(stream):
    length, size, seed = stream
    given = list(ShuffleBuffer(range(length), size, seed))
    check_epoch(given, length)
    assert all(place >= sample - size + 1 for place, sample in enumerate(given))


@given(STREAMS, st.data())
def test_a_buffer_that_is_stored_goes_on_as_if_it_had_never_stopped(stream, data):
    length, size, seed = stream
    crash = data.draw(st.integers(0, length))
    buffer = ShuffleBuffer(range(length), size, seed)
    first = [next(buffer) for _ in range(crash)]
    stored = json.loads(json.dumps(buffer.state))
    rest = list(ShuffleBuffer(range(length), size, seed, state=stored))
    assert first + rest == list(ShuffleBuffer(range(length), size, seed))


@pytest.mark.parametrize(
    ("forget", "said"),
    [(lambda s: s | {"held": []}, "never"), (lambda s: {"read": s["given"]}, "twice")],
)
def test_sabotage_a_buffer_that_is_not_stored_loses_or_repeats(forget, said):
    buffer = ShuffleBuffer(range(100), 10)
    first = [next(buffer) for _ in range(50)]
    rest = list(ShuffleBuffer(range(100), 10, state=forget(buffer.state)))
    with pytest.raises(EpochError, match=said):
        check_epoch(first + rest, 100)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_a_mixture_is_never_a_sample_ahead_and_exact_when_the_weights_are_used_up(weights):
    total, counts = sum(weights), [0] * len(weights)
    for n, source in enumerate(mixed(weights, total), start=1):
        counts[source] += 1
        assert all(c - Fraction(n * w, total) < 1 for c, w in zip(counts, weights, strict=True))
    assert counts == weights


def test_sabotage_dice_miss_the_proportions():
    dice = random.Random(0).choices(range(3), [90, 9, 1], k=100)
    assert [dice.count(source) for source in range(3)] != [90, 9, 1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: global_batch(-1, 8, 4), "step: -1"),
        (lambda: global_batch(0, 8, 9), "batch: 9"),
        (lambda: rank_share([1, 2, 3], 0, 2), "P: 2 ranks"),
        (lambda: rank_share([1, 2], 2, 2), "rank: 2"),
        (lambda: ShuffleBuffer([], 0), "size: 0"),
        (lambda: mixed([1, 0], 3), "weights"),
    ],
)
def test_what_cannot_be_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def consume(first, last, path, samples, batch, dies):
    """On every rank: train on the shares of these steps; rank 0 stores every batch that is done."""
    import os

    import torch.distributed as dist

    rank, P = dist.get_rank(), dist.get_world_size()
    for step in range(first, last):
        mine = rank_share(global_batch(step, samples, batch).tolist(), rank, P)
        if step == dies and rank == 1:
            os._exit(1)
        shares = [None] * P
        dist.all_gather_object(shares, mine)
        if rank == 0:
            with path.open("a") as file:
                print(*flat(shares), file=file)


def test_on_real_ranks_a_killed_run_resumes_with_fewer_and_sees_the_same_samples(tmp_path):
    from dtlib import launch
    from dtlib.runtime import RankDied

    path = tmp_path / "trained"
    with launch(4) as ranks, pytest.raises(RankDied):
        ranks.run(consume, 0, 6, path, 24, 8, 2)
    done = len(path.read_text().splitlines())
    with launch(2) as ranks:
        ranks.run(consume, done, 6, path, 24, 8, None)
    trained = [list(map(int, line.split())) for line in path.read_text().splitlines()]
    assert done == 2 and trained == run(range(6))
