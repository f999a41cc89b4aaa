"""Answers of the lab 'How large a batch' that no slip derives; right ones."""

from statistics import fmean

from dtlib.exercises.labs.how_large_a_batch import noise, price

SQUARES, INTERVAL, TUNED, CHOICE = (
    "ex-batch-two-squares", "ex-batch-interval", "ex-batch-tuned", "ex-batch-choice",
)  # fmt: skip


def one_sum(gradient, comm):
    """Right, too: the square travels with the gradient."""
    packed = gradient.new_tensor([*gradient.tolist(), float(gradient @ gradient)])
    comm.all_reduce(packed)
    packed /= comm.size
    return packed[-1], packed[:-1] @ packed[:-1]


def mean_norm(gradient, comm):
    own, total = gradient.norm(), gradient.clone()
    comm.all_reduce(own)
    comm.all_reduce(total)
    return float(own / comm.size), float((total / comm.size).square().sum())


def on_ranks_of(rank, gradient, comm):
    """Calls on one rank what the others do not."""
    if comm.rank == rank:
        comm.all_reduce(gradient)
    return 0.0, 0.0


def wide_search(*given):
    """Right, too: every share there is, and a fraction of a sample is none."""
    return price.choose(*given, largest=1000)


def whole_batches(fewest, noise_batch, sample_time, fixed, sizes, deadline):
    """Takes the batch for what each rank has."""
    P, own = price.choose(fewest, noise_batch, sample_time, fixed, sizes, deadline)
    return P, P * own


def both_of(place):
    return lambda steps_at, guess: (place, steps_at(place))


WRONG = [
    (SQUARES, mean_norm, "that is a mean of norms"),
    (SQUARES, lambda gradient, comm: on_ranks_of(0, gradient, comm), "all-reduce 1"),
    (SQUARES, lambda gradient, comm: 1.0, "must have 2 items"),
    (INTERVAL, (noise.moments, lambda s, n: fmean(n), noise.allowed), "scale"),
    (INTERVAL, (noise.moments, noise.scale, lambda ratio, *at: True), "wider than 95 % demand"),
    (INTERVAL, (noise.moments, noise.scale, lambda ratio, *at: False), "is not allowed"),
    (INTERVAL, (noise.moments, noise.scale, noise.allowed_for_the_noise_alone), "95 % demand"),
    (INTERVAL, (lambda *at: [[1.0], [2.0]], noise.scale, noise.allowed), "must have 6 items"),
    (TUNED, both_of(2), "nobody has tried"),
    (TUNED, lambda steps_at, guess: guess, "must have 2 items"),
    (CHOICE, whole_batches, "take"),
    (CHOICE, lambda *given: (5, 1), "there are no such ranks"),
]  # fmt: skip
RIGHT = [
    (SQUARES, one_sum),
    (CHOICE, wide_search),
    (TUNED, lambda steps_at, guess: list(price.tuned(steps_at, guess, sides=(-1, 1)))),
]
