"""Plans: which schedule does the least work again within a budget of bytes, and the whole front.

`best_schedule` is dynamic programming over a chain of any layers, by memory that is still free:
from a kept state, either tape the next layer and go on from its output, or advance without a tape
to a state in between, keep it, come back from the end to it, and come back from it to the start.
`pareto_front` compares it with everything else that the builders make.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from dtlib.formulas.require import require_count, require_type
from dtlib.memory.recompute.schedule import (
    RecomputeSchedule,
    keep_all,
    revolve,
    uniform,
)
from dtlib.memory.recompute.simulation import Chain, simulate_recompute


@dataclass(frozen=True)
class PricedSchedule:
    """A schedule with what it costs on a chain: bytes at its peak, and work that is done again."""

    schedule: RecomputeSchedule
    peak_bytes: int
    extra_flops: int

    @classmethod
    def of(cls, schedule: RecomputeSchedule, chain: Chain) -> "PricedSchedule":
        """What simulating the schedule on the chain gives."""
        cost = simulate_recompute(schedule, chain)
        return cls(schedule, cost.peak_bytes, cost.extra_flops)


def best_schedule(chain: Chain, budget: int) -> PricedSchedule | None:
    """The schedule with the least work done again whose slots and tapes fit into a budget.

    Equation: with state i kept and m bytes free, the work W(i, j, m) of coming back from j to i is
    the least of: tape layer i and keep state i + 1, f_i + W(i + 1, j, m - a_i - c_(i+1)); and for
    every k between, f_i + ... + f_(k-1) + W(k, j, m - c_k) + W(i, k, m), with c the bytes of a
    state, a those of a tape's interior, f the work of a layer.
    Best of all for equal layers. For unequal ones best among schedules that keep a state until the
    backward pass has reached it: now and then one that drops a state and makes it again beats it.
    Arguments: `chain`; `budget` in bytes. Returns a PricedSchedule, or None if nothing fits.
    Raises ValueError for a negative budget.
    Source: Beaumont et al. 2019 (Rotor); Griewank and Walther 2000 where layers are equal.

    >>> chain = Chain.equal(8, state_bytes=2, interior_bytes=32)
    >>> for budget in (272, 150, 60):
    ...     plan = best_schedule(chain, budget)
    ...     print(plan.peak_bytes, plan.extra_flops)
    272 0
    144 4
    48 7
    """
    require_type("best_schedule", Chain, chain=chain)
    require_count("best_schedule", 0, budget=budget)
    layers = chain.layers
    work_before = [sum(layer.flops for layer in layers[:i]) for i in range(len(layers) + 1)]

    @cache
    def least(start, stop, free):
        """The least work, and the choice: None to tape layer `start`, or the state to keep."""
        layer = layers[start]
        ends = stop == start + 1
        tape = layer.interior_bytes + chain.state(start + 1) * layer.keeps_output
        held = tape if ends else layer.interior_bytes + chain.state(start + 1)
        found = (float("inf"), None)
        if max(held, tape + layer.workspace_bytes) <= free:
            after = 0 if ends else least(start + 1, stop, free - held)[0]
            found = (layer.flops + after, None)
        for middle in range(start + 1, stop):
            rest = free - chain.state(middle)
            if rest < 0:
                continue
            advance = work_before[middle] - work_before[start]
            later = advance + least(middle, stop, rest)[0]
            if later < found[0]:
                whole = later + least(start, middle, free)[0]
                found = min(found, (whole, middle), key=lambda choice: choice[0])
        return found

    candidates = [PricedSchedule.of(keep_all(len(layers)), chain)]
    free = budget - chain.state(0)
    if free >= 0 and least(0, len(layers), free)[0] < float("inf"):
        actions = ["K0", *_written(least, 0, len(layers), free, chain)]
        name = f"best within {budget} B"
        candidates.append(
            PricedSchedule.of(RecomputeSchedule(name, len(layers), tuple(actions)), chain)
        )
    fitting = [plan for plan in candidates if plan.peak_bytes <= budget]
    return min(fitting, key=lambda plan: plan.extra_flops, default=None)


def _written(least, start, stop, free, chain):
    """The actions of the choices, from the running state `start`, which is kept, and dropped."""
    middle = least(start, stop, free)[1]
    if middle is not None:
        rest = free - chain.state(middle)
        return [
            f"A{start}:{middle}",
            f"K{middle}",
            *_written(least, middle, stop, rest, chain),
            f"R{start}",
            *_written(least, start, middle, free, chain),
        ]
    tape, back = f"T{start}:{start + 1}", f"B{start}:{start + 1}"
    if stop == start + 1:
        return [tape, f"D{start}", back]
    held = chain.layers[start].interior_bytes + chain.state(start + 1)
    inner = _written(least, start + 1, stop, free - held, chain)
    return [tape, f"K{start + 1}", *inner, f"D{start}", back]


def pareto_front(chain: Chain, budgets: Iterable[int] | int = 32) -> list[PricedSchedule]:
    """The plans that no other plan beats in bytes and in work: from the fewest bytes to no repeats.

    Arguments: `chain`; `budgets` for `best_schedule`, or how many, evenly spread between what the
    smallest Revolve schedule and a plain run hold. Every uniform and every Revolve schedule is
    compared too. Returns plans, most repeated work first.
    Raises ValueError for a number of budgets below 1.

    >>> front = pareto_front(Chain.equal(8, state_bytes=2, interior_bytes=32), budgets=6)
    >>> [(plan.peak_bytes, plan.extra_flops) for plan in front][-3:]
    [(206, 2), (240, 1), (272, 0)]
    """
    require_type("pareto_front", Chain, chain=chain)
    count = len(chain.layers)
    known = [keep_all(count)]
    known += [uniform(count, k) for k in range(1, count + 1)]
    known += [revolve(count, slots) for slots in range(1, count + 1)]
    plans = [PricedSchedule.of(schedule, chain) for schedule in known]
    if not isinstance(budgets, Iterable):
        require_count("pareto_front", budgets=budgets)
        low, high = min(p.peak_bytes for p in plans), chain.kept_bytes
        budgets = [low + (high - low) * n // budgets for n in range(budgets + 1)]
    plans += [plan for budget in budgets if (plan := best_schedule(chain, budget))]
    return not_beaten(plans)


def not_beaten(plans: Iterable[PricedSchedule]) -> list[PricedSchedule]:
    """The plans of which no other holds as few bytes and does as little work, fewest bytes first.

    Of two that cost the same, the first stays.
    """
    front: list[PricedSchedule] = []
    for plan in sorted(plans, key=lambda plan: (plan.peak_bytes, plan.extra_flops)):
        if not front or plan.extra_flops < front[-1].extra_flops:
            front.append(plan)
    return front
