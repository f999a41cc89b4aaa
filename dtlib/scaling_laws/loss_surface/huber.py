"""Many robust fits of one law at once: resamples and starts are rows of one array.

A row has five numbers, t = (a, alpha, b, beta, e), and predicts

    z = log(exp(a - alpha x) + exp(b - beta y) + exp(e)),   x = log N, y = log D, both centred,

against v, the logarithm of a measured loss. The sum of Huber's penalties of v - z falls by steps
that mix Newton's matrix (only residuals below `delta` curve it) with that of reweighted least
squares, which is safe far away and slow nearby: `damping` is the share of the second.
"""

from dtlib.later import np

NAMES = ("log A", "alpha", "log B", "beta", "log E")
_STEPS, _SMALLEST, _LARGEST = 500, 1e-5, 1e8
_RIDGE = 1e-9  # of a number's own curvature: what no point sees does not move
_GAIN = 1e-12  # a step that lowers the penalty by a smaller share is the last


def predicted(t, x, y):
    """z of every row and point, and the share of each of the three terms in the sum.

    Arguments: `t` [rows, 5]; `x`, `y` [points]. Returns z [rows, points] and shares
    [3, rows, points], which add up to 1.
    """
    a, alpha, b, beta, e = (column[:, None] for column in t.T)
    powers = np.stack(np.broadcast_arrays(a - alpha * x, b - beta * y, e))
    top = powers.max(axis=0)
    terms = np.exp(powers - top)
    total = terms.sum(axis=0)
    return top + np.log(total), terms / total


def jacobian(shares, x, y):
    """How z moves with each of the five numbers: [rows, points, 5]."""
    of_N, of_D, of_E = shares
    return np.stack([of_N, -of_N * x, of_D, -of_D * y, of_E], axis=2)


def penalty(residuals, counts, delta: float):
    """Huber's penalties, each counted so often, summed over the points of every row."""
    size = np.abs(residuals)
    each = np.where(size <= delta, residuals**2 / 2, delta * (size - delta / 2))
    return (counts * each).sum(axis=1)


def descend(t, x, y, v, counts, delta: float, free: int = 5):
    """Every row's nearest minimum.

    Arguments: starts `t` [rows, 5]; points `x`, `y`, `v`; `counts` [rows, points], how often a
    resample has each point; `free`, how many of the five numbers move (4: not the last).
    Returns the rows, and the penalty of each.
    """
    t, counts = np.array(t, dtype=float), np.broadcast_to(counts, (len(t), len(x)))
    lowest = penalty(v - predicted(t, x, y)[0], counts, delta)
    damping, rows = np.full(len(t), 0.1), np.arange(len(t))
    for _ in range(_STEPS):
        if not len(rows):
            break
        trial = t[rows] + _steps(t[rows], x, y, v, counts[rows], delta, damping[rows], free)
        reached = penalty(v - predicted(trial, x, y)[0], counts[rows], delta)
        gain = lowest[rows] - reached
        better = gain > 0
        done = (better & (gain < _GAIN * lowest[rows])) | (damping[rows] > _LARGEST)
        t[rows[better]], lowest[rows[better]] = trial[better], reached[better]
        damping[rows] = np.where(
            better, np.maximum(damping[rows] / 3, _SMALLEST), damping[rows] * 4
        )
        rows = rows[~done]
    return t, lowest


def _steps(t, x, y, v, counts, delta, damping, free):
    """One step of every row, no number of it larger than 1."""
    z, shares = predicted(t, x, y)
    moves, residuals = jacobian(shares, x, y)[:, :, :free], v - z
    size = np.abs(residuals)
    weights = counts * np.minimum(1, delta / np.maximum(size, np.finfo(float).tiny))
    gradient = np.einsum("rip,ri->rp", moves, weights * residuals)
    turned = moves.transpose(0, 2, 1)
    reweighted = turned @ (moves * weights[:, :, None])
    newton = turned @ (moves * (counts * (size <= delta))[:, :, None])
    matrix = newton + damping[:, None, None] * reweighted
    scale = np.sqrt(np.einsum("rpp->rp", reweighted)) + np.finfo(float).tiny
    ridge = _RIDGE * np.maximum(1, damping)[:, None, None]
    matrix = matrix / scale[:, :, None] / scale[:, None, :] + ridge * np.eye(free)
    solved = np.linalg.solve(matrix, (gradient / scale)[:, :, None])[:, :, 0]
    step = np.zeros_like(t)
    step[:, :free] = np.clip(solved / scale, -1, 1)
    return step
