"""The kit's own parts: bars stand where time says, and what a page could misread is escaped."""

import re

import pytest
from page import STATIC
from scripts import FOLDER

from dtlib.drawing.svg import called, schedule_svg, script
from dtlib.explore.kit.controls import choice, slider
from dtlib.parallelism.pipeline import one_f_one_b, simulate
from dtlib.timeline import Span, Timeline

WRITTEN = "".join(
    file.read_text(encoding="utf-8")
    for folder in (FOLDER, FOLDER.parent / "drawing", STATIC)
    for file in sorted(folder.rglob("*"))
    if file.suffix in (".css", ".js", ".py")
)


def bars(svg: str) -> list[tuple[float, float]]:
    """Left end and width of every bar without those of the key."""
    found = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="22"', svg)
    return [(float(x), float(wide)) for x, wide in found]


@pytest.mark.parametrize("p, m", [(2, 4), (4, 8)])
def test_every_span_is_a_bar_whose_place_and_length_are_its_times(p, m):
    timeline = simulate(one_f_one_b(p, m), f=1, b=1, w=1)
    drawn = bars(timeline.draw("A pipeline."))
    assert len(drawn) == len(timeline.spans)
    left = min(x for x, _ in drawn)
    pixels = (682 - left) / timeline.makespan
    due = [(left + pixels * s.start, pixels * (s.stop - s.start) - 0.7) for s in timeline.spans]
    for bar, right in zip(sorted(drawn), sorted(due), strict=True):
        assert bar == pytest.approx(right, abs=0.02)


def test_sabotage_a_span_that_is_late_stands_elsewhere():
    right = Timeline([Span(0, "c", "F", 0, 1), Span(0, "c", "B", 1, 3)])
    wrong = Timeline([Span(0, "c", "F", 0, 1), Span(0, "c", "B", 1.5, 3)])
    assert bars(right.draw()) != bars(wrong.draw())


def test_what_a_reader_could_write_does_not_become_markup():
    svg = Timeline([Span(0, 'a<b"', "F", 0, 1)]).draw('A "bar" & <more>')
    assert 'aria-label="A &quot;bar&quot; &amp; &lt;more>"' in svg


def test_only_what_lies_in_the_window_is_drawn_and_only_whole_bars_are_named():
    spans = [{"row": 0, "start": at, "stop": at + 2, "look": "forward", "name": at}
             for at in range(0, 10, 2)]  # fmt: skip
    rows = [{"label": "rank 0", "height": 24}]
    drawn = called(
        script(),
        "marksOf(gantt({ rows, spans, to: 5, left: 0, right: 500, top: 0 }).marks).map(written)",
        rows=rows,
        spans=spans,
    )
    svg = "".join(drawn)
    assert svg.count("<rect") == 3
    assert re.findall(r">(\d)<", svg) == ["0", "2"]


def test_bars_that_look_alike_say_so_once():
    spans = [{"row": 0, "start": at, "stop": at + 1, "look": look, "name": look[-8:]}
             for at, look in enumerate(["pale forward", "pale backward"] * 10)]  # fmt: skip
    rows = [{"label": "rank 0", "height": 24}]
    svg = schedule_svg(rows, spans, [], 20, "s", "Twenty bars.")
    assert svg.count("<rect") == 20 and svg.count("<path") == 1
    assert svg.count('fill-opacity="0.35"') == 2


def test_a_start_that_is_no_choice_is_named():
    with pytest.raises(ValueError, match="layout: 3, but must be one of 0, 1"):
        choice("layout", "Layout", {0: "a", 1: "b"}, 3)
    with pytest.raises(ValueError, match=r"step: 7, but must be one of 0, 1, .* 12 [.]{3}"):
        slider("step", "step", [*range(7), *range(8, 20)], 7)


def asked_in_vain(texts: str) -> set[str]:
    """The properties that sheets ask for, and nobody sets."""
    asked, given = r"var\((--dt-\w[\w-]*)", r"(--dt-\w[\w-]*)[:\"]"
    return {*re.findall(asked, texts)} - {*re.findall(given, texts)}


def test_every_property_that_a_sheet_asks_for_is_set_somewhere():
    assert asked_in_vain(WRITTEN) == set()
    assert asked_in_vain(f"{WRITTEN} .dt-stage {{ top: var(--dt-top, 0) }}") == {"--dt-top"}
