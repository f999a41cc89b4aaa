"""What a timeline shows: where its bars are, what they are called, and when they were."""

import json

import pytest

from dtlib.timeline import Span, Timeline

SPANS = [
    Span(0, "compute", "F0", 0, 4, "forward"),
    Span(0, "port", "all-reduce of everything", 3, 4, "communication"),
    Span(1, "compute", "F0", 4, 8, "forward"),
    Span(1, "compute", "B0", 9, 12, "backward"),
]


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
    (axes,) = timeline.draw().axes
    assert [bar.get_x() for bar in axes.patches] == [0, 3, 4, 9]


def test_a_bar_lies_in_the_row_of_its_rank_and_lane_from_its_start_to_its_stop():
    (axes,) = shifted(5).draw().axes
    rows = [round(bar.get_y() + bar.get_height() / 2, 9) for bar in axes.patches]
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0, 4), (3, 1), (4, 4), (9, 3)] and rows == [0, 1, 2, 2]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "rank 0, compute",
        "rank 0, port",
        "rank 1, compute",
    ]
    assert axes.get_xlim() == (0, 12) and axes.get_ylim() == (2.5, -0.5)


def test_a_name_stands_in_the_middle_of_its_bar_where_there_is_room_for_it():
    (axes,) = shifted(5).draw().axes
    named = [(text.get_text(), *text.get_position()) for text in axes.texts]
    assert named == [("F0", 2, 0), ("F0", 6, 2), ("B0", 10.5, 2)]


def test_bars_of_kinds_look_as_the_legend_says_and_one_kind_needs_none():
    (axes,) = shifted(0).draw().axes
    legend = axes.get_legend()
    named = {t.get_text(): p for t, p in zip(legend.get_texts(), legend.get_patches(), strict=True)}
    assert list(named) == ["forward", "backward", "communication"]
    for span, bar in zip(SPANS, axes.patches, strict=True):
        shown = named[span.kind]
        assert bar.get_facecolor() == shown.get_facecolor()
        assert (bar.get_hatch() or "") == (shown.get_hatch() or "")
    (axes,) = Timeline(SPANS[:1]).draw().axes
    assert axes.get_legend() is None


def test_the_axis_of_time_is_labelled_with_its_unit_or_in_steps():
    (seconds,), (steps,) = shifted(0).draw().axes, shifted(0, unit="").draw().axes
    assert (seconds.get_xlabel(), steps.get_xlabel()) == ("time", "time (steps)")
    (short,) = Timeline([Span(0, "a", "x", 0, 4e-3)]).draw().axes
    formatted = short.xaxis.get_major_formatter()
    assert formatted(2e-3, 0) == "2 ms"
    assert steps.xaxis.get_major_formatter()(2, 0) == "2"
    assert [t for t in steps.get_xticks() if t != int(t)] == []


def test_of_one_rank_the_rows_are_its_lanes():
    (axes,) = Timeline(SPANS[:2]).draw().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["compute", "port"]


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
    def added(spans):
        return max(s.stop for s in spans) + min(s.start for s in spans)

    monkeypatch.setattr("dtlib.timeline._reach", added)
    assert shifted(0).makespan == 12 != shifted(5).makespan
