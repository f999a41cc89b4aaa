"""Every check of chapter 21: the solution passes; the stub, wrong answers and dtlib's own fail."""

from functools import cache

import pytest
import torch
from exercise_cases import Case, EveryExercise

from dtlib.exercises import NotYet, check
from dtlib.memory import Chain, best_schedule, checkpoint, revolve, uniform

GB, MiB = 1e9, 2**20


def longest(layers, state_bytes, layer_bytes, budget, *, slip=""):
    fitting = []
    for k in range(1, layers + 1):
        inputs = -(-layers // k) - 1 if slip != "all inputs" else -(-layers // k)
        if slip == "fraction":
            inputs = layers / k - 1
        held = inputs * state_bytes + k * layer_bytes
        if slip == "workspace" and k < layers:
            held = inputs * state_bytes
        if held <= budget:
            fitting.append(k)
        elif slip == "first":
            break
    if slip == "least":
        return min(fitting, default=None)
    return max(fitting, default=None)


def right_longest(layers, state_bytes, layer_bytes, budget):
    return longest(layers, state_bytes, layer_bytes, budget)


def slipping(slip):
    return lambda layers, state_bytes, layer_bytes, budget: longest(
        layers, state_bytes, layer_bytes, budget, slip=slip
    )


def keep(operations, budget):
    best = {0: (0, ())}
    for name, (size, work) in operations.items():
        for held, (spared, names) in list(best.items()):
            new = held + size
            if new <= budget and spared + work > best.get(new, (-1,))[0]:
                best[new] = (spared + work, (*names, name))
    return max(best.values())[1]


def greedy(by):
    def chosen(operations, budget):
        kept = []
        for name, (size, _) in sorted(operations.items(), key=by):
            if size <= budget:
                kept.append(name)
                budget -= size
        return kept

    return chosen


@cache
def cheapest(length, free):
    if length == 1:
        return 0, None
    if free == 1:
        return length * (length - 1) // 2, length - 1
    return min(
        (j + cheapest(length - j, free - 1)[0] + cheapest(j, free)[0], j) for j in range(1, length)
    )


def middle_of(length, free):
    return 0, length - 1 if free == 1 else length // 2


def planner(choose, slots_more=0):
    def my_plan(layers, slots):
        plan = ["K0"]

        def back(start, stop, free):
            while stop - start > 1:
                middle = start + choose(stop - start, free)[1]
                plan.append(f"A{start}:{middle}")
                if free > 1:
                    plan.append(f"K{middle}")
                    back(middle, stop, free - 1)
                else:
                    plan.extend([f"T{middle}:{stop}", f"B{middle}:{stop}"])
                plan.append(f"R{start}")
                stop = middle
            plan.extend([f"T{start}:{stop}", f"D{start}", f"B{start}:{stop}"])

        back(0, layers, slots + slots_more)
        return plan

    return my_plan


def as_text(layers, slots):
    return " ".join(planner(cheapest)(layers, slots))


def forgetful(layers, slots):
    return [word for word in planner(cheapest)(layers, slots) if not word.startswith("K")]


class Again(torch.autograd.Function):
    slip = ""

    @classmethod
    def forward(cls, ctx, function, x, *parameters):
        ctx.function, ctx.parameters = function, parameters
        ctx.random_state = torch.get_rng_state()
        ctx.save_for_backward(x)
        y = function(x)
        if cls.slip == "twice forward":
            function(x)
        return y

    @classmethod
    def backward(cls, ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = torch.get_rng_state()
        if cls.slip != "other numbers":
            torch.set_rng_state(ctx.random_state)
        with torch.enable_grad():
            y = ctx.function(x)
        if cls.slip not in ("other numbers", "generator"):
            torch.set_rng_state(now)
        found = torch.autograd.grad(y, (x, *ctx.parameters), gradient)
        if cls.slip == "twice":
            found = [2 * g for g in found]
        return None, *found


def again(function, x):
    return Again.apply(function, x, *function.parameters())


def again_with(slip):
    kind = type("Slipping", (Again,), {"slip": slip})
    return lambda function, x: kind.apply(function, x, *function.parameters())


def without_parameters(function, x):
    return Again.apply(function, x)


def plain(function, x):
    return function(x)


def detached(function, x):
    return function(x).detach()


SHARE = (1 - 2 / 48) / 3
DONE = (3 + 79 / 80) / 3
CASES = {
    "ex-forty-eight-layers": Case(
        solution=(218, 2, 114, SHARE),
        wrong=[
            ((220, 2, 114, SHARE), "needs no slot"),
            ((218, 7, 114, SHARE), "root of 48"),
            ((218, 3, 132, SHARE), "whole numbers one after"),
            ((218, 2, 116, SHARE), "needs no slot"),
            ((218, 2, 114, 1 - 2 / 48), "three times its work"),
            ((218, 2, 114, 1 / 3), "not run again"),
        ],
        secret=[218, 114, SHARE],
    ),
    "ex-a-step-of-100-ms": Case(
        solution=(0.4 / 3, 0.125, 0.125),
        wrong=[
            ((0.15, 0.125, 0.125), "not half"),
            ((0.4 / 3, 0.4 / 3, 0.125), "three forward passes"),
            ((0.4 / 3, 0.125, 0.4 / 3), "last quarter"),
            ((133.33, 125, 125), "in seconds"),
        ],
        secret=[0.4 / 3, 0.125],
    ),
    "ex-drop-the-scores": Case(
        solution=(5248 * MiB, 1152 * MiB, 4 / 84),
        wrong=[
            ((2624 * MiB, 1152 * MiB, 4 / 84), "two bytes each"),
            ((5248 * MiB, 576 * MiB, 4 / 84), "two bytes each"),
            ((1280 * MiB, 1152 * MiB, 4 / 84), "in every head"),
            ((5248 * MiB, 1152 * MiB, 2 / 84), "two products"),
            ((5248 * MiB, 1152 * MiB, 4 / 28), "three times its work"),
        ],
        secret=[5248 * MiB, 1152 * MiB, 4 / 84],
    ),
    "ex-eight-bit-states": Case(
        solution=(10 / 13, 81 / 128, 0.0241),
        wrong=[
            ((0.5, 81 / 128, 0.0241), "only the kept inputs"),
            ((0.75, 81 / 128, 0.0241), "needs no slot"),
            ((10 / 13, 0.5, 0.0241), "only the kept inputs"),
            ((10 / 13, 81 / 128, 0.0625), "largest"),
        ],
        secret=[10 / 13, 81 / 128, 0.0241],
    ),
    "ex-needed-and-done": Case(
        solution=(0.52 / DONE, 160 / 3),
        also_right=[(0.52 / DONE, 53), (0.52 / DONE, 54)],
        wrong=[
            ((0.39, 160 / 3), "last layer is not run again"),
            ((0.52 * DONE, 160 / 3), "more than the model needs"),
            ((0.52 / DONE, 80 / 3), "run again"),
        ],
        secret=[0.52 / DONE, 160 / 3],
    ),
    "ex-longest-that-fits": Case(
        solution=right_longest,
        wrong=[
            (slipping("least"), "longer ones do too"),
            (slipping("first"), "there is a length that fits"),
            (slipping("all inputs"), "there is a length that fits|longer ones"),
            (slipping("fraction"), "more than the budget"),
            (slipping("workspace"), "more than the budget|nothing fits"),
            (lambda layers, state_bytes, layer_bytes, budget: 1, "more than|longer|nothing fits"),
        ],
    ),
    "ex-four-corners-of-a-pipeline": Case(
        solution=(163.2 * GB, 11.2 * GB, 3.9 * GB, 40 * GB),
        wrong=[
            ((652.8 * GB, 11.2 * GB, 3.9 * GB, 40 * GB), "not m"),
            ((163.2 * GB, 9.6 * GB, 3.9 * GB, 40 * GB), "tape is there as well"),
            ((163.2 * GB, 22.4 * GB, 3.9 * GB, 40 * GB), "one for all"),
            ((163.2 * GB, 11.2 * GB, 2.2 * GB, 40 * GB), "two tapes"),
            ((163.2 * GB, 11.2 * GB, 3.9 * GB, 11.2 * GB), "before the first goes back"),
        ],
        secret=[163.2 * GB, 11.2 * GB, 3.9 * GB, 40 * GB],
    ),
    "ex-along-which-axis": Case(
        solution=(20.8 / 326.4, 308.8 / 5222.4, 0.25),
        wrong=[
            ((0.25, 308.8 / 5222.4, 0.25), "what the rule says"),
            ((20.8 / 326.4, 1 / 16, 0.25), "what the rule says"),
            ((1 / 17, 308.8 / 5222.4, 0.25), "tape is there"),
            ((20.8 / 326.4, 308.8 / 5222.4, 1 / 16), "that is for 256"),
        ],
        secret=[20.8 / 326.4, 308.8 / 5222.4, 0.25],
    ),
    "ex-knapsack-of-a-layer": Case(
        solution=keep,
        wrong=[
            (greedy(lambda item: item[1][0]), "spares more"),
            (greedy(lambda item: -item[1][1] / item[1][0]), "spares more"),
            (greedy(lambda item: -item[1][1]), "spares more"),
            (lambda operations, budget: list(operations), "does not fit"),
            (lambda operations, budget: [], "spares more"),
            (lambda operations, budget: ["zz"], "not names"),
        ],
    ),
    "ex-your-own-revolve": Case(
        solution=planner(cheapest),
        also_right=[as_text],
        wrong=[
            (planner(middle_of), "too many"),
            (planner(cheapest, 1), "states are kept at once"),
            (forgetful, "is not kept"),
            (lambda layers, slots: f"T0:{layers} B0:{layers}", "more than one layer is taped"),
            (lambda layers, slots: [f"T{i}:{i + 1}" for i in range(layers)]
             + [f"B{i}:{i + 1}" for i in reversed(range(layers))], "more than one layer has"),
            (lambda layers, slots: uniform(layers, 1).actions, "kept at once|more than"),
            (lambda layers, slots: revolve(layers, slots).actions, "library's own"),
            (lambda layers, slots: str(best_schedule(
                Chain.equal(layers, 1, 1000), slots + 1001).schedule), "library's own"),
            (lambda layers, slots: 5, "not iterable"),
        ],
    ),
    "ex-your-own-checkpoint": Case(
        solution=again,
        wrong=[
            (plain, "inside is still kept"),
            (detached, "has no graph"),
            (without_parameters, "parameters have got no gradient"),
            (again_with("other numbers"), "not those of the plain run|generator"),
            (again_with("generator"), "generator"),
            (again_with("twice"), "twice what they should be"),
            (again_with("twice forward"), "3 times"),
            (lambda function, x: checkpoint(function, x), "library's own"),
            (lambda function, x: torch.utils.checkpoint.checkpoint(
                function, x, use_reentrant=False), "library's own"),
        ],
    ),
}  # fmt: skip


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_a_greedy_choice_fails_on_the_three_outputs_of_the_solution():
    with pytest.raises(NotYet, match="spares more"):
        check("ex-knapsack-of-a-layer", greedy(lambda item: -item[1][1] / item[1][0]))
