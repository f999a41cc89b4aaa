"""The cloud of layouts: the page finds what a search by hand does, and tells it when asked."""

import json
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import toy_layouts

from dtlib.composition import Costs, plan
from dtlib.drawing.svg import called
from dtlib.explore import LayoutCloud, LayoutRow
from dtlib.explore.kit.still import still
from dtlib.foundations import Cluster, TransformerSpec, catalog

START = {"tp": 4, "pp": 4, "zero": 1, "interleave": 1, "micro_batch": 1, "recompute": "full"}


def cloud(**options) -> LayoutCloud:
    usual = {"title": "Beat it", "rows": toy_layouts.rows, "limit": toy_layouts.LIMIT}
    return LayoutCloud(**usual | {"start": START} | options)


@cache
def whole() -> LayoutCloud:
    return cloud()


def in_page(expression: str, script: str | None = None, **values):
    """What the widget's script says, without a page; `script` may be another one."""
    text = (script or whole()._esm).replace("export default widget(", "const drawing = widget(")
    return called(text, expression, spec=whole().spec, **values)


def seen(**change):
    return in_page("view(spec, state)", state=START | {"shown": 0} | change)


FOUND = "(({ best, front }) => [best.place, front.map(({ place }) => place)])(cloudOf(spec))"


def by_hand():
    """The fastest that fits, and what nothing beats, by comparing all with all."""
    rows = whole().spec["cloud"]
    best = min((seconds, held, place) for place, _, seconds, held in rows
               if held <= toy_layouts.LIMIT)[-1]  # fmt: skip
    front = [
        (held, place)
        for place, _, seconds, held in rows
        if not any(s <= seconds and h <= held and (s, h) != (seconds, held) for _, _, s, h in rows)
    ]
    return [best, [place for _, place in sorted(front)]]


def test_the_best_and_the_front_are_what_a_comparison_of_all_with_all_finds():
    assert in_page(FOUND) == by_hand()


@pytest.mark.parametrize(
    ("written", "wrong"),
    [("bytes <= limit", "bytes > limit"), ("row.seconds < front", "row.seconds > front")],
)
def test_sabotage_another_best_or_front_is_noticed(written, wrong):
    assert in_page(FOUND, whole()._esm.replace(written, wrong)) != by_hand()


def test_the_front_of_the_page_is_the_plans():
    """Of the layouts that fit: `Plans.pareto`, where numbers have as many digits as on the page."""
    small = TransformerSpec("small", 4, 256, 8, 512, context=256)
    plans = plan(small, Cluster(catalog["dgx-h100"], 1), batch=64, interleave=(1,), usable=1.3e-3)
    every = [(costs, at) for costs in (plans.costs, plans.too_large)
             for at in range(len(costs.layouts)) if costs.layouts[at].cp == 1]  # fmt: skip
    shown = cloud(
        rows=lambda: [_row_of(costs, at) for costs, at in every], limit=plans.question.limit,
        start=_row_of(*every[-1]).choices,
    )  # fmt: skip
    text = shown._esm.replace("export default widget(", "const drawing = widget(")
    found = called(text, "cloudOf(spec).front.map(({ seconds, bytes }) => [bytes, seconds])",
                   spec=shown.spec)  # fmt: skip
    rounded = Costs(
        plans.costs.layouts, {"all": np.vectorize(digits)(plans.costs.seconds)},
        np.vectorize(digits)(plans.costs.bytes),
    )  # fmt: skip
    flat = rounded[np.array([at for costs, at in every if costs is plans.costs])]
    expected = [[one.memory, one.time] for one in replace(plans, costs=flat).pareto]
    fitting = [point for point in found if point[0] <= plans.question.limit]
    assert len(expected) > 2 and len(found) > len(fitting)
    assert fitting == sorted(expected)


def digits(value: float) -> float:
    return float(f"{value:.4g}")


def _row_of(costs: Costs, at: int) -> LayoutRow:
    one = costs.layouts[at]
    fields = (
        getattr(one, name) for name in ("tp", "pp", "dp", "zero", "interleave", "micro_batch")
    )
    return LayoutRow(*fields, one.recompute, float(costs.seconds[at]), float(costs.bytes[at]))


def test_every_layout_has_its_place_and_its_numbers():
    rows, spec = list(toy_layouts.rows()), whole().spec
    chosen = in_page("spec.cloud.map(([place]) => choicesAt(spec, place))")
    assert chosen == [row.choices for row in rows]
    assert in_page("chosen.map((one) => placeIn(spec, one))", chosen=chosen) == [
        place for place, *_ in spec["cloud"]
    ]
    for row, (_, dp, seconds, held) in zip(rows, spec["cloud"], strict=True):
        assert dp == row.dp == toy_layouts.GPUS // (row.tp * row.pp)
        assert [seconds, held] == pytest.approx([row.seconds, row.bytes], rel=1e-3)


