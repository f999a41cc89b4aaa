"""Graders of chapter 6, Estimating before running."""

import math
import random
from itertools import pairwise
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, formula, function, number, real, whole
from dtlib.exercises.verdict import NotYet

GB, us, hour, day = 10**9, 1e-6, 3600, 86400
H100 = 989e12


def _keyed(answer: Any, names: list[str]) -> dict:
    """``answer`` if it is a dict with exactly these keys."""
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"pass a dict with the keys {', '.join(names)}")
    return answer


@grader("ex-whose-utilisation")
def whose_utilisation(answer: Any) -> str:
    given = _keyed(answer, ["at_peak", "mfu"])
    peak = 128 * H100 / (6 * 30e9)
    slips = {
        2 * peak: "twice too fast: are the matrices of the larger figure dense?",
        3 * peak: "that is the forward pass alone; training has a backward pass, too",
        peak / 128: "that is one GPU",
        peak * 6 * 30e9 / 30e9: "how many operations does a parameter cost for each token?",
    }
    number(given["at_peak"], peak, "at_peak", "tokens per second", mistakes=slips)
    mfu = 150e3 / peak
    slips = {
        mfu / 2: "half of it: are the matrices of the larger figure dense?",
        mfu / 3: "that counts the forward pass only",
        100 * mfu: "as a share, please, not in per cent",
    }
    number(given["mfu"], mfu, "mfu", mistakes=slips)
    return "the speed at the dense peak, and the share of it that the run reaches"


@grader("ex-fewest-for-a-deadline")
def fewest_for_a_deadline(answer: Any) -> str:
    given = _keyed(answer, ["fewest", "days_694", "dollars"])
    alone = 6 * 70e9 * 600e9 / (H100 * 0.45)
    least = alone / (70 * day)
    fewest = whole(given["fewest"], "fewest")
    if fewest == 694:
        raise NotYet("fewest: 694 is the most that the budget pays for, not the least needed")
    if fewest == math.floor(least):
        raise NotYet("fewest: that many finish a little too late")
    number(fewest, math.ceil(least), "fewest", tolerance=1e-6)
    slips = {alone / 694: "in days, please", 70 * 694 / least: "the other way round"}
    number(given["days_694"], alone / 694 / day, "days_694", "days", mistakes=slips)
    slips = {
        2.33e6: "dollars: that is the budget; GPUs are paid for as long as the run lasts",
        alone / hour: "those are the GPU-hours",
    }
    number(given["dollars"], 2 * alone / hour, "dollars", mistakes=slips)
    return "a least number for a deadline; the bill does not depend on how many share it"


@grader("ex-does-it-fit")
def does_it_fit(answer: Any) -> str:
    given = _keyed(answer, ["layer", "every_4", "every_1"])
    row = 4096 * 8 * 5120
    scores = 5 * 40 * 4096 / 5120
    layer = row * (10 + (24 + scores) / 4)
    slips = {
        row * (34 + scores) / 4: "only the 24 and the scores are divided among the four",
        row * (34 + scores): "nothing was divided among the four GPUs",
        row * (10 + 24 / 4): "the scores are stored here",
        row * (10 + 24 / 4 + scores): "the scores are divided as well",
        layer / 8: "each replica works on eight sequences",
        layer / GB: "in bytes, please",
    }
    number(given["layer"], layer, "layer", "bytes", mistakes=slips)
    rest = 16 * 13e9 / 32 + 5e9
    for name, k in (("every_4", 4), ("every_1", 1)):
        kept, one = 40 / k * 2 * row, k * layer
        slips = {
            one + rest: f"{name}: the kept inputs themselves are missing",
            kept + rest: f"{name}: the segment that is recomputed at the moment is missing",
            kept + one: f"{name}: that is the activations alone",
            kept + one + 5e9: f"{name}: where is the state of the model?",
            kept + one + 16 * 13e9 / 32: f"{name}: libraries want their share",
            kept + one + 16 * 13e9 / 8 + 5e9: "the state is divided by the four as well",
            kept + one + 16 * 13e9 / 4 + 5e9: "stage 3 divides the state among the replicas, too",
        }
        number(given[name], kept + one + rest, name, "bytes", mistakes=slips)
    return "one layer, and two ways to keep less: both fit"


