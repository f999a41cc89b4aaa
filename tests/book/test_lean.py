"""What is left out of a page is not seen: its words, its coloured spans and its boxes stay."""

import re

from book._ext.lean import COLOURED, boxes, coloured, defined, lean

CODE = (
    '<div class="highlight"><pre><span></span><span class="k">def</span> '
    '<span class="nf">f</span><span class="p">():</span> <span class="c1"># 1 &lt; 2</span></pre>'
    '</div><p><span class="n">kept</span></p>'
)
BOX = '<rect x="{x}" y="2" width="3" height="4" rx="2" fill-opacity="{opacity}"/>'
ROW = "".join(
    BOX.format(x=x, opacity=opacity) for x, opacity in ((1, 0.25), (5, 0.55), (9, 0.25), (13, 0.25))
)


def words(page: str) -> str:
    return re.sub(r"<[^>]*>", "", page)


def test_code_keeps_its_words_and_colours_and_loses_the_other_spans():
    found = lean(CODE, coloured(), defined())
    assert words(found) == words(CODE)
    assert re.findall(r'span class="(\w+)"', found) == ["k", "c1", "n"]


def test_names_that_nobody_asks_for_go():
    cell = '<div class="cell docutils container"><span class="math notranslate nohighlight">'
    assert lean(cell, set(), set()) == '<div class="cell"><span class="math notranslate">'
    assert lean("<p>docutils container</p>", set(), set()) == "<p>docutils container</p>"


def test_the_sheet_says_what_has_a_colour():
    assert {"k", "s2", "c1", "mi"} <= coloured() and "p" not in coloured()
    assert COLOURED.findall(".code :is(.p) {}") == []
    assert {"--dt-ink", "--dt-forward"} <= defined() and "--dt-least" not in defined()


def test_boxes_of_a_look_are_one_path_over_the_same_places():
    paths = re.findall(r'fill-opacity="([\d.]+)" d="([^"]*)"', boxes(ROW))
    assert dict(paths) == {
        "0.25": "M1 2h3v4h-3zM9 2h3v4h-3zM13 2h3v4h-3z",
        "0.55": "M5 2h3v4h-3z",
    }


def test_only_rows_of_plain_boxes_are_joined():
    row = f"<g>{ROW}</g>"
    assert "<rect" not in lean(row, set(), set())
    assert lean(row.replace("<rect x", '<rect class="dt-grab" x'), set(), set()).count("<rect") == 4
    assert lean(f"<g>{BOX.format(x=1, opacity=1)}</g>", set(), set()).count("<rect") == 1
