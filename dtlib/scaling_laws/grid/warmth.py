"""How fast a run learns at each of its steps: it warms up, stays, and cools down to nothing."""

import math

WARM_UP = 64  # steps
DECAY = 5  # a run decays over the last of so many parts


def decay_start(steps: int) -> int:
    """The first step of a run of so many that is no longer at the full rate.

    >>> decay_start(1000)
    800
    """
    return steps - max(1, steps // DECAY)


def rate_factor(step: int, steps: float = math.inf) -> float:
    """The share of the full rate at which step 0, 1, ... of a run learns; a trunk has no end.

    >>> [rate_factor(step, 1000) for step in (0, 63, 799, 800, 999)]
    [0.015625, 1.0, 1.0, 0.9950248756218906, 0.004975124378109453]
    """
    warming = min(1.0, (step + 1) / WARM_UP)
    if step < (start := steps if steps == math.inf else decay_start(steps)):
        return warming
    return warming * (steps - step) / (steps - start + 1)
