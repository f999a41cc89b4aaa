"""A notebook that is taken along brings the library with it: in a Python that has none, it runs."""

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from site_server import served_site

from book._tools.layout import ROOT, notebook_sources
from book._tools.listings.library import library_wheel
from book.notebooks.anywhere import Place, notebook_of
from book.notebooks.first_cell import taken_along
from book.notebooks.plain import RUN
from dtlib.editions import edition

SITE = ROOT / "_build/html"
ASK = "import dtlib.editions\nassert 'site-packages' in dtlib.__file__, dtlib.__file__"


def toy() -> nbformat.NotebookNode:
    """A notebook that wants the library of its own edition."""
    kept = new_output("stream", text="2\n")
    cells = [new_markdown_cell(f"# Toy\n\n*{RUN}*"), new_code_cell(ASK, outputs=[kept])]
    return new_notebook(cells=cells)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A Python that has what this one has, but for the book."""
    made = Place(tmp_path_factory.mktemp("bare") / "python")
    made.borrow()
    return made


def written(notebook: nbformat.NotebookNode, folder: Path) -> Path:
    file = folder / "toy.ipynb"
    nbformat.write(notebook, file)
    return file


def test_a_notebook_as_it_is_stored_stops_at_its_first_import(place, tmp_path):
    assert "No module named 'dtlib'" in place.run(written(toy(), tmp_path), "")


def test_the_first_cell_stands_below_the_title_and_the_rest_is_as_stored():
    stored, taken = toy(), taken_along(toy(), library_wheel())
    assert RUN in stored.cells[0].source and RUN not in taken.cells[0].source
    assert taken.cells[2].source == stored.cells[1].source
    assert taken.cells[2].outputs == stored.cells[1].outputs


def test_an_address_that_changes_changes_the_first_cell_alone():
    here, there = (taken_along(toy(), library_wheel(), site) for site in ("", "https://a.org/"))
    assert [a.source == b.source for a, b in zip(here.cells, there.cells, strict=True)] == [
        True, False, True,
    ]  # fmt: skip


def test_from_the_wheel_beside_it_and_again(place, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheel = library_wheel()
    (tmp_path / wheel.name).write_bytes(wheel.content)
    notebook = taken_along(toy(), wheel)
    said = (
        f"assert dtlib.editions.edition({wheel.sha256!r}).endswith('the edition of this notebook.')"
    )
    notebook.cells.append(new_code_cell(said))
    file = written(notebook, tmp_path)
    assert place.run(file, "") == "" == place.run(file, "nowhere")


def test_a_wheel_of_another_digest_is_refused(tmp_path_factory, tmp_path):
    other = Place(tmp_path_factory.mktemp("other") / "python")
    other.borrow()
    wheel = library_wheel()
    (tmp_path / wheel.name).write_bytes(wheel.content + b"\0")
    error = other.run(written(taken_along(toy(), wheel), tmp_path), "")
    assert "DO NOT MATCH" in error or "CalledProcessError" in error


def test_in_a_checkout_the_first_cell_says_so():
    assert edition(library_wheel().sha256) == "dtlib 0.1.0, from a checkout."


@pytest.fixture(scope="module")
def address():
    yield from served_site(SITE)


@pytest.mark.site
@pytest.mark.parametrize("name", ["04-the-alpha-beta-model", "12-ring-and-tree-algorithms"])
def test_a_page_runs_from_its_file_and_a_copy_of_the_site(
    address, tmp_path_factory, monkeypatch, name
):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    folder = tmp_path_factory.mktemp(name)
    place = Place(folder / "python")
    place.borrow()
    source = next(one for one in notebook_sources() if one.stem == name)
    assert place.run(written(notebook_of(source, SITE), folder), address) == ""


@pytest.mark.site
def test_what_the_site_gives_names_the_wheel_that_lies_on_it():
    wheel = library_wheel()
    assert (SITE / "_downloads" / wheel.name).read_bytes() == wheel.content
    files = [*SITE.glob("_sources/**/*.ipynb"), *SITE.glob("_downloads/labs/*.ipynb")]
    assert len(files) > 50
    for file in files:
        first = "".join(json.loads(file.read_text("utf-8"))["cells"][1]["source"])
        assert wheel.sha256 in first, file.name
