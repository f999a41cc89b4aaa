"""What follows from a declaration: right answers pass, each slip is told its own hint."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from wrong_answers import kept

from dtlib.contents import chapter
from dtlib.exercises import NotYet, check
from dtlib.exercises.chapters.parallelism import ch17
from dtlib.exercises.declarations.declaration import About, no_library
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import Limit
from dtlib.exercises.manifest import exercises_of, groups, manifest
from dtlib.foundations import formulas

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = manifest().exercises
HELD = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
ON_PAGES = pytest.mark.parametrize(
    "exercise", [e for e in EXERCISES if not e.lab], ids=lambda e: e.slug
)
NUMBER = re.compile(r"\d[\d_,]*\.?\d*(?:e[+-]?\d+)?")
ABOUT = About("A", "compute", 1, 5, "count")


def complaint(declaration, answer) -> str:
    """What an answer is told; nothing where it passes."""
    try:
        declaration.judge(answer)
    except NotYet as verdict:
        return verdict.reason
    return ""


def misjudged(declaration) -> list:
    """The derived wrong answers that pass, or that are not told what they should be."""
    return [says for answer, says in declaration.wrong() if not says_so(declaration, answer, says)]


def says_so(declaration, answer, says: str) -> bool:
    told = complaint(declaration, answer)
    own = told.partition("by about a factor of")[0]  # what follows is said of every exercise
    shown = [float(m.replace(",", "")) for m in NUMBER.findall(own)]
    secret = any(abs(s / value - 1) < 0.02 for s in shown for value in declaration.secrets())
    return says in told and bool(told) and "\n" not in told and len(told) < 300 and not secret


@HELD
def test_the_reference_passes_and_each_slip_is_told_its_hint(exercise):
    declaration = exercise.declaration
    assert declaration.judge(declaration.right())
    assert any(declaration.wrong()), "an exercise without a slip"
    assert misjudged(declaration) == []


@HELD
def test_what_is_no_answer_yet_fails(exercise):
    for stub in exercise.declaration.stubs():
        with pytest.raises(NotYet):
            check(exercise.label, stub)


@pytest.mark.parametrize(("slug", "answer"), kept("RIGHT"))
def test_other_ways_to_be_right_pass(slug, answer):
    assert check(slug, answer)


@pytest.mark.parametrize(("slug", "answer", "says"), kept("WRONG"))
def test_wrong_answers_that_no_slip_derives_fail_and_learn_why(slug, answer, says):
    with pytest.raises(NotYet, match=says) as caught:
        check(slug, answer)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


PRINTED = re.compile(
    r"\{exercise(?:-start)?\} (?P<title>[^\n]*)\n:label: (?P<slug>\S+)\n(?::::)?\s*"
    r"(?P<stars>★+) \*(?P<kind>\w+), (?P<minutes>\d+) minutes"
)


def misprinted(about: About, slug: str, page: str) -> bool:
    """Whether a page says otherwise than the declaration."""
    said = (about.title, slug, "★" * about.stars, about.kind, str(about.minutes))
    return said not in [match.groups() for match in PRINTED.finditer(page)]


@ON_PAGES
def test_the_page_prints_title_stars_kind_and_minutes(exercise):
    page = (ROOT / f"{chapter(exercise.chapter).page}.md").read_text(encoding="utf-8")
    about = exercise.declaration.about
    assert not misprinted(about, exercise.slug, page)
    for change in ({"title": "B"}, {"stars": 4}, {"kind": "read"}, {"minutes": 99}):
        assert misprinted(about._replace(**change), exercise.slug, page)


def test_the_page_of_a_lab_checks_all_its_tasks_in_order():
    for lab in (group for group, number in groups().items() if group != number):
        page = next(ROOT.glob(f"labs/*/{lab}/{lab}.md")).read_text(encoding="utf-8")
        checked = dict.fromkeys(re.findall(r'check\("([^"]+)"', page))
        assert list(checked) == [e.label for e in exercises_of(lab)]


def test_a_judge_that_passes_everything_is_found():
    lenient = Numbers("ex-a", ABOUT, [Asked("a", 1.0, slips={2.0: "twice"})], "a")
    object.__setattr__(lenient, "_given", lambda answer: [1.0])
    assert len(misjudged(lenient)) == 8
    slips = {"double": {"factor": 2}, "forgotten": lambda n: 0 * n}

    def times(n, factor=1):
        return factor * n

    blind = Function(
        "ex-b", ABOUT, "f(n)", times, lambda: [("", (3,))], lambda *given: None, "b", slips
    )
    assert misjudged(blind) == ["forgotten", "double"]


def test_slips_that_are_made_together_are_told_together():
    def area(a, b, half=1, sides=1):
        return a * b**sides / half

    slips = {"a triangle has half": {"half": 2}, "two sides": {"sides": 0}}
    exercise = Function(
        "ex-c", ABOUT, "f(a, b)", area, lambda: [("", (3, 5))], same_number, "c", slips
    )
    with pytest.raises(NotYet, match=r"^a triangle has half; two sides$"):
        exercise(lambda a, b: a / 2)
    with pytest.raises(NotYet, match=r"^a = 3, b = 5: the result is too large"):
        exercise(lambda a, b: a * b + 100)


def test_a_limit_tells_which_term_is_wrong():
    limits = (Limit("n = 0", {"n": 0}, "what does a message without bytes cost?"),)
    cost = Formula(
        "ex-d", ABOUT, "cost(n, alpha)", lambda n, alpha: alpha + n,
        lambda: [("", (3, 5))], same_number, "d", {"no start": lambda n, alpha: n}, limits,
    )  # fmt: skip
    assert misjudged(cost) == []
    assert complaint(cost, lambda n, alpha: 2 * alpha + n) == (
        "wrong already when n = 0: what does a message without bytes cost?"
    )
    assert complaint(cost, lambda n, alpha: alpha + 2 * n).startswith(
        "n = 3, alpha = 5: the result"
    )
    assert complaint(cost, lambda n: n).startswith("your function must take")


def test_the_librarys_functions_are_refused_and_its_nouns_are_not():
    from dtlib.collectives import Schedule, ring_all_reduce

    ours = [one for one in formulas().values() if one.__module__.startswith("dtlib.")]
    for own in (ring_all_reduce, Schedule, *ours):
        with pytest.raises(NotYet, match="the library's own"):
            no_library(own)
    no_library(ring_all_reduce(2))
    no_library(lambda n: n)


def test_a_wrong_answer_where_zero_is_right_is_refused():
    zero = Formula(
        "ex-f", ABOUT, "f(n)", lambda n: 0 * n, lambda: [("", (3,))], same_number, "f", {}
    )
    assert complaint(zero, lambda n: n) == "n = 3: the result is wrong"
    assert not complaint(zero, lambda n: 0)


def test_choices_stand_beside_numbers():
    both = Numbers(
        "ex-e",
        ABOUT,
        [Asked("a", 1.5), Chosen("b", True, {False: "who sums?"})],
        "both",
        keyed=True,
    )
    assert misjudged(both) == []
    assert complaint(both, {"a": 1.5, "b": 1}) == "b must be one of [False, True], got 1"


def test_checks_without_arrays_import_neither_numpy_nor_torch():
    code = (
        "import sys\n"
        "for name in ('numpy', 'torch', 'multiprocessing'): sys.modules[name] = None\n"
        "from dtlib.exercises import check\n"
        "print(check('17.4', (7.5, 15.5, 8)))\n"
        "print(check('17.10', lambda seq, P, w: min(P - 1, -(-(w - 1) * P // seq))))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.count("passed") == 2, run.stderr


def test_merging_is_softmax_of_all_keys_and_gradients_are_autograds():
    """Independent references of chapter 17: one softmax, and torch's own backward pass."""
    import numpy as np
    import torch

    keys = [(1.0, 2.0), (-3.0, 1.0), (700.0, 5.0), (699.0, -2.0)]
    merged = ch17._merge(ch17._state_of(keys[:2]), ch17._state_of(keys[2:]))
    assert merged == pytest.approx(ch17._state_of(keys), rel=1e-12)
    q, k, v, g = torch.randn(4, 6, 4, dtype=torch.float64, generator=torch.manual_seed(17))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    scores = q @ k.T / 2
    out = scores.softmax(-1) @ v
    expected = torch.autograd.grad(out, (q, k, v), g)
    args = (q, k, v, g, scores.logsumexp(-1), (g * out).sum(-1))
    found = ch17._block_gradients(*(x.detach().numpy() for x in args))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-10, atol=1e-12)