@grader("ex-repair-the-units")
def repair_the_units(answer: Any) -> str:
    function(answer, "exchange_sheet(params, P, port_gbit)")
    for params, P, port in ((30e9, 128, 400), (7e9, 8, 100), (405e9, 1024, 200)):
        sheet = call(answer, params, P, port)
        if not hasattr(sheet, "lines") or "exchange" not in getattr(sheet, "lines", ()):
            raise NotYet("return a Sheet that has a line 'exchange'")
        if sheet.unit("exchange") != "s":
            raise NotYet(f"the line 'exchange' must be a time, but is in {sheet.unit('exchange')}")

        def seconds(width, bits, params=params, P=P, port=port):
            beta = port * 1e9 / bits
            return 2 * (P - 1) * 2 * us + 2 * (P - 1) / P * width * params / beta

        slips = {
            seconds(2, 1): "eight times too fast: a port of so many Gb/s counts bits",
            seconds(1, 8): "one byte for each gradient? They have two",
            seconds(1, 1): "a gradient has two bytes, and a port of so many Gb/s counts bits",
            seconds(4, 8): "gradients of four bytes? They have two",
        }
        number(sheet["exchange"], seconds(2, 8), "exchange", "s", tolerance=1e-6, mistakes=slips)
    return "on three machines, in seconds, with every unit the right one"


@grader("ex-exponent")
def exponent(answer: Any) -> str:
    function(answer, "exponent(f, inputs, name)")
    draw = random.Random(6)
    for _ in range(8):
        a, b = draw.uniform(-2, 2), draw.uniform(0.1, 3)
        x, y = 10 ** draw.uniform(-6, 9), 10 ** draw.uniform(-6, 9)
        cases = [
            (lambda x, y, a=a, b=b: x**a * y**b, "x", a, "a product of powers"),
            (lambda x, y: x + y, "y", y / (x + y), "a sum"),
            (lambda x, y: max(x, y), "x", float(x > y), "a maximum"),
            (lambda x, y: 3.0, "x", 0.0, "a constant"),
        ]
        for f, name, right, what in cases:
            inputs = {"x": x, "y": y}
            value = real(call(answer, f, dict(inputs), name), "the exponent")
            if abs(value - right) <= 1e-3 * max(1, abs(right)):
                continue
            if inputs != {"x": x, "y": y}:
                raise NotYet("your function changes the inputs that it is given")
            if math.isclose(value, right * f(**inputs) / inputs[name], rel_tol=0.01):
                raise NotYet(
                    f"for {what} that is the derivative itself, not that of the logarithms"
                )
            if math.isclose(value, -right, rel_tol=0.01):
                raise NotYet(f"for {what} the sign is wrong")
            raise NotYet(
                f"for {what} the exponent is off; move the input relatively, by a small factor"
            )
    return "products, sums, maxima and constants, over fifteen orders of magnitude"


@grader("ex-rule-of-squares")
def rule_of_squares(answer: Any) -> str:
    draw = random.Random(7)
    cases = [
        {
            "exponents": [draw.choice([-1.0, 1.0, 0.5, 2.0]) for _ in range(count)],
            "factors": [draw.uniform(1.05, 3) for _ in range(count)],
        }
        for count in (1, 2, 3, 5)
    ]

    def right(exponents, factors):
        squares = ((e * math.log(f)) ** 2 for e, f in zip(exponents, factors, strict=True))
        return math.exp(math.sqrt(sum(squares)))

    def product(exponents, factors):
        return math.prod(f ** abs(e) for e, f in zip(exponents, factors, strict=True))

    def relative(exponents, factors):
        squares = ((e * (f - 1)) ** 2 for e, f in zip(exponents, factors, strict=True))
        return 1 + math.sqrt(sum(squares))

    formula(
        answer,
        right,
        "spread(exponents, factors)",
        cases,
        wrong=[
            (product, "that is all of them wrong at once, in the worst direction"),
            (relative, "factors multiply, so it is their logarithms that add as squares"),
            (lambda e, f: right([1] * len(f), f), "the exponents have no effect"),
            (lambda e, f: math.log(right(e, f)), "that is the logarithm of the factor"),
        ],
        tolerance=1e-6,
    )
    return "four sets of doubts, in both directions"


