"""The exercises of chapter 21, Recomputing activations, in the order of its page."""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import combinations
from types import MappingProxyType
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import call, function, whole
from dtlib.exercises.judges.recomputed import again, again_law
from dtlib.exercises.verdict import NotYet
from dtlib.memory.recompute.schedule import (
    RecomputeError,
    RecomputeSchedule,
    check_recompute,
    fewest_advances,
    revolve,
    uniform,
)
from dtlib.memory.recompute.simulation import Chain, simulate_recompute

# fmt: off
GB, MiB = 1e9, 2.0**20

_NO_SLOT = "the last segment is taped at once: its input needs no slot"
_OF_FORWARD = "that is a share of the forward pass; a step has three times its work"
_OTHER = "another one is best: try the whole numbers one after the other"
_BYTES, _SECONDS = "in bytes, please", "in seconds, please"

forty_eight_layers = Numbers(
    "ex-forty-eight-layers",
    About("Forty-eight layers", "compute", 1, 8,
          "find the best segment of a chain by its two terms", ("x21.1",)),
    [
        Asked("the bytes for segments of six", 218, "", {220: _NO_SLOT,
              206: "the inputs take 2 bytes for each number, and there are several of them",
              212: "a layer's 34 bytes include its own input; the other segments' inputs come "
              "on top"}, 3e-3),
        Asked("the best length", 2, slips={
              7: "that is the root of 48, for layers that keep only an input",
              1: _OTHER, 3: _OTHER, 4: _OTHER, 6: _OTHER}),
        Asked("the bytes at the best length", 114, slips={116: _NO_SLOT}),
        Asked("the share of work", (1 - 2 / 48) / 3, slips={1 - 2 / 48: _OF_FORWARD,
              1 / 3: "the last segment is not run again",
              (1 - 1 / 48) / 3: "that is for segments of one layer"}),
    ],
    "two layers in a segment, where the root of the layers says seven",
)

a_step_of_100_ms = Numbers(
    "ex-a-step-of-100-ms",
    About("A step of 100 ms", "compute", 1, 5, "turn a repeated pass into time", ("x21.2",)),
    [
        Asked("(a)", 0.4 / 3, "s", {0.2: "one more forward pass, not one more step",
              0.15: "the forward pass is a third of the step, not half", 400 / 3: _SECONDS,
              0.125: "that is for a backward pass of three times the forward pass"}),
        Asked("(b)", 0.125, "s", {125: _SECONDS, 0.4 / 3: "here the backward pass takes three "
              "forward passes, so a step takes four"}),
        Asked("(c)", 0.125, "s", {0.4 / 3: "the last quarter of the layers is not run again",
              0.325 / 3: "a quarter is spared, three quarters are run again", 125: _SECONDS}),
    ],
    "a forward pass more, of whatever share of the step it has",
)

_TWO_BYTES = "16-bit numbers take two bytes each"
_PAIRS = "there is a score for every pair of tokens, in every head"

drop_the_scores = Numbers(
    "ex-drop-the-scores",
    About("Drop only the scores", "compute", 2, 12,
          "weigh a tensor's bytes against its work", ("x21.3",)),
    [
        Asked("(a)", 5248 * MiB, "B", {2624 * MiB: _TWO_BYTES, 1280 * MiB: _PAIRS,
              5248: _BYTES}, 4e-3),
        Asked("(b)", 1152 * MiB, "B", {576 * MiB: _TWO_BYTES, 1152: _BYTES,
              640 * MiB: "only the scores are dropped; the inner numbers are kept"}, 4e-3),
        Asked("(c)", 4 / 84, slips={4 / 28: _OF_FORWARD,
              2 / 84: "the core is two products: scores, and the mix of values",
              4 / 88: "compare with the step without the repeat"}),
    ],
    "four fifths of the bytes for a twentieth of the work",
)

_HALF = {0.5: "only the kept inputs shrink; the tapes are made again in 16 bits"}
_TURNED = "the other way up: new over old"

