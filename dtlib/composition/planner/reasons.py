"""Why a layout is where it is in the order: what it breaks, or lacks, and what takes longer."""

import math

import numpy as np

from dtlib.composition.planner.legal import broken_rules
from dtlib.composition.planner.plans import Costs, Plan, Plans
from dtlib.formulas.require import require
from dtlib.formulas.units import format_quantity
from dtlib.layout import POLICIES, Layout
from dtlib.layouts import Layouts

CHOICES = ("tp", "pp", "cp", "ep", "zero", "interleave", "micro_batch", "recompute")
REACH = 3.0  # a cause that must be off by more than this is no risk


def explained(plan: Plan) -> str:
    """The plan in sentences: its own account, its rivals, what more memory would buy, its risk."""
    lines = [repr(plan), f"Of its time: {_shares(plan)}."]
    lines += _rivals(plan)
    lines += _beyond(plan)
    lines += _risk(plan)
    return "\n".join(lines)


def why_not(plans: Plans, layout: Layout) -> str:
    """One sentence on why the layout is not the first of the plans."""
    question = plans.question
    ranks, spec = question.cluster.ranks, question.task.spec
    require(layout.ranks == ranks, "why_not", "the ranks of layout", layout.ranks, f"{ranks}")
    broken = broken_rules(question.task, layout)
    if broken:
        return f"{layout} is not legal: {'; '.join(rule.says for rule in broken)}."
    cost = question.costs(Layouts.of([layout], spec.layers))
    if cost.bytes[0] > question.limit:
        return f"{layout} does not fit: {_lacks(cost, question.limit)}."
    best = plans.costs[:1]
    if question.score(cost)[0] <= question.score(best)[0]:
        return f"{layout} is as good as the first."
    return f"{layout} {_compared(plans, cost, best)}."


def _shares(plan: Plan) -> str:
    return ", ".join(
        f"{cause} {seconds / plan.time:.0%}"
        for cause, seconds in plan.parts.items()
        if seconds > 0.005 * plan.time
    )


def _rivals(plan: Plan) -> list[str]:
    """For each field the best layout that has another value there, and what it loses by."""
    costs, here = plan.plans.costs, plan.layout
    found: dict[int, list[str]] = {}
    for field in CHOICES:
        value = getattr(here, field)
        value = POLICIES.index(value) if field == "recompute" else value
        others = np.flatnonzero(getattr(costs.layouts, field) != value)
        if len(others):
            found.setdefault(int(others[0]), []).append(field)
    own = costs[[plan.place]]
    return [
        f"Another {' or '.join(fields)}: {_other(costs.layouts[place], here)} "
        f"{_compared(plan.plans, costs[[place]], own)}."
        for place, fields in sorted(found.items())
    ]


def _other(layout: Layout, here: Layout) -> str:
    """What a layout has else than another one: fields and values."""
    fields = (*CHOICES, "dp")
    return ", ".join(
        f"{name} {getattr(layout, name)}"
        for name in fields
        if getattr(layout, name) != getattr(here, name)
    )


def _compared(plans: Plans, cost: Costs, own: Costs) -> str:
    """By how much it is slower, and the causes that make most of the difference."""
    ratio = cost.seconds[0] / own.seconds[0] - 1
    more = {cause: float(cost.parts[cause][0] - own.parts[cause][0]) for cause in cost.parts}
    causes = sorted(more, key=lambda cause: -abs(more[cause]))[:3]
    said = ", ".join(
        f"{cause} {'+' if more[cause] > 0 else '-'}{format_quantity(abs(more[cause]), 's')}"
        for cause in causes
        if abs(more[cause]) > 0.002 * own.seconds[0]
    )
    size = f"{abs(ratio):.1%}" if abs(ratio) >= 0.001 else "less than 0.1%"
    said = f" ({said})" if said else ""
    if ratio >= 0:
        return f"is {size} slower{said}"
    margin = f"{plans.question.margin - 1:.0%}"
    return f"is {size} faster{said}, within the margin of {margin} of a pipeline"


def _lacks(cost: Costs, limit: float) -> str:
    needs, may = format_quantity(cost.bytes[0], "B", 3), format_quantity(limit, "B", 3)
    return f"its fullest rank needs {needs}, and may fill {may}"


def _beyond(plan: Plan) -> list[str]:
    """What half as much memory again would buy: the fastest of those that need no more."""
    plans, question = plan.plans, plan.plans.question
    near = plans.too_large[plans.too_large.bytes <= 1.5 * question.limit]
    own = question.score(plans.costs[[plan.place]])[0]
    if not len(near.layouts) or question.score(near)[0] > 0.999 * own:
        return ["Nothing that needs up to half as much memory again is faster."]
    first = near[:1]
    gain = 1 - question.score(first)[0] / own
    lacks = _lacks(first, question.limit)
    other = _other(first.layouts[0], plan.layout)
    return [f"With more memory {other} would take {gain:.1%} less: {lacks}."]


def _risk(plan: Plan, among: int = 200) -> list[str]:
    """The causes whose misjudgement by the smallest factors would put another layout first.

    Times are sums of causes. With a cause k times as long for all, two layouts change places where
    rest + k x cause is the same for both.
    """
    plans = plan.plans
    costs = plans.costs[:among]
    weight = plans.question.weight(costs.layouts)
    flips: dict[str, tuple] = {}
    for cause, seconds in costs.parts.items():
        part, rest = weight * seconds, weight * (costs.seconds - seconds)
        more = part[plan.place] - part
        factor = np.divide(rest - rest[plan.place], more, where=more != 0, out=np.zeros(len(more)))
        near = np.flatnonzero((factor > 1 / REACH) & (factor < REACH))
        near = near[near != plan.place]
        if len(near):
            place = near[np.argmin(np.abs(np.log(factor[near])))]
            flips[cause] = abs(math.log(factor[place])), factor[place], costs.layouts[int(place)]
    if not flips:
        return [
            f"No single cause, were it {REACH:g} times as long or short, would change the order."
        ]
    return [
        f"Were {cause} {factor:.2f} times as long, {_other(other, plan.layout)} would be before it."
        for cause, (_, factor, other) in sorted(flips.items(), key=lambda item: item[1][0])[:3]
    ]
