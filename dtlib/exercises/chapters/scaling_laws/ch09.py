"""The exercises of chapter 9, Jumps that metrics make, in the order of its page."""

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import Limit, call, function, number
from dtlib.exercises.judges.arrays import same_array
from dtlib.exercises.verdict import NotYet
from dtlib.later import np
from dtlib.scaling_laws.emergence.rulers import at_least

# fmt: off
_CHAIN = 0.9**20

twenty_steps = Numbers(
    "ex-twenty-steps",
    About("Twenty steps in a row", "compute", 1, 8, "tell a chain from a share", ("x9.1",)),
    [
        Asked("all", _CHAIN, slips={
              0.9 / 20: "chances of a chain multiply", 1 - 0.1 * 20: "chances of a chain multiply",
              1 - _CHAIN: "that is the chance that at least one fails"}),
        Asked("eighteen", at_least(0.9, 18, 20), slips={
              0.9**18: "that is the first eighteen; any eighteen, or more, will do",
              math.comb(20, 18) * 0.9**18 * 0.1**2: "exactly eighteen; more will do, too",
              1 - at_least(0.9, 18, 20): "that is the chance of fewer"}),
        Asked("needed", 0.5 ** (1 / 20), slips={
              0.5: "that is the whole chain", 1 - 0.5 / 20: "the twentieth root, exactly",
              0.5**20: "the other way round: the twentieth root"}, tolerance=0.001),
    ],
    "a chain is a power, a share is a sum of binomials", keyed=True,
)

_RISE = math.log10(math.log(10) / math.log(10 / 9))

shifted_not_steeper = Numbers(
    "ex-shifted-not-steeper",
    About("Shifted, not steeper", "compute", 1, 8, "move a curve along compute"),
    [
        Asked("more_compute", 8**4, slips={
              8: "the loss must be an eighth; how does it fall with compute?",
              8**0.25: "the other way round: compute is the loss to the power of minus four",
              2**0.25: "all eight, and the inverse of the power"}),
        Asked("decades", _RISE / 0.25, slips={
              _RISE: "that is for a power of 1", _RISE * 0.25: "divide by the power",
              _RISE / 0.25 / 8: "does the number of answers occur?",
              math.log10(9) / 0.25: "the losses of 1 in 10 and of 9 in 10, not their ratio"}),
        Asked("decades_of_eight", _RISE / 0.25, slips={
              _RISE / 0.25 / 8: "does the number of answers occur?",
              _RISE / 2: "it moves to the right, and its shape?"}),
    ],
    "eight answers need 4,096 times the compute, and rise as slowly", keyed=True,
)

_UNSEEN = 1 - 0.05 ** (1 / 164)

none_of_164 = Numbers(
    "ex-none-of-164",
    About("None of 164", "compute", 1, 8, "say what a test set with no success has shown"),
    [
        Asked("largest", _UNSEEN, slips={
              1 / 164: "for that success a test without any comes up one time in three",
              0.05 / 164: "all 164 must fail: solve (1 - q) to the 164th for q",
              0.05: "that is the chance of the test, not of an item"}),
        Asked("items", math.log(0.05) / math.log(0.999), slips={
              1000: "with so many, more than one test in three shows none",
              1 / 0.05 * 1000: "the chance that all fail is to be 5 %"}, tolerance=0.002),
        Asked("scale", 0.05 / _UNSEEN, slips={
              _UNSEEN / 0.05: "the other way round",
              0.05 * 164: "against the success that none of 164 cannot exclude"}, tolerance=0.02),
    ],
    "a test of 164 items cannot tell zero from a success of nearly two per cent", keyed=True,
)


def _smooth(right, items, k, doubt=0.05, least=False, per=True):
    if right or least:
        return -math.log(right / items or 1 / items) / (k if per else 1)
    return -math.log(1 - doubt ** (1 / items)) / (k if per else 1)


def _tests() -> Iterator[tuple[str, tuple]]:
    cases = (0, 100, 4), (0, 5000, 10), (50, 100, 1), (99, 100, 8), (1, 1000, 5), (7, 30, 2)
    yield from (("", case) for case in cases)


take_the_ruler_off = Function(
    "ex-take-the-ruler-off",
    About("Take the ruler off", "design", 2, 12, "recover the loss of an answer from a score"),
    "my_loss(right, items, k)", _smooth, _tests, same_number,
    "six scores give the loss of one answer, or how large it is at least",
    {
        "that is the loss of all k together": {"per": False},
        "none right is no loss of a finite number: what is the largest success not excluded?":
            {"least": True},
    },
)


def _exact(losses, mean=False, first=False):
    losses = np.asarray(losses, dtype=float)
    if mean:
        return float(np.exp(-losses.mean() * losses.shape[1]))
    if first:
        return float(np.exp(-losses).mean(axis=0).prod())
    return float(np.exp(-losses.sum(axis=1)).mean())


def _losses() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(9)
    for items, k in ((3, 2), (20, 4), (50, 8)):
        hard = [draw.uniform(0.05, 2) for _ in range(items)]
        yield f"{items} items of {k} answers", ([[h * draw.uniform(0.7, 1.4) for _ in range(k)]
                                                 for h in hard],)


