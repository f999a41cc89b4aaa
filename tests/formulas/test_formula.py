"""A formula refuses what it could not carry to a page, and says what to write instead."""

import inspect
import linecache
import math
import pickle
import re

import cloudpickle
import numpy as np
import pytest
import sympy as sp

from dtlib.formulas.formula import _REGISTRY
from dtlib.formulas.poly import ceil, log2, maximum, where
from dtlib.foundations import FormulaError, formula, formulas, message_time
from dtlib.memory import model_state_bytes


@pytest.fixture(autouse=True)
def registry_as_it_was():
    before = dict(_REGISTRY)
    yield
    _REGISTRY.clear()
    _REGISTRY.update(before)


def define(body: str, parameters: str = "n, P, alpha", name: str = "bad_time", unit: str = "s"):
    """A formula from source text, as a notebook cell would define it."""
    source = f"@formula(symbol='T_x', unit={unit!r})\ndef {name}({parameters}):\n    {body}\n"
    place = f"<cell {len(linecache.cache)}>"
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    space = {helper.__name__: helper for helper in (ceil, log2, maximum, where)}
    space |= {"formula": formula, "message_time": message_time, "math": math}
    space |= {"__name__": "__main__"}
    exec(compile(source, place, "exec"), space)
    return space[name]


@pytest.mark.parametrize(
    ("body", "construct", "instead"),
    [
        ("return math.log2(P) * alpha", "math.log2(P)", "log2(...)"),
        ("return math.ceil(P) * alpha", "math.ceil(P)", "ceil(...)"),
        ("return int(P) * alpha", "int(P)", "floor(x)"),
        ("return max(n, P)", "max(n, P)", "maximum(a, b)"),
        ("return sum(alpha for i in range(P))", "range(P)", "closed form"),
        ("return alpha if P > 1 else 0", "alpha if P > 1 else 0", "where(condition, a, b)"),
        ("return where(P == 1, 0, alpha)", "P == 1", "<, <=, > or >="),
        ("return where(P > 1 and n > 1, 0, alpha)", "P > 1 and n > 1", "<, <=, > or >="),
        ("return P // 2", "P // 2", "floor(a / b)"),
        ("return P % 2", "P % 2", "floor(a / b)"),
        ("return n[0]", "n[0]", "+ - * / **"),
        ("return beta * n", "beta", "neither a parameter"),
        ("return message_time(n)", "message_time(n)", "missing"),
        ("if P > 1: return alpha\n    return n", "if P > 1:", "where(condition, a, b) chooses"),
        ("for i in range(P): n = n + i\n    return n", "for i in range(P):", "one return"),
        ("x = n * P\n    return x", "x = n * P", "another formula names"),
        ("return", "return", "one return expression"),
        ("pass", "pass", "one return expression"),
    ],
)
def test_what_cannot_be_traced_is_refused_when_it_is_defined(body, construct, instead):
    with pytest.raises(FormulaError) as error:
        define(body)
    message = str(error.value)
    assert "bad_time" in message and "line 3" in message
    assert construct in message and instead in message
    assert "bad_time" not in formulas()


def test_a_parameter_outside_of_the_notation_is_refused_by_name():
    with pytest.raises(FormulaError, match="'latency' is not in the notation"):
        define("return latency", parameters="latency")


def test_a_unit_that_is_no_base_unit_is_refused():
    with pytest.raises(FormulaError, match="'ms' is no base unit"):
        define("return alpha", unit="ms")


def test_a_name_belongs_to_one_module():
    with pytest.raises(FormulaError, match=r"dtlib\.machines\.alpha_beta already has"):
        define("return n", name="message_time")
    assert formulas()["message_time"] is message_time


def test_a_cell_that_runs_again_replaces_its_formula():
    define("return alpha", name="again_time")
    second = define("return 2 * alpha", name="again_time")
    assert formulas()["again_time"] is second
    formulas().clear()
    assert "again_time" in formulas()


def test_a_function_without_source_is_refused():
    space = {"formula": formula}
    with pytest.raises(FormulaError, match="source cannot be read"):
        exec("@formula(symbol='T', unit='s')\ndef f(n):\n    return n", space)


@pytest.mark.parametrize("method", ["js", "substituted"])
def test_a_value_for_an_unknown_parameter_is_refused(method):
    with pytest.raises(FormulaError, match="no parameter 'gamma'; it has n, alpha, beta"):
        getattr(message_time, method)(gamma=1)


def test_a_formula_is_an_equation_with_a_label():
    assert message_time.label == "eq-message-time"
    assert message_time.equation == r"T = \alpha + \frac{n}{\beta}"
    assert message_time.parameters == ("n", "alpha", "beta")
    assert repr(message_time) == "message_time(n, alpha, beta) = alpha + n / beta [s]"


