"""The lab 'How large a batch'."""

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.labs.how_large_a_batch import noise, price
from dtlib.exercises.labs.how_large_a_batch.laws import (
    choose_law,
    moments_law,
    squares_law,
    tuned_law,
)

# fmt: off
squares = OnRanks(
    "ex-batch-two-squares",
    About("Two squares", "design", 1, 5,
          "measure a gradient before and after an all-reduce", needs="torch"),
    "two_squares(gradient, comm)",
    noise.two_squares,
    squares_law,
    "every rank has both squares: the mean of all ranks' own, and that of the mean",
    {
        "the square of the mean gradient: a sum is no mean": {"divide": False},
        "the ranks hold different numbers": {"shared": False},
        "the mean of the ranks' squares: a sum is no mean": {"mean_of_own": False},
        "a norm, and its square was asked for": {"root": 0.5},
        "still this rank's own": noise.after_only,
    },
)

interval = Made(
    "ex-batch-interval",
    About("How well do you know it?", "derive", 2, 8,
          "estimate a ratio without bias in its parts, and say what the steps leave open"),
    moments_law,
    lambda: (noise.moments, noise.scale, noise.allowed),
    "two unbiased moments a step, added up first; every noise scale that they allow, and no other",
    {
        "a sample has more": lambda: (
            lambda *at: noise.moments(*at, sample=False), noise.scale, noise.allowed),
        "the large batch has noise as well": lambda: (
            noise.as_if_the_large_batch_had_none, noise.scale, noise.allowed),
        "first |G|^2, then tr Sigma": lambda: (
            lambda *at: noise.moments(*at)[::-1], noise.scale, noise.allowed),
        "add up first, divide last": lambda: (noise.moments, noise.ratios_first, noise.allowed),
        "noise over signal": lambda: (
            noise.moments, lambda signals, noises: noise.scale(noises, signals), noise.allowed),
        "steps that say much: the interval is narrower": lambda: (noise.moments, noise.scale,
            lambda *at: noise.allowed(*at, quantile=lambda freedom: 1.96)),
        "of a mean, not of one?": lambda: (noise.moments, noise.scale,
            lambda *at: noise.allowed(*at, per=lambda count: 1)),
        "no noise scale is too large": lambda: (noise.moments, noise.scale,
            lambda ratio, *at: noise.allowed(ratio, *at) and ratio < 1e6),
    },
)

tune = Made(
    "ex-batch-tuned",
    About("A rate for every batch", "design", 2, 7,
          "tune a rate with few runs, and know that it is the best"),
    tuned_law,
    lambda: price.tuned,
    "the best rate has a worse one on either side, and no rate was run twice",
    {
        "a neighbour of it needs fewer steps": lambda: lambda steps_at, guess: (
            guess, steps_at(guess)),
        "nobody has tried": lambda: lambda *at: price.tuned(*at, sides=(1,)),
        "the same rate is run twice": lambda: lambda *at: price.tuned(*at, kept=False),
        "walk downhill": lambda: price.on_a_grid,
        "returns the steps that the best rate needs": lambda: lambda *at: (
            price.tuned(*at)[0], 0.0),
    },
)

choice = Made(
    "ex-batch-choice",
    About("A batch under a price", "design", 2, 7,
          "choose ranks and a batch for the least GPU time before a deadline"),
    choose_law,
    lambda: price.choose,
    "in time, and no other way is cheaper; what cannot be in time is refused",
    {
        "not the cheapest": lambda: lambda *at: price.choose(*at, price=lambda P, time: time),
        "take": lambda: lambda *at: price.choose(*at, late=True),
        "and not the cheapest: what is paid": lambda: lambda *at: price.choose(
            *at, price=lambda P, time: P),
        "raise a ValueError": lambda: price.fastest_if_late,
    },
)
