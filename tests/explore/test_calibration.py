"""The reader's own page: empty, half full and full; its one file; what it knows of the book."""

import importlib
import json
import re

import pytest

from book._tools.layout import ROOT
from book.bets import cells_of

STATIC = ROOT / "book/_static"
BETS = [("9.1", "How long?", "ms", 40.0, "40 ms"), ("9.2", "Which share?", "%", 27.0, "27 %")]
COURSE = [
    {
        "number": "9",
        "part": "2 · Toys",
        "title": "A toy",
        "address": "nine.html",
        "bets": [
            dict(zip(("key", "question", "unit", "answer", "says"), bet, strict=True))
            for bet in BETS
        ],
        "exercises": ["ex-one", "ex-two"],
        "questions": ["ask-one"],
    },
    {"number": "10", "part": "2 · Toys", "title": "Another", "address": "ten.html", "bets": [],
     "exercises": [], "questions": []},
]  # fmt: skip
MADE = {
    "dtlib-bet:9.1": {"value": 400, "unit": "ms", "sure": 2},
    "dtlib-bet:9.2": {"skipped": True, "unit": "%"},
    "dtlib-read": ["9"],
    "dtlib-answer:ex-one": {"texts": ["1"], "passed": True},
    "dtlib-answer:ex-two": {"texts": ["2"], "passed": False},
    "dtlib-answer:ask-one": {"texts": ["3"], "passed": True},
}


def read(*names: str) -> str:
    return "".join((STATIC / name).read_text(encoding="utf-8") for name in names)


def page(course, theme="light") -> str:
    hosts = "".join(
        f'<h2>{name}</h2><div data-yours="{name}"></div>'
        for name in ("near", "progress", "file", "bets")
    )
    sheet = read("colours.css", "tables.css", "reader/bets.css", "reader/calibration.css")
    data = f'<script type="application/json" id="dt-course">{json.dumps(course)}</script>'
    names = ("reader/kept.js", "reader/bets.js", "reader/calibration.js")
    scripts = "".join(f"<script>{read(name)}</script>" for name in names)
    return f"""<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8">
<title>Yours</title><meta name="viewport" content="width=device-width">
<style>html {{ background: var(--dt-paper); color: var(--dt-ink) }} {sheet}</style>
<main><h1>Your bets</h1>{hosts}</main>{data}{scripts}</html>"""


@pytest.fixture
def opened(browser, tmp_path):
    contexts = []

    def opens(kept=None, course=COURSE, theme="light", **options):
        file = tmp_path / "page.html"
        file.write_text(page(course, theme), encoding="utf-8")
        contexts.append(browser.new_context(**options))
        tab = contexts[-1].new_page()
        for name, data in (kept or {}).items():
            line = f"localStorage.setItem({json.dumps(name)}, {json.dumps(json.dumps(data))})"
            tab.add_init_script(f"if (!sessionStorage.seen) {line}")
        tab.add_init_script("sessionStorage.seen = 1")
        tab.goto(file.as_uri())
        return tab

    yield opens
    for context in contexts:
        context.close()


def said(tab, name: str) -> str:
    return re.sub(r"\s+", " ", tab.locator(f'[data-yours="{name}"]').inner_text())


def test_an_empty_page_says_what_will_be_here_and_gives_no_answer_away(opened):
    tab = opened()
    assert "You have not made any of the 2 bets of the book yet." in said(tab, "near")
    assert tab.locator("svg").count() == 0
    assert said(tab, "bets").count("not made yet") == 2 and "40 ms" not in said(tab, "bets")
    assert said(tab, "progress").startswith("0 of 2 chapters read to the end, 0 exercises")


def test_what_was_bet_read_and_answered_is_counted(opened):
    tab = opened(MADE)
    assert "You have made 1 of 2 bets and skipped 1. 0 of 1 were within" in said(tab, "near")
    assert "You said 'within a factor of 2' 1 time: 0 held." in said(tab, "near")
    assert "you: 400 ms, within a factor of 2 it is 40 ms: a factor 10 too much" in said(
        tab, "bets"
    )
    assert "skipped; it is 27 %" in said(tab, "bets")
    words = said(tab, "progress")
    assert words.startswith("1 of 2 chapters read to the end, 1 exercise answered")
    assert "Next: 10 · Another." in words and "2 of 2 1 of 1 1 of 2" in words
    assert tab.locator("svg .bet.is-broken").count() == 1
    assert tab.locator("svg").get_attribute("aria-label").endswith("9.1: 10 times")


