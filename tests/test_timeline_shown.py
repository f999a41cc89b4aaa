"""What a timeline shows: where its bars are, what they are called, and when they were."""

import json
import re

import pytest

from dtlib.timeline import Span, Timeline

SPANS = [
    Span(0, "compute", "F0", 0, 4, "forward"),
    Span(0, "port", "all-reduce of everything", 3, 4, "communication"),
    Span(1, "compute", "F0", 4, 8, "forward"),
    Span(1, "compute", "B0", 9, 12, "backward"),
]


BAR = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="22"')
ALIKE = re.compile(r"<g ([^>]*)>((?:<rect [^>]*/>)+)</g>")


def page(svg: str) -> str:
    """The first of two drawings, the one for a page."""
    return svg.partition("</svg>")[0]


def bars(svg: str) -> list[tuple[float, float, float]]:
    """Start and length of every bar as shares of the axis, and its row's place; row by row."""
    drawing = page(svg)
    left, right = map(float, re.search(r'<line x1="([\d.]+)" x2="([\d.]+)"', drawing).groups())
    wide = right - left
    found = sorted((float(y), float(x), float(w)) for x, y, w in BAR.findall(drawing))
    return [((x - left) / wide, (w + 0.7) / wide, y) for y, x, w in found]


def looks(svg: str) -> list[str]:
    """What each bar looks like, which those that look alike share; row by row."""
    found = [
        (float(y), float(x), look)
        for look, boxes in ALIKE.findall(page(svg))
        for x, y, _ in BAR.findall(boxes)
    ]
    return [look for *_, look in sorted(found)]


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def shifted(by: float, unit: str = "s") -> Timeline:
    spans = [s._replace(start=s.start + by, stop=s.stop + by) for s in SPANS]
    return Timeline(spans, unit=unit)


@pytest.mark.parametrize("by", [0, 5, -7])
def test_what_a_timeline_measures_does_not_hang_on_when_it_began(by, tmp_path):
    timeline = shifted(by)
    assert (timeline.makespan, timeline.stage_bubble) == (12, 1)
    assert timeline.bubble_fraction == pytest.approx(13 / 24, abs=1e-15)
    assert [timeline.busy(rank) for rank in (0, 1)] == [4, 7]
    assert repr(timeline) == "Timeline of 2 ranks: 4 spans in 12 s, 54% idle"
    trace = json.loads(timeline.to_chrome_trace(tmp_path / "trace.json").read_text())
    starts = [event["ts"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert starts == [0, 3e6, 4e6, 9e6] and trace["displayTimeUnit"] == "ms"
    drawn = [12 * start for start, _, _ in bars(timeline.draw())]
    assert drawn == pytest.approx([0, 3, 4, 9], abs=1e-3)


def test_a_bar_lies_in_the_row_of_its_rank_and_lane_from_its_start_to_its_stop():
    svg = shifted(5).draw()
    times = [(12 * start, 12 * length) for start, length, _ in bars(svg)]
    rows = [y for *_, y in bars(svg)]
    for drawn, span in zip(times, SPANS, strict=True):
        assert drawn == pytest.approx((span.start, span.stop - span.start), abs=2e-3)
    assert rows[0] < rows[1] < rows[2] == rows[3]
    assert [one for one in texts(svg) if one.startswith("rank")] == [
        "rank 0, compute",
        "rank 0, port",
        "rank 1, compute",
    ]


def test_a_name_stands_in_its_bar_where_there_is_room_for_it():
    assert [one for one in texts(shifted(5).draw()) if one[0] in "FB"] == ["F0", "F0", "B0"]


def test_bars_of_kinds_look_as_the_key_says_and_one_kind_needs_none():
    svg = shifted(0).draw()
    named = dict(zip(texts(svg), re.findall(r'height="11" rx="2" ([^>]*)/>', svg), strict=False))
    assert list(named) == ["forward", "backward", "communication"]
    assert looks(svg) == [named[span.kind] for span in SPANS]
    assert 'height="11"' not in Timeline(SPANS[:1]).draw()


def test_kinds_differ_by_lines_and_not_by_colour_alone():
    kinds = ("forward", "backward", "weight", "communication")
    lines = {
        tuple(re.findall(r"<path (.*?)>", re.sub(r"var\([^)]*\)", "", one.draw())))
        for one in (Timeline([Span(0, "a", "", 0, 1, kind)]) for kind in kinds)
    }
    assert len(lines) == len(kinds)


def test_the_axis_of_time_is_labelled_with_its_unit_or_in_steps():
    assert texts(shifted(0).draw())[-1] == "time"
    assert texts(shifted(0, unit="").draw())[-1] == "time (steps)"
    assert "2 ms" in texts(Timeline([Span(0, "a", "x", 0, 4e-3)]).draw())
    steps = [one for one in texts(shifted(0, unit="").draw()) if re.fullmatch(r"[\d.]+", one)]
    assert steps and all(float(one).is_integer() for one in steps)


def test_of_one_rank_the_rows_are_its_lanes():
    assert {"compute", "port"} < {*texts(Timeline(SPANS[:2]).draw())}


@pytest.mark.parametrize(
    ("spans", "unit", "says"),
    [
        (SPANS[:1], "s", "Timeline of 1 rank: 1 span in 4 s, 0% idle"),
        (SPANS[:1], "", "Timeline of 1 rank: 1 span in 4 steps, 0% idle"),
        (SPANS[1:2], "s", "Timeline of 1 rank: 1 span in 1 s"),
        ([s._replace(start=0, stop=0) for s in SPANS], "s", "Timeline of 2 ranks: 4 spans in 0 s"),
    ],
)
def test_a_timeline_says_in_one_line_what_it_is(spans, unit, says):
    assert repr(Timeline(spans, unit=unit)) == says


def test_sabotage_a_length_that_is_the_sum_of_both_ends_is_seen_only_after_a_late_start(
    monkeypatch,
):
    def added(times):
        return max(stop for _, stop in times) + min(start for start, _ in times)

    monkeypatch.setattr("dtlib.timeline._reach", added)
    assert shifted(0).makespan == 12 != shifted(5).makespan
