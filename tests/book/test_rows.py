"""The filter of Symptoms and Folklore: words, pasted messages, groups, keys, a link to a row."""

import pytest
from page_inspection import start_browser

from book._tools.layout import ROOT

STATIC = ROOT / "book/_static"
ROWS = {
    "It hangs": {
        "watchdog": "<code>Watchdog caught collective operation timeout: WorkNCCL(SeqNum=…)</code>",
        "barrier": "<code>Rank 1 failed to pass monitoredBarrier in … ms</code>",
    },
    "It is slow": {"bubble": "Pipeline stages idle", "loader": "The GPU waits for data"},
}
PASTED = (
    "[rank5]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] [Rank 5] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE) ran for 600060 milliseconds"
)


def table(title, rows):
    cells = "".join(
        f'<tr><td><p>{sees} <a class="dt-anchor" id="{name}" href="#{name}">#</a></p></td>'
        f"<td><p>a suspect</p></td><td><p>a number</p></td><td><p>chapter</p></td></tr>"
        for name, sees in rows.items()
    )
    head = "<tr><th>see</th><th>suspects</th><th>decides</th><th>why</th></tr>"
    body = f'<table class="dt-cards"><thead>{head}</thead><tbody>{cells}</tbody></table>'
    return f'<section><h2>{title}<a class="headerlink">#</a></h2>{body}</section>'


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture(params=["table", "terms"])
def page(request, browser, tmp_path):
    """A page of two groups with two rows each, as a table and as a list of terms."""
    if request.param == "table":
        groups, rows = "".join(table(*group) for group in ROWS.items()), "tbody tr"
    else:
        groups, rows = "", "dt"
        for title, found in ROWS.items():
            terms = "".join(
                f'<dt>{sees}<a id="{name}" href="#{name}">#</a></dt><dd>an answer</dd>'
                for name, sees in found.items()
            )
            groups += f"<section><h2>{title}</h2><dl>{terms}</dl></section>"
    host = f'<div class="dt-filter" data-rows="{rows}" data-noun="rows" data-groups="groups" '
    file = tmp_path / "rows.html"
    file.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{(STATIC / "rows.css").read_text()}</style>'
        f'<article>{host} data-label="Words"></div>{groups}</article>'
        f"<script>{(STATIC / 'rows.js').read_text()}</script>"
    )
    opened = browser.new_page()
    opened.goto(file.as_uri())
    yield opened
    opened.close()


def seen(page):
    """The names of the rows that are there to see."""
    names = [name for rows in ROWS.values() for name in rows]
    return [name for name in names if page.locator(f"#{name}").is_visible()]


def status(page):
    return page.get_by_role("status").inner_text()


def test_at_first_every_row_is_there(page):
    assert len(seen(page)) == 4
    assert status(page) == "4 rows"


def test_every_word_that_is_typed_must_be_in_the_row(page):
    page.get_by_label("Words").fill("rank barrier")
    assert seen(page) == ["barrier"] and status(page) == "1 of 4 rows"
    page.get_by_label("Words").fill("rank pipeline")
    assert seen(page) == [] and status(page) == "0 of 4 rows"


def test_a_pasted_message_finds_its_row_whatever_its_numbers(page):
    page.get_by_label("Words").fill(PASTED)
    assert seen(page) == ["watchdog"]


def test_another_message_of_the_same_length_finds_nothing(page):
    page.get_by_label("Words").fill(PASTED.replace("Watchdog caught collective operation", "No"))
    assert seen(page) == []


def test_a_group_can_be_chosen_and_a_group_without_rows_is_gone(page):
    page.get_by_label("Show").select_option(label="It is slow")
    assert seen(page) == ["bubble", "loader"]
    assert not page.get_by_role("heading", name="It hangs").is_visible()


def test_escape_brings_all_rows_back_from_the_keyboard(page):
    page.keyboard.press("Tab")
    page.keyboard.type("bubble")
    page.get_by_label("Words").fill("pipeline")
    assert seen(page) == ["bubble"]
    page.get_by_label("Words").press("Escape")
    assert len(seen(page)) == 4


def test_the_count_is_told_to_who_cannot_see_it(page):
    told = page.get_by_role("status")
    assert told.get_attribute("aria-live") == "polite"


