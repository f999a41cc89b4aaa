"""A figure arranged for a phone says the same in letters as large, and nothing leaves it."""

import re
from itertools import pairwise

import pytest

from dtlib.style import figure, inline_svg, label_curve, show_figure
from dtlib.style.phone import WIDTH, for_phone

LEAST = 11  # px
LONG = "a name that is as long as the figure"


def crowded():
    """Two panels side by side with long names, many ticks and a legend: all that is in the way."""
    fig, axes = figure(height=2.6, columns=2, sharey=True)
    for ax in axes:
        ax.semilogx([1, 1e6], [0, 100], label="a plain line with a rather long name")
        ax.semilogx([1, 1e6], [100, 0], label="its mirror image")
        ax.set_title("one of the panels")
        ax.set_xticks([10**power for power in range(7)])
    axes[0].set_ylabel("share")
    axes[0].legend(loc="center left", ncols=2)
    label_curve(
        axes[1], 1e6, 100, "a name that is as long as the figure", axes[1].lines[0].get_color()
    )
    return fig


def boxes(svg: str) -> list[tuple[float, float, float]]:
    """Left end, right end and letters' height of every text that is not turned, in px of a page."""
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    scale = 96 * float(re.search(r"width: ([\d.]+)in", svg)[1]) / width
    found = []
    for at in re.findall(r"<text ([^>]*)>", svg):
        long = float(re.search(r'textLength="([\d.]+)"', at)[1]) if "textLength" in at else 6
        size = float(re.search(r"font-size: ([\d.]+)px", at)[1])
        anchor = {"middle": 0.5, "end": 1}.get(
            *re.findall(r"text-anchor: (\w+)", at) or ["start"], 0
        )
        left = float(re.search(r' x="([-\d.]+)"', at)[1]) - anchor * long
        if "rotate" not in at:
            found.append((left * scale, (left + long) * scale, size * scale))
    return found


def faults(svg: str, width: float) -> list[str]:
    """Texts that are too small, or outside of the figure."""
    seen = boxes(svg)
    return ["small"] * any(size < LEAST - 0.01 for *_, size in seen) + ["outside"] * any(
        left < -1 or right > width + 1 for left, right, _ in seen
    )


def test_on_a_phone_no_text_is_small_and_none_is_outside():
    svg = inline_svg(for_phone(crowded()), "Two lines.")
    assert faults(svg, 96 * WIDTH) == []
    assert float(re.search(r"width: ([\d.]+)in", svg)[1]) == pytest.approx(WIDTH, rel=1e-3)


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
def test_a_figure_that_is_only_made_narrow_has_both_faults():
    fig = crowded()
    small = inline_svg(fig, "Two lines.").replace("width: 7.2in", f"width: {WIDTH:.4g}in")
    assert "small" in faults(small, 96 * WIDTH)
    fig.set_figwidth(WIDTH)
    assert "outside" in faults(inline_svg(fig, "Two lines."), 96 * WIDTH)


def test_panels_stand_one_below_the_other_and_keep_their_axes():
    fig = for_phone(crowded())
    first, second = (ax.get_window_extent() for ax in fig.axes)
    assert first.y0 > second.y1 and first.x0 == pytest.approx(second.x0)
    assert [ax.get_ylabel() for ax in fig.axes] == ["share", "share"]


def test_a_name_that_does_not_fit_becomes_a_key_with_the_curve_s_colour():
    fig = for_phone(crowded())
    legend = fig.axes[1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        "a name that is as long as the figure"
    ]
    assert legend.get_lines()[0].get_color() == fig.axes[1].lines[0].get_color()
    fig, ax = figure()
    ax.plot([1, 2], [3, 4])
    label_curve(ax, 2, 4, "short", ax.lines[0].get_color())
    assert for_phone(fig).axes[0].get_legend() is None


def test_ticks_are_thinned_until_none_touch():
    ax = for_phone(crowded()).axes[1]
    spans = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert len(spans) >= 2 and all(a.x1 < b.x0 for a, b in pairwise(spans))


def test_names_of_rows_are_kept_and_wrapped():
    fig, ax = figure(height=2.2)
    rows = [f"hierarchical sum, lane {row}" for row in range(4)]
    ax.barh(range(4), [1, 2, 3, 4])
    ax.set_yticks(range(4), rows)
    labels = [label.get_text() for label in for_phone(fig).axes[0].get_yticklabels()]
    assert [label.replace("\n", " ") for label in labels] == rows
    assert all("\n" in label for label in labels)


def test_squares_stay_side_by_side():
    fig, axes = figure(columns=3)
    for ax in axes:
        ax.set_aspect("equal")
    frames = [ax.get_window_extent() for ax in for_phone(fig).axes]
    assert len({round(frame.y0) for frame in frames}) == 1


def test_a_figure_is_shown_twice_and_a_page_without_a_sheet_shows_the_first():
    page, phone = re.findall("<svg[^>]*>", show_figure(crowded(), alt="Two lines.").svg)
    assert "dt-at-page" in page and "display: none" not in page
    assert "dt-at-phone" in phone and "display: none" in phone


def test_powers_of_ten_are_letters():
    fig, ax = figure()
    ax.loglog([1e-3, 1e3], [1, 1e6])
    svg = inline_svg(fig, "A line.")
    assert ">10⁻³<" in svg and ">10⁶<" in svg and "<tspan" not in svg
