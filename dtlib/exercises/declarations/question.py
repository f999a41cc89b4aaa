"""What a quick question is, and where those of a chapter are.

Three are asked at a chapter's end; their names begin with `ask-`. A pause stands in the text, after
what it asks about or before what answers it, so that the hand is never idle for long; its name
begins with `pause-`, and the text has its place: `:::{pause} pause-hops`.
"""

from functools import cache

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.declarations.rooms import declared, module_of


def question(slug: str, text: str, asked: Asked | Chosen, verified: str) -> Numbers:
    """A declaration that asks for one thing: its title is the question.

    Arguments: `slug`, its lasting name; `text`, the whole question, in plain words; `asked`, the
    number or the choice, its value from the library's formulas; `verified`, what a right answer is
    told.

    >>> two = question("ask-two", "How many are two?", Asked("number", 2, slips={3: "less"}), "two")
    >>> two.about.title, two(2)
    ('How many are two?', 'two')
    """
    return Numbers(slug, About(text, "compute", 1, 1, "answer on the spot"), [asked], verified)


@cache
def questions_of(number: str) -> tuple[Numbers, ...]:
    """The questions at the end of a chapter in their order; none where it has none yet.

    >>> len(questions_of("12")), questions_of("37")
    (3, ())
    """
    return tuple(one for one in _declared(number) if not _is_pause(one))


@cache
def pauses_of(number: str) -> tuple[Numbers, ...]:
    """The questions in the text of a chapter, in the order of the text."""
    return tuple(one for one in _declared(number) if _is_pause(one))


def _is_pause(one: Numbers) -> bool:
    return one.slug.startswith("pause-")


def _declared(number: str) -> list[Numbers]:
    return declared(module_of("questions", number), Numbers)
