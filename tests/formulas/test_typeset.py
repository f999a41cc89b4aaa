r"""The LaTeX says what the code says: it is read back by an independent reader, exactly."""

import ast
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from latex_reader import Reader

from dtlib.formulas import poly
from dtlib.formulas.typeset import ATOM, NotTypesettable, Piece, Typesetter

LATEX = {"n": "n", "P": "P", "alpha": r"\alpha", "bandwidth": r"B_\text{mem}"}
HELPERS = {
    name: getattr(poly, name)
    for name in ("ceil", "floor", "log2", "ln", "exp", "sqrt", "maximum", "minimum", "where")
}
# Opaque and exact: what matters is which argument a function is given, not what it computes.
STAND_INS = {
    **HELPERS,
    "ceil": lambda x: Fraction(poly.ceil(x)),
    "floor": lambda x: Fraction(poly.floor(x)),
    "log2": lambda x: x * x + 1,
    "ln": lambda x: x * x + 2,
    "exp": lambda x: x * x + 3,
    "sqrt": lambda x: x * x + 5,
    "number": lambda x: x,
}


def typeset(source: str) -> str:
    names = Typesetter(lambda name: Piece(LATEX[name], ATOM) if name in LATEX else None, HELPERS)
    return names.latex(ast.parse(source, mode="eval").body)


@pytest.mark.parametrize(
    ("source", "latex"),
    [
        ("alpha + n / bandwidth", r"\alpha + \frac{n}{B_\text{mem}}"),
        ("2 * (P - 1) / P * n", r"2\,\frac{P-1}{P}\,n"),
        ("2 * (P - 1) * alpha", r"2\,(P-1)\,\alpha"),
        ("n / P / bandwidth", r"\frac{n}{P\,B_\text{mem}}"),
        ("n / (P * alpha)", r"\frac{n}{P\,\alpha}"),
        ("(n + 1) / (P - 1)", r"\frac{n+1}{P-1}"),
        ("ceil(log2(P)) * alpha", r"\lceil\log_2 P\rceil\,\alpha"),
        ("log2(P) * alpha", r"\log_2(P)\,\alpha"),
        ("alpha * log2(P)", r"\alpha\,\log_2 P"),
        ("log2(P - 1)", r"\log_2(P-1)"),
        ("ceil(n / P)", r"\left\lceil \frac{n}{P} \right\rceil"),
        ("maximum(n, P)", r"\max(n,\, P)"),
        ("-alpha", r"-\alpha"),
        ("n - (P - alpha)", r"n - (P-\alpha)"),
        ("n * (-P)", r"n\,(-P)"),
        ("(n / P) ** 2", r"\left( \frac{n}{P} \right)^{2}"),
        ("log2(P) ** 2", r"(\log_2 P)^{2}"),
        ("n ** (P - 1)", r"n^{P-1}"),
        ("n * 8", r"n \cdot 8"),
        ("10**9", r"10^{9}"),
        ("1000000000 * n", r"10^{9}\,n"),
        ("n * 5e-06", r"n \cdot 5 \cdot 10^{-6}"),
        ("n * 12500", r"n \cdot 12{,}500"),
        ("where(P > 2, n, alpha)",
         r"\begin{cases} n & \text{if } P > 2 \\ \alpha & \text{otherwise} \end{cases}"),
    ],
)  # fmt: skip
def test_an_expression_is_printed_in_the_order_in_which_it_was_written(source, latex):
    assert typeset(source) == latex