def test_a_link_to_a_hidden_row_shows_it(page):
    page.get_by_label("Words").fill("pipeline")
    page.evaluate("location.hash = '#watchdog'")
    page.wait_for_function("!document.getElementById('watchdog').closest('[hidden]')")
    assert "watchdog" in seen(page)


def test_a_table_of_cards_stays_a_table_for_who_hears_it(page):
    if page.locator("table").count():
        assert page.get_by_role("row").count() == 6
        assert page.get_by_role("columnheader").count() == 8


FACTS = {
    "thirteen": ("1 · Foundations|1 Walls", "compute", "★", "3", "in the page"),
    "wall": ("1 · Foundations|1 Walls", "derive", "★★", "10", "by code|by hand"),
    "ring": ("3 · Collectives|12 Rings", "repair", "★", "8", "by code"),
}


@pytest.fixture
def index(browser, tmp_path):
    """An index of three exercises; call it with what the address asks for and what was solved."""
    names = ("where", "kind", "stars", "minutes", "judged")
    rows = ""
    for slug, facts in FACTS.items():
        data = "".join(f' data-{k}="{v}"' for k, v in zip(names, facts, strict=True))
        span = f'<span class="dt-facts" data-slug="{slug}"{data}></span>'
        rows += f'<tr><td><p id="{slug}">{slug} {span}</p></td></tr>'
    host = (
        '<div class="dt-filter" data-rows="tbody tr" data-noun="exercises" data-label="Words" '
        'data-facets="where kind stars judged" data-most="minutes" data-sort="minutes stars" '
        'data-kept="dtlib-answer:"></div>'
    )
    file = tmp_path / "index.html"
    table = f'<table class="dt-index"><tbody>{rows}</tbody></table>'
    scripts = (STATIC / "reader/kept.js").read_text() + (STATIC / "rows.js").read_text()
    script = f"<script>{scripts}</script>"
    file.write_text(
        f'<!doctype html><meta charset="utf-8"><article>{host}{table}</article>{script}'
    )
    pages = []

    def open_at(asked="", solved="null"):
        page = browser.new_page()
        page.add_init_script(f"localStorage.setItem('dtlib-answer:ring', '{solved}')")
        page.goto(file.as_uri() + asked)
        pages.append(page)
        return page

    yield open_at
    for page in pages:
        page.close()


def listed(page):
    rows = page.locator("tbody tr:not([hidden]) p")
    return [row.strip().split()[0] for row in rows.all_inner_texts()]


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("Part or chapter", "1 · Foundations", ["thirteen", "wall"]),
        ("Part or chapter", "12 Rings", ["ring"]),
        ("Kind", "derive", ["wall"]),
        ("Stars", "★", ["thirteen", "ring"]),
        ("Judged", "by code", ["wall", "ring"]),
        ("Judged", "by hand", ["wall"]),
        ("Minutes", "8", ["thirteen", "ring"]),
        ("Order", "minutes", ["thirteen", "ring", "wall"]),
        ("Order", "stars", ["thirteen", "ring", "wall"]),
    ],
)
def test_an_index_is_filtered_and_sorted_by_what_its_rows_say(index, field, value, found):
    page = index()
    choice = page.locator(f"label:has(span:text-is('{field}')) select")
    choice.select_option(value)
    assert listed(page) == found
    choice.select_option("")
    assert listed(page) == list(FACTS)


def test_an_address_may_ask_for_a_choice(index):
    assert listed(index("?where=3 · Collectives")) == ["ring"]


@pytest.mark.parametrize("kept", ['{"passed": true}', '{"passed": false}', "{", "null"])
def test_what_was_solved_in_this_browser_is_marked_and_found(index, kept):
    page = index(solved=kept)
    solved = ["ring"] if kept == '{"passed": true}' else []
    page.get_by_label("Solved").select_option("not yet")
    assert listed(page) == [slug for slug in FACTS if slug not in solved]
    assert page.get_by_text("✓ solved").count() == len(solved)


def test_without_the_script_every_row_is_there_and_nothing_promises_a_filter(browser, tmp_path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    file = tmp_path / "plain.html"
    groups = "".join(table(*group) for group in ROWS.items())
    host = '<div class="dt-filter" data-rows="tbody tr"></div>'
    file.write_text(f'<meta charset="utf-8"><article>{host}{groups}</article>')
    page.goto(file.as_uri())
    assert len(seen(page)) == 4
    assert page.locator("input, select").count() == 0
    context.close()