easy_and_hard = Function(
    "ex-easy-and-hard",
    About("Easy items and hard ones", "repair", 2, 12, "average after the ruler, not before"),
    "my_exact(losses)", _exact, _losses, same_number,
    "on three sets of items the mean of products, and not the product of means",
    {
        "one mean loss for all items: hard ones and easy ones do not average":
            lambda losses: _exact(losses, mean=True),
        "the answers of one item go together: multiply first, then average":
            lambda losses: _exact(losses, first=True),
    },
)


def _surface(N, D):
    return 1.69 + 406.4 / N**0.34 + 410.7 / D**0.28


_DROP = _surface(10e9, 200e9) - _surface(50e9, 1e12)
_SHARP = _DROP / math.log(19)

threshold_in_loss = Numbers(
    "ex-threshold-in-loss",
    About("A threshold in the loss", "compute", 2, 12, "check a sharpness against a surface",
          ("x9.2",)),
    [
        Asked("drop", _DROP, slips={
              406.4 / 10e9**0.34 - 406.4 / 50e9**0.34: "more tokens lower the loss, too",
              _DROP - 406.4 / 10e9**0.34 + 406.4 / 50e9**0.34: "more parameters lower it, too"}),
        Asked("sharpness", _SHARP, slips={
              _DROP / math.log(20): "the odds of 5 % are 1 to 19",
              _DROP * math.log(19): "the logit is the loss over the sharpness",
              _DROP / 0.45: "the sigmoid is no straight line: use its logit",
              0.1: "then 10 billion parameters would be at 15 %, not at 5"}),
        Asked("at_10b", 1 / (1 + math.exp(_DROP / 0.1)), slips={
              0.05: "that is what was measured; what does a sharpness of 0.1 say?",
              1 / (1 + math.exp(-_DROP / 0.1)): "the smaller model is below one half"},
              tolerance=0.02),
    ],
    "two models' accuracies and a surface fix the sharpness", keyed=True,
)

_COST = 6 * 60e9 * 1.2e12
_TARGET = _surface(60e9, 1.2e12)
_HALF = (410.7 / (_TARGET - 1.69 - 406.4 / 30e9**0.34)) ** (1 / 0.28)

the_same_loss = Numbers(
    "ex-the-same-loss",
    About("The same loss, smaller", "compute", 2, 15,
          "read a threshold as a loss and not as a size", ("x9.4",)),
    [
        Asked("cost", _COST, "FLOP", {
              60e9 * 1.2e12: "six per parameter and token",
              2 * 60e9 * 1.2e12: "forward and backward"}),
        Asked("within", 1e23 / (6 * 60e9), slips={
              1e23 / 60e9: "six per parameter and token",
              1.2e12: "that is what it would need; what can be paid for?"}),
        Asked("tokens", _HALF, slips={
              2.4e12: "half of the parameters is not twice the tokens; solve for the same loss",
              0.6e12: "at 20 tokens per parameter 30 billion end at a higher loss"},
              tolerance=0.02),
        Asked("half_cost", 6 * 30e9 * _HALF, "FLOP", {
              6 * 60e9 * _HALF: "with 30 billion parameters"}, tolerance=0.02),
    ],
    "half the parameters reach the same loss, by the surface, for less work", keyed=True,
)

which_experiment = Numbers(
    "ex-which-experiment",
    About("Which experiment", "compute", 1, 6, "choose what tells two causes apart", ("x9.1",)),
    [
        Chosen("measure", "the loss on new text of the training source", {
            "the loss of a larger model": "both causes would let it fall",
            "the training loss of another epoch": "it falls whatever the cause",
            "the validation loss at a lower rate": "which of the two causes does it touch?"}),
        Chosen("near_2.0", "another distribution", {
            "repeated text": "what was seen before would be at 2.0, and what is new would not"}),
        Chosen("near_2.3", "repeated text", {
            "another distribution": "text of the same source is as hard as the validation text"}),
    ],
    "only text that is new, and of the same source, has one of the two causes", keyed=True,
)


def _when(steps, train, test, solved=0.95):
    return tuple(next((s for s, right in zip(steps, series, strict=True) if right >= solved), None)
                 for series in (train, test))


def _gap_only(steps, train, test):
    gaps = [a - b for a, b in zip(train, test, strict=True)]
    return _when(steps, train, train)[0], steps[gaps.index(max(gaps))]


def _runs() -> Iterator[tuple[str, tuple]]:
    steps = list(range(0, 1000, 100))
    fitted = [0.02, 0.6, 0.96, *[1.0] * 7]
    yield "a run that is late", (steps, fitted, [0.02] * 5 + [0.1, 0.5, 0.9, 0.96, 0.99])
    yield "a run that never solves the test", (steps, fitted, [0.02] * 10)
    yield "a run that learns both at once", (steps, fitted, [0.02, 0.5, 0.95, *[0.99] * 7])
    yield "a run that learns nothing", (steps, [0.02] * 10, [0.02] * 10)