eight_bit_states = Numbers(
    "ex-eight-bit-states",
    About("States in eight bits", "compute", 2, 10,
          "say which bytes a coarser format saves", ("x21.4",)),
    [
        Asked("(a)", 10 / 13, slips={10.5 / 14: _NO_SLOT, 1.3: _TURNED, **_HALF}),
        Asked("(b)", 81 / 128, slips={128 / 81: _TURNED, **_HALF}),
        Asked("the mean error", 0.0236, "", {2.26: "as a share, not in percent",
              0.0625: "that is the largest error, not the mean"}, 0.1),
    ],
    "states may be coarser, but then the tape is no longer the same",
)

_DONE = (3 + 79 / 80) / 3

needed_and_done = Numbers(
    "ex-needed-and-done",
    About("Needed and done", "compute", 1, 8, "tell needed work from work that is done"),
    [
        Asked("the MFU", 0.52 / _DONE, "", {0.39: "nearly: the last layer is not run again",
              0.52 * _DONE: "the machine does more than the model needs, not less",
              0.26: "one more forward pass, not one more step",
              52 / _DONE: "as a share, not in percent"}, 1e-3),
        Asked("the layers", 160 / 3, "", {80 / 3: "those are the layers that run again",
              9: "the root does not come in", 40: "a third of a forward pass is repeated"}, 0.02),
    ],
    "what is done is not what is needed",
)


