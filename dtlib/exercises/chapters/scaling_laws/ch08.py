"""The exercises of chapter 8, Compute-optimal training, in the order of its page."""

import math
from functools import partial

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import Limit
from dtlib.exercises.judges.isoflops import (
    foot,
    foot_cases,
    same_foot,
    same_winners,
    winner_cases,
    winners,
)
from dtlib.scaling_laws.compute_optimal.repetition import effective_tokens
from dtlib.scaling_laws.loss_surface.surface import BESIROGLU, best_params, run_loss

# fmt: off

def _rule(flops: float) -> float:
    return math.sqrt(flops / 120)


divide_a_budget = Numbers(
    "ex-divide-a-budget",
    About("Divide a budget", "compute", 1, 8, "divide a budget by the rule of twenty", ("x8.1",)),
    [
        Asked("params", _rule(1e22), slips={
              math.sqrt(1e22 / 20): "a parameter and a token take 6 FLOP",
              math.sqrt(1e22 / 6): "and the tokens are 20 times the parameters",
              1e22 / 120: "a root is missing"}),
        Asked("tokens", 20 * _rule(1e22), slips={
              _rule(1e22): "20 for each parameter",
              1e22 / 6: "divide by the parameters, too"}),
        Asked("gopher", _rule(5.76e23), slips={
              280e9: "that is what Gopher had; what should it have had?",
              _rule(1e22) * 57.6: "the size grows as the root of the budget"}),
    ],
    "both grow as the root: with 57.6 times the budget the model is 7.6 times as large", keyed=True,
)

two_powers_one_budget = Numbers(
    "ex-two-powers-one-budget",
    About("Two powers, one budget", "compute", 1, 6, "read a power as a factor", ("x8.1",)),
    [
        Asked("kaplan_params", 8**0.73, slips={
              8 * 0.73: "a power, not a product", 2**0.73: "that is for twice the budget"}),
        Asked("kaplan_tokens", 8**0.27, slips={
              8**0.73: "that is the parameters: the tokens take the rest",
              8 * 0.27: "a power, not a product", 2**0.27: "that is for twice the budget"}),
        Asked("half_params", 8**0.5, slips={
              4: "half the factor is no root", 2**0.5: "that is for twice the budget"}),
    ],
    "what the model takes the tokens leave: the factors multiply to 8", keyed=True,
)

_SAME = _rule(6 * 30e9 * 150e9)
_TOO_LARGE = run_loss(30e9, 150e9, *BESIROGLU) - run_loss(_SAME, 20 * _SAME, *BESIROGLU)

too_large = Numbers(
    "ex-too-large",
    About("Too large, and by how much", "compute", 1, 10, "price a wrong division", ("x8.2",)),
    [
        Asked("times", 30e9 / _SAME, slips={
              4: "the ratio is a quarter of 20; the size goes with the root of that",
              30e9 / (150e9 / 20): "that is against 150 billion tokens; hold the budget",
              0.5: "its size over the rule's"}),
        Asked("nats", _TOO_LARGE, slips={
              run_loss(30e9, 150e9, *BESIROGLU) - run_loss(30e9, 600e9, *BESIROGLU):
                  "that is against more tokens, at four times the budget",
              run_loss(30e9, 150e9, *BESIROGLU) - run_loss(7.5e9, 150e9, *BESIROGLU):
                  "that is against a smaller model, at a quarter of the budget"}, tolerance=0.02),
    ],
    "twice the size, and a hundredth of a nat or so: the valley is flat", keyed=True,
)


def _ratio(C, A, alpha, B, beta, *, two=2, budget=True, six=6):
    power = 1 / (alpha + beta)
    scale = (C / six) ** ((alpha - beta) * power) if budget else 1
    return (beta * B / (alpha * A)) ** (two * power) * scale


_CONSTANTS = (
    (5.76e23, 406.4, 0.34, 410.7, 0.28), (1e21, 482.01, 0.3478, 2085.43, 0.3658),
    (1e18, 100.0, 0.5, 300.0, 0.5), (1e20, 35.0, 0.65, 190.0, 0.55),
)

