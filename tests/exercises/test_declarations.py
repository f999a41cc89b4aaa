"""What follows from a declaration: the right value passes, each slip is told its own hint."""

import re

import pytest

from dtlib.exercises import NotYet
from dtlib.exercises.chapter_17 import who_waits
from dtlib.exercises.declarations.numbers import Asked, Numbers

DECLARED = [who_waits]


def misjudged(declaration) -> list:
    """The derived wrong answers that pass, or that are not told what they should be."""
    missed = []
    for answer, says in declaration.wrong():
        try:
            declaration(answer)
        except NotYet as verdict:
            if says in verdict.reason:
                continue
        missed.append(answer)
    return missed


@pytest.mark.parametrize("declaration", DECLARED, ids=lambda d: d.slug)
def test_the_value_passes_and_each_wrong_answer_is_told_its_hint(declaration):
    assert declaration(declaration.right()) == declaration.verified
    assert len(list(declaration.wrong())) >= len(declaration.asked)
    assert misjudged(declaration) == []


def test_a_judge_that_passes_everything_is_found():
    lenient = Numbers("ex-a", Asked("a", 1.0, slips={2.0: "twice"}), verified="a")
    lenient._given = lambda answer: [1.0]
    assert len(misjudged(lenient)) == 6


def test_a_keyed_answer_names_its_keys():
    keyed = Numbers("ex-a", Asked("a", 1.0), Asked("b", 2.0), verified="two", keyed=True)
    assert keyed({"b": 2.0, "a": 1.0}) == "two"
    with pytest.raises(NotYet, match=re.escape("pass a dict with the keys a, b")):
        keyed((1.0, 2.0))
