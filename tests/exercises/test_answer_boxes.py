"""The page judges as Python does: word for word, on every right and every wrong answer."""

import json
from pathlib import Path

import pytest
import quickjs

from dtlib.exercises import NotYet
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.declarations.on_page import asked_on_page
from dtlib.exercises.judge import Limit
from dtlib.exercises.manifest import manifest

JUDGE = Path(__file__).resolve().parents[2] / "book/_static/reader/judge.js"
DECLARED = [e.declaration for e in manifest().exercises]
NUMBERS = [one for one in DECLARED if isinstance(one, Numbers)]
ABOUT = About("A", "compute", 1, 5, "count")


class Page:
    """The judge of a page."""

    def __init__(self, script: str):
        self.context = quickjs.Context()
        self.context.eval(script.replace("const dtJudge", "globalThis.dtJudge"))

    def __call__(self, call: str, **given):
        for name, value in given.items():
            self.context.set("given", json.dumps(value))
            self.context.eval(f"globalThis.{name} = JSON.parse(given)")
        return self.context.eval(f"dtJudge.{call}")

    def says(self, declaration, texts: list[str]) -> str:
        return self("judge(asked, texts)", asked=asked_on_page(declaration), texts=texts)


@pytest.fixture(scope="module")
def page():
    return Page(JUDGE.read_text(encoding="utf-8"))


def texts(declaration: Numbers, answer) -> list[str]:
    """An answer as a reader types it; nothing for what cannot be typed."""
    several = declaration.keyed or len(declaration.asked) > 1
    given = list(answer.values() if declaration.keyed else answer) if several else [answer]
    return ["" if value is None else str(value) for value in given]


def complaint(declaration, answer) -> str:
    try:
        declaration.judge(answer)
    except NotYet as verdict:
        return verdict.reason
    return ""


def differences(page, declaration: Numbers) -> list:
    """The answers of which the page says something else than Python."""
    found = []
    for answer in [declaration.right(), *(wrong for wrong, _ in declaration.wrong())]:
        typed, python = texts(declaration, answer), complaint(declaration, answer)
        if "" not in typed and page.says(declaration, typed) != python:
            found.append((typed, python))
    return found


@pytest.mark.parametrize("declaration", NUMBERS, ids=lambda one: one.slug)
def test_of_every_number_and_choice_the_page_says_what_python_says(page, declaration):
    assert differences(page, declaration) == []


def test_sabotage_a_judge_with_another_tolerance_or_factor_is_noticed():
    script = JUDGE.read_text(encoding="utf-8")
    for old, new in (
        ('[8, "bits', '[9, "bits'),
        ("close(value, right, tolerance)", "close(value, right, 0.5)"),
        ('"has the wrong', '"has another'),
    ):
        assert old in script
        spoiled = Page(script.replace(old, new))
        assert any(differences(spoiled, one) for one in NUMBERS)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("35 ms", 0.035), ("3.5e-2", 0.035), ("35e-3 s", 0.035), ("2 min", 120), ("-4", -4),
        ("15/16 100e6 / 100e9", 0.0009375), ("(16-1) 2^3", 120), ("2^-1", 0.5), ("-2^2", -4),
        ("1,250,000 µs", 1.25), ("sqrt(16) + max(1, 2)", 6), ("2^3^2", 512), ("7 − 2·3", 1),
    ],
)  # fmt: skip
def test_a_number_is_read_as_it_is_written(page, text, value):
    asked = asked_on_page(Numbers("ex-a", ABOUT, [Asked("t", 1.0, "s")], "right"))["asked"][0]
    assert page("read(text, asked)", text=text, asked=asked) == pytest.approx(value, rel=1e-15)


def test_a_percentage_and_a_prefix_are_units_and_nonsense_is_named(page):
    asked = Numbers("ex-a", ABOUT, [Asked("share", 0.625), Asked("size", 2e9, "bytes")], "right")
    assert page.says(asked, ["62.5 %", "2 GB"]) == ""
    assert page.says(asked, ["5/8", "2 GiB"]) == complaint(asked, (0.625, 2 * 2**30))
    assert page.says(asked, ["5/8", "2 furlongs"]) == 'size, a number in bytes: what is "furlongs"?'
    assert page.says(asked, ["5/", "2"]).endswith("something is missing at the end")
    assert page.says(asked, ["5/8", " "]) == "size: there is nothing here yet"


def test_a_choice_is_told_its_hint(page):
    kind = Numbers("ex-a", ABOUT, [Chosen("all", True, {False: "who sums?"})], "right")
    assert page.says(kind, ["True"]) == "" and page.says(kind, ["False"]) == "all: who sums?"


def ring(n, P, alpha, *, phases=2):
    return phases * (P - 1) * (alpha + n / P)


FORMULA = Formula(
    "ex-b", ABOUT, "time(n, P, alpha)", ring,
    lambda: [("", (3.0, 2, 0.5)), ("", (7.0, 5, 0.25))], same_number, "right",
    {"one phase or two?": {"phases": 1}}, (Limit("n = 0", {"n": 0}, "what does a start cost?"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2 (P-1) (alpha + n/P)", ""),
        ("T = 2*(P - 1)*alpha + 2*(P-1)/P * n", ""),
        ("(P-1) (alpha + n/P)", "one phase or two?"),
        ("2 (P-1) (2 alpha + n/P)", "wrong already when n = 0: what does a start cost?"),
        ("2 (P-1) (alpha + n)", "n = 3, P = 2, alpha = 0.5: the result "),
        ("2 (P-1) (beta + n/P)", 'a formula of (n, P, alpha): what is "beta"?'),
        ("", "there is nothing here yet"),
    ],
)
def test_a_formula_is_judged_on_the_cases_of_its_declaration(page, text, says):
    assert page.says(FORMULA, [text]).startswith(says)
    assert bool(says) == bool(page.says(FORMULA, [text]))


def test_of_every_formula_the_page_has_cases_and_its_slips_fail():
    formulas = [one for one in DECLARED if asked_on_page(one)["kind"] == "formula"]
    assert len(formulas) > 5
    for one in map(asked_on_page, formulas):
        assert len(one["values"]) == len(one["cases"]) > 0
        assert all(wrong != one["values"] for _, wrong in one["slips"])
        json.dumps(one, allow_nan=False)