def _longest(layers, state, layer, budget, *, inputs=0, tapes=1, best=max) -> int | None:
    def held(k):
        return (-(-layers // k) - 1 + inputs) * state + tapes * k * layer

    return best((k for k in range(1, layers + 1) if held(k) <= budget), default=None)


@cache
def _peaks(layers: int, state: int, layer: int) -> dict[int, int]:
    """The peak in bytes of each length of segment, played."""
    chain = Chain.equal(layers, state, layer - state)
    lengths = range(1, layers + 1)
    return {k: simulate_recompute(uniform(layers, k), chain).peak_bytes for k in lengths}


def _longest_law(answer: Any) -> None:
    function(answer, "longest(layers, state_bytes, layer_bytes, budget)")
    draw = random.Random(21)
    cases = [(80, 2, 34, budget) for budget in (95, 192, 193, 194, 500, 2719, 2720)]
    for _ in range(60):
        layers, state = draw.randint(1, 24), draw.randint(1, 9)
        layer = state * draw.randint(1, 12)
        cases.append((layers, state, layer, draw.randint(state, layers * layer + 9)))
    for case in cases:
        found = call(lambda *chain: [answer(*chain)], *case)[0]
        peaks = _peaks(*case[:3])
        try:
            _right_length(found, peaks, [k for k in peaks if peaks[k] <= case[3]])
        except NotYet as said:
            raise NotYet(f"{case}: {said}") from None


def _right_length(found: Any, peaks: dict[int, int], fitting: list[int]) -> None:
    if found is Ellipsis or (found is None and fitting):
        raise NotYet("there is a length that fits, but your function returns none")
    if not fitting and found is not None:
        raise NotYet("nothing fits: return None")
    if not fitting:
        return
    found = whole(found, "the length")
    if found not in peaks:
        raise NotYet(f"a segment of {found} layers, in a chain of {len(peaks)}")
    if found not in fitting:
        raise NotYet(f"segments of {found} hold more than the budget")
    if found != fitting[-1]:
        raise NotYet(f"segments of {found} fit, but longer ones do too, and repeat less")


longest_that_fits = Made(
    "ex-longest-that-fits",
    About("The longest that fits", "derive", 2, 15,
          "choose a plan by its budget, not by a rule", ("x21.5",)),
    _longest_law, lambda: _longest,
    "the least work that fits, in 67 chains",
    {
        "segments of 1 fit, but longer ones do too": lambda: partial(_longest, best=min),
        "segments of 79 fit, but longer ones do too": lambda: partial(_longest, inputs=1),
        "nothing fits: return None": lambda: partial(_longest, tapes=0),
    },
)

_TAPE = "while a layer is repeated its tape is there as well"
_ONE_SPACE = "the workspace is one for all micro-batches: one goes back at a time"

four_corners_of_a_pipeline = Numbers(
    "ex-four-corners-of-a-pipeline",
    About("Four corners of a pipeline", "compute", 2, 10,
          "count a stage's inputs and its one workspace", ("x21.6",)),
    [
        Asked("(a)", 163.2 * GB, "B", {20.4 * GB: "that is one micro-batch", 163.2: _BYTES,
              652.8 * GB: "under 1F1B the first stage holds p micro-batches, not m"}),
        Asked("(b)", 11.2 * GB, "B", {9.6 * GB: _TAPE, 22.4 * GB: _ONE_SPACE, 11.2: _BYTES,
              23.2 * GB: _ONE_SPACE,
              11.3 * GB: "the input of the layer that is repeated is counted twice"}, 4e-3),
        Asked("(c)", 3.9 * GB, "B", {2.2 * GB: "a segment of two layers has two tapes",
              8.1 * GB: "that is the first stage; the last has fewer micro-batches under way",
              4.0 * GB: "the input of the segment that is repeated is counted twice",
              3.9: _BYTES}),
        Asked("(d)", 40 * GB, "B", {38.4 * GB: _TAPE, 40: _BYTES,
              11.2 * GB: "GPipe sends all micro-batches forward before the first goes back"}),
    ],
    "inputs for each micro-batch under way, and one workspace",
)

along_which_axis = Numbers(
    "ex-along-which-axis",
    About("Along which axis?", "compute", 2, 8,
          "see along which axis recomputation saves", ("C.5",)),
    [
        *(Asked(name, (m * 1.2 + 1.6) / (m * 20.4), "", {1 / 17: _TAPE,
                m**-0.5: "that is what the rule says, not what is held",
                m * 20.4 / (m * 1.2 + 1.6): "the other way up",
                2.8 / 20.4: "one workspace serves all micro-batches"}, 4e-3)
          for name, m in (("(a)", 16), ("(b)", 256))),
        Asked("(c)", 0.25, slips={1 / 16: "that is for 256", 4: "the other way up"}),
    ],
    "every micro-batch keeps its own inputs: the saving is per layer",
)


def _keep(operations: dict, budget: int) -> tuple[str, ...]:
    """Found by trying every choice."""
    choices = (kept for n in range(len(operations) + 1) for kept in combinations(operations, n))
    fitting = (kept for kept in choices if _total(operations, kept, 0) <= budget)
    return max(fitting, key=lambda kept: _total(operations, kept, 1))


def _total(operations: dict, kept: Iterable[str], which: int) -> int:
    return sum(operations[name][which] for name in kept)


def _greedy(by: Callable) -> Callable:
    def keep(operations, budget):
        kept = []
        for name in sorted(operations, key=lambda name: by(*operations[name])):
            if _total(operations, [*kept, name], 0) <= budget:
                kept.append(name)
        return kept

    return keep


def _operations() -> Iterator[tuple[str, tuple]]:
    layers = [({"scores": (4096, 2), "product": (512, 8), "gelu": (512, 0)}, 600),
              ({"a": (6, 60), "b": (5, 49), "c": (5, 49)}, 10),
              ({"a": (10, 10), "b": (1, 2)}, 10), ({"a": (3, 1)}, 2)]
    draw = random.Random(5)
    for _ in range(25):
        names = "abcdefgh"[: draw.randint(1, 8)]
        layer = {name: (draw.randint(1, 30), draw.randint(0, 40)) for name in names}
        layers.append((layer, draw.randint(0, _total(layer, layer, 0))))
    for layer, budget in layers:
        yield f"{layer}, {budget}"[:150], (MappingProxyType(layer), budget)


def _keep_law(given: Any, right: tuple, operations: dict, budget: int) -> None:
    if isinstance(given, str | dict) or not hasattr(given, "__iter__"):
        raise NotYet(f"return the names that are kept, got {type(given).__name__}")
    kept = list(given)
    unknown = [name for name in kept if name not in operations]
    if unknown or len(set(kept)) != len(kept):
        raise NotYet(f"{unknown or kept} are not names, each once")
    if _total(operations, kept, 0) > budget:
        raise NotYet("what is kept does not fit")
    if _total(operations, kept, 1) != _total(operations, right, 1):
        raise NotYet(f"it fits, but another choice spares more work than {kept}")


knapsack_of_a_layer = Function(
    "ex-knapsack-of-a-layer",
    About("The knapsack of a layer", "design", 3, 25,
          "choose what is kept, operation by operation"),
    "keep(operations, budget)", _keep, _operations, _keep_law,
    "the most work spared within the budget, for 29 layers",
    {
        "the smallest outputs first: another choice spares more": _greedy(lambda size, work: size),
        "the most work per byte first: another choice spares more":
            _greedy(lambda size, work: -work / size),
        "the most work first: another choice spares more": _greedy(lambda size, work: -work),
        "what is kept does not fit": lambda operations, budget: list(operations),
    },
)


def _plan_law(given: Any, right: Any, layers: int, slots: int) -> None:
    try:
        actions = given.split() if isinstance(given, str) else [str(a) for a in given]
        schedule = RecomputeSchedule("your plan", layers, tuple(actions))
        check_recompute(schedule)
    except (RecomputeError, TypeError) as error:
        raise NotYet(f"{error}"[:240]) from None
    cost = simulate_recompute(schedule, Chain.equal(layers, 1, 10))
    if cost.peak_slots > slots:
        raise NotYet(f"{cost.peak_slots} states are kept at once")
    if any(a.kind == "T" and a.stop - a.start > 1 for a in schedule.actions):
        raise NotYet("more than one layer is taped at a time")
    if cost.peak_bytes > slots + 11:
        raise NotYet("more than one layer has a tape at a time")
    if cost.extra_forwards > fewest_advances(layers, slots):
        raise NotYet(f"it runs, but {cost.extra_forwards} advances are too many")


def _plan(layers: int, slots: int) -> list[str]:
    return [str(action) for action in revolve(layers, slots).actions]


_CHAINS = [(1, 1), (2, 1), (3, 1), (5, 1), (2, 2), (3, 2), (4, 2), (6, 2), (7, 3), (10, 2), (10, 3),
           (11, 3), (16, 4), (20, 3), (32, 2), (32, 3), (32, 5), (12, 12), (9, 20)]

your_own_revolve = Function(
    "ex-your-own-revolve",
    About("A Revolve of your own", "design", 3, 40, "write an optimal plan as a list of actions"),
    "my_plan(layers, slots)", _plan, lambda: (("", chain) for chain in _CHAINS), _plan_law,
    "no plan does with fewer advances, in 19 chains",
    {
        "are too many": lambda layers, slots: _plan(layers, 1),
        "states are kept at once": lambda layers, slots: _plan(layers, slots + 1),
        "is not kept": lambda *chain: [word for word in _plan(*chain) if word[0] != "K"],
        "more than one layer is taped": lambda layers, slots: f"T0:{layers} B0:{layers}",
    },
)

your_own_checkpoint = Made(
    "ex-your-own-checkpoint",
    About("A checkpoint of your own", "repair", 3, 40,
          "recompute a function with all its gradients", needs="torch"),
    again_law, lambda: again,
    "twice forward, the input kept and nothing else, every gradient with all its bits",
    {
        "inside is still kept": lambda: lambda function, x: function(x),
        "has no graph": lambda: lambda function, x: function(x).detach(),
        "parameters have got no gradient": lambda: partial(again, parameters=False),
        "not those of the plain run": lambda: partial(again, same_numbers=False),
        "the generator is not where": lambda: partial(again, restored=False),
        "twice what they should be": lambda: partial(again, times=2),
        "3 times": lambda: partial(again, forwards=2),
    },
)
