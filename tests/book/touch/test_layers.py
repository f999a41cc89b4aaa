"""What is open on a page is to be read: the code that made a figure, a task's solution, a caption
and an alternative text lie in folds, on every page as it was built."""

import pytest
from open_code import OpenCode, layer_faults

from book._tools.layout import ROOT
from dtlib import explore

SITE = ROOT / "_build/html"
PAGES = sorted(
    page for room in ("book", "chapters", "labs") for page in (SITE / room).rglob("*.html")
)
CONSTRUCTORS = set(explore.__all__) - {"Control", "Task", "between"}
CELL = '<div class="cell{tag}"><div class="cell_input"><pre>{code}</pre></div></div>'
FOLD = '<details class="fold how"{open}><summary>code</summary>{cell}</details>'


def cell(code: str, tag: str = "") -> str:
    return CELL.format(code=code, tag=tag)


@pytest.mark.site
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_open_code_of_a_page_tells_what_the_reader_is_to_find(page):
    assert not layer_faults(page.read_text(encoding="utf-8"), CONSTRUCTORS)


@pytest.mark.site
def test_the_chapters_have_code_that_stands_open():
    chapters = [page for page in PAGES if "chapters" in page.parts]
    assert chapters and all(OpenCode(page.read_text("utf-8")).cells for page in chapters)


@pytest.mark.parametrize(
    "code",
    [
        'Task("...", "P > 4",\n  solution={"P": 8})',
        '<span class="n">show</span><span class="p">(</span>x, <span>caption</span>="So it is")',
        'chart(alt="two bars")',
        'task(found="Yes.")',
        "Explorer({})",
        'bet("12.1")',
        "fig, ax = plt.subplots()",
        'ax.set_xlabel("bytes")',
    ],
)
def test_such_code_is_seen_where_it_is_open_and_nowhere_else(code):
    found = layer_faults(cell(code), CONSTRUCTORS)
    assert len(found) == 1
    assert layer_faults(FOLD.format(cell=cell(code), open=" open"), CONSTRUCTORS) == found
    assert not layer_faults(FOLD.format(cell=cell(code), open=""), CONSTRUCTORS)
    assert not layer_faults(f"<p>{code}</p><br>", CONSTRUCTORS)


@pytest.mark.parametrize("code", ["found == 3", "resolution=4", "fixed.alpha", "alphabet(2)"])
def test_code_that_teaches_may_stand_open(code):
    assert OpenCode(cell(code)).cells == [(code, False)]
    assert not layer_faults(cell(code), CONSTRUCTORS)


def test_a_widget_that_is_refused_is_to_be_read_but_its_solution_is_not():
    refused = " tag_raises-exception"
    assert not layer_faults(cell("Headroom({})", refused), CONSTRUCTORS)
    assert layer_faults(cell("Headroom(task=Task(solution={}))", refused), CONSTRUCTORS)
