"""The page judges as Python does: word for word, on every right and every wrong answer."""

import json
from pathlib import Path

import pytest
import quickjs
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlib.exercises import NotYet
from dtlib.exercises.answers.reading import read_number
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


def typed(declaration: Numbers, answer) -> list[str]:
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
        texts, python = typed(declaration, answer), complaint(declaration, answer)
        if "" not in texts and page.says(declaration, texts) != python:
            found.append((texts, python))
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


TIME = Numbers("ex-a", ABOUT, [Asked("t", 1.0, "s", {3: "three?"})], "right")
MIXED = Numbers(
    "ex-a",
    ABOUT,
    [Asked("share", 0.625), Asked("size", 2e9, "bytes"), Chosen("all", True, {False: "who?"})],
    "right",
)
READ = {
    "35 ms": 0.035, "3.5e-2": 0.035, "35e-3 s": 0.035, "2 min": 120, "-4": -4, " 7\u00a0s ": 7,
    "15/16 100e6 / 100e9": 0.0009375, "(16-1) 2^3": 120, "2^-1": 0.5, "-2^2": -4, ".5": 0.5,
    "1,250,000 µs": 1.25, "sqrt(16) + max(1, 2)": 6, "2^3^2": 512, "7 − 2·3": 1, "2(3)": 6,
    "exp(0) + log(1) + log2(8)": 4, "ceil(1.2) floor(1.8) abs(-3) min(4, 3) pi/pi": 18,
    "0/2": 0, "2**3": 8, "6 ÷ 3 × 2": 4, "+5": 5,
}  # fmt: skip
TAKES = "It takes ns, µs, ms, s, min, h, d, years"
COMMA = "decimals have a point, and a comma only groups thousands, as in 1,000"
UNREAD = {
    "35 GB": f'what is "GB"? {TAKES}', "35 Mbit/s": f'what is "Mbit/s"? {TAKES}',
    "(1 + 2) furlongs a day": f'what is "furlongs a"? {TAKES}',
    "35,3": COMMA, "0,001 s": COMMA, "(35,3) s": COMMA, "1,000,5": COMMA,
    "1.000.000": 'what is ".000"?', "1 000": 'what is "000"?', "1,0000": COMMA,
    "about 35": 'what is "about"?', "thirty-five ms": 'what is "thirty"?', "nan": 'what is "nan"?',
    "~35": 'what is "~35"?', "$ 35": 'what is "$ 35"?', "t = 35": 'what is "= 35"?',
    "35 %": 'what is "%"?', "5/": "something is missing at the end",
    "(2": 'a ")" is missing', "sqrt 2": 'a "(" is missing', "2)": 'what is ")"?',
    "sqrt(1, 2)": "sqrt takes one number", "__import__('os')": "what is \"'os')\"?",
    "9" * 501: "that is too long, 500 characters are enough",
    "(" * 200 + "1": "too many brackets or signs stand inside one another",
    "-" * 200 + "1": "too many brackets or signs stand inside one another",
    "é" * 90: f'what is "{"é" * 40} ..."?',
}  # fmt: skip
WITHOUT_A_VALUE = {
    "1/0": "inf", "-1/0": "-inf", "0/0": "nan", "sqrt(-1)": "nan", "log(0)": "-inf",
    "log(-1)": "nan", "exp(1e9)": "inf", "(-8)^0.5": "nan", "10^999": "inf", "(-10)^999": "-inf",
    "0^-1": "inf", "1^(1/0)": "nan", "max(1, 0/0)": "nan", "1e999": "inf", "ceil(1/0)": "inf",
    "9" * 400: "inf", "1e308 * 1e308": "inf", "1e999 - 1e999": "nan",
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_a_number_is_read_as_it_is_written(page, text):
    asked = asked_on_page(TIME)["asked"][0]
    assert page("read(text, asked)", text=text, asked=asked) == pytest.approx(READ[text], rel=1e-15)
    assert read_number(text, "t", "s") == pytest.approx(READ[text], rel=1e-15)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *((text, f"t, a number in s: {says}") for text, says in UNREAD.items()),
        *((text, f"must be a finite number, got {none}") for text, none in WITHOUT_A_VALUE.items()),
        ("", "t: there is nothing here yet"),
        (" \n", "t: there is nothing here yet"),
        ("3", "t: three?"),
        ("3000 ms", "t: three?"),
        ("1 ms", "t is too small by about a factor of 1,000: check the prefixes"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_the_same_words(page, text, says):
    told = complaint(TIME, text)
    assert told.endswith(says)
    assert page.says(TIME, [text]) == told
    assert "\n" not in told and len(told) < 150


def test_every_field_is_read_where_it_stands(page):
    for texts in (
        ["62.5 %", "2 GB", "True"], ["5/8", "2 GiB", "True"], ["5/8", "2 furlongs", "True"],
        ["62.5", "2 GB", "True"], ["5/8", " ", "True"], ["5/8", "16 Gbit", "True"],
        ["5/8", "2e9", "False"], ["5/8", "2e9", "perhaps"], ["5/8", "2e9", "no" * 400],
    ):  # fmt: skip
        assert page.says(MIXED, texts) == complaint(MIXED, tuple(texts))
    assert complaint(MIXED, ("62.5 %", "2 GB", "True")) == ""
    assert complaint(MIXED, ("5/8", "2 GB", "sure")) == (
        'all must be one of False, True: what is "sure"?'
    )
    assert complaint(MIXED, ("5/8", "16 Gbit", True)).endswith(
        'what is "Gbit"? It takes B, KB, MB, GB, TB, PB, EB'
    )


PIECES = st.sampled_from(
    [*"0123456789.,()+-*/^ e%", "ms", "GB", "sqrt", "max", "pi", "35", " s", "π"]
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_whatever_is_typed_both_say_the_same(page, text):
    assert page.says(TIME, [text]) == complaint(TIME, text)


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
        ("log(0)", "n = 3, P = 2, alpha = 0.5: the result must be a finite number, got -inf"),
        ("2 (P-1", 'a formula of (n, P, alpha): a ")" is missing'),
        ("n" * 501, "a formula of (n, P, alpha): that is too long"),
        ("", "there is nothing here yet"),
    ],
)
def test_a_formula_is_judged_on_the_cases_of_its_declaration(page, text, says):
    told = complaint(FORMULA, text)
    assert page.says(FORMULA, [text]) == told
    assert told.startswith(says) and bool(told) == bool(says)


@pytest.mark.parametrize(
    "declaration",
    [one for one in DECLARED if asked_on_page(one)["kind"] == "formula"],
    ids=lambda one: one.slug,
)
def test_of_every_formula_that_is_typed_the_page_says_what_python_says(page, declaration):
    names = asked_on_page(declaration)["names"]
    texts = ["1", " + ".join(names), " ".join(names), "/".join(names), "log(0)", *names]
    assert [page.says(declaration, [text]) for text in texts] == [
        complaint(declaration, text) for text in texts
    ]


def test_of_every_formula_the_page_has_cases_and_its_slips_fail():
    formulas = [one for one in DECLARED if asked_on_page(one)["kind"] == "formula"]
    assert len(formulas) > 5
    for one in map(asked_on_page, formulas):
        assert len(one["values"]) == len(one["cases"]) > 0
        assert all(wrong != one["values"] for _, wrong in one["slips"])
        json.dumps(one, allow_nan=False)
