"""The exercises of chapter 10, Batch size and gradient noise, in the order of its page."""

import math
from collections.abc import Iterator
from functools import partial

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import items, number
from dtlib.exercises.verdict import NotYet
from dtlib.scaling_laws.noise.tradeoff import best_rate, sample_efficiency

# fmt: off
_NOISE, _SIGNAL = (0.52 - 0.07) / (1 / 32 - 1 / 512), (512 * 0.07 - 32 * 0.52) / (512 - 32)

norms_of_ranks = Numbers(
    "ex-norms-of-ranks",
    About("The norms of sixteen ranks", "compute", 1, 8, "get a noise scale from two norms",
          ("B.8",)),
    [
        Asked("noise", _NOISE, slips={
              0.52 * 32: "a rank's square is noise and gradient; subtract the gradient's",
              (0.52 - 0.07) * 32: "the mean gradient has noise, too: 1/32 - 1/512",
              (0.52 - 0.07) / (1 / 32 - 1 / 16): "all ranks together have 512 sequences"}),
        Asked("signal", _SIGNAL, slips={
              0.07: "that still holds the noise of 512 sequences",
              0.07 - 0.52 / 16: "a rank's square is not noise alone"}),
        Asked("scale", _NOISE / _SIGNAL, slips={
              _SIGNAL / _NOISE: "noise over signal",
              _NOISE / 0.07: "the square of the mean gradient is too long by its own noise"}),
    ],
    "two sizes, two equations, and the ratio last", keyed=True,
)

# Least squares on log S over (256, 100,000), (1,024, 28,000), (4,096, 15,000); a test holds them.
THREE_RUNS = ((256, 1024, 4096), (100_000, 28_000, 15_000))
_FITTED, _FEWEST = 2390.0, 9160.0

three_runs = Numbers(
    "ex-three-runs",
    About("Three runs", "compute", 2, 12, "fit a hyperbola where two points would do as they like",
          ("x10.1",)),
    [
        Asked("noise", _FITTED, slips={
              6144: "that is the first pair; the third run objects",
              1664: "that is the last pair; the first run objects",
              2487: "that is the outer pair; what of the run between them?"}, tolerance=0.02),
        Asked("fewest", _FEWEST, slips={
              4000: "that goes with the first pair alone",
              15_000: "that is the run with the largest batch; S_min is below it"}, tolerance=0.02),
        Asked("efficiency", sample_efficiency(_FITTED, 4096), slips={
              1 - sample_efficiency(_FITTED, 4096): "that is what is lost"}, tolerance=0.02),
    ],
    "three points, two numbers: one is left to object", keyed=True,
)

_BETWEEN = 0.001 * best_rate(1, 2390, 4096) / best_rate(1, 2390, 256)

rate_for_a_batch = Numbers(
    "ex-rate-for-a-batch",
    About("A rate for sixteen times the batch", "compute", 1, 8,
          "tell three rules for the learning rate apart", ("x10.2",)),
    [
        Asked("linear", 0.016, slips={0.001 / 16: "it rises with the batch"}),
        Asked("root", 0.004, slips={0.00025: "it rises with the batch"}),
        Asked("noise", _BETWEEN, slips={
              0.001 * best_rate(1, 256, 4096) / best_rate(1, 4096, 256): "which is the scale?",
              0.001 * (1 + 2390 / 4096) / (1 + 2390 / 256): "that divides where it must multiply"}),
    ],
    "in proportion while noise prevails, and then no more", keyed=True,
)

_EFFICIENCY = 512 * 100_000 / (8192 * 12_000)
_IMPLIED = (_EFFICIENCY * 8192 - 512) / (1 - _EFFICIENCY)

samples_well_spent = Numbers(
    "ex-samples-well-spent",
    About("Samples well spent", "derive", 2, 12, "find the noise scale in two runs' samples",
          ("x10.3",)),
    [
        Asked("efficiency", _EFFICIENCY, slips={
              0.12: "that is the ratio of the steps",
              1 / _EFFICIENCY: "the other way round"}),
        Asked("noise", _IMPLIED, slips={
              8192: "nearly, but the smaller batch is not for nothing either"}, tolerance=0.01),
        Chosen("where", "at", {
               "beyond": "compare 8,192 with the noise scale", "below": "compare them"}),
    ],
    "half of the worth of a sample is lost at the noise scale, not far beyond it", keyed=True,
)


def _trusted(weights, gradients, rate, trust, *, ratio=True, sign=-1, trusted=True):
    """One step of LARS for each layer, without decay and momentum."""
    moved = []
    for w, g in zip(weights, gradients, strict=True):
        local = math.hypot(*w) / math.hypot(*g) if ratio else 1.0
        moved.append([sign * rate * (trust if trusted else 1) * local * x for x in g])
    return moved


def _layers() -> Iterator[tuple[str, tuple]]:
    yield "one layer", ([[3.0, 4.0]], [[0.6, 0.8]], 1.0, 0.01)
    yield "two layers", ([[3.0, 4.0], [0.5, 0.0, 0.0]], [[0.0, 2.0], [1.0, 2.0, 2.0]], 2.0, 0.001)
    yield "a gradient of another scale", ([[1.0, 1.0]], [[1e4, -1e4]], 0.5, 0.02)