def test_where_nothing_is_divided_so_it_names_what_would_be():
    refused = START | {"tp": 8, "pp": 8}
    assert whole().names(**refused) == {"legal": 0, "fits": 0, "seconds": 0, "behind": 0}
    legal = [row.choices for row in toy_layouts.rows()]
    beside = {
        control["label"]: [v for v in control["values"] if refused | {control["name"]: v} in legal]
        for control in whole().spec["controls"]
    }
    expected = [[label, values] for label, values in beside.items() if values]
    asked = "legalBeside(spec, state, cloudOf(spec))"
    assert in_page(asked, state=refused) == expected != []
    said = seen(tp=8, pp=8)["said"]
    assert "No layout of this run is divided so" in said and "ZeRO stage 0" in said
    assert "not a legal layout" in still(whole(), tp=8, pp=8)["figures"][0]
    assert "Change two" in seen(tp=1, pp=1, micro_batch=4, interleave=2)["said"]


def test_nothing_is_told_of_the_answer_before_it_is_asked_for():
    best = "tp 2, pp 1, dp 32, ZeRO 1, interleave 1, micro-batch 1, recompute selective"
    first, looked, shown = seen(), seen(tp=1), seen(tp=1, shown=1)
    assert first["actions"] == [
        ["Show the planner's answer", {"shown": 1}, "First look for a better one yourself."]
    ]
    assert looked["actions"][0][2] == ""
    assert not any(
        best in json.dumps(one) for one in (first["rows"], first["said"], looked["rows"])
    )
    assert ["the planner's layout", best] in shown["rows"]
    [[words, change]] = shown["actions"]
    assert words == "Go to the planner's layout"
    there = seen(**change, shown=1)
    assert there["names"]["behind"] == 0 and best in there["said"] and "as fast" in there["said"]
    figures = [still(whole(), tp=1, shown=now)["figures"][0] for now in (0, 1)]
    assert ["the planner's" in figure for figure in figures] == [False, True]


def test_what_does_not_fit_says_so_and_does_not_do_the_task():
    large = {"tp": 1, "pp": 1, "micro_batch": 1, "recompute": "none", "zero": 0}
    found = seen(**large)
    assert found["names"]["fits"] == 0 and found["names"]["behind"] < 0
    assert "It does not fit: its fullest GPU would hold" in found["said"]


def test_what_is_the_same_in_all_rows_has_no_control():
    some = cloud(rows=lambda: [row for row in toy_layouts.rows() if row.zero and row.tp == 4],
                 within=0.01)  # fmt: skip
    assert [one["name"] for one in some.spec["controls"]] == [
        "pp", "micro_batch", "recompute", "interleave",
    ]  # fmt: skip
    assert some.spec["fixed"] == {"tp": 4, "zero": 1}
    assert still(some)["names"]["legal"] == 1


def row(**change) -> LayoutRow:
    usual = {"tp": 1, "pp": 1, "dp": 8, "zero": 0, "interleave": 1, "micro_batch": 1}
    return LayoutRow(**usual | {"recompute": "none", "seconds": 2.0, "bytes": 7e10} | change)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "at least one layout"),
        ([row(), row(seconds=3.0)], "a layout that is there once"),
        ([row(recompute="some")], "recompute is 'some', but must be one of none, selective, full"),
        ([row(bytes=9e10)], "limit is 80000000000.0, but must be enough for one layout"),
        ([row(tp=2)], "start is .* but must be the choices of a row"),
        ([row(), row(tp=2, seconds=1.99)], "is met already at the start"),
    ],
)
def test_what_would_mislead_is_refused(rows, said):
    start = {"tp": 1, "pp": 1, "zero": 0, "interleave": 1, "micro_batch": 1, "recompute": "none"}
    with pytest.raises(ValueError, match=said):
        cloud(rows=lambda: rows, start=start)


def test_the_rows_are_asked_for_once():
    calls = []

    def rows():
        calls.append(1)
        return [row(), row(tp=2, seconds=1.0)]

    cloud(rows=rows, start=row().choices)
    assert calls == [1]


def test_all_choices_have_a_place_of_their_own():
    controls = whole().spec["controls"]
    states = [
        dict(zip([one["name"] for one in controls], values, strict=True))
        for values in product(*(one["values"] for one in controls))
    ]
    assert in_page("states.map((one) => placeIn(spec, one))", states=states) == [
        *range(len(states))
    ]