ratio_exactly = Formula(
    "ex-ratio-exactly",
    About("The ratio, exactly", "derive", 2, 12, "derive tokens for each parameter", ("x8.1",)),
    "ratio(C, A, alpha, B, beta)", _ratio, lambda: (("", case) for case in _CONSTANTS),
    same_number,
    "the constants to the power 2 / (alpha + beta), and the budget where the powers differ",
    {
        "of both the size and the tokens one root is in the ratio: the power of the constants is 2 "
        "over the sum": partial(_ratio, two=1),
        "the ratio changes with the budget unless both powers are the same":
            partial(_ratio, budget=False),
        "the constants still need their power, and the budget is missing":
            lambda C, A, alpha, B, beta: beta * B / (alpha * A),
        "a parameter and a token take 6 FLOP": partial(_ratio, six=1),
        "that is parameters for each token": lambda *args: 1 / _ratio(*args),
        "that is the size, not the ratio": best_params.__wrapped__,
    },
    limits=(Limit("alpha = beta", {"alpha": 0.5, "beta": 0.5},
                  "then the budget has no say: look at the power of the constants"),),
)


foot_of_a_parabola = Function(
    "ex-foot-of-a-parabola",
    About("The foot of a parabola", "design", 2, 20, "find a best model, or say that none is seen"),
    "foot(params, losses)", foot, foot_cases, same_foot,
    "in logarithms, and only where the points show it",
    {
        "the parabola is one in the logarithm of the size": partial(foot, logs=False),
        "a parabola that bends downwards has its highest point there": partial(foot, bends=False),
        "what lies outside of the sizes was not seen": partial(foot, inside=False),
    },
)


which_curve_is_lowest = Function(
    "ex-which-curve-is-lowest",
    About("Which curve is lowest", "repair", 2, 12, "leave out what an envelope does not show"),
    "my_winners(sizes, table)", winners, winner_cases, same_winners,
    "winners at the ends are no winners",
    {
        "where the smallest wins, a smaller one may be better":
            partial(winners, ends=(False, True)),
        "where the largest wins, a larger one may be better":
            partial(winners, ends=(True, False)),
        "where an end wins, a size that nobody trained may be better":
            partial(winners, ends=(False, False)),
        "the lowest loss wins": partial(winners, lowest=False),
    },
)


def _foot_at(c, w, delta, *, middle=3 / 2, width=3 / 10):
    return c * (middle * delta**2 - width * w**2)


foot_of_a_cubic = Formula(
    "ex-foot-of-a-cubic",
    About("The foot of a cubic", "derive", 3, 20, "see how an uneven valley misleads a parabola"),
    "foot_at(c, w, delta)", _foot_at,
    lambda: (("", case) for case in ((0.01, 2, 0), (0.01, 2, 1), (-0.02, 1.5, 0.5), (0.03, 1, -2))),
    same_number,
    "centred sizes put the foot off by the same factor, drifting ones by a changing one",
    {
        "the bend of the fit changes with the middle, too": partial(_foot_at, middle=-3 / 2),
        "the line that stands for y^3 is 3/5 w^2 y, and the foot is at minus half its slope":
            partial(_foot_at, width=3 / 5),
        "the cubic over the width pulls the foot to the other side":
            partial(_foot_at, width=-3 / 10),
    },
    limits=(
        Limit("delta = 0", {"delta": 0}, "centred, only the width counts"),
        Limit("w = 0", {"w": 0}, "with the points close together, only the middle counts"),
    ),
)

_GPT3 = 6 * 175e9 * 300e9
_LOSS3 = run_loss(175e9, 300e9, *BESIROGLU)


def _cheapest(loss: float) -> float:
    """The FLOPs of the compute-optimal run with a loss, from the frontier's power."""
    E, A, alpha, B, beta = BESIROGLU
    N = best_params(1e22, A, alpha, B, beta)
    excess = run_loss(N, 1e22 / 6 / N, *BESIROGLU) - E
    return 1e22 * (excess / (loss - E)) ** ((alpha + beta) / (alpha * beta))


gpt_3_and_chinchilla = Numbers(
    "ex-gpt-3-and-chinchilla",
    About("GPT-3 and Chinchilla", "compute", 1, 8, "compare two runs by their compute", ("x8.2",)),
    [
        Asked("chinchilla", 70e9 * 1.4e12 / (175e9 * 300e9), slips={
              175e9 * 300e9 / (70e9 * 1.4e12): "the other way round",
              70 / 175: "that is the size; and the tokens?",
              1400 / 300: "that is the tokens; and the size?"}),
        Asked("cheaper", _GPT3 / _cheapest(_LOSS3), slips={
              _cheapest(_LOSS3) / _GPT3: "the other way round",
              _GPT3 / (120 * (_GPT3 / 120)): "at the same loss, not at the same compute"},
              tolerance=0.02),
    ],
    "nearly twice the compute, and GPT-3's loss for three fifths of it", keyed=True,
)

