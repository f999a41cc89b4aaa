"""Two squares on ranks, and the noise scales that they allow: the ways, and their slips."""

from math import inf
from statistics import fmean, stdev

from dtlib.scaling_laws.noise.estimate import student_quantile


def two_squares(gradient, comm, *, shared=True, divide=True, root=1.0, mean_of_own=True):
    """The mean over ranks of their gradients' squares, and the square of their mean."""
    own, total = (gradient * gradient).sum() ** root, gradient.clone()
    comm.all_reduce(total)
    if divide:
        total /= comm.size
    if shared:
        comm.all_reduce(own)
    if shared and mean_of_own:
        own = own / comm.size
    return float(own), float((total * total).sum() ** root)


def moments(small, large, own, P, *, sizes=None, sample=True):
    """Of every step |G|^2 and tr Sigma of one sample, both unbiased."""
    b, B = sizes or (own, own * P)
    noises = [(q - Q) / (1 / b - 1 / B) for q, Q in zip(small, large, strict=True)]
    signals = [Q - noise / B for Q, noise in zip(large, noises, strict=True)]
    return signals, [noise / (1 if sample else b) for noise in noises]


def as_if_the_large_batch_had_none(small, large, own, P):
    return moments(small, large, own, P, sizes=(own, inf))


def scale(signals, noises):
    """The noise scale: first the means, then their ratio."""
    return fmean(noises) / fmean(signals) if fmean(signals) > 0 else inf


def ratios_first(signals, noises):
    return fmean(noise / signal for signal, noise in zip(signals, noises, strict=True))


def allowed(ratio, signals, noises, *, quantile=student_quantile, per=lambda count: count**0.5):
    """Whether so large a noise scale lies within what the steps leave open."""
    gaps = [noise - ratio * signal for signal, noise in zip(signals, noises, strict=True)]
    return abs(fmean(gaps)) <= quantile(len(gaps) - 1) * stdev(gaps) / per(len(gaps))


def allowed_for_the_noise_alone(ratio, signals, noises):
    """Takes |G|^2 for known."""
    reach = student_quantile(len(noises) - 1) * stdev(noises) / len(noises) ** 0.5
    return abs(fmean(noises) - ratio * fmean(signals)) <= reach


def after_only(gradient, comm):
    """Takes its own square when it has everybody's gradient already."""
    comm.all_reduce(gradient)
    gradient /= comm.size
    square = float((gradient * gradient).sum())
    return square, square
