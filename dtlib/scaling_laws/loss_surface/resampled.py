"""What resamples say of a number: the middle share of them."""

from dtlib.later import np


def middle_share(values, share: float = 0.95) -> tuple[float, float]:
    """The two quantiles between which lies so large a share of the values.

    >>> middle_share(range(101), 0.5)
    (25.0, 75.0)
    """
    low, high = np.quantile(list(values), [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)
