"""What a cell shows: listings, cards, tables, figures."""

import re
import subprocess
import sys
from xml.dom import minidom

import pytest

from dtlib.collectives import ring_all_reduce, ring_all_reduce_time, ring_reduce_scatter
from dtlib.shown import chapter_header, compare, show
from dtlib.style import PALETTE, figure, inline_svg, label_curve, quantity_axis, show_figure


def test_a_listing_is_the_library_s_source_under_its_module():
    listing = show(ring_reduce_scatter)
    assert listing.text.startswith(
        "# dtlib.collectives.builders.algorithms\ndef ring_reduce_scatter(P: int)"
    )
    assert listing.markdown == f"```python\n{listing.text}\n```"


def test_a_listing_keeps_the_first_paragraph_of_a_docstring():
    short, whole = show(ring_reduce_scatter).text, show(ring_reduce_scatter, docstring=True).text
    assert short.count('"""') == 2 and ">>>" not in short
    assert ">>>" in whole
    assert short.splitlines()[-1] == whole.splitlines()[-1]


def talkative():
    """What this function says of itself is one sentence, which is longer than a page of code is.

    This is not shown.
    """


def test_a_long_docstring_is_folded_to_the_width_of_a_page():
    lines = show(talkative).text.splitlines()
    assert lines[2:] == [
        '    """What this function says of itself is one sentence, which is longer than a',
        '    page of code is."""',
    ]


def test_every_listing_is_python():
    for x in (ring_reduce_scatter, type(ring_all_reduce_time), compare, show_figure):
        compile(show(x).text, "<listing>", "exec")
    compile(show(ring_reduce_scatter, compare).text, "<listing>", "exec")


def test_a_formula_shows_its_equation_and_the_code_that_is_the_equation():
    shown = show(ring_all_reduce_time).markdown
    assert ring_all_reduce_time.equation in shown
    code = re.search("```python\n(.*)```", shown, re.DOTALL)[1]
    namespace = {}
    exec(code, namespace)
    values = {"n": 10**6, "P": 8, "alpha": 1e-6, "beta": 1e9}
    assert namespace["ring_all_reduce_time"](**values) == ring_all_reduce_time(**values)


def test_a_schedule_shows_as_a_figure():
    shown = show(ring_all_reduce(3), caption="Two trips.")
    assert "<figcaption>Two trips.</figcaption>" in shown._repr_html_()


@pytest.mark.parametrize("x", [3, object(), len])
def test_what_cannot_be_shown_is_refused(x):
    with pytest.raises(TypeError, match="show"):
        show(x)


def test_three_columns_and_the_ratio():
    shown = compare([("ring", 0.035, 0.035, [0.05, 0.052, 0.06]), ("tree", 0.12, None, None)], "s")
    ring, tree = shown.text.splitlines()[1:]
    assert ring.split() == ["ring", "35", "ms", "35", "ms", "52", "ms", "(50.4–58.4)", "1.49×"]
    assert tree.split() == ["tree", "120", "ms", "–", "–", "–"]
    minidom.parseString(shown.html)


def test_a_row_that_is_no_row_is_refused():
    with pytest.raises(ValueError, match="expected"):
        compare([("ring", 1, 2)], "s")


GRID = [("ring", 0.035, 0.035, [0.05, 0.052, 0.06]), ("a < b", 2, None, 3.0)]


def test_a_comparison_is_the_same_table_in_a_terminal_in_markdown_and_in_html():
    shown = compare(GRID, "s", caption="Two.")
    assert shown.text.splitlines() == [
        "       predicted  simulated           measured  ratio",
        "ring       35 ms      35 ms  52 ms (50.4–58.4)  1.49×",
        "a < b        2 s          –                3 s   1.5×",
    ]
    assert shown.markdown.splitlines() == [
        "|  | predicted | simulated | measured | ratio |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| ring | 35 ms | 35 ms | 52 ms (50.4–58.4) | 1.49× |",
        "| a < b | 2 s | – | 3 s | 1.5× |",
        "",
        "Two.",
    ]
    table = minidom.parseString(shown.html).documentElement
    cells = [cell.firstChild for tag in ("th", "td") for cell in table.getElementsByTagName(tag)]
    texts = [cell.data.strip() for cell in cells if cell]
    assert texts == [
        *("predicted", "simulated", "measured", "ratio", "ring", "a < b"),
        *("35 ms", "35 ms", "52 ms", "1.49×", "2 s", "–", "3 s", "1.5×"),
    ]
    (spread,) = table.getElementsByTagName("span")
    assert (spread.getAttribute("class"), spread.firstChild.data) == ("dt-spread", "(50.4–58.4)")
    assert "<caption>Two.</caption>" in shown.html
    assert "caption" not in compare(GRID, "s").html


