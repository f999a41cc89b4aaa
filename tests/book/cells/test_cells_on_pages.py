"""What the built pages say of their cells."""

import json
import re

import pytest

from book._tools.layout import ROOT, notebook_sources
from book.cells.data import IMPORTS
from book.cells.record import recorded

pytestmark = pytest.mark.site

DATA = re.compile(r'<script type="application/json" id="dt-cells">(.*?)</script>')
HEAVY = 8_000  # bytes of a page's data, before the server packs them to a fourth


@pytest.mark.parametrize("source", notebook_sources(), ids=lambda source: source.stem)
def test_every_cell_that_runs_is_an_element_of_its_page(source):
    built = ROOT / "_build/html" / source.relative_to(ROOT).with_suffix(".html")
    page = built.read_text(encoding="utf-8")
    (data,) = DATA.findall(page)
    entries = json.loads(data)
    runs = {one for one, said in recorded()[source.stem]["cells"].items() if said == "runs"}
    assert {one for one, entry in entries.items() if entry["runs"]} == runs | {IMPORTS}
    cells = re.findall(r'<div data-cell="(\w+)"', page)
    assert len(cells) == len(set(cells)) and "dt-cell-" not in page
    assert {one for one in runs if not one.startswith("ex-")} <= set(cells)
    assert len(data) < HEAVY
