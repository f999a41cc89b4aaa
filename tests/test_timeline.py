"""What a timeline measures is what its spans say, and what it exports is a valid trace."""

import json
import re
from fractions import Fraction

import pytest

from dtlib.timeline import Recorder, Span, Timeline


def gpipe(p, m):
    """Forward and backward of m micro-batches through p stages, each taking one step."""
    forward = [
        Span(s, "compute", f"F{i}", s + i, s + i + 1, "forward") for s in range(p) for i in range(m)
    ]
    end = 2 * (p + m - 1)
    backward = [
        Span(f.rank, "compute", f"B{f.name[1:]}", end - f.stop, end - f.start, "backward")
        for f in forward
    ]
    return Timeline(forward + backward, unit="")


@pytest.mark.parametrize("p", [1, 2, 4, 8])
@pytest.mark.parametrize("m", [1, 3, 8])
def test_the_bubble_of_a_pipeline_with_flush_is_that_of_the_formula(p, m):
    timeline = gpipe(p, m)
    assert timeline.makespan == 2 * (p + m - 1)
    assert timeline.bubble_fraction == pytest.approx((p - 1) / (p + m - 1), abs=1e-15)
    assert timeline.stage_bubble == 2 * (p - 1)
    assert all(timeline.busy(rank) == 2 * m for rank in timeline.ranks)


def test_time_that_two_lanes_share_counts_once():
    timeline = Timeline(
        [
            Span(0, "compute", "B", 0, 4, "backward"),
            Span(0, "port", "send", 3, 6, "communication"),
            Span(0, "port", "send", 5, 7, "communication"),
            Span(0, "compute", "B", 9, 10, "backward"),
        ]
    )
    assert timeline.busy(0) == 8
    assert timeline.busy(0, "communication") == 4
    assert timeline.work(0) == 5
    assert timeline.exposed_communication(0) == 3
    assert timeline.bubble_fraction == 0.5


def test_measures_stay_exact_with_fractions():
    third = Fraction(1, 3)
    spans = [Span(0, "a", "x", i * third, (i + 1) * third, "forward") for i in (0, 2)]
    timeline = Timeline(spans)
    assert timeline.makespan == 1 and timeline.busy(0) == 2 * third


def test_a_timeline_of_nothing_has_no_length_and_no_bubble():
    empty = Timeline([])
    assert empty.makespan == empty.bubble_fraction == empty.stage_bubble == 0
    assert repr(empty) == "Timeline of 0 ranks: 0 spans in 0 s"
    assert "<rect" not in empty.draw()


def test_a_rank_without_a_span_is_idle_all_along():
    """Rank 0, and 2 and 3 in the middle, have nothing to do; 1 and 4 work half of the time."""
    spans = [Span(1, "compute", "F0", 0, 2, "forward"), Span(4, "compute", "F0", 2, 4, "forward")]
    timeline = Timeline(spans, unit="", ranks=range(5))
    assert timeline.ranks == [0, 1, 2, 3, 4] and timeline.makespan == 4
    assert timeline.bubble_fraction == 1 - 4 / 20 and timeline.stage_bubble == 0
    assert [timeline.busy(r) for r in timeline.ranks] == [0, 2, 0, 0, 2]
    assert repr(timeline) == "Timeline of 5 ranks: 2 spans in 4 steps, 80% idle"
    svg = timeline.draw()
    assert re.findall(r">(rank \d)<", svg) == [f"rank {r}" for r in range(5)]
    first, second = (float(y) for y in re.findall(r'<rect x="[^"]*" y="([^"]*)"', svg))
    assert (second - first) / 28 == 3


def test_sabotage_without_being_told_nobody_sees_an_idle_rank():
    span = Span(1, "compute", "F0", 0, 2, "forward")
    assert Timeline([span]).bubble_fraction == 0 and Timeline([span]).ranks == [1]
    assert Timeline([span], ranks=[0]).bubble_fraction == 0.5


def test_the_trace_names_ranks_that_have_no_span(tmp_path):
    timeline = Timeline([Span(0, "a", "F0", 0, 1, "forward")], ranks=range(2))
    events = json.loads(timeline.to_chrome_trace(tmp_path / "t.json").read_text())["traceEvents"]
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == [
        "rank 0",
        "rank 1",
    ]
    assert ">rank 1<" in Timeline([], ranks=range(2)).draw()


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (Span(1, "a", "F0", 2, 1, "forward"), "span 'F0' of rank 1 stops before it starts"),
        (Span(1, "a", "F0", 0, 1, "foward"), "kind must be one of 'forward', .*; got 'foward'"),
    ],
)
def test_a_span_that_cannot_be_is_refused(span, message):
    with pytest.raises(ValueError, match=message):
        Timeline([span])


def test_the_chrome_trace_is_what_perfetto_reads(tmp_path):
    timeline = Timeline(
        [
            Span(0, "compute", "F0", 10.0, 10.5, "forward"),
            Span(1, "port", "0→1", 10.25, 10.5, "communication"),
        ]
    )
    trace = json.loads(timeline.to_chrome_trace(tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names == {
        ("process_name", 0, 0): "rank 0",
        ("process_name", 1, 0): "rank 1",
        ("thread_name", 0, 0): "compute",
        ("thread_name", 1, 1): "port",
    }
    complete = [e for e in events if e["ph"] == "X"]
    assert [(e["pid"], e["tid"], e["ts"], e["dur"]) for e in complete] == [
        (0, 0, 0.0, 500_000.0),
        (1, 1, 250_000.0, 250_000.0),
    ]
    assert [(e["name"], e["cat"]) for e in complete] == [
        ("F0", "forward"),
        ("0→1", "communication"),
    ]
    assert len(events) == len(names) + len(complete)


def test_rows_use_the_names_that_a_timeline_gives_to_ranks():
    spans = [Span(rank, lane, "F", 0, 1, "forward") for rank in (0, 1) for lane in ("a", "b")]
    for names, wanted in (({}, ["rank 0, a", "rank 0, b"]), ({0: "ours"}, ["ours, a", "ours, b"])):
        drawing = Timeline(spans, names=names).draw()
        assert [row for row in wanted if f">{row}<" in drawing] == wanted
        assert ">rank 1, a<" in drawing and ("rank 0" in drawing) == (not names)


def test_a_legend_uses_the_names_that_a_timeline_gives_to_kinds():
    spans = [Span(0, "a", "1", 0, 1, "forward"), Span(0, "b", "2", 0, 1, "communication")]
    for names, wanted in (
        (None, ["forward", "communication"]),
        ({"forward": "step"}, ["step", "communication"]),
    ):
        assert re.findall(r">([a-z]+)<", Timeline(spans, names=names).draw())[:2] == wanted


def test_a_drawing_has_one_bar_a_span_and_one_row_a_lane_from_top_to_bottom():
    timeline = gpipe(p=3, m=2)
    svg = timeline.draw()
    assert svg.count('height="22"') == len(timeline.spans)
    assert re.findall(r">(rank \d)<", svg) == ["rank 0", "rank 1", "rank 2"]
    assert ">F0<" in svg


def test_a_recorder_keeps_a_span_even_when_its_block_raises():
    recorder = Recorder(rank=3)
    with pytest.raises(KeyError), recorder.span("F0", "forward"):
        raise KeyError
    (span,) = recorder.spans
    assert (span.rank, span.lane, span.name, span.kind) == (3, "compute", "F0", "forward")
    assert span.stop >= span.start