def _same_moves(given, right, *_) -> None:
    layers = zip(items(given, "the layers", len(right)), right, strict=True)
    for layer, (got, due) in enumerate(layers):
        entries = zip(items(got, f"layer {layer}", len(due)), due, strict=True)
        for place, (x, y) in enumerate(entries):
            if x or y:
                number(x, y, f"layer {layer}, entry {place}", tolerance=1e-9)


equal_relative_updates = Function(
    "ex-equal-relative-updates",
    About("Equal relative updates", "design", 2, 15, "write a layer-wise rate", ("x10.4",)),
    "my_updates(weights, gradients, rate, trust)", _trusted, _layers, _same_moves,
    "each layer moves by rate x trust of its own length, whatever its gradient's",
    {
        "a step goes against the gradient": {"sign": 1},
        "each layer has a ratio of its own, |w| / |g|": {"ratio": False},
        "the trust coefficient is missing": {"trusted": False},
    },
)

_ALONE, _SPREAD = 8 * 100 + 20, 100 + 40

accumulate_or_spread = Numbers(
    "ex-accumulate-or-spread",
    About("Accumulate, or spread", "compute", 1, 10, "price a batch in time and in GPUs",
          ("x10.5",)),
    [
        Asked("parts", 8, slips={64: "that is for one GPU"}),
        Asked("time", 820, "ms", {
              960: "gradients are added up before they are sent: one all-reduce a step",
              800: "and the all-reduce?"}),
        Asked("accumulated", 8 * _ALONE, slips={64 * _ALONE: "how many GPUs work for so long?"}),
        Asked("spread", 64 * _SPREAD, slips={8 * _SPREAD: "how many GPUs work on it?"}),
        Chosen("cheaper", "accumulated", {"spread": "compare GPU-milliseconds"}),
    ],
    "accumulation waits longer and pays less: the same samples, fewer all-reduces", keyed=True,
)

_RAMPED = 0.25 * 1.1 + 0.75 / 2 * 2.1

what_a_ramp_saves = Numbers(
    "ex-what-a-ramp-saves",
    About("What a ramp saves", "compute", 2, 12, "tell fewer updates from less time", ("x10.6",)),
    [
        Asked("fewer", 0.375, slips={
              0.75: "that is the part with the larger batch; its updates are half, not none",
              0.625: "that is what is left",
              0.5: "a quarter of the samples has the small batch"}),
        Asked("faster", 1 - _RAMPED / 1.1, slips={
              0.375: "an update of twice the batch works twice as long",
              0.0: "and the fixed parts?"}),
    ],
    "on the same GPUs only the fixed part of a step is saved", keyed=True,
)


def _factor(step, P, own, total, warm, *, ranks=1, squared=0, warming=True):
    consumed = step * own * P**ranks * P**squared
    rising = min(consumed / warm, 1.0) if warming else 1.0
    return min(rising, max(total - consumed, 0) / (total - warm))


def _clocks() -> Iterator[tuple[str, tuple]]:
    for P, own in ((1, 64), (2, 32), (8, 8)):
        for step in (0, 1, 3, 10, 15, 16):
            yield f"step {step} on {P} ranks of {own}", (step, P, own, 1024, 192)


clock_of_all = Function(
    "ex-clock-of-all",
    About("The clock of all ranks", "repair", 2, 12, "let a schedule count what was consumed",
          ("C.15",)),
    "my_factor(step, P, own, total, warm)", _factor, _clocks,
    lambda given, right, *args: _near(given, right),
    "a function of the samples of all ranks, so the same on 1, 2 and 8",
    {
        "that counts the samples of one rank": {"ranks": 0},
        "a step consumes P times own samples, and no P once more": partial(_factor, squared=1),
        "and the warm-up?": {"warming": False},
    },
)


def _near(given, right) -> None:
    if right:
        number(given, right, "the factor", tolerance=1e-9)
    elif number(1.0 + _as_float(given), 1.0, "one more than the factor", tolerance=1e-9):
        return


def _as_float(given) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise NotYet(f"the factor must be a number, got {given!r}") from None


def _meter(gradients, own, *, biased=False, mixed=False, ratio=False):
    """(|G|^2, tr Sigma) from the ranks' gradients, each the mean of `own` samples."""
    P = len(gradients)
    mean = [sum(column) / P for column in zip(*gradients, strict=True)]
    small = sum(x * x for row in gradients for x in row) / P
    large, all_of_them = sum(x * x for x in mean), P if mixed else P * own
    first = 1 if mixed else own
    noise = (small - large) / (1 / first - 1 / all_of_them)
    signal = large if biased else large - noise / all_of_them
    return (noise, signal) if ratio else (signal, noise)


def _gradients() -> Iterator[tuple[str, tuple]]:
    yield "two ranks of one sample", ([[2.0, 0.0], [1.0, 1.0]], 1)
    four = [[1.0, 2.0, 0.5], [0.5, 1.0, 1.5], [2.0, 2.5, -1.0], [1.0, 0.5, 1.0]]
    yield "four ranks of 8", (four, 8)
    yield "three ranks of 5", ([[3.0, -1.0], [2.5, 0.0], [2.0, 1.0]], 5)