def _call(name, *arguments):
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _grow(children):
    number = st.sampled_from([0, 1, 2, 7, 1000, 12345, 10**6, 1_500_000]).map(ast.Constant)
    operator = st.sampled_from([ast.Add(), ast.Sub(), ast.Mult(), ast.Div()])
    comparison = st.sampled_from([ast.Lt(), ast.LtE(), ast.Gt(), ast.GtE()])
    return st.one_of(
        number,
        st.builds(lambda o, a, b: ast.BinOp(a, o, b), operator, children, children),
        st.builds(lambda o, a, b: ast.BinOp(a, o, b), operator, children, children),
        st.builds(lambda a, k: ast.BinOp(a, ast.Pow(), ast.Constant(k)), children,
                  st.sampled_from([0, 1, 2, 3])),
        st.builds(lambda a: ast.UnaryOp(ast.USub(), a), children),
        st.builds(_call, st.sampled_from(["ceil", "floor", "log2", "ln", "exp", "sqrt"]), children),
        st.builds(_call, st.sampled_from(["maximum", "minimum"]), children, children),
        st.builds(lambda o, a, b, x, y: _call("where", ast.Compare(a, [o], [b]), x, y),
                  comparison, children, children, children, children),
    )  # fmt: skip


VARIABLES = st.sampled_from([ast.Name(name, ast.Load()) for name in LATEX])
TREES = st.recursive(VARIABLES, _grow, max_leaves=12)
VALUES = {
    "n": Fraction(3, 7),
    "P": Fraction(5),
    "alpha": Fraction(-11, 4),
    "bandwidth": Fraction(13),
}


def _evaluated(source: str):
    exact = ast.parse(source, mode="eval")
    for node in ast.walk(exact):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            node.left = ast.copy_location(_call("exactly", node.left), node)
    code = compile(ast.fix_missing_locations(exact), "<tree>", "eval")
    return eval(code, {**STAND_INS, "exactly": Fraction, **VALUES})


def _read(latex: str):
    return Reader(latex, {LATEX[name]: value for name, value in VALUES.items()}, STAND_INS).read()


@pytest.mark.parametrize(
    "source",
    [
        "log2(P) * n * ln(P)",
        "n / (alpha * log2(P)) / P",
        "2 * log2(P) * n / ln(P) / P",
        "n + -P",
        "n - -P",
        "n * (-P * alpha)",
        "n * -(P * alpha) / 2",
        "-n * (-P / alpha)",
        "-(n * P)",
        "-(-n)",
        "n / (P / alpha)",
        "n * (P + (alpha - 1)) * 2 * 3",
        "(n ** 2) ** 2 + (-n) ** 2 - n ** 2",
        "where(P > n / 2, n, P) * where(P <= 2, n, P) + where(P < n, where(n >= 2, 1, 2), 3) ** 2",
        "maximum(n + P, where(P > 2, n, P)) / minimum(n, -P)",
    ],
)
def test_a_tricky_expression_reads_back_as_what_was_written(source):
    assert _read(typeset(source)) == _evaluated(source)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(TREES)
def test_what_is_printed_reads_back_as_what_was_written(tree):
    source = ast.unparse(ast.fix_missing_locations(tree))
    try:
        expected = _evaluated(source)
    except ZeroDivisionError:
        assume(False)
    assume(len(str(expected)) < 400)
    assert _read(typeset(source)) == expected


@pytest.mark.parametrize(
    "source", ["2 * (P - 1) * n", "n - (P - alpha)", "log2(P) * n", "(n + P) ** 2"]
)
def test_sabotage_without_parentheses_the_equation_reads_as_something_else(source):
    latex = typeset(source)
    assert _read(latex) == _evaluated(source)
    assert _read(latex.replace("(", "").replace(")", "")) != _evaluated(source)


@pytest.mark.parametrize(
    "source",
    [
        "n if P > 2 else alpha",
        "n // P",
        "P > 2",
        "[n]",
        "True",
        "n.real",
        "max(n, P)",
        "ceil(n, P)",
        "ceil(x=n)",
        "ceil(*n)",
        "where(P, n, n)",
        "where(1 < P < 3, n, n)",
        "where(P == 2, n, n)",
        "unknown",
    ],
)
def test_what_has_no_equation_is_refused(source):
    with pytest.raises(NotTypesettable):
        typeset(source)
