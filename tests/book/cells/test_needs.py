"""What a cell takes from earlier ones is found: no less than it needs, and hardly more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from book.cells.names import statements
from book.cells.needs import Cell, Names


def needs(*codes: str, of: int = -1) -> list[str]:
    """The statements that a cell of a page needs; its cells are called 0, 1, ..."""
    names = Names(tuple(Cell(str(at), code) for at, code in enumerate(codes)))
    return [step.what.text for step in names.before(names.cells[of])]


def test_the_last_definition_is_needed_and_what_that_needs():
    assert needs("a = 1", "a = 2\nb = 5", "c = a", "print(c)") == ["a = 2", "c = a"]
    assert needs("a = 1", "a = 2\nprint(a)") == []


def test_a_change_is_needed_with_what_it_changes():
    for change in ("x.append(2)", "x[0] = 3", "x.n = 1", "x += [1]", "del x[0]"):
        assert needs("x = []", change, "print(x)") == ["x = []", change]
    assert needs("x = []", "print(x.count(1))", "print(x)") == ["x = []"]


def test_a_generator_moves_with_every_use():
    first = "rng = np.random.default_rng(0)"
    assert needs("import numpy as np", first, "a = rng.normal()", "b = rng.normal()") == [
        first,
        "a = rng.normal()",
    ]


def test_a_function_brings_what_its_body_reads_when_it_is_called():
    assert needs("def f():\n    return n", "n = 1", "n = 2", "f()") == [
        "def f():\n    return n",
        "n = 2",
    ]
    assert needs("n = 1", "def f(n):\n    return n", "f(2)")[:1] == ["def f(n):\n    return n"]


def test_a_name_inside_a_comprehension_is_its_own():
    assert needs("k = 1", "print([k for k in range(3)])") == []
    assert needs("k = 1\nP = 2", "print([k for k in range(P)])") == ["P = 2"]


def test_a_branch_may_bind_and_a_loop_does():
    assert needs("a = 1", "if P:\n    a = 2", "a") == ["a = 1", "if P:\n    a = 2"]
    assert needs("a = 1", "for a in range(3):\n    pass", "a") == ["for a in range(3):\n    pass"]


def test_imports_of_one_place_are_the_pages_and_others_are_needed():
    assert needs("from os import path", "path") == []
    assert needs("from os import path", "from sys import path", "path") == ["from sys import path"]


def test_cells_of_the_notebook_give_nothing_and_stars_are_refused():
    assert statements("%%ranks 4\nx = 1") == []
    assert len(statements("%load_ext dtlib\nx = 1")) == 1
    with pytest.raises(ValueError, match="name what is imported"):
        statements("from numpy import *")


def test_an_exercise_takes_nothing_from_solutions():
    cells = (Cell("a", "n = 1"), Cell("b", "n = 2", "ex-a"), Cell("c", "m = 3"))
    names = Names(cells)
    assert [step.what.text for step in names.for_code("def f():\n    return n", 2)] == ["n = 1"]


LINES = st.sampled_from(
    ("a = 1", "b = a + 1", "a = b * 2", "c = [a]", "c.append(b)", "c[0] = a", "a += 1")
)
MORE = st.sampled_from(
    ("b = f()", "c = [a, *c]", "def f():\n    return a + b", "for a in (5, 6):\n    b = a")
)


@given(st.lists(LINES | MORE, min_size=1, max_size=12))
def test_a_cell_says_the_same_after_what_it_needs_as_after_all(lines):
    lines = ["a, b, c = 7, 8, [0]", "def f():\n    return b", *lines, "told = (a, b, c, f())"]
    assert told(lines) == told([*needs(*lines), lines[-1]])


def test_the_law_fails_when_one_is_left_out():
    lines = ["a, b, c = 7, 8, []", "def f():\n    return b", "c.append(a)", "told = (a, c, f())"]
    whole = needs(*lines)
    for left_out in whole:
        kept = [one for one in whole if one != left_out]
        with pytest.raises((NameError, AssertionError)):
            assert told(lines) == told([*kept, lines[-1]])


def told(lines: list[str]) -> object:
    space = {}
    for line in lines:
        exec(line, space)
    return space["told"]
