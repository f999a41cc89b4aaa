"""A rate by trial, and a batch under a price: the ways, and their slips."""

from dtlib.scaling_laws.noise.tradeoff import steps_to_loss


def tuned(steps_at, guess, *, sides=(1, -1), kept=True):
    """(place, steps) of the rate that needs the fewest steps, with a worse one on either side."""
    found = {}

    def steps(place):
        if place not in found or not kept:
            found[place] = steps_at(place)
        return found[place]

    best = guess
    while True:
        near = min((best, *(best + side for side in sides)), key=steps)
        if near == best:
            return best, steps(best)
        best = near


def on_a_grid(steps_at, guess):
    """All rates far and wide: right, and too many runs."""
    found = {place: steps_at(place) for place in range(guess - 12, guess + 13)}
    best = min(found, key=found.get)
    return best, found[best]


def seconds(fewest, noise, batch, own, sample_time, fixed):
    """How long a run takes: its steps, times how long a step takes."""
    return steps_to_loss(fewest, noise, batch) * (own * sample_time + fixed)


def choose(
    fewest, noise, sample_time, fixed, sizes, deadline,
    *, price=lambda P, time: P * time, largest=4096, late=False, steps=lambda P, own: P * own
):  # fmt: skip
    """(P, own): the ranks and each one's share of the batch for the least GPU time in time."""
    times = {
        (P, own): seconds(fewest, noise, steps(P, own), own, sample_time, fixed)
        for P in sizes
        for own in range(1, largest // P + 1)
    }
    ways = [way for way, time in times.items() if time <= deadline or late]
    if not ways:
        raise ValueError(f"deadline {deadline:g} s: the fastest takes {min(times.values()):g} s")
    return min(ways, key=lambda way: (price(way[0], times[way]), way))


def fastest_if_late(*given):
    """Where no way is in time, the fastest, and not a word."""
    try:
        return choose(*given)
    except ValueError:
        return choose(*given[:-1], float("inf"), price=lambda P, time: time)
