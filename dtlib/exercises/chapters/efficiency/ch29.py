"""The exercises of chapter 29, Asynchrony and local steps, in the order of its page."""

from functools import partial
from math import pi, sin
from typing import Any

from dtlib.efficiency import local_fixed_point, stability_border
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import items, number
from dtlib.exercises.judges.shares import mixes, mixing_of
from dtlib.exercises.verdict import NotYet
from dtlib.foundations import GB

# fmt: off
_BORDER = 2 * sin(pi / 62)

sixteen_workers = Numbers(
    "ex-sixteen-workers",
    About("Sixteen workers", "compute", 1, 8, "go from a number of workers to a learning rate",
          ("x29.1", "B.14")),
    [
        Asked("age", 15, slips={
              7.5: "that is what a barrier leaves whose gradients are applied one by one",
              16: "a gradient does not age itself"}),
        Asked("border", _BORDER, slips={
              2 / 16: "the border is no share of 2: use the sine", 1 / 15: "that is enough, but "
              "it is not the border", 2 * sin(pi / 31): "half an angle is in the sine"}),
        Asked("factor", 2 / _BORDER, slips={
              16: "compare the border with that of gradients that are not old",
              1 / _BORDER: "without age the border is 2"}),
    ],
    "an age of P - 1, and 2 sin(pi / (2 (2 tau + 1)))", keyed=True,
)


def _ages(times, *, own=False, slow=True, mean=False):
    rates = [1 / t for t in times]
    total = sum(rates)
    if mean:
        return [float(len(times) - 1)] * len(times)
    return [
        (t if slow else 1 / t) * (total - (0 if own else r))
        for t, r in zip(times, rates, strict=True)
    ]


def _same_list(given: Any, right: list, *args: Any) -> None:
    for place, (x, y) in enumerate(zip(items(given, "the ages", len(right)), right, strict=True)):
        number(x, y, f"worker {place}", tolerance=1e-9)


each_for_itself = Function(
    "ex-each-for-itself",
    About("Each for itself", "derive", 2, 12, "say how old the gradients of one worker are",
          ("B.9", "A.6")),
    "my_ages(times)", _ages,
    lambda: ((f"case {n}", (times,)) for n, times in enumerate((
        [1.0, 1.0], [1.0, 1.0, 1.0, 10.0], [2.0, 3.0, 5.0], [4.0]))),
    _same_list,
    "what the others do while one computes",
    {
        "its own update comes when it arrives, and does not make it older":
            partial(_ages, own=True),
        "whoever is slow meets more updates": partial(_ages, slow=False),
        "P - 1 is the mean over all gradients, not that of each worker":
            partial(_ages, mean=True),
    },
)

one_slow_worker = Numbers(
    "ex-one-slow-worker",
    About("One slow worker", "compute", 1, 8, "add up rates, not times", ("B.9", "C.2")),
    [
        Asked("barrier", 10, "s", slips={
              19: "all compute at the same time", 1.9: "a barrier waits for the slowest"}),
        Asked("free", 10 / 9.1, "s", slips={
              1.9: "times do not average, rates do", 10 / 9.1 / 10: "ten gradients, please"}),
        Asked("share", 100 * 0.1 / 9.1, slips={
              10: "it is one of ten, but how often does it arrive?",
              0.1 / 9.1: "in percent"}),
    ],
    "nine of 1 s and one of 10 s make 9.1 gradients a second", keyed=True,
)


def _border(tau):
    return 2 * sin(pi / (2 * (2 * tau + 1)))