late_or_never = Function(
    "ex-late-or-never",
    About("Late, or never", "repair", 2, 12, "watch a run for a rule that comes late", ("x9.5",)),
    "my_watch(steps, train, test)", _when, _runs,
    lambda given, right, *run: _same_steps(given, right),
    "on four runs the steps at which examples and test are solved, or None",
    {
        "a gap is widest before the rule comes, not when": _gap_only,
        "the test, too, counts from 95 %": lambda steps, train, test: (
            _when(steps, train, test)[0], _when(steps, test, test, 0.5)[0]),
    },
)


def _same_steps(given: Any, right: tuple) -> None:
    try:
        first, second = given
    except (TypeError, ValueError):
        raise NotYet("return two things: the step of the examples and that of the test") from None
    for name, step, due in zip(("examples", "test"), (first, second), right, strict=True):
        if step != due:
            raise NotYet(f"the {name} are solved at another step" if name == "examples"
                         else "the test is solved at another step, or not at all")


def _drawn(rate, epochs, visits=None):
    return math.exp(-epochs * (1 - (1 - rate) ** 2))


def _rates() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(4)
    yield from (("", (draw.uniform(0.05, 0.9), draw.uniform(0.2, 4))) for _ in range(8))


no_stairs = Formula(
    "ex-no-stairs",
    About("No stairs", "derive", 3, 20, "average a power over a Poisson number"),
    "my_drawn(rate, epochs)", _drawn, _rates, same_number,
    "samples that are drawn give an exponential, with no corner",
    {
        "that is a sample that was seen as often as the mean; average the error instead":
            lambda rate, epochs: (1 - rate) ** (2 * epochs),
        "the error is squared": lambda rate, epochs: math.exp(-epochs * rate),
    },
    (Limit("nothing was seen yet", {"epochs": 0}, "then the error is what it was"),),
)


def _turned(jacobian) -> Any:
    return np.linalg.svd(np.asarray(jacobian, dtype=float))[2][-1]


def _blind_law(answer: Callable) -> None:
    function(answer, "my_blind(J)")
    draw = np.random.default_rng(3)
    for rows, columns in ((5, 2), (12, 5), (30, 3)):
        right, _ = np.linalg.qr(draw.standard_normal((columns, columns)))
        left, _ = np.linalg.qr(draw.standard_normal((rows, columns)))
        sizes = np.geomspace(10, 0.001, columns)
        jacobian = left * sizes @ right.T
        given = call(answer, jacobian.copy())
        due = right[:, -1]
        same_array(np.shape(given), np.shape(due), "the shape of the direction")
        given = np.asarray(given, dtype=float)
        number(float(np.linalg.norm(given)), 1, "the direction's length")
        if abs(abs(given @ due) - 1) > 1e-6:
            said = "that is the direction that is seen best"
            seen = abs(abs(given @ right[:, 0]) - 1) < 1e-6
            raise NotYet(said if seen else "the points see this direction better than another")


blind_direction = Made(
    "ex-blind-direction",
    About("The direction that nobody sees", "design", 2, 15, "find what a fit does not determine"),
    _blind_law, lambda: _turned,
    "of three Jacobians the direction that moves the fit least",
    {
        "seen best": lambda: lambda J: np.linalg.svd(np.asarray(J))[2][0],
        "length": lambda: lambda J: 2 * _turned(J),
        "the points see this direction better": lambda: lambda J: np.eye(len(J[0]))[0],
    },
)

peak_at_the_border = Numbers(
    "ex-peak-at-the-border",
    About("The peak at the border", "compute", 2, 12, "count the variance of a fit that fits all",
          ("x9.3",)),
    [
        Asked("half", 50 / 49, slips={
              0.5: "that is p over n; the inverse of X'X has a mean, too",
              50 / 50: "one less in the denominator"}, tolerance=0.005),
        Asked("just_below", 98.0, slips={0.98: "that is p over n"}),
        Asked("just_above", 100.0, slips={
              102.0: "with more weights than samples, the roles change: n over p - n - 1",
              1.02: "that is p over n"}),
        Asked("three_times", 100 / 199, slips={
              300 / 199: "the roles change: n stands above",
              1 / 3: "one less, and minus n, in the denominator"}, tolerance=0.005),
    ],
    "the variance has its peak where the weights just fit the samples", keyed=True,
)


def _pass_at(n, c, k):
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def _samples() -> Iterator[tuple[str, tuple]]:
    cases = (10, 0, 3), (10, 1, 1), (10, 3, 5), (20, 18, 3), (200, 2, 100)
    yield from (("", case) for case in cases)


several_tries = Function(
    "ex-several-tries",
    About("Several tries", "design", 2, 12, "estimate the chance that one of k tries is right"),
    "my_pass(n, c, k)", _pass_at, _samples, same_number,
    "in five cases the share of the choices of k tries that hold a right one",
    {
        "biased: the share of right tries is itself an estimate; count the choices of k":
            lambda n, c, k: 1 - (1 - c / n) ** k,
        "that is the chance that all k are right":
            lambda n, c, k: math.comb(c, k) / math.comb(n, k),
    },
)
# fmt: on