tokens_until_it_pays = Formula(
    "ex-tokens-until-it-pays",
    About("Tokens until it pays", "derive", 2, 12, "find where a smaller model pays", ("x8.3",)),
    "break_even(D, k, factor)", lambda D, k, factor: 3 * D * (factor - 1) / (1 - k),
    lambda: (("", case) for case in ((1e12, 0.5, 1.26), (1.4e12, 0.25, 4.5), (2e11, 0.8, 1.02))),
    same_number,
    "three times the tokens of training, for training takes three times as much for each",
    {
        "training takes 6 FLOP for a parameter and a token, serving 2":
            lambda D, k, factor: D * (factor - 1) / (1 - k),
        "only what is paid on top counts": lambda D, k, factor: 3 * D * factor / (1 - k),
        "each token saves the difference of the sizes": lambda D, k, factor: 3 * D * (factor - 1),
        "each token saves what the model is smaller by, not what it has":
            lambda D, k, factor: 3 * D * (factor - 1) / k,
    },
)


def _least(loss, E, A, alpha):
    return (A / (loss - E)) ** (1 / alpha)


smallest_that_can = Formula(
    "ex-smallest-that-can",
    About("The smallest that can", "derive", 2, 10, "find where over-training ends"),
    "least(loss, E, A, alpha)", _least,
    lambda: (("", case) for case in (
        (1.974, 1.8172, 482.01, 0.3478), (2.5, 1.69, 406.4, 0.34), (1.31, 1.2762, 35.1, 0.65))),
    same_number,
    "with endless data the size's own term must be all that is above E",
    {
        "the term is what the loss has above E":
            lambda loss, E, A, alpha: _least(loss, 0, A, alpha),
        "undo the power": lambda loss, E, A, alpha: A / (loss - E),
        "a larger A needs a larger model": lambda *args: 1 / _least(*args),
        "undo the power by one over it":
            lambda loss, E, A, alpha: (A / (loss - E)) ** alpha,
    },
)

half_a_trillion = Numbers(
    "ex-good-tokens",
    About("Half a trillion good tokens", "compute", 2, 12, "spend compute where text is scarce",
          ("x8.4",)),
    [
        Asked("params", 25e9, slips={
              500e9: "20 tokens for each parameter", 10e12: "tokens over 20"}),
        Asked("flops", 6 * 25e9 * 500e9, slips={
              25e9 * 500e9: "6 FLOP for each parameter and token"}),
        Asked("worth", effective_tokens(2e12, 500e9, 15.4), "", {
              2e12: "that is what is read; a second pass is worth less than the first",
              500e9: "repetitions are worth something",
              500e9 * (1 + 15.4 * (1 - math.exp(-4 / 15.4))): "four epochs are three repetitions",
              500e9 * 15.4 * (1 - math.exp(-3 / 15.4)): "and the first pass?"}, tolerance=0.005),
        Chosen("spend", "epochs", {
               "parameters": "compute the loss of both: which of the two fades sooner?"}),
    ],
    "four passes are nearly four times the text; four times the parameters have nothing to read",
    keyed=True,
)

_PRINTED, _MOST = 0.29 * 3.8e25**0.53, 0.295 * 3.8e25**0.535

what_was_rounded = Numbers(
    "ex-what-was-rounded",
    About("What was rounded", "compute", 2, 12, "tell rounding from disagreement"),
    [
        Asked("printed", _PRINTED, slips={
              16.55e12: "that is the prediction; what do the printed constants give?",
              3.8e25**0.53: "and the 0.29?"}),
        Asked("most", _MOST, slips={
              0.29 * 3.8e25**0.535: "the 0.29 was rounded, too",
              0.295 * 3.8e25**0.53: "the 0.53 was rounded, too",
              0.3 * 3.8e25**0.54: "which numbers still round to 0.29 and 0.53?"}),
        Chosen("rounding", "no", {"yes": "compare the most with the prediction"}),
    ],
    "rounding can be a third of the tokens here, and the difference is more than half",
    keyed=True,
)

_EXPERTS = (265 / 70) ** -0.34

experts_as_parameters = Numbers(
    "ex-experts-as-parameters",
    About("Experts as parameters", "compute", 1, 8, "see what an assumption does", ("x8.5",)),
    [
        Asked("share", _EXPERTS, slips={
              70 / 265: "the term falls with a power of the size, not with the size",
              (265 / 70) ** -0.5: "the power is 0.34",
              1 - _EXPERTS: "that is by how much it is smaller",
              1 / _EXPERTS: "a larger model has a smaller term"}),
        Asked("active", 1.0, slips={
              _EXPERTS: "what counts in this case is the same for both"}),
    ],
    "between 0.64 and 1: the law of dense models does not say which parameters count", keyed=True,
)