the_border_of_age = Formula(
    "ex-the-border-of-age",
    About("The border of age", "derive", 3, 20, "find where a delayed recurrence diverges",
          ("B.5", "B.14", "C.3")),
    "border(tau)", _border,
    lambda: (("", (tau,)) for tau in (0, 1, 2, 7, 40)),
    same_number,
    "r^(tau+1) - r^tau + a = 0 with |r| = 1",
    {
        "that is where it is certainly stable; where does it stop to be?":
            lambda tau: 1 / (tau + 0.5),
        "for large tau it is right; what is it for tau = 0?": lambda tau: pi / (2 * tau + 1),
        "the modulus of 1 - r is twice the sine of half the angle":
            lambda tau: 2 * sin(pi / (2 * tau + 1)),
        "1 - r points in the direction (theta - pi) / 2": lambda tau: 2 * sin(pi / (4 * tau + 4)),
    },
)


def _released(clocks, waiting, slack, *, against=min, strict=False):
    last = against(clocks)
    return [w for w in sorted(waiting)
            if (clocks[w] - last < slack if strict else clocks[w] - last <= slack)]


def _same_workers(given: Any, right: list, *args: Any) -> None:
    if sorted(given) != right:
        raise NotYet(
            f"for the clocks {args[0]}, of which {sorted(args[1])} wait, and a slack of {args[2]} "
            "other workers may go on")


whom_to_release = Function(
    "ex-whom-to-release",
    About("Whom to release", "repair", 2, 12, "block the fast and never the slow",
          ("A.2", "A.12", "C.16")),
    "my_released(clocks, waiting, slack)", _released,
    lambda: ((f"case {n}", case) for n, case in enumerate((
        ([3, 1, 2], [0, 1, 2], 1), ([0, 0, 1], [2], 0), ([5, 2, 2, 4], [0, 1, 3], 2),
        ([4, 4], [0, 1], 0), ([2, 6, 1], [1], 4), ([2, 3], [0], 0), ([7, 5, 9], [2, 0], 3)))),
    _same_workers,
    "a worker may be ahead of the slowest by so many rounds",
    {
        "compare with the slowest, not with the fastest": partial(_released, against=max),
        "ahead by just the slack is allowed": partial(_released, strict=True),
    },
)


def _outer(deltas, lr, momentum, *, nesterov=True, damped=False, reset=False):
    velocity, moves = 0.0, []
    for delta in deltas:
        velocity = (0.0 if reset else momentum * velocity) + (1 - momentum * damped) * delta
        moves.append(lr * (delta + momentum * velocity if nesterov else velocity))
    return moves


def _same_moves(given: Any, right: list, *args: Any) -> None:
    for place, (x, y) in enumerate(zip(items(given, "the moves", len(right)), right, strict=True)):
        number(x, y, f"round {place}", tolerance=1e-9)


the_outer_step = Function(
    "ex-the-outer-step",
    About("The outer step", "repair", 2, 15, "tell Nesterov's momentum from a heavy ball",
          ("x29.4",)),
    "my_moves(deltas, lr, momentum)", _outer,
    lambda: ((f"case {n}", case) for n, case in enumerate((
        ([1.0], 0.7, 0.9), ([1.0, 1.0, 1.0], 0.7, 0.9), ([2.0, -1.0, 0.5], 1.0, 0.5),
        ([1.0, 0.0, 0.0, 0.0], 0.5, 0.8)))),
    _same_moves,
    "the velocity has this pseudo-gradient already, and is looked ahead of once more",
    {
        "that is heavy-ball momentum": partial(_outer, nesterov=False),
        "the pseudo-gradient enters the velocity whole": partial(_outer, damped=True),
        "the velocity lives from round to round": partial(_outer, reset=True),
    },
)


def _fixed(curvatures, minima, lr, steps, *, weight=None):
    weight = weight or (lambda a: 1 - (1 - lr * a) ** steps)
    weights = [weight(a) for a in curvatures]
    return sum(w * b for w, b in zip(weights, minima, strict=True)) / sum(weights)