def _same_pair(given, right, *_) -> None:
    for name, got, due in zip(("|G|^2", "tr Sigma"), items(given, "(|G|^2, tr Sigma)", 2), right,
                              strict=True):
        number(got, due, name, tolerance=1e-9)


a_meter = Function(
    "ex-a-meter",
    About("A meter for the noise", "design", 2, 20, "estimate gradient and noise without bias",
          ("B.8",)),
    "my_meter(gradients, own)", _meter, _gradients, _same_pair,
    "both are unbiased, at any number of ranks",
    {
        "the square of the mean gradient is too long by the noise that it has left":
            {"biased": True},
        "a rank's gradient is a mean of several samples, and tr Sigma is that of one":
            {"mixed": True},
        "in the other order": {"ratio": True},
    },
)

most_ranks = Formula(
    "ex-most-ranks",
    About("Ranks that waste a third", "derive", 3, 20, "find where data parallelism stops to pay"),
    "most_ranks(noise, sample_time, fixed, waste)",
    lambda noise, sample_time, fixed, waste:
        noise * sample_time / fixed * (waste / (1 - waste)) ** 2,
    lambda: (("", case) for case in ((512, 0.4, 0.07, 1 / 3), (512, 0.4, 0.07, 0.5),
                                     (100, 1.0, 0.5, 0.25), (4096, 0.05, 0.1, 0.8))),
    same_number,
    "the fastest batch is noise times waste over what is not wasted, and its square gives P",
    {
        "the fastest batch rises with the root of P": lambda noise, sample_time, fixed, waste:
            noise * sample_time / fixed * waste / (1 - waste),
        "a batch of B wastes B over B + noise": lambda noise, sample_time, fixed, waste:
            noise * sample_time / fixed * waste**2,
        "which of the two makes the network wait?": lambda noise, sample_time, fixed, waste:
            noise * fixed / sample_time * (waste / (1 - waste)) ** 2,
    },
)

# Curvatures 1 and 0.01, noise of variance 1 in each direction, gradient (0.01, 0.1).
_SIMPLE = 2 / (0.01**2 + 0.1**2)
_WEIGHTED = (1 + 0.01) / (0.01**2 + 0.01 * 0.1**2)

simple_or_not = Numbers(
    "ex-simple-or-not",
    About("Simple, or not", "derive", 2, 12, "see what curvature does to a noise scale"),
    [
        Asked("simple", _SIMPLE, slips={
              2 / 0.11**2: "squares of the entries are added, not the entries",
              _WEIGHTED: "that one knows the curvature"}),
        Asked("noise", _WEIGHTED, slips={
              _SIMPLE: "that is the simple one",
              1.01 / (0.01**2 + 0.1**2): "the denominator has H as well"}),
        Asked("steps", 1 + _WEIGHTED / _SIMPLE, slips={
              2.0: "that is at the other noise scale"}),
    ],
    "a steep direction without gradient is all noise, and norms do not see how steep it is",
    keyed=True,
)


def _sign_rate(gradient, deviation, curvature, batch, *, apart=True, lean=None, signs=False):
    lean = lean or (lambda g, d: math.erf(math.sqrt(batch / 2) * g / d))
    s = [math.copysign(1, g) if signs else lean(g, d)
         for g, d in zip(gradient, deviation, strict=True)]
    bend = sum(row[j] * s[i] * s[j] if i != j or not apart else row[j]
               for i, row in enumerate(curvature) for j in range(len(s)))
    return sum(g * x for g, x in zip(gradient, s, strict=True)) / bend


def _signs() -> Iterator[tuple[str, tuple]]:
    apart = [[1.0, 0.0], [0.0, 0.5]]
    coupled = [[1.0, 0.4, 0.2], [0.4, 0.8, 0.1], [0.2, 0.1, 2.0]]
    yield "one entry", ([0.1], [1.0], [[2.0]], 4)
    yield "two, apart", ([0.1, -0.3], [1.0, 2.0], apart, 9)
    for batch in (1, 16, 400):
        yield f"three, coupled, batch {batch}", ([0.2, 0.1, -0.1], [1.0, 0.5, 2.0], coupled, batch)


rate_of_signs = Function(
    "ex-rate-of-signs",
    About("The rate of signs", "derive", 3, 25, "derive the rate at which Adam's rule turns down"),
    "my_rate(gradient, deviation, curvature, batch)", _sign_rate, _signs,
    same_number,
    "the root at small batches, and a turn where entries are coupled",
    {
        "a sign times itself is 1, with noise or without": {"apart": False},
        "the mean of a sign is not the sign of the mean": partial(_sign_rate, signs=True),
        "the deviation of a batch's mean is that of a sample over the root of the batch":
            lambda gradient, deviation, curvature, batch: _sign_rate(
                gradient, deviation, curvature, batch,
                lean=lambda g, d: math.erf(batch / math.sqrt(2) * g / d)),
    },
)
