"""The exercises of chapter 6, Estimating before running, in the order of its page."""

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import real, whole
from dtlib.exercises.judges import sheets
from dtlib.exercises.verdict import NotYet

# fmt: off
GB, HOUR, DAY = 10**9, 3600, 86400
H100 = 989e12

_PEAK = 128 * H100 / (6 * 30e9)
_MFU = 150e3 / _PEAK

whose_utilisation = Numbers(
    "ex-whose-utilisation",
    About("Whose utilisation?", "compute", 1, 5,
          "tell a utilisation from a data sheet's figure", ("x6.2",)),
    [
        Asked("at_peak", _PEAK, "tokens per second", {
              2 * _PEAK: "twice too fast: are the matrices of the larger figure dense?",
              3 * _PEAK: "that is the forward pass alone; training has a backward pass, too",
              _PEAK / 128: "that is one GPU",
              6 * _PEAK: "how many operations does a parameter cost for each token?"}),
        Asked("mfu", _MFU, "", {
              _MFU / 2: "half of it: are the matrices of the larger figure dense?",
              _MFU / 3: "that counts the forward pass only",
              100 * _MFU: "as a share, please, not in per cent"}),
    ],
    "the speed at the dense peak, and the share of it that the run reaches", keyed=True,
)

_ALONE = 6 * 70e9 * 600e9 / (H100 * 0.45)
_LEAST = _ALONE / (70 * DAY)

fewest_for_a_deadline = Numbers(
    "ex-fewest-for-a-deadline",
    About("The fewest GPUs", "compute", 1, 8,
          "answer a deadline with a minimum and a budget with a maximum", ("x6.3",)),
    [
        Asked("fewest", math.ceil(_LEAST), "", {
              694: "that is the most that the budget pays for, not the least needed",
              math.floor(_LEAST): "a little too late", _LEAST: "a whole number"}, 1e-6),
        Asked("days_694", _ALONE / 694 / DAY, "days", {
              _ALONE / 694: "in days, please", 70 * 694 / _LEAST: "the other way round"}),
        Asked("dollars", 2 * _ALONE / HOUR, "", {
              2.33e6: "that is the budget; GPUs are paid for as long as the run lasts",
              _ALONE / HOUR: "those are the GPU-hours"}),
    ],
    "a least number for a deadline; the bill does not depend on how many share it", keyed=True,
)

_ROW = 4096 * 8 * 5120
_SCORES = 5 * 40 * 4096 / 5120
_LAYER = _ROW * (10 + (24 + _SCORES) / 4)


def _kept(name: str, every: int) -> Asked:
    inputs, one, state = 40 / every * 2 * _ROW, every * _LAYER, 16 * 13e9
    held, libraries = inputs + one, 5e9
    return Asked(name, held + state / 32 + libraries, "bytes", {
        one + state / 32 + libraries: "the kept inputs themselves are missing",
        inputs + state / 32 + libraries: "the segment that is recomputed at the moment is missing",
        held: "that is the activations alone",
        held + libraries: "where is the state of the model?",
        held + state / 32: "libraries want their share",
        held + state / 8 + libraries: "the state is divided by the four as well",
        held + state / 4 + libraries: "stage 3 divides the state among the replicas, too"})


does_it_fit = Numbers(
    "ex-does-it-fit",
    About("Does it fit?", "compute", 2, 15, "account for every term of a rank's memory", ("x6.1",)),
    [
        Asked("layer", _LAYER, "bytes", {
              _ROW * (34 + _SCORES) / 4: "only the 24 and the scores are divided among the four",
              _ROW * (34 + _SCORES): "nothing was divided among the four GPUs",
              _ROW * (10 + 24 / 4): "the scores are stored here",
              _ROW * (10 + 24 / 4 + _SCORES): "the scores are divided as well",
              _LAYER / 8: "each replica works on eight sequences", _LAYER / GB: "in bytes"}),
        _kept("every_4", 4), _kept("every_1", 1),
    ],
    "one layer, and two ways to keep less: both fit", keyed=True,
)


def _exchange_sheet(params: float, P: int, port_gbit: float, *, bits=8, width=2):
    from dtlib.collectives import ring_all_reduce_time
    from dtlib.formulas.sheet import Sheet, line
    from dtlib.memory import weight_bytes

    given = {"params": params, "P": P, "alpha": 2e-6, "beta": port_gbit * 1e9 / bits,
             "element_bytes": width}
    return Sheet(given, {"gradient": weight_bytes,
                         "exchange": line(ring_all_reduce_time, n="gradient")})


