"""The extensions, on a toy book with a chapter 13a, with and without a public address."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from page_inspection import console_faults, start_browser
from site_server import served_site

from book._tools.layout import ROOT
from book._tools.notebooks import convert
from book.motifs import motifs

DOWNLOAD = 'href="../../_sources/chapters/3-toy/12-ring.ipynb"'
ADDRESS = "https://github.com/example/a-book"
HOME = "https://example.org/a-book/"

INTRO = """# Toy

Read {ref}`ch-13a`, [the ring](#ch-12), {ref}`ch-15` and {eq}`eq-b`, {prf:ref}`thm-b`,
{numref}`ex-b`.
"""
RING = """# The ring

## First section

It takes <data value="message_time(n=1*MB, alpha=0, beta=50*GB)">20 µs</data>.

| time |
| --- |
| <data value="2**10">1,024</data> |

```{code-cell} ipython3
1 + 1
```
"""
TOPOLOGY = """# Topology

## First section

$$
a = b
$$ (eq-a)

## Second section

$$
b = c
$$ (eq-b)

:::{prf:theorem}
:label: thm-b
It holds.
:::

:::{exercise}
:label: ex-b
Show it.
:::

:::{figure} dot.svg
:name: fig-b
A dot.
:::

See {numref}`fig-b` and <data value="2**3">8</data>.
"""
FACED = "11-collectives-and-their-adjoints"
FACES = """# Faces

## First section

Rings were measured by {cite:t}`ring`. And again {cite}`ring`.

```{code-cell} ipython3
:tags: [remove-input]
head()
```

```{code-cell} ipython3
draw()
```

```{code-cell} ipython3
fail()
```

```{code-cell} ipython3
teach()
```

```{code-cell} ipython3
compare(rows, caption="as found")
```

```{code-cell} ipython3
:tags: [hide-input]
prepare()
```

:::{exercise} Trace it
:label: ex-c
★★ *compute, 8 minutes.* How long?
:::

:::{solution-start} ex-c
:class: dropdown
:::
Two rounds.

$$
r = 2
$$ (eq-folded)
:::{solution-end}
:::

:::{admonition} Folklore: ‘it is free’
:class: folklore
**The claim.** It is.

**The computation.** It takes <data value="2**10">1,024</data>.
:::

| wide |
| --- |
| 1 |

## Claims

It holds.
: `tests/test_it.py`

- So does this: `tests/test_this.py`
"""
MOVES = """[moves]
"old-ring.html" = "chapters/3-toy/12-ring.html#first-section"
"""
BOOKS = """@article{ring, author = {Ada B. Ring}, title = {On rings}, journal = {J}, year = {2009}}
"""
FIGURE = '<figure class="dt-figure"><svg></svg></figure>'
TABLE = '<div class="dt-compare"><table><tr><td>1 ms</td></tr></table></div>'
MESSAGE, TRACE = "RankError: rank 0 failed", "  dtlib/ring.py, line 3, in send"
HEAD = """<dl class="dt-header"><div class="dt-fact dt-time"><dt>Time</dt> <dd>1 hour</dd></div>
<div class="dt-fact dt-executed"><dt>Executed with</dt> <dd>Python 3</dd></div></dl>"""
OUTPUTS = {
    "head()": nbformat.v4.new_output("display_data", {"text/html": HEAD}),
    "draw()": nbformat.v4.new_output("display_data", {"text/html": FIGURE}),
    "fail()": nbformat.v4.new_output("error", ename="RankError", traceback=[f"{MESSAGE}\n{TRACE}"]),
    'compare(rows, caption="as found")': nbformat.v4.new_output(
        "display_data", {"text/html": TABLE}
    ),
    "teach()": nbformat.v4.new_output("stream", name="stdout", text="learned"),
}
PLANNED = """# Planned

(ch-15)=
**15.** Later.
"""
REFERENCES = """# References

```{bibliography}
```
"""
PART = """# Collectives

::::{container} a-chapter motif-11
[11](/chapters/3-collectives/11-collectives-and-their-adjoints.md)
::::
"""
TOC = {
    "format": "jb-book",
    "root": "book/intro",
    "parts": [
        {
            "caption": "3",
            "numbered": True,
            "chapters": [
                {"file": "book/part-3-collectives"},
                {"file": "chapters/3-toy/12-ring"},
                {"file": "chapters/3-toy/13a-shape"},
                {"file": "chapters/3-collectives/11-collectives-and-their-adjoints"},
            ],
        },
        {"caption": "Back", "chapters": [{"file": "book/planned"}, {"file": "book/references"}]},
    ],
}


def build(root: Path, address: str) -> dict[str, str]:
    """The pages of the toy book, built with the book's own configuration, by name."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    config["repository"]["url"] = address
    config["html"]["baseurl"] = HOME if address else ""
    texts = {
        "_config.yml": yaml.safe_dump(config),
        "CHANGELOG.md": "# Changes\n\n## 0.2, 2026-12-24\n\n- Rings & trees.\n\n## 0.1\n\n- All.\n",
        "book/moves.toml": MOVES,
        "_toc.yml": yaml.safe_dump(TOC),
        "book/intro.md": INTRO,
        "book/references.bib": BOOKS,
        "book/references.md": REFERENCES,
        "book/planned.md": PLANNED,
        "book/part-3-collectives.md": PART,
        "chapters/3-toy/12-ring.md": RING,
        "chapters/3-toy/13a-shape.md": TOPOLOGY,
        "chapters/3-collectives/11-collectives-and-their-adjoints.md": FACES,
        "chapters/3-toy/dot.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for folder in ("_ext", "_static", "_theme"):
        (root / "book" / folder).symlink_to(ROOT / "book" / folder)
    for source in root.glob("chapters/*/*.md"):
        notebook = convert(source)
        for cell in notebook.cells:
            cell.update({"outputs": [OUTPUTS[cell.source]]} if cell.source in OUTPUTS else {})
        nbformat.write(notebook, source.with_suffix(".ipynb"))
    command = Path(sys.executable).with_name("jupyter-book")
    options = ["-W", "-n", "--keep-going", "-q"]
    result = subprocess.run([command, "build", root, *options], capture_output=True, text=True)
    if result.returncode:
        pytest.fail(result.stderr, pytrace=False)
    return {page.stem: page.read_text() for page in (root / "_build/html").glob("*/**/*.html")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def pages(folder):
    return build(folder, "")


@pytest.fixture(scope="module")
def home(folder, pages):
    yield from served_site(folder / "_build/html")


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def tab(browser, home):
    """Opens a page of the toy book, in a browser that has kept nothing yet."""
    contexts, faults = [], []

    def opened(place: str = "", width: int = 1440):
        size = {"width": width, "height": 700}
        contexts.append(browser.new_context(viewport=size, color_scheme="light"))
        page = contexts[-1].new_page()
        page.on("console", lambda said: faults.extend(console_faults(said)))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{home}chapters/3-collectives/{FACED}.html{place}", wait_until="load")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="module")
def public_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def public(public_folder):
    return build(public_folder, ADDRESS)


def text(page: str) -> str:
    """A page's words, without its tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


@pytest.mark.parametrize(
    "printed",
    [
        "13a. Topology",
        "13a.2. Second section",
        "(13a.1)",
        "(13a.2)",
        "Theorem 13a.1",
        "Exercise 13a.1",
        "See Figure 13a.1",
    ],
)
def test_numbers_come_from_the_file_name(pages, printed):
    assert printed in text(pages["13a-shape"])


@pytest.mark.parametrize(
    "printed", ["Chapter 13a", "the ring", "Chapter 15", "(13a.2)", "Theorem 13a.1", "Exercise 13a"]
)
def test_references_across_pages_use_them(pages, printed):
    assert printed in text(pages["intro"])


def test_a_label_leads_to_the_chapter_or_to_its_planned_line(pages):
    links = re.findall(r'class="reference internal" href="([^"]*)"', pages["intro"])
    chapters = "../chapters/3-toy/"
    assert {f"{chapters}13a-shape.html", f"{chapters}12-ring.html", "planned.html#ch-15"} <= {
        link.removesuffix("#") for link in links
    }


def test_numbers_in_prose_carry_their_formula(pages):
    formula = "message_time(n = 1 MB, α = 0, β = 50 GB/s) = 20 µs"
    assert (
        f'tabindex="0" data-formula="{formula}">20\N{NO-BREAK SPACE}µs</data>' in pages["12-ring"]
    )
    assert 'data-formula="2 ^ 10 = 1,024">1,024</data>' in pages["12-ring"]
    assert 'data-formula="2 ^ 3 = 8">8</data>' in pages["13a-shape"]


def test_nothing_is_loaded_from_elsewhere(pages, public):
    for page in (*pages.values(), *public.values()):
        told = re.sub(r'<link rel="(?:canonical|alternate)"[^>]*>', "", page)  # nothing is loaded
        loads = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="((?:https?:)?//[^"]*)"', told)
        assert not loads
        assert "sphinx-thebe" not in page


def test_without_an_address_no_button_needs_it(pages):
    for page in pages.values():
        assert not re.search(r'href="[^"]*(?:github|colab)', page)
    assert DOWNLOAD in pages["12-ring"]


def test_with_an_address_the_text_is_edited_and_the_notebook_is_run(public):
    page = public["12-ring"]
    path = "chapters/3-toy/12-ring"
    assert f'href="{ADDRESS}/edit/main/{path}.md"' in page
    stored = f"blob/gh-pages/_sources/{path}.ipynb"
    assert f'href="https://colab.research.google.com/github/example/a-book/{stored}"' in page
    assert f'href="https://kaggle.com/kernels/welcome?src={ADDRESS}/{stored}"' in page
    assert f"{ADDRESS}/issues/new" in page
    assert DOWNLOAD in page


def opened(page: str) -> str:
    """A page's words without those that are folded."""
    return text(re.sub(r"<details class=\"fold.*?</details>", " ", page, flags=re.DOTALL))


@pytest.mark.parametrize(
    "word",
    [
        "draw",
        "prepare",
        "caption",
        "Executed with Python 3.",
        "Two rounds.",
        "tests/test_it.py",
        "line 3",
    ],
)
def test_what_made_and_what_proves_is_there_and_folded(pages, word):
    assert word in text(pages[FACED])
    assert word not in opened(pages[FACED])


@pytest.mark.parametrize(
    "word", ["teach", "learned", "RankError: rank 0 failed", "1 hour", "How long?"]
)
def test_what_teaches_and_what_an_error_says_stands_open(pages, word):
    assert word in opened(pages[FACED])


@pytest.mark.parametrize(
    "line",
    [
        "code of this figure",
        "code of this table",
        "where it was raised",
        "Solution",
        "Evidence: 2 claims of this",
    ],
)
def test_a_fold_says_what_is_in_it(pages, line):
    assert f"<summary>{line}" in pages[FACED]


def test_an_exercise_shows_its_title_and_effort_apart(pages):
    page = pages[FACED]
    assert re.search(r"Exercise 11.1\s*</span>\s*Trace it</p>", page)
    assert re.search(r'class="effort"><span class="stars">★★</span> compute, 8 minutes</p>', page)


def test_folklore_is_struck_through(pages):
    assert "<del>it is free</del>" in pages[FACED]


def test_a_work_stands_in_the_margin_once(pages):
    noted = re.findall(r'class="margin works".*?</aside>', pages[FACED], re.DOTALL)
    assert len(noted) == 1
    assert text(noted[0]).endswith("Ring, 2009 On rings.")


def test_a_table_has_a_box_to_scroll_in(pages):
    assert re.search(r'<div class="table-box[^>]*>\s*<table', pages[FACED])


def test_a_page_asks_for_one_sheet_and_waits_for_no_script(pages):
    for page in pages.values():
        assert len(re.findall(r'rel="stylesheet"', page)) == 1
        assert not re.search(r'<script src="(?![^>]*(?:defer|async))', page)


def test_the_bar_leads_to_the_parts_and_the_foot_to_every_other_page(pages):
    page = pages["12-ring"]
    assert re.findall(r'<summary aria-label="Part (\d):', page) == [str(n) for n in range(1, 9)]
    foot = page.partition('class="colophon"')[2]
    assert 'href="../../book/planned.html"' in foot and "12-ring" not in foot


def test_the_choice_of_colours_shows_at_once_and_lasts(tab):
    page = tab()
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "light"
    page.click("[data-mode-switch]")
    assert page.evaluate(theme) == "dark"
    page.reload()
    assert page.evaluate(theme) == "dark"
    assert page.get_attribute("[data-mode-switch]", "title") == "Colours: dark"


def test_a_chapter_is_read_when_its_end_was_seen(tab):
    page = tab()
    cell = page.locator('.cells [data-read="11"]')
    assert "is-read" not in cell.get_attribute("class")
    page.locator(".turn").scroll_into_view_if_needed()
    page.wait_for_selector('.cells [data-read="11"].is-read', state="attached")
    page.reload()
    page.wait_for_selector('.cells [data-read="11"].is-read', state="attached")


def test_a_link_into_a_fold_opens_it(tab):
    assert tab().locator(".solution[open]").count() == 0
    tab("#equation-eq-folded").wait_for_selector(".solution[open]")


def test_the_contents_follow_the_reader(tab):
    page = tab()
    page.locator("#claims").scroll_into_view_if_needed()
    page.mouse.wheel(0, 5000)
    page.wait_for_selector('.contents [href="#claims"][aria-current]')
    assert page.locator(".contents [aria-current]").count() == 1


def test_the_map_opens_and_closes_by_keys(tab):
    page = tab()
    page.focus(".part:nth-child(3) > summary")
    page.keyboard.press("Enter")
    page.wait_for_selector(".part:nth-child(3)[open]")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.locator(".part[open]").count() == 0
    assert page.evaluate("document.activeElement.parentElement.matches('.part:nth-child(3)')")


def test_search_is_a_key_away(tab):
    page = tab()
    page.keyboard.press("/")
    page.keyboard.type("ring")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results .hit", timeout=60_000)


@pytest.mark.parametrize("width, beside", [(1440, True), (390, False)])
def test_a_number_says_in_the_margin_where_it_comes_from(tab, width, beside):
    page = tab(width=width)
    page.focus("data[data-formula]")
    tip, text = (page.locator(name).bounding_box() for name in (".dt-tip", "main"))
    assert (tip["x"] > text["x"] + text["width"]) == beside
    assert tip["x"] >= 0 and tip["x"] + tip["width"] <= width


def test_the_install_cell_is_not_shown_on_the_page(public):
    assert "dtlib[ranks]" not in public["12-ring"]
    assert "12. The ring" in text(public["12-ring"])


def test_a_chapter_opens_with_its_motif_as_does_its_entry_on_the_page_of_its_part(pages):
    motif = motifs()["11"].svg("")
    opener = pages["11-collectives-and-their-adjoints"].partition('class="promise"')[2]
    assert opener.partition("</p>")[2].lstrip().startswith(motif)
    part = pages["part-3-collectives"]
    assert part.count(motif) == 1 and '<p class="read-mark" data-read="11"></p>' in part
    assert '<svg class="motif"' not in pages["12-ring"]


def test_the_page_of_a_part_stands_among_its_chapters_without_a_number(pages):
    part, ring = pages["part-3-collectives"], pages["12-ring"]
    title = re.search(r"<h1>(.*?)<a", part)[1]
    assert title == "Collectives" and "How few bytes" in part
    assert part.count('aria-current="page">Collectives</a>') == 1
    assert 'rel="prev" href="../../book/part-3-collectives.html"' in ring
    assert "book/part-3-collectives.html" not in ring.partition('class="colophon"')[2]


def test_a_page_says_what_it_is_about(pages, public):
    described = re.compile(r'<meta name="description" content="([^"]{10,160})">')
    assert "Eight operations" in described.search(pages[FACED])[1]
    for page in (pages["12-ring"], public[FACED]):
        assert described.search(page) and 'property="og:title"' in page
    assert "canonical" not in pages[FACED] and "og:image" not in pages[FACED]


def test_with_an_address_a_page_has_a_canonical_one_a_card_and_a_feed(public):
    page = public["12-ring"]
    assert f'<link rel="canonical" href="{HOME}chapters/3-toy/12-ring.html">' in page
    assert f'property="og:image" content="{HOME}_static/cards/book.png"' in page
    assert f'property="og:image" content="{HOME}_static/cards/11.png"' in public[FACED]
    assert f'type="application/atom+xml" href="{HOME}changes.xml"' in page


def lost_cards(pages: dict[str, str], site: Path) -> list[str]:
    """The pictures that pages name, and that are no PNG of the site."""
    named = (re.findall(r'property="og:image" content="([^"]*)"', page) for page in pages.values())
    files = [site / card.removeprefix(HOME) for cards in named for card in cards]
    return [one.name for one in files if not one.exists() or one.read_bytes()[1:4] != b"PNG"]


def test_every_card_that_a_page_names_is_written(public, public_folder, pages, folder):
    site = public_folder / "_build/html"
    assert lost_cards(public, site) == []
    assert {file.stem for file in (site / "_static/cards").iterdir()} == {"book", *motifs()}
    unknown = public | {"12-ring": public["12-ring"].replace("cards/book", "cards/99")}
    assert lost_cards(unknown, site) == ["99.png"]
    assert not (folder / "_build/html/_static/cards").exists()


def test_a_lost_reader_finds_the_book_from_any_depth(folder, pages):
    page = (folder / "_build/html/404.html").read_text()
    assert '<base href="/">' in page and "Nothing is here" in page
    assert "<base" not in pages["12-ring"]


def test_an_old_address_leads_on(folder, pages):
    page = (folder / "_build/html/old-ring.html").read_text()
    assert 'url=chapters/3-toy/12-ring.html#first-section"' in page