@grader("ex-fermi")
def fermi(answer: Any) -> str:
    rate = 0.4 * H100
    right = {
        "state_405b": 16 * 405e9,
        "flops_8b": 6 * 8e9 * 15e12,
        "days_1t": 6 * 1e12 * 20e12 / (16384 * rate) / day,
        "speed_70b": rate / (6 * 70e9),
        "ring_16gb": 2 * 63 / 64 * 16 / 50,
        "logits": 6 * 8192 * 128e3,
        "kept_7b": 32 * 4096 * 4096 * 34,
        "dollars_70b": 2 * 6 * 70e9 * 1.4e12 / rate / hour,
    }
    given = _keyed(answer, list(right))
    errors = {}
    for name, value in right.items():
        guess = real(given[name], name)
        if guess <= 0:
            raise NotYet(f"{name} must be positive")
        errors[name] = math.log2(guess / value)
    worst = max(errors, key=lambda name: abs(errors[name]))
    score = sum(map(abs, errors.values())) / len(errors)
    side = "large" if errors[worst] > 0 else "small"
    if abs(errors[worst]) > 3:
        raise NotYet(f"{worst} is too {side}, by more than a factor of eight")
    if score > 1:
        raise NotYet(
            f"your score is {score:.1f} doublings on average, and one is asked; the farthest is "
            f"{worst}, which is too {side}"
        )
    return f"eight estimates, {score:.1f} doublings off on average"


@grader("ex-best-segment")
def best_segment(answer: Any) -> str:
    function(answer, "best_segment(layers, c)")
    cases = [(layers, c) for layers in (1, 7, 24, 80, 126) for c in (0.001, 0.4, 1, 3, 17, 60, 300)]
    given = [whole(call(answer, *case), "the number of layers") for case in cases]
    for (layers, c), k in zip(cases, given, strict=True):
        where = f"{layers} layers, c = {c}"
        if not 1 <= k <= layers:
            raise NotYet(f"{where}: a segment of {k} layers; it has at least 1 and at most all")
        cost = {j: layers / j + c * j for j in range(1, layers + 1)}
        if cost[k] <= min(cost.values()) * (1 + 1e-12):
            continue
        if k == max(1, round(math.sqrt(layers))) and c != 1:
            raise NotYet(f"{where}: the square root of the folklore; what does c change?")
        best = min(cost, key=cost.get)
        if abs(best - k) == 1:
            raise NotYet(f"{where}: a neighbouring whole number keeps less: compare both")
        raise NotYet(f"{where}: {'fewer' if best < k else 'more'} layers in a segment keep less")
    return f"no other whole number keeps less, in {len(cases)} cases"


@grader("ex-which-bandwidth")
def which_bandwidth(answer: Any) -> str:
    given = _keyed(answer, ["rate", "bandwidth"])
    first, second, work = 81.6, 66.7, 4.51e18
    rate = work / 384 / (2 * (first - second))
    slips = {
        2 * rate: "between the two rows only half of the arithmetic disappears",
        work / 384 / first: "not all of the first step is arithmetic, if nothing hides",
        work / 768 / (first - second) / 2: "384 GPUs share the work of the first row",
        384 * rate: "that is the rate of all of them",
        rate / 1e12: "in FLOP/s, please",
    }
    number(given["rate"], rate, "rate", "FLOP/s", tolerance=0.02, mistakes=slips)
    sent = 3 * 2 * 174.6e9
    slips = {
        sent / second / 3: "three times the model is exchanged",
        sent / second / 2: "a parameter travels as two bytes",
        sent / first: "the first row is not all exchange: which two rows are equally long?",
        sent / (2 * second - first): "that supposes that nothing hides",
        8 * sent / second: "in bytes per second, please",
        sent / second / GB: "in bytes per second, please",
    }
    number(given["bandwidth"], sent / second, "bandwidth", "B/s", tolerance=0.02, mistakes=slips)
    return "a rate that no A100 has, and a bandwidth that a single port can carry"