repair_the_units = Function(
    "ex-repair-the-units",
    About("Parameters are not bytes", "repair", 2, 10,
          "repair an estimate whose units do not match"),
    "exchange_sheet(params, P, port_gbit)", _exchange_sheet,
    lambda: [("", (30e9, 128, 400)), ("", (7e9, 8, 100)), ("", (405e9, 1024, 200))],
    lambda given, right, *run: sheets.same_line(given, right, "exchange"),
    "on three machines, in seconds, with every unit the right one",
    {
        "eight times too fast: a port of so many Gb/s counts bits": {"bits": 1},
        "one byte for each gradient? They have two": {"width": 1},
        "gradients of four bytes? They have two": lambda *run: _exchange_sheet(*run, width=4),
    },
)


def _exponent(f: Callable, inputs: dict, name: str) -> float:
    up, down = (f(**inputs | {name: inputs[name] * by}) for by in (1.0001, 1 / 1.0001))
    return (math.log(up) - math.log(down)) / (2 * math.log(1.0001))


def _powers() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(6)
    for _ in range(8):
        a, b = draw.uniform(-2, 2), draw.uniform(0.1, 3)
        inputs = {"x": 10 ** draw.uniform(-6, 9), "y": 10 ** draw.uniform(-6, 9)}
        yield "for a product of powers", (lambda x, y, a=a, b=b: x**a * y**b, {**inputs}, "x")
        yield "for a sum", (lambda x, y: x + y, {**inputs}, "y")
        yield "for a maximum", (lambda x, y: max(x, y), {**inputs}, "x")
        yield "for a constant", (lambda x, y: 3.0, {**inputs}, "x")


def _same_exponent(given: Any, right: float, f: Callable, inputs: dict, name: str) -> None:
    given = real(given, "the exponent")
    if abs(given - right) > 1e-3 * max(1, abs(right)):
        derivative = right * f(**inputs) / inputs[name]
        raise NotYet("that is the derivative itself, not that of the logarithms"
                     if math.isclose(given, derivative, rel_tol=0.01) else
                     "the exponent is off; move the input relatively, by a small factor")


exponent = Function(
    "ex-exponent",
    About("The exponent of anything", "derive", 2, 10,
          "differentiate an estimate by any of its inputs"),
    "exponent(f, inputs, name)", _exponent, _powers, _same_exponent,
    "products, sums, maxima and constants, over fifteen orders of magnitude",
    {"the sign is wrong": lambda *powers: -_exponent(*powers)},
)


def _spread(exponents: list, factors: list) -> float:
    return math.exp(math.hypot(*(e * math.log(f) for e, f in zip(exponents, factors, strict=True))))


rule_of_squares = Function(
    "ex-rule-of-squares",
    About("The rule of squares", "derive", 2, 8, "combine the doubts about factors of a product"),
    "spread(exponents, factors)", _spread,
    lambda: [("one doubt", ([2.0], [1.3])), ("two doubts", ([-1.0, 0.5], [2.1, 1.2])),
             ("three doubts", ([1.0, 1.0, -1.0], [1.25, 1.25, 1.25])),
             ("five doubts", ([1.0, -1.0, 0.5, 2.0, 1.0], [1.1, 2.5, 1.4, 1.05, 2.9]))],
    same_number, "four sets of doubts, in both directions",
    {
        "that is all of them wrong at once, in the worst direction":
            lambda e, f: math.prod(x ** abs(k) for k, x in zip(e, f, strict=True)),
        "factors multiply, so it is their logarithms that add as squares":
            lambda e, f: 1 + math.hypot(*(k * (x - 1) for k, x in zip(e, f, strict=True))),
        "the exponents have no effect": lambda e, f: _spread([1] * len(f), f),
        "that is the logarithm of the factor": lambda e, f: math.log(_spread(e, f)),
    },
)