def test_a_card_names_every_symbol_with_its_unit():
    card = message_time.card()
    assert card == message_time._repr_markdown_()
    for text in ("$$\nT = ", r"$\alpha$ (s): latency", r"$\beta$ (B/s)", "**Unit:** s",
                 "**Source:** Hockney 1994", "**Holds when:** one message"):  # fmt: skip
        assert text in card


def test_help_says_what_notation_and_decorator_know_before_the_example():
    said = message_time.__doc__
    own, example = message_time.__wrapped__.__doc__.split(">>>")
    facts = said[said.index("Arguments:") : said.index(">>>")]
    assert said.startswith(own.split("\n")[0]) and said.endswith(inspect.cleandoc(example))
    for text in ("`beta` (B/s): bandwidth", "Unit: s.", "Source: Hockney 1994.", "Holds when: one"):
        assert text in facts and text not in own
    assert define("return 2 * n", "n", unit="B").__doc__.startswith(
        "Arguments:\n    `n` (B): bytes"
    )


@pytest.mark.parametrize("zero", [-1, 4, 1.5])
def test_a_number_that_its_symbol_never_takes_is_refused(zero):
    says = f"model_state_bytes: zero is {zero}, but must be a whole number from 0 to 3"
    with pytest.raises(ValueError, match=re.escape(says)):
        model_state_bytes(7e9, zero, dp=8)
    with pytest.raises(ValueError, match="message_time: n is -1, but must be a number of at least"):
        message_time(-1, alpha=1e-6, beta=1e9)
    assert model_state_bytes(7e9, 3, 8) == 14e9  # the last that there is
    assert np.isnan(message_time(np.nan, 1e-6, 1e9)) and message_time(sp.Symbol("n"), 0, 1) != 0


def test_a_formula_can_call_another_and_prints_its_symbol():
    same = define("return 2 * message_time(n, alpha, beta)", "n, alpha, beta", "same_time")
    assert same.latex == r"2\,T"
    other = define(
        "return message_time(n / P, beta=beta, alpha=alpha)", "n, P, alpha, beta", "part"
    )
    assert other.latex == r"T\left( \frac{n}{P},\, \alpha,\, \beta \right)"
    n, P, alpha, beta = sp.symbols("n P alpha beta", positive=True)
    assert other.expression() == alpha + n / P / beta
    assert other(8, 2, 1, 4) == 2


def test_numbers_are_filled_in_with_their_units():
    rounds = define("return ceil(log2(P)) * message_time(n, alpha, beta)", "n, P, alpha, beta", "r")
    assert rounds.substituted(P=8) == r"\lceil\log_2 8\rceil \cdot T"
    assert rounds.substituted(P=8, n=10**6, alpha=0, beta=10**9) == (
        r"\lceil\log_2 8\rceil \cdot 1\,\text{ms}"
    )
    assert message_time.substituted(alpha=5e-6) == r"5\,\text{µs} + \frac{n}{\beta}"
    huge = define("return n * P", "n, P", "huge_bytes", "B")
    assert huge.substituted(n=1024, P=3 * 10**20) == r"1.024\,\text{KB} \cdot 3 \cdot 10^{20}"


@pytest.mark.parametrize(
    ("value", "squared"),
    [
        (2e6, r"(2\,\text{MB})^{2}"),
        (1, r"(1\,\text{B})^{2}"),
        (-2e6, r"(-2\,\text{MB})^{2}"),
    ],
)
def test_a_quantity_is_raised_to_a_power_with_its_unit(value, squared):
    square = define("return n ** 2", "n", "square")
    assert square.substituted(n=value) == squared


@pytest.mark.parametrize(
    ("value", "squared"),
    [(8, "8^{2}"), (3 * 10**20, r"(3 \cdot 10^{20})^{2}"), (12345, "12{,}345^{2}")],
)
def test_a_count_needs_brackets_only_where_it_is_a_product(value, squared):
    square = define("return P ** 2", "P", "square")
    assert square.substituted(P=value) == squared


def test_only_single_numbers_are_written_into_an_equation():
    with pytest.raises(FormulaError, match=r"value \[1, 2\]: only single numbers can be written"):
        message_time.substituted(n=[1, 2])


def test_a_fixed_parameter_leaves_the_javascript():
    chosen = define("return where(P > 2, n, alpha)", "n, P, alpha", "chosen_time")
    assert chosen.js(n=1, alpha=0) == "((P > 2) ? ( 1 ) : ( 0 ))"
    assert message_time.js(n=0) == "alpha"


def test_a_formula_is_differentiated_and_taken_to_its_limits():
    alpha, n = (sp.Symbol(name, positive=True) for name in ("alpha", "n"))
    expression = message_time.expression()
    assert sp.diff(expression, alpha) == 1
    assert sp.limit(expression, n, 0) == alpha


def test_a_formula_travels_to_another_process():
    assert pickle.loads(pickle.dumps(message_time)) is message_time
    mine = define("return 2 * alpha", "alpha", "travelling_time")
    copy = cloudpickle.loads(cloudpickle.dumps(mine))
    assert copy(3) == 6 and copy.equation == mine.equation
