"""Metrics as rulers: what each makes of a loss that falls smoothly.

The loss of an answer is minus the logarithm of its probability. A metric is a function of it, and
may be flat where the loss is not: exact match of many answers in a row, a share that must be
reached, a test set in which nothing was right.
"""

import math
from itertools import pairwise

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import exp, ln
from dtlib.formulas.require import require, require_count
from dtlib.scaling_laws.compute_optimal.search import root_between

_DRAWN = (
    "answers are drawn from the model, each with the same loss, given that those before are right"
)
_POWER = "the loss of an answer is a power of compute, with no floor"


@formula(r"M_\text{exact}", "", "Schaeffer et al. 2023", _DRAWN)
def exact_match(answer_loss, in_a_row):
    """The chance that all of so many answers in a row are right.

    One is right with probability exp(-loss); probabilities of a chain multiply.

    >>> round(exact_match(answer_loss=0.5, in_a_row=3), 4)
    0.2231
    """
    return exp(-in_a_row * answer_loss)


@formula(r"M_\text{exact}(s_C)", "", "Schaeffer et al. 2023", f"{_DRAWN}; {_POWER}")
def exact_match_of_scale(scale, answer_loss, fall, in_a_row):
    """The same for a model with `scale` times the compute of one whose answers have that loss.

    Exact match of a loss that is a power of compute.

    >>> round(exact_match_of_scale(scale=4, answer_loss=0.5, fall=0.5, in_a_row=2), 4)
    0.6065
    """
    return exp(-in_a_row * answer_loss * scale ** (-fall))


@formula(r"s_k", "", "solved from the power", _POWER)
def shift_factor(in_a_row, fall):
    """How much more compute exact match of so many answers needs than that of one, at any height.

    Their losses add up, and a loss that is k times as large takes k to the 1/gamma more compute.

    >>> shift_factor(in_a_row=9, fall=0.5)
    81.0
    """
    return in_a_row ** (1 / fall)


@formula(r"s_{10 \to 90}", "", "solved from the power", f"{_DRAWN}; {_POWER}")
def rise_factor(fall):
    """How many times the compute it takes from one success in ten to nine in ten.

    The loss must fall from ln 10 to ln 10/9. The number of answers does not occur.

    >>> round(rise_factor(fall=0.5), 2)
    477.61
    """
    return (ln(10) / ln(10 / 9)) ** (1 / fall)


@formula(r"Q_0", "", "the binomial law at zero", "items are independent and equally hard")
def all_fail_chance(success, items):
    """The chance that a test set shows not one success.

    Each of the items fails, independently.

    >>> all_fail_chance(success=0.5, items=3)
    0.125
    """
    return (1 - success) ** items


def at_least(success: float, needed: int, answers: int) -> float:
    """The chance that at least `needed` of so many independent answers are right.

    Equation: the sum over j >= m of C(k, j) q^j (1 - q)^(k - j). Arguments: `success` from 0 to 1,
    counts. Returns a probability. Raises ValueError for a chance outside 0 to 1, and when more are
    needed than there are. Source: the binomial law.

    >>> at_least(0.5, needed=2, answers=3)
    0.5
    """
    require_count("at_least", needed=needed, answers=answers)
    require(needed <= answers, "at_least", "needed", needed, f"at most {answers}, the answers")
    require(0 <= success <= 1, "at_least", "success", success, "a number from 0 to 1")
    return sum(
        math.comb(answers, j) * success**j * (1 - success) ** (answers - j)
        for j in range(needed, answers + 1)
    )


def rise_of_share(needed: int, answers: int, fall: float) -> float:
    """How many times the compute `at_least` takes from one in ten to nine in ten.

    Found by halving: the chance rises with the success of one answer, whose loss is a power of
    compute with exponent `fall`. Arguments: counts, a positive exponent. Returns a factor.
    Raises ValueError as `at_least`. Source: the binomial law, inverted.

    >>> round(rise_of_share(9, 9, fall=1), 2) == round(rise_factor(fall=1), 2)
    True
    """
    losses = [-math.log(_success_of(height, needed, answers)) for height in (0.1, 0.9)]
    return (losses[0] / losses[1]) ** (1 / fall)


def _success_of(height: float, needed: int, answers: int) -> float:
    return root_between(lambda success: at_least(success, needed, answers) - height, 0.0, 1.0)


def most_success_unseen(items: int, doubt: float = 0.05) -> float:
    """The largest chance of success for which a test set with no success is not yet surprising.

    Equation: (1 - q)^n = doubt, so q = 1 - doubt^(1/n), which is about 3/n at 5 %. Arguments: the
    number of items, a probability. Returns a probability. Raises ValueError for a doubt that is
    not between 0 and 1. Source: the rule of three, Hanley & Lippman-Hand 1983.

    >>> round(most_success_unseen(100), 4)
    0.0295
    """
    require_count("most_success_unseen", items=items)
    require(0 < doubt < 1, "most_success_unseen", "doubt", doubt, "between 0 and 1")
    return 1 - doubt ** (1 / items)


def local_exponents(x: list[float], y: list[float]) -> list[float]:
    """Between neighbouring points, the exponent with which y falls as x grows: a power law's own.

    Equation: -ln(y2/y1) / ln(x2/x1). Arguments: as many positive numbers of each, x increasing.
    Returns one number less. Raises ValueError for other lists.

    >>> local_exponents([1, 2, 4], [8, 4, 1])
    [1.0, 2.0]
    """
    require(len(x) == len(y) > 1, "local_exponents", "y", y, f"as long as x, {len(x)}, and above 1")
    require(min(*x, *y) > 0, "local_exponents", "x and y", min(*x, *y), "positive everywhere")
    pairs = list(zip(x, y, strict=True))
    return [-math.log(d / b) / math.log(c / a) for (a, b), (c, d) in pairwise(pairs)]