where_they_stay = Function(
    "ex-where-they-stay",
    About("Where they stay", "derive", 3, 20, "find the fixed point of local steps",
          ("C.7", "B.20", "x29.6")),
    "my_point(curvatures, minima, lr, steps)",
    lambda curvatures, minima, lr, steps: local_fixed_point(curvatures, minima, lr=lr, H=steps),
    lambda: ((f"case {n}", case) for n, case in enumerate((
        ([1.0, 0.1], [1.0, -1.0], 0.1, 1), ([1.0, 0.1], [1.0, -1.0], 0.1, 32),
        ([1.0, 0.5, 0.2], [3.0, 0.0, -1.0], 0.3, 5), ([2.0, 0.01], [1.0, 0.0], 0.2, 500)))),
    same_number,
    "each rank weighs as the share of the way that it goes in a round",
    {
        "that is the minimum of the mean loss, where H = 1 ends":
            lambda curvatures, minima, lr, steps: _fixed(
                curvatures, minima, lr, steps, weight=lambda a: a),
        "that is the mean of the minima, where very long rounds end":
            lambda curvatures, minima, lr, steps: sum(minima) / len(minima),
        "a rank weighs as what it has gone, not as what is left":
            lambda curvatures, minima, lr, steps: _fixed(
                curvatures, minima, lr, steps, weight=lambda a: (1 - lr * a) ** steps),
    },
)

the_best_round = Formula(
    "ex-the-best-round",
    About("The best round", "derive", 2, 12, "weigh meetings against steps", ("x29.2", "C.7")),
    "best(computing, meeting, c)",
    lambda computing, meeting, c: ((1 - c) / c * meeting / computing) ** 0.5,
    lambda: (("", case) for case in ((1.0, 8.0, 0.1), (0.05, 0.1, 0.07), (2.0, 100.0, 0.5))),
    same_number,
    "the derivative of (1 + c (H - 1)) (T_comp + T_meet / H)",
    {
        "that sets c to a half": lambda computing, meeting, c: (meeting / computing) ** 0.5,
        "the first step of a round costs nothing further: c (H - 1), not c H":
            lambda computing, meeting, c: (meeting / (c * computing)) ** 0.5,
        "and the root?": lambda computing, meeting, c: (1 - c) / c * meeting / computing,
        "longer meetings ask for longer rounds":
            lambda computing, meeting, c: ((1 - c) / c * computing / meeting) ** 0.5,
    },
)

_RING = 2 * 7 / 8 * 4 * GB

bytes_across_the_ocean = Numbers(
    "ex-bytes-across-the-ocean",
    About("Bytes across the ocean", "compute", 1, 8, "count what local steps save", ("x29.3",)),
    [
        Asked("every", 10_000 * _RING, "bytes", slips={
              10_000 * 4 * GB: "a ring sends 2 (P - 1)/P of it",
              10_000 * 2 * 4 * GB: "P is 8, not without end"}),
        Asked("seldom", 20 * _RING, "bytes", slips={
              20 * 4 * GB: "a ring sends 2 (P - 1)/P of it",
              20 * 2 * _RING: "AdamW's moments stay where they are",
              20 * 3 * _RING: "AdamW's moments stay where they are"}),
        Asked("fragment", _RING / 25, "bytes", slips={
              _RING: "one fragment meets at a time", 20 * _RING / 25: "of one meeting"}),
    ],
    "a meeting is one all-reduce of the weights, in place of 500", keyed=True,
)


def _earliest(n, batch, cap, *, shift=0, whole=True):
    update = (n + shift) // batch if whole else n / batch
    return max(0, update - cap)


the_earliest_start = Function(
    "ex-the-earliest-start",
    About("The earliest start", "design", 2, 12, "cap the age of a sample before it begins",
          ("A.16", "C.13")),
    "my_version(n, batch, cap)", _earliest,
    lambda: ((f"sample {n}, batch {b}, cap {c}", (n, b, c)) for n, b, c in (
        (0, 4, 0), (3, 4, 0), (4, 4, 0), (11, 4, 1), (12, 4, 1), (5, 8, 3), (100, 8, 2))),
    same_number,
    "sample n belongs to update n // B",
    {
        "samples are numbered from 0": partial(_earliest, shift=1),
        "an update takes whole batches": partial(_earliest, whole=False),
        "a cap lets it start earlier": lambda n, batch, cap: n // batch,
        "no version is below 0": lambda n, batch, cap: n // batch - cap,
    },
)