OPTIONS = ("tp", "pp", "interleave", "zero", "micro_batch", "recompute", "sequence_parallel")


@grader("ex-design-a-fit")
def design_a_fit(answer: Any) -> str:
    from dtlib.estimator import estimate
    from dtlib.foundations import Cluster, catalog, published_models

    if not isinstance(answer, dict) or not answer:
        raise NotYet(f"pass a dict of options, some of {', '.join(OPTIONS)}")
    unknown = [name for name in answer if name not in OPTIONS]
    if unknown:
        raise NotYet(
            f"option {unknown[0]!r} is not yours to choose; there are {', '.join(OPTIONS)}"
        )
    spec, cluster = published_models["llama-3.1-70b"], Cluster(catalog["dgx-h100"], 8)
    try:
        run = estimate(spec, cluster, batch=512, seq=8192, **answer)
    except (TypeError, ValueError) as error:
        raise NotYet(str(error).splitlines()[0][:200]) from None
    filled = run["memory"] / run["hbm"]
    if filled > 0.9:
        largest = run.label(next(iter(run.shares("memory"))))
        much = f"{filled:.1f} times the card" if filled > 1 else "more than nine tenths of the card"
        raise NotYet(f"a rank needs {much}; the largest part is: {largest}")
    if run["mfu"] < 0.48:
        parts = [part for part in run.shares("step") if part != "computing"]
        lost = run.label(parts[0]) if parts else "computing"
        raise NotYet(
            f"it fits, and the MFU is {run['mfu']:.0%}; what costs most beside computing: {lost}"
        )
    return "it fits with room to spare, and is fast enough"


@grader("ex-tornado")
def tornado(answer: Any) -> str:
    from dtlib.formulas.sheet import Sheet, line, total
    from dtlib.models.work import training_time
    from dtlib.parallelism import data_parallel_step_time

    function(answer, "tornado(sheet, name, share)")
    given = {"compute": 40.0, "n": 6e9, "P": 64, "alpha": 1e-4, "beta": 25e9,
             "params": 7e9, "tokens": 4e6, "peak": 1e15, "mfu": 0.4, "hidden": 4096}  # fmt: skip
    lines = {
        "shared": data_parallel_step_time,
        "alone": line(training_time, P=1),
        "both": total("shared", "alone"),
    }
    sheet = Sheet(given, lines)
    for name, share in (("both", 0.2), ("shared", 0.1), ("alone", 0.5)):
        right = {}
        for feed in sheet.feeds(name):
            value = given[feed]
            ends = [sheet.values_at(**{feed: value * (1 + s * share)})[name] for s in (-1, 1)]
            right[feed] = tuple(ends)
        _judge_rows(call(answer, sheet, name, share), right, f"line {name!r}, ±{share:.0%}")
    return "three lines of a sheet that you had not seen, the widest input first"


def _judge_rows(rows: Any, right: dict, where: str) -> None:
    try:
        rows = [(feed, float(low), float(high)) for feed, low, high in rows]
    except (TypeError, ValueError):
        raise NotYet("return a list of (input, when_low, when_high)") from None
    named = [feed for feed, _, _ in rows]
    if "hidden" in named or any(low == high for _, low, high in rows):
        raise NotYet(f"{where}: an input that changes nothing is listed")
    missing = [feed for feed in right if feed not in named]
    if missing or len(named) != len(right):
        what = f"{missing[0]!r} is missing" if missing else f"there are {len(named)} inputs"
        raise NotYet(f"{where}: {what}; what does the line depend on?")
    for feed, low, high in rows:
        same = [
            math.isclose(a, b, rel_tol=1e-9) for a, b in zip((low, high), right[feed], strict=True)
        ]
        if all(same):
            continue
        if math.isclose(low, right[feed][1], rel_tol=1e-9):
            raise NotYet(f"{where}, {feed!r}: the value for the lower *input* comes first")
        raise NotYet(f"{where}, {feed!r}: move only this input, by the share that is asked")
    widths = [abs(high - low) for _, low, high in rows]
    if any(b > a * (1 + 1e-9) for a, b in pairwise(widths)):
        raise NotYet(f"{where}: the widest comes first")