@pytest.mark.parametrize(
    ("row", "ratio"),
    [
        ((2, 3, None), "1.5×"),
        ((2, 3, 5), "2.5×"),
        ((None, 3, 5), "–"),
        ((0, 3, 5), "–"),
        ((2, None, None), "–"),
        ((float("nan"), 3, 5), "–"),
        ((2, None, [5]), "2.5×"),
    ],
)
def test_the_ratio_is_of_the_last_column_that_is_there_to_the_prediction(row, ratio):
    assert compare([("x", *row)], "s").text.splitlines()[1].split()[-1] == ratio


def test_a_spread_keeps_its_units_where_they_differ():
    (row,) = compare([("x", None, None, [0.5e-3, 1e-3, 1.5e-3])], "s").text.splitlines()[1:]
    assert row.split() == ["x", "–", "–", "1", "ms", "(600", "µs–1.4", "ms)", "–"]


def test_a_listing_of_several_names_each_module_once():
    shown = show(ring_reduce_scatter, ring_all_reduce, compare).text
    assert [line for line in shown.splitlines() if line.startswith("#")] == [
        "# dtlib.collectives.builders.algorithms",
        "# dtlib.shown",
    ]
    assert shown.index("def ring_reduce_scatter") < shown.index("def ring_all_reduce")
    assert "\n\n\ndef ring_all_reduce" in shown


def test_the_code_of_a_formula_is_its_definition_and_its_return():
    code = re.search("```python\n(.*)\n```", show(ring_all_reduce_time).markdown, re.DOTALL)[1]
    assert code.splitlines() == [
        "def ring_all_reduce_time(n, P, alpha, beta):",
        "    return 2 * (P - 1) * alpha + 2 * (P - 1) / P * n / beta",
    ]
    assert "@formula" not in show(ring_all_reduce_time, compare).text


def test_a_figure_and_what_displays_itself_are_shown():
    shown = show(drawing(), caption="It rises.", alt="A line.")
    assert repr(shown) == "Figure: It rises." and 'aria-label="A line."' in shown.svg
    table = compare(GRID, "s")
    assert show(table) is table
    with pytest.raises(TypeError, match="name at least one object"):
        show()


def test_an_output_offers_only_the_kinds_that_it_has():
    kinds = compare(GRID, "s")._repr_mimebundle_()
    assert list(kinds) == ["text/plain", "text/markdown", "text/html"]
    assert list(show(compare)._repr_mimebundle_()) == ["text/plain", "text/markdown"]


def test_the_header_says_what_the_plan_says():
    text = chapter_header("12").text
    assert "You need: Chapter 4" in text and "90 minutes" in text and "Python" in text
    with pytest.raises(KeyError, match="no chapter '99'"):
        chapter_header("99")


def drawing():
    fig, ax = figure()
    ax.loglog([1e3, 1e9], [1e-6, 1e-2])
    ax.fill_between([1e3, 1e9], 1e-6, 1e-3, hatch="//")
    label_curve(ax, 1e9, 1e-2, "ring", PALETTE["forward"])
    quantity_axis(ax.xaxis, "B", "message size (bytes)")
    quantity_axis(ax.yaxis, "s", "time (seconds)")
    return fig


def test_a_figure_is_the_same_bytes_every_time():
    assert inline_svg(drawing(), "A line.") == inline_svg(drawing(), "A line.")


def test_a_figure_follows_the_page():
    svg = inline_svg(drawing(), "One < two.")
    minidom.parseString(svg)
    assert 'aria-label="One &lt; two."' in svg and ">1 MB</text>" in svg
    colors = set(re.findall("#[0-9a-fA-F]{6}", re.sub(r'(var|url)\([^)]*\)|href="#', "", svg)))
    assert colors == set(), "a fixed colour would not follow dark mode"
    assert "<style" not in svg, "a style element would reach the whole page"


def test_two_figures_share_no_id():
    other = drawing()
    other.axes[0].set_title("Another")
    ids = [set(re.findall(' id="(.*?)"', inline_svg(f, "x"))) for f in (drawing(), other)]
    assert ids[0] and not ids[0] & ids[1]
    used = re.findall(r"url\(#(.*?)\)", inline_svg(drawing(), "x"))
    assert set(used) <= ids[0]


def test_a_figure_without_words_is_refused():
    with pytest.raises(ValueError, match="alt"):
        show_figure(drawing(), "A caption.", alt=" ")


def test_show_is_cheap_to_import():
    heavy = "import sys, dtlib.shown, dtlib.recordings, dtlib.style; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", heavy], capture_output=True, text=True, check=True
    )
    assert not {"matplotlib", "sympy", "torch", "anywidget"} & set(loaded.stdout.split())
