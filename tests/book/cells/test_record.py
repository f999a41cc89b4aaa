"""What is on record runs in the page as it is today, and prints there what the book stores."""

import copy

import pytest

from book._tools.layout import notebook_sources, select
from book.cells.data import IMPORTS, cells_of
from book.cells.page import exercises, names_of, stored
from book.cells.record import found, in_bare_python, is_same, recorded, task, verdict

CHEAP = ("13", "16", "20")  # one of each part that has ranks, none of them slow


def chapter(number: str):
    (source,) = select([number], notebook_sources())
    return source


@pytest.mark.parametrize("source", notebook_sources(), ids=lambda source: source.stem)
def test_every_cell_is_on_record_and_no_other(source):
    known = recorded()[source.stem]["cells"]
    cells = [cell.id for cell in names_of(source).cells]
    assert sorted(known) == sorted([*cells, *(slug for slug, _ in exercises(source))]), (
        f"run: python -m book cells {source.stem}"
    )


@pytest.mark.parametrize("source", notebook_sources(), ids=lambda source: source.stem)
def test_what_is_needed_is_told_and_comes_before(source):
    entries = cells_of(source, recorded()[source.stem])
    order = [IMPORTS, *(cell.id for cell in names_of(source).cells)]
    for one, entry in entries.items():
        needs = entry.get("needs", [])
        assert needs == sorted(needs, key=order.index)
        assert one not in needs and all(need in entries for need in needs)
        assert all(entries[need]["runs"] or "code" in entries[need] for need in needs)


@pytest.mark.parametrize("number", CHEAP)
def test_what_runs_without_torch_says_word_for_word_what_the_book_stores(number):
    source = chapter(number)
    known = recorded()[source.stem]["cells"]
    runs = {one for one, said in known.items() if said == "runs"}
    again = found(source, [in_bare_python])["cells"]
    assert runs and runs <= {one for one, said in again.items() if said == "runs"}


@pytest.mark.parametrize("number", CHEAP)
def test_with_what_the_page_runs_first_a_cell_says_the_same(number):
    """The page runs, for each cell, the parts of earlier cells that any other needs."""
    source = chapter(number)
    entries = cells_of(source, recorded()[source.stem])
    told = {one["id"]: one for one in in_bare_python(as_the_page(source, entries))["cells"]}
    outputs = stored(source)
    assert told
    for one, said in told.items():
        assert verdict(said, outputs.get(one, [])) in ("runs", "slow"), said


def as_the_page(source, entries: dict) -> dict:
    """The task of a page with the texts that its script runs."""
    code = {cell.id: cell.code for cell in names_of(source).cells} | dict(exercises(source))
    live = {cell.id for cell in names_of(source).cells if "live" in cell.tags}
    code |= {one: entry["code"] for one, entry in entries.items() if "code" in entry}
    whole = {one["id"]: one["code"] for one in task(source)["cells"]}
    cells = [
        {"id": one, "before": [code[need] for need in entry["needs"]], "code": whole[one]}
        for one, entry in entries.items()
        if entry["runs"] and one != IMPORTS and one not in live
    ]
    return {"imports": {}, "cells": cells}


def test_another_output_is_noticed():
    source = chapter("13")
    outputs = stored(source)
    given = task(source)
    (told,) = in_bare_python(given | {"cells": given["cells"][:1]})["cells"]
    expected = outputs[told["id"]]
    assert is_same(expected, told)
    for key in ("out", "text"):
        assert not is_same(expected, told | {key: told[key] + "!"})
    error = [{"output_type": "error", "traceback": ["ValueError: no"]}]
    raised = {"verdict": "error", "out": "", "text": "Traceback\n  this cell\nValueError: no\n"}
    assert is_same(error, raised)
    assert not is_same(error, raised | {"text": "Traceback\n  this cell\nValueError: yes\n"})


def test_a_cell_without_what_it_needs_is_noticed():
    source = chapter("16")
    given = copy.deepcopy(task(source))
    needy = next(one for one in given["cells"] if one["before"] and "torch" not in str(one))
    cells = [needy, needy | {"before": []}]
    with_it, without = in_bare_python(given | {"cells": cells})["cells"]
    assert without != with_it
