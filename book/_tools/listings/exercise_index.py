"""The index of all exercises, from what each declares; rows that a script can filter and sort.

Without the script it is a table in the order of the book. `book._tools.generated` writes the page.
"""

from html import escape

from dtlib.contents import Part, chapter, parts
from dtlib.exercises.declarations.on_page import asked_on_page
from dtlib.exercises.manifest import Exercise, manifest

HEAD = """# Exercises

Every exercise of the chapters and every task of the {doc}`labs`, with what it trains. Kinds are what you do: *compute* a number, *repair* something broken, *derive* or *design*. Stars are difficulty, minutes those of somebody who has read the chapter. What is judged *in the page* is answered below the exercise itself; *by code*, `check` runs what you wrote, in the editor below the exercise or in the notebook; *by hand*, a person reads your argument, or you do, against the folded solution. What you have solved on these pages in this browser is marked.

<p class="dt-save"></p>

<div class="dt-filter" data-label="Words" data-rows=".dt-index tbody tr" data-noun="exercises" data-facets="where kind stars judged" data-most="minutes" data-sort="minutes stars" data-kept="dtlib-answer:"></div>

:::{table}
:class: dt-index

| exercise | trains to | kind | stars | minutes | judged |
| --- | --- | --- | --- | ---: | --- |
"""  # noqa: E501


def exercise_page() -> str:
    """The whole page."""
    owners = {one.number: part for part in parts() for one in part.chapters}
    rows = [_row(exercise, owners[exercise.chapter]) for exercise in manifest().exercises]
    return HEAD + "\n".join(rows) + "\n:::\n"


def judged(exercise: Exercise) -> tuple[str, ...]:
    """Who says that it is right.

    >>> from dtlib.exercises.manifest import exercises_of
    >>> [judged(exercise) for exercise in exercises_of("12")[5:7]]
    [('by code',), ('by code', 'by hand')]
    """
    coded = asked_on_page(exercise.declaration)["kind"] == "code" or exercise.lab
    by_hand = ("by hand",) if exercise.kind == "derive" else ()
    return ("by code" if coded else "in the page", *by_hand)


def _row(exercise: Exercise, part: Part) -> str:
    link = (
        f"[{exercise.label}](#lab-{exercise.lab})"
        if exercise.lab
        else f"{{numref}}`{{number}} <{exercise.slug}>`"
    )
    cells = [
        f"{link} {exercise.title} {_facts(exercise, part)}",
        exercise.skill,
        exercise.kind,
        "★" * exercise.stars,
        str(exercise.minutes),
        ", ".join(judged(exercise)),
    ]
    return f"| {' | '.join(' '.join(cell.split()).replace('|', '&#124;') for cell in cells)} |"


def _facts(exercise: Exercise, part: Part) -> str:
    """What the script filters by; of several values each counts, between bars."""
    teaches = chapter(exercise.chapter)
    facts = {
        "slug": exercise.slug,
        "where": f"{part.caption}|{teaches.number} {teaches.title}",
        "kind": exercise.kind,
        "stars": "★" * exercise.stars,
        "minutes": exercise.minutes,
        "judged": "|".join(judged(exercise)),
    }
    attributes = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in facts.items())
    return f'<span class="dt-facts" {attributes}></span>'.replace("|", "&#124;")