def test_sabotage_another_truth_makes_another_bet_of_it(opened):
    course = json.loads(json.dumps(COURSE))
    course[0]["bets"][0] |= {"answer": 200.0, "says": "200 ms"}
    tab = opened(MADE, course)
    assert "a factor 2 too much" in said(tab, "bets") and "1 held" in said(tab, "near")
    assert tab.locator("svg .bet.is-broken").count() == 0


def test_one_file_holds_it_all_and_brings_it_back(opened, tmp_path):
    tab = opened(MADE)
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save to a file").click()
    file = tmp_path / "saved.json"
    download.value.save_as(file)
    stored = json.loads(file.read_text())
    assert stored["kept"] == MADE and stored["version"] == 1
    erase = tab.get_by_role("button", name="Erase everything")
    erase.click()
    assert "made 1 of 2" in said(tab, "near")  # asked, not yet erased
    tab.get_by_role("button", name="Really erase 6 entries").click()
    assert "not made any" in said(tab, "near") and tab.evaluate("localStorage.length") == 0
    tab.get_by_label("Open a file").set_input_files(file)
    tab.get_by_text("Added 6 entries of saved.json.").wait_for()
    assert "made 1 of 2" in said(tab, "near")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no file", "this is no file that the book has saved"),
        ('{"kept": {}}', "this is no file that the book has saved"),
        ('{"format": "dtlib-kept", "version": 99, "kept": {}}', "the file is of version 99"),
    ],
)
def test_another_file_is_refused_with_the_reason_and_changes_nothing(opened, tmp_path, text, says):
    tab = opened(MADE)
    file = tmp_path / "other.json"
    file.write_text(text)
    tab.get_by_label("Open a file").set_input_files(file)
    tab.get_by_text(says).wait_for()
    assert "made 1 of 2" in said(tab, "near")


def test_a_file_adds_to_what_was_read_and_touches_no_foreign_name(opened, tmp_path):
    tab = opened({"dtlib-read": ["9"]})
    kept = {"dtlib-read": ["10"], "mode": "dark"}
    file = tmp_path / "more.json"
    file.write_text(json.dumps({"format": "dtlib-kept", "version": 1, "kept": kept}))
    tab.get_by_label("Open a file").set_input_files(file)
    tab.get_by_text("Added 1 entry").wait_for()
    assert said(tab, "progress").startswith("2 of 2 chapters")
    assert tab.evaluate("localStorage.mode") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1000])
def test_nothing_shuts_a_reader_out(opened, theme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = opened(MADE, theme=theme, viewport={"width": width, "height": 800})
    found = axe.run(tab).response["violations"]
    assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


# What the page knows of the book.


def test_a_bet_is_known_with_its_truth_from_the_widgets_of_its_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book/_ext")
    known = importlib.import_module("calibration")
    spec = {"key": "9.1", "title": "How long?", "unit": "ms"}
    truth = spec | {"kind": "dt-kind-answer", "answer": 40.0, "answer_text": "40 ms"}
    states = {"a/bet.json": spec | {"kind": "dt-kind-bet"}, "a/answer.json": truth}
    files = {name: json.dumps({"spec": state}) for name, state in states.items()}
    assert known.bets_of(files | {"a/kit.js": "no state"}) == COURSE[0]["bets"][:1]


@pytest.mark.site
def test_the_built_page_knows_every_bet_of_the_book():
    text = (ROOT / "_build/html/book/calibration.html").read_text(encoding="utf-8")
    data = re.search(r'id="dt-course">(.*?)</script>', text)[1]
    known = [bet["key"] for chapter in json.loads(data) for bet in chapter["bets"]]
    sources = sorted(ROOT.glob("chapters/*/*.md"))
    assert known == [key for page in sources for cell in cells_of(page) for key in cell.bets]