_FERMI = {
    "state_405b": 16 * 405e9, "flops_8b": 6 * 8e9 * 15e12,
    "days_1t": 6 * 1e12 * 20e12 / (16384 * 0.4 * H100) / DAY,
    "speed_70b": 0.4 * H100 / (6 * 70e9), "ring_16gb": 2 * 63 / 64 * 16 / 50,
    "logits": 6 * 8192 * 128e3, "kept_7b": 32 * 4096 * 4096 * 34,
    "dollars_70b": 2 * 6 * 70e9 * 1.4e12 / (0.4 * H100) / HOUR,
}


def _fermi_law(answer: Any) -> str:
    if not isinstance(answer, dict) or set(answer) != set(_FERMI):
        raise NotYet(f"pass a dict with the keys {', '.join(_FERMI)}")
    guesses = {name: real(answer[name], name) for name in _FERMI}
    low = [name for name, guess in guesses.items() if guess <= 0]
    if low:
        raise NotYet(f"{low[0]} must be positive")
    off = {name: math.log2(guess / _FERMI[name]) for name, guess in guesses.items()}
    worst = max(off, key=lambda name: abs(off[name]))
    score = sum(map(abs, off.values())) / len(off)
    side = "large" if off[worst] > 0 else "small"
    if abs(off[worst]) > 3:
        raise NotYet(f"{worst} is too {side}, by more than a factor of eight")
    if score > 1:
        raise NotYet(f"your score is {score:.1f} doublings on average, and one is asked; the "
                     f"farthest is {worst}, which is too {side}")
    return f"eight estimates, {score:.1f} doublings off on average"


fermi = Made(
    "ex-fermi",
    About("A game of Fermi's", "compute", 1, 15, "estimate to a factor of two without a computer"),
    _fermi_law, lambda: {**_FERMI}, "eight estimates",
    {
        "too large, by more than": lambda: {**_FERMI, "days_1t": _FERMI["days_1t"] * DAY},
        "too small, by more than": lambda: {**_FERMI, "ring_16gb": 0.01},
        "your score is 1.8": lambda: {name: 3.5 * value for name, value in _FERMI.items()},
        "must be positive": lambda: {**_FERMI, "logits": -1},
    },
)


def _keeps_least(given: Any, right: int, layers: int, c: float) -> None:
    k = whole(given, "the number of layers")
    if not 1 <= k <= layers:
        raise NotYet(f"a segment of {k} layers; it has at least 1 and at most all")
    if layers / k + c * k > (layers / right + c * right) * (1 + 1e-12):
        raise NotYet(f"{'fewer' if right < k else 'more'} layers in a segment keep less")


best_segment = Function(
    "ex-best-segment",
    About("How long is a segment?", "derive", 3, 12, "minimise a cost over whole numbers"),
    "best_segment(layers, c)",
    lambda layers, c: min(range(1, layers + 1), key=lambda k: layers / k + c * k),
    lambda: [(f"{layers} layers, c = {c}", (layers, c)) for layers in (1, 7, 24, 80, 126)
             for c in (0.001, 0.4, 1, 3, 17, 60, 300)],
    _keeps_least, "no other whole number keeps less, in 35 cases",
    {
        "the square root of the folklore; what does c change?":
            lambda layers, c: max(1, round(math.sqrt(layers))),
        "the root is rounded: compare both whole numbers beside it":
            lambda layers, c: min(layers, max(1, int(math.sqrt(layers / c)))),
    },
)

_FIRST, _SECOND, _WORK = 81.6, 66.7, 4.51e18
_RATE, _RECEIVED = _WORK / 384 / (2 * (_FIRST - _SECOND)), 6 * 174.6e9 / _SECOND

which_bandwidth = Numbers(
    "ex-which-bandwidth",
    About("Which bandwidth was it?", "compute", 2, 15,
          "infer a resource from where an estimate fails"),
    [
        Asked("rate", _RATE, "FLOP/s", {
              2 * _RATE: "between the two rows only half of the arithmetic disappears",
              _WORK / 384 / _FIRST: "not all of the first step is arithmetic, if nothing hides",
              _RATE / 2: "384 GPUs share the work of the first row",
              384 * _RATE: "that is the rate of all of them", _RATE / 1e12: "in FLOP/s"}, 0.02),
        Asked("bandwidth", _RECEIVED, "B/s", {
              _RECEIVED / 3: "three times the model is exchanged",
              _RECEIVED / 2: "a parameter travels as two bytes",
              6 * 174.6e9 / _FIRST:
                  "the first row is not all exchange: which two rows are equally long?",
              6 * 174.6e9 / (2 * _SECOND - _FIRST): "that supposes that nothing hides",
              8 * _RECEIVED: "in bytes per second", _RECEIVED / GB: "in bytes per second"}, 0.02),
    ],
    "a rate that no A100 has, and a bandwidth that a single port can carry", keyed=True,
)

