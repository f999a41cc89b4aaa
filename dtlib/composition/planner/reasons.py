"""Why a layout is where it is in the order: what it breaks, or lacks, and what takes longer."""

import math

import numpy as np

from dtlib.composition.planner.costs import Costs, Question
from dtlib.composition.planner.legal import broken_rules
from dtlib.formulas.require import require
from dtlib.formulas.units import format_quantity
from dtlib.layout import POLICIES, Layout
from dtlib.layouts import Layouts

CHOICES = ("tp", "pp", "cp", "ep", "zero", "interleave", "micro_batch", "recompute")
REACH = 3.0  # a cause that must be off by more than this is no risk


def why_not(question: Question, best: Costs, layout: Layout) -> str:
    """One sentence on why a layout is not the best: a rule, its memory, or causes of its time."""
    ranks, spec = question.cluster.ranks, question.work.spec
    require(layout.ranks == ranks, "why_not", "the ranks of layout", layout.ranks, f"{ranks}")
    broken = broken_rules(question.work, layout)
    if broken:
        return f"{layout} is not legal: {'; '.join(rule.says for rule in broken)}."
    cost = question.costs(Layouts.of([layout], spec.layers))
    if cost.bytes[0] > question.limit:
        return f"{layout} does not fit: {_lacks(question, cost)}."
    if question.score(cost)[0] <= question.score(best)[0]:
        return f"{layout} is as good as the first."
    return f"{layout} {compared(question, cost, best)}."


def rivals(question: Question, costs: Costs, place: int) -> list[str]:
    """For each field the best layout that has another value there, and what it loses by."""
    here = costs.layouts[place]
    found: dict[int, list[str]] = {}
    for field in CHOICES:
        value = getattr(here, field)
        value = POLICIES.index(value) if field == "recompute" else value
        others = np.flatnonzero(getattr(costs.layouts, field) != value)
        if len(others):
            found.setdefault(int(others[0]), []).append(field)
    own = costs[[place]]
    return [
        f"Another {' or '.join(fields)}: {other_fields(costs.layouts[at], here)} "
        f"{compared(question, costs[[at]], own)}."
        for at, fields in sorted(found.items())
    ]


def compared(question: Question, cost: Costs, own: Costs) -> str:
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
    margin = f"{question.margin - 1:.0%}"
    return f"is {size} faster{said}, within the margin of {margin} of a pipeline"


def beyond(question: Question, costs: Costs, too_large: Costs, place: int) -> str:
    """What half as much memory again would buy: the fastest of those that need no more."""
    near = too_large[too_large.bytes <= 1.5 * question.limit]
    own = question.score(costs[[place]])[0]
    if not len(near.layouts) or question.score(near)[0] > 0.999 * own:
        return "Nothing that needs up to half as much memory again is faster."
    first = near[:1]
    gain, lacks = 1 - question.score(first)[0] / own, _lacks(question, first)
    other = other_fields(first.layouts[0], costs.layouts[place])
    return f"With more memory {other} would take {gain:.1%} less: {lacks}."


def risks(question: Question, costs: Costs, place: int, among: int = 200) -> list[str]:
    """The causes whose misjudgement by the smallest factors would put another layout first.

    Times are sums of causes. With a cause k times as long for all, two layouts change places where
    rest + k x cause is the same for both.
    """
    costs = costs[: max(among, place + 1)]
    weight, here = question.weight(costs.layouts), costs.layouts[place]
    flips: dict[str, tuple] = {}
    for cause, seconds in costs.parts.items():
        part, rest = weight * seconds, weight * (costs.seconds - seconds)
        more = part[place] - part
        factor = np.divide(rest - rest[place], more, where=more != 0, out=np.zeros(len(more)))
        near = np.flatnonzero((factor > 1 / REACH) & (factor < REACH))
        near = near[near != place]
        if len(near):
            at = near[np.argmin(np.abs(np.log(factor[near])))]
            flips[cause] = abs(math.log(factor[at])), factor[at], costs.layouts[int(at)]
    if not flips:
        return [f"No cause, were it {REACH:g} times as long or short, would change the order."]
    return [
        f"Were {cause} {factor:.2f} times as long, {other_fields(other, here)} would be before it."
        for cause, (_, factor, other) in sorted(flips.items(), key=lambda item: item[1][0])[:3]
    ]


def other_fields(layout: Layout, here: Layout) -> str:
    """What a layout has else than another one: fields and values."""
    return ", ".join(
        f"{name} {getattr(layout, name)}"
        for name in (*CHOICES, "dp")
        if getattr(layout, name) != getattr(here, name)
    )


def _lacks(question: Question, cost: Costs) -> str:
    needs, may = (format_quantity(x, "B", 3) for x in (cost.bytes[0], question.limit))
    return f"its fullest rank needs {needs}, and may fill {may}"
