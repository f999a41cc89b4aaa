"""One symbol, one meaning; and what the book imports needs no heavy library."""

import subprocess
import sys

import pytest

from dtlib.formulas.units import BASE_UNITS
from dtlib.foundations import NOTATION, notation_table


@pytest.mark.parametrize("attribute", ["latex", "meaning", "name"])
def test_no_two_symbols_share(attribute):
    values = [getattr(symbol, attribute) for symbol in NOTATION.values()]
    assert len(values) == len(set(values))


def test_every_symbol_is_complete():
    for name, symbol in NOTATION.items():
        assert symbol.name == name and name.isidentifier()
        assert symbol.unit in BASE_UNITS
        assert symbol.sample and all(value > 0 for value in symbol.sample)
        for value in symbol.sample:
            symbol.check("the sample", value)
        assert symbol.sympy().is_positive and str(symbol.sympy()) == name


def test_the_table_holds_every_symbol_on_a_page_and_in_a_terminal():
    table = notation_table()
    page, terminal = table._repr_markdown_(), repr(table)
    for symbol in NOTATION.values():
        assert f"| ${symbol.latex}$ | `{symbol.name}` |" in page
        assert symbol.meaning in page and symbol.meaning in terminal
    assert "$" not in terminal


def test_a_part_of_the_table():
    assert [t.title for t in notation_table("P", "n")] == [NOTATION["P"].group, NOTATION["n"].group]
    with pytest.raises(KeyError, match="no symbol 'Q'"):
        notation_table("Q")


def test_importing_the_foundations_brings_neither_torch_nor_sympy_nor_matplotlib():
    program = (
        "import dtlib.foundations, sys;"
        "print([m for m in ('torch', 'sympy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