OPTIONS = ("tp", "pp", "interleave", "zero", "micro_batch", "recompute", "sequence_parallel")


def _fit_law(answer: Any) -> None:
    from dtlib.composition.planner.lines import COMPUTING
    from dtlib.estimator import estimate
    from dtlib.foundations import Cluster, catalog, published_models

    if not isinstance(answer, dict) or not answer:
        raise NotYet(f"pass a dict of options, some of {', '.join(OPTIONS)}")
    unknown = [name for name in answer if name not in OPTIONS]
    if unknown:
        raise NotYet(f"option {unknown[0]!r} is not yours to choose, but {', '.join(OPTIONS)} are")
    spec, cluster = published_models["llama-3.1-70b"], Cluster(catalog["dgx-h100"], 8)
    try:
        run = estimate(spec, cluster, batch=512, seq=8192, **answer)
    except (TypeError, ValueError) as error:
        raise NotYet(str(error).splitlines()[0][:200]) from None
    filled = run["memory"] / run["hbm"]
    if filled > 0.9:
        largest = run.label(next(iter(run.shares("memory"))))
        raise NotYet(f"a rank needs {filled:.2f} times the card; the largest part is: {largest}")
    if run["mfu"] < 0.42:
        lost = [run.label(part) for part in run.shares("step") if part not in COMPUTING]
        raise NotYet(f"it fits, and the MFU is {run['mfu']:.0%}; what costs most beside "
                     f"computing: {lost[0]}")


_FITS = {"tp": 4, "pp": 8, "zero": 1, "sequence_parallel": True}

design_a_fit = Made(
    "ex-design-a-fit",
    About("A configuration that fits", "design", 3, 25, "choose a split that fits and is fast"),
    _fit_law, lambda: _FITS, "it fits with room to spare, and is fast enough",
    {
        "times the card; the largest part is: activations": lambda: {"zero": 3},
        "beside computing: sums within layers": lambda: {**_FITS, "recompute": "full"},
        "tp x pp is 24, but must be a divisor": lambda: {**_FITS, "tp": 3},
        "option 'batch' is not yours": lambda: {**_FITS, "batch": 1},
    },
)


def _tornado(sheet: Any, name: str, share: float, *, ends=(-1, 1)) -> list[tuple]:
    def at(feed: str, by: float) -> float:
        return sheet.values_at(**{feed: sheet.given[feed].value * (1 + by * share)})[name]

    rows = [(feed, *(at(feed, by) for by in ends)) for feed in sheet.feeds(name)]
    return sorted(rows, key=lambda row: -abs(row[2] - row[1]))


def _sheets() -> Iterator[tuple[str, tuple]]:
    from dtlib.formulas.sheet import Sheet, line, total
    from dtlib.models.work import training_time
    from dtlib.parallelism import data_parallel_step_time

    given = {"compute": 40.0, "n": 6e9, "P": 64, "alpha": 1e-4, "beta": 25e9,
             "params": 7e9, "tokens": 4e6, "peak": 1e15, "mfu": 0.4, "hidden": 4096}
    lines = {"shared": data_parallel_step_time, "alone": line(training_time, P=1),
             "both": total("shared", "alone")}
    for name, share in (("both", 0.2), ("shared", 0.1), ("alone", 0.5)):
        yield f"line {name!r}, ±{share:.0%}", (Sheet(given, lines), name, share)


tornado = Function(
    "ex-tornado",
    About("The tornado", "design", 3, 25,
          "find the input of an end-to-end estimate that is worth measuring", ("C.20",)),
    "tornado(sheet, name, share)", _tornado, _sheets, sheets.same_ends,
    "three lines of a sheet that you had not seen, the widest input first",
    {
        "the value for the lower *input* comes first": {"ends": (1, -1)},
        "the share is asked on each side, not in all":
            lambda sheet, name, share: _tornado(sheet, name, share / 2),
        "the widest comes first": lambda *bar: _tornado(*bar)[::-1],
    },
)