a_matrix_for_any_graph = Function(
    "ex-a-matrix-for-any-graph",
    About("A matrix for any graph", "design", 3, 20, "keep the mean with unequal neighbours"),
    "my_mixing(neighbours)", mixing_of,
    lambda: ((f"case {n}", (graph,)) for n, graph in enumerate((
        [[1], [0]], [[1], [0, 2], [1]], [[1, 2, 3], [0], [0], [0]],
        [[1, 2], [0, 2], [0, 1, 3], [2, 4], [3]]))),
    mixes,
    "two neighbours give each other the same, by the larger of their numbers of neighbours",
    {"a row for each rank by itself makes columns of any size": partial(mixing_of, mine=True)},
)

a_weight_for_age = Numbers(
    "ex-a-weight-for-age",
    About("A weight for age", "compute", 2, 8, "see what a weight for staleness does",
          ("C.13", "A.9", "B.18")),
    [
        Asked("plain", stability_border(3), slips={
              2.0: "gradients are 3 updates old", 2 * sin(pi / 7): "half an angle is in the sine"}),
        Asked("weighted", 4 * stability_border(3), slips={
              stability_border(3) / 4: "a smaller step may have a larger rate",
              3 * stability_border(3): "the weight of an age of 3 is a quarter"}),
        Asked("momentum", 0.1, slips={
              stability_border(1): "and the momentum?", 3.8: "that is without age",
              1.9: "with an age of 1 momentum lowers the border"}),
        Chosen("gain", "none", {
               "stability": "what reaches the weights is the same step",
               "speed": "what reaches the weights is the same step"}),
    ],
    "where all ages are alike, a weight is a smaller learning rate", keyed=True,
)

local_is_not_late = Numbers(
    "ex-local-is-not-late",
    About("Local is not late", "compute", 2, 10, "tell local steps from stale ones", ("B.7",)),
    [
        Asked("missing", 49, slips={
              56: "the step that it takes now is not missing, neither here nor elsewhere",
              63: "a rank knows its own steps", 7: "of all the others together"}),
        Asked("weight", 1 / 8, slips={1: "weights are averaged, not added up",
                                      1 / 7: "its own weights are in the mean"}),
        Asked("border", stability_border(56), slips={
              2.0: "that is without age", pi / 57: "2 tau + 1, not tau + 1",
              stability_border(7): "8 times 7 updates old"}),
        Chosen("local", "converges", {
               "diverges": "each rank by itself halves its distance in each step"}),
    ],
    "at most 49 updates are missing, each with an eighth of its weight, and nothing diverges",
    keyed=True,
)

from_when_age_is_free = Formula(
    "ex-from-when-age-is-free",
    About("From when age is free", "derive", 2, 15, "see when noise hides what age costs",
          ("B.2",)),
    "steps(gap, L, variance, tau)",
    lambda gap, L, variance, tau: gap * L * (1 + tau) ** 2 / variance,
    lambda: (("", case) for case in ((1.0, 2.0, 0.5, 3), (0.2, 10.0, 4.0, 0), (5.0, 1.0, 0.1, 15))),
    same_number,
    "the best rate sqrt(gap / (T L variance)) falls below 1 / (L (1 + tau))",
    {
        "compare squares: the limit is squared as well":
            lambda gap, L, variance, tau: gap * L * (1 + tau) / variance,
        "the limit has an L, and the best rate has the root of one":
            lambda gap, L, variance, tau: gap * (1 + tau) ** 2 / variance,
        "more noise asks for a smaller rate, and sooner":
            lambda gap, L, variance, tau: gap * L * variance * (1 + tau) ** 2,
        "an age of 0 has a limit, too": lambda gap, L, variance, tau: gap * L * tau**2 / variance,
    },
)
