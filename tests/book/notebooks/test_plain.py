"""The notebooks that a reader opens have no markup, and every exercise has cells of its own."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from book._tools import labs
from book._tools.layout import ROOT, lab_sources, notebook_sources
from book._tools.notebooks import convert
from book.notebooks.boxes import shown
from book.notebooks.pages import page_notebook, with_outputs
from book.notebooks.plain import plain
from book.notebooks.residues import KINDS, problems, residues
from book.notebooks.words import UnknownMarkup, Words
from dtlib.contents import chapters
from dtlib.exercises.declarations.question import pauses_of, questions_of
from dtlib.exercises.manifest import exercises_of

SOURCES = [*notebook_sources(), *lab_sources()]
CHAPTERS = [ROOT / f"{one.page}.md" for one in chapters() if (ROOT / f"{one.page}.md").exists()]
each_chapter = pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
LEFT = {
    "a role": "see {ref}`ch-12`",
    "a fence of colons": "> :::{admonition} It",
    "a directive": "```{figure} it.svg",
    "a data element": '<data value="1*GB">1 GB</data>',
    "a label": "(sec-here)=",
    "a label of an equation": "$$\nx\n$$ (eq-x)",
    "a comment or a block break": "+++",
    "an option": ":label: it",
    "a link into the text": "[it](#ch-4)",
    "a definition": "It holds.\n: `tests/test_it.py`",
}


def stored(page):
    return nbformat.read(page.with_suffix(".ipynb"), 4)


def chapter_of(page):
    return next(one for one in chapters() if ROOT / f"{one.page}.md" == page)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_no_notebook_shows_markup(source):
    assert problems(labs.files_of([source])) == []


def test_sabotage_every_kind_of_residue_is_found():
    assert set(LEFT) == set(KINDS)
    for kind, text in LEFT.items():
        found = list(residues(new_notebook(cells=[new_markdown_cell(f"Words.\n\n{text}")])))
        assert any(kind in one for one in found), kind


def test_sabotage_the_text_of_a_chapter_is_full_of_residues():
    page = CHAPTERS[0]
    assert len(list(residues(convert(page)))) > 50


def test_markup_in_code_is_what_it_shows():
    text = "`{ref}`, ``:::{x}`ch-1` ``\n\n```text\n:::{admonition}\n+++\n(label)=\n```"
    assert list(residues(new_notebook(cells=[new_markdown_cell(text)]))) == []


@each_chapter
def test_every_exercise_has_a_stub_and_its_judge(page):
    cells = stored(page).cells
    about = [cell.metadata.get("dtlib", {}) for cell in cells]
    number = chapter_of(page).number
    asked = (*pauses_of(number), *questions_of(number), *exercises_of(number))
    wanted = [one.slug for one in asked]
    assert [one["check"] for one in about if "check" in one] == wanted
    assert {one["exercise"] for one in about if "exercise" in one} == set(wanted)
    for cell, said in zip(cells, about, strict=True):
        if "check" in said:
            assert cell.source.startswith("from dtlib.exercises import attempt\n\nattempt(")


@each_chapter
def test_headings_number_the_exercises_as_the_declarations_do(page):
    text = "\n".join(c.source for c in stored(page).cells if c.cell_type == "markdown")
    labels = [exercise.label for exercise in exercises_of(chapter_of(page).number)]
    assert re.findall(r"^### Exercise (\S+) · \S", text, re.MULTILINE) == labels


@each_chapter
def test_solutions_are_folded_and_what_draws_is_collapsed(page):
    inside = False
    for cell in stored(page).cells:
        if cell.cell_type == "markdown":
            inside = "<summary>Solution" in cell.source
            assert cell.source.count("<details>") == cell.source.count("</details>")
        elif inside:
            assert cell.metadata.jupyter == {"source_hidden": True, "outputs_hidden": True}
        if {"remove-input", "hide-input"} & set(cell.metadata.get("tags", [])):
            assert cell.metadata.jupyter.source_hidden


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_code_of_the_text_is_all_there_under_the_same_ids(source):
    code = {cell.id: cell.source for cell in convert(source).cells if cell.cell_type == "code"}
    made = plain(convert(source), source).cells
    kept = {cell.id: cell.source for cell in made if cell.cell_type == "code"}
    assert code.items() <= kept.items()
    assert len({cell.id for cell in made}) == len(made)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_begins_with_how_to_run_it_and_ends_with_what_it_cites(source):
    cells = plain(convert(source), source).cells
    assert cells[0].source.startswith("# ") and "Run the cells" in cells[0].source
    cites = "{cite" in source.read_text(encoding="utf-8")
    assert cells[-1].source.startswith("## Sources") == cites


def test_a_page_is_the_text_with_the_outputs_of_its_notebook():
    page = CHAPTERS[8]
    text, shown_on_page = convert(page), page_notebook(page)
    assert [c.source for c in text.cells] == [c.source for c in shown_on_page.cells]
    kept = {cell.id: cell for cell in stored(page).cells}
    code = [cell for cell in shown_on_page.cells if cell.cell_type == "code"]
    assert sum(bool(cell.outputs) for cell in code) > 20
    assert all(cell.outputs == kept[cell.id].outputs for cell in code)


def test_sabotage_outputs_of_other_text_are_not_taken():
    text = new_notebook(cells=[new_code_cell("1", id="a"), new_code_cell("2", id="b")])
    output = nbformat.v4.new_output("stream", text="1")
    other = new_notebook(cells=[new_code_cell("1", id="a", outputs=[output])])
    first, second = with_outputs(text, other).cells
    assert first.outputs == [output] and second.outputs == []


def test_a_formula_in_a_box_is_on_one_line_with_its_number():
    text = (
        ":::{prf:theorem} Bytes\n:label: thm-all-reduce-bytes\n\nAt least\n\n$$\nV =\n2 n\n"
        "$$ (eq-all-reduce-lower-bound-bytes)\n\nbytes.\n:::"
    )
    assert shown(text).split("\n") == [
        "> **Theorem 12.2 (Bytes).**",
        ">",
        "> At least",
        ">",
        r"> $$ V = 2 n \tag{12.1} $$",
        ">",
        "> bytes.",
    ]


def test_a_box_that_is_folded_opens_and_boxes_nest():
    text = "::::{admonition} More\n:class: dropdown\n\n:::{prf:proof}\nSo.\n:::\n::::"
    opened = shown(text)
    assert opened.startswith("<details>\n<summary>More</summary>\n\n> **Proof.**")


@pytest.mark.parametrize(
    ("markup", "complaint"),
    [
        ("{py:func}`it`", "py:func"),
        ("{ref}`ch-999`", "'ch-999' is not known"),
        ("{eq}`eq-no`", "eq-no"),
    ],
)
def test_markup_without_words_is_refused(markup, complaint):
    with pytest.raises(UnknownMarkup, match=complaint):
        Words(CHAPTERS[0]).plain(markup)
