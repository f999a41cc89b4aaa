"""The extensions, on a toy book with a chapter 13a, with and without a public address."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from book._tools.layout import ROOT
from book._tools.notebooks import convert

DOWNLOAD = 'href="../../_sources/chapters/3-toy/12-ring.ipynb"'
ADDRESS = "https://github.com/example/a-book"

INTRO = """# Toy

Read {ref}`ch-13a`, [the ring](#ch-12), {ref}`ch-14` and {eq}`eq-b`, {prf:ref}`thm-b`,
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
PLANNED = """# Planned

(ch-14)=
**14.** Later.
"""
TOC = {
    "format": "jb-book",
    "root": "book/intro",
    "parts": [
        {
            "caption": "3",
            "numbered": True,
            "chapters": [{"file": "chapters/3-toy/12-ring"}, {"file": "chapters/3-toy/13a-shape"}],
        },
        {"caption": "Back", "chapters": [{"file": "book/planned"}]},
    ],
}


def build(root: Path, address: str) -> dict[str, str]:
    """The pages of the toy book, built with the book's own configuration, by name."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    config["repository"]["url"] = address
    texts = {
        "_config.yml": yaml.safe_dump(config),
        "_toc.yml": yaml.safe_dump(TOC),
        "book/intro.md": INTRO,
        "book/references.bib": "",
        "book/planned.md": PLANNED,
        "chapters/3-toy/12-ring.md": RING,
        "chapters/3-toy/13a-shape.md": TOPOLOGY,
        "chapters/3-toy/dot.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for folder in ("_ext", "_static"):
        (root / "book" / folder).symlink_to(ROOT / "book" / folder)
    for source in root.glob("chapters/*/*.md"):
        nbformat.write(convert(source, address), source.with_suffix(".ipynb"))
    command = Path(sys.executable).with_name("jupyter-book")
    options = ["-W", "-n", "--keep-going", "-q"]
    result = subprocess.run([command, "build", root, *options], capture_output=True, text=True)
    if result.returncode:
        pytest.fail(result.stderr, pytrace=False)
    return {page.stem: page.read_text() for page in (root / "_build/html").glob("*/**/*.html")}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private")
    yield build(folder, "")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    yield build(folder, ADDRESS)
    shutil.rmtree(folder)


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
    "printed", ["Chapter 13a", "the ring", "Chapter 14", "(13a.2)", "Theorem 13a.1", "Exercise 13a"]
)
def test_references_across_pages_use_them(pages, printed):
    assert printed in text(pages["intro"])


def test_a_label_leads_to_the_chapter_or_to_its_planned_line(pages):
    links = re.findall(r'class="reference internal" href="([^"]*)"', pages["intro"])
    chapters = "../chapters/3-toy/"
    assert {f"{chapters}13a-shape.html", f"{chapters}12-ring.html", "planned.html#ch-14"} <= {
        link.removesuffix("#") for link in links
    }


def test_numbers_in_prose_carry_their_formula(pages):
    formula = "message_time(n = 1 MB, α = 0, β = 50 GB/s) = 20 µs"
    assert f'tabindex="0" data-formula="{formula}">20 µs</data>' in pages["12-ring"]
    assert 'data-formula="2 ^ 10 = 1,024">1,024</data>' in pages["12-ring"]
    assert 'data-formula="2 ^ 3 = 8">8</data>' in pages["13a-shape"]


def test_nothing_is_loaded_from_elsewhere(pages, public):
    for page in (*pages.values(), *public.values()):
        loads = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="((?:https?:)?//[^"]*)"', page)
        assert not loads
        assert "sphinx-thebe" not in page


def test_without_an_address_no_button_needs_it(pages):
    for page in pages.values():
        assert not re.search(r'href="[^"]*(?:github|colab)', page)
    assert DOWNLOAD in pages["12-ring"]


def test_with_an_address_the_text_is_edited_and_the_notebook_is_run(public):
    page = public["12-ring"]
    path = "main/chapters/3-toy/12-ring"
    assert f'href="{ADDRESS}/edit/{path}.md"' in page
    colab = "https://colab.research.google.com/github/example/a-book/blob"
    assert f'href="{colab}/{path}.ipynb"' in page
    assert f"{ADDRESS}/issues/new" in page
    assert DOWNLOAD in page


def test_the_install_cell_is_not_shown_on_the_page(public):
    assert "pip install" not in public["12-ring"]
    assert "12. The ring" in text(public["12-ring"])
