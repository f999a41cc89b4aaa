"""The one list of exercises: what each trains, and how long it takes."""

from dataclasses import dataclass
from functools import cache

from dtlib.contents import chapters
from dtlib.errors import DtlibError
from dtlib.exercises.declarations.declaration import Declaration
from dtlib.exercises.declarations.rooms import declared, module_of
from dtlib.formulas.table import Table

KINDS = ("compute", "repair", "derive", "design")


class ManifestError(DtlibError, ValueError):
    """What a declaration says of its exercise cannot be."""


@dataclass(frozen=True)
class Exercise:
    """One exercise of a chapter (label "12.4") or one task of a lab (label "all-reduce.2")."""

    label: str
    chapter: str
    lab: str
    declaration: Declaration
    slug: str
    title: str
    kind: str
    stars: int
    minutes: int
    skill: str
    covers: tuple[str, ...] = ()
    needs: str = ""

    @property
    def group(self) -> str:
        """What stands before the number in the label: the chapter or the lab."""
        return self.lab or self.chapter

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ManifestError(f"exercise {self.label}: {problem}")

    def _problem(self) -> str:
        if not self.slug.startswith("ex-"):
            return f"the slug must start with 'ex-', got {self.slug!r}"
        if self.kind not in KINDS:
            return f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}"
        if self.stars not in (1, 2, 3):
            return f"stars must be 1, 2 or 3, got {self.stars!r}"
        if not (isinstance(self.minutes, int) and self.minutes > 0):
            return f"minutes must be a positive whole number, got {self.minutes!r}"
        empty = [name for name in ("title", "skill") if not getattr(self, name).strip()]
        return f"{', '.join(empty)} must not be empty" if empty else ""


@dataclass(frozen=True)
class Manifest:
    """All exercises, in the order in which they are printed."""

    exercises: tuple[Exercise, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for exercise in self.exercises:
            if exercise.slug in seen:
                raise ManifestError(f"two exercises have the slug {exercise.slug!r}")
            seen.add(exercise.slug)

    def of(self, group: str) -> tuple[Exercise, ...]:
        """The exercises of one chapter ("12") or one lab ("all-reduce"), in order."""
        return tuple(e for e in self.exercises if e.group == group)

    def covering(self, item: str) -> tuple[Exercise, ...]:
        """The exercises that take up one item of the sources."""
        return tuple(e for e in self.exercises if item in e.covers)


@cache
def groups() -> dict[str, str]:
    """Chapters that have exercises, then labs, in the book's order, each with its chapter.

    >>> groups()["12"], groups()["all-reduce"]
    ('12', '12')
    """
    numbers = [c.number for c in chapters() if module_of("chapters", c.number)]
    labs = {path.rpartition("/")[2]: c.number for c in chapters() for path in c.labs}
    return {number: number for number in numbers} | labs


@cache
def exercises_of(group: str) -> tuple[Exercise, ...]:
    """What the module of a chapter or lab declares, numbered in its order; imports no other.

    >>> [exercise.label for exercise in exercises_of("17")][:2]
    ['17.1', '17.2']
    """
    if group not in groups():
        return ()
    return tuple(
        Exercise(
            label=f"{group}.{number}",
            chapter=groups()[group],
            lab="" if groups()[group] == group else group,
            declaration=declaration,
            slug=declaration.slug,
            **declaration.about._asdict(),
        )
        for number, declaration in enumerate(declared(_module(group), Declaration), start=1)
    )


def _module(group: str) -> str:
    if group[0].isdigit():
        return module_of("chapters", group)
    return f"dtlib.exercises.labs.{group.replace('-', '_')}"


@cache
def manifest() -> Manifest:
    """All exercises of the book."""
    return Manifest(tuple(e for group in groups() for e in exercises_of(group)))


def exercise_totals() -> Table:
    """For instructors: how many exercises each chapter and lab has, their minutes and their kinds.

    >>> exercise_totals().rows[0]
    ('Chapter 1', '11', '112', '3', '2', '6', '0')
    """
    columns = ("of", "exercises", "minutes", *KINDS)
    rows = tuple(_totals(group) for group in groups())
    return Table("What each chapter and lab has", columns, rows)


def _totals(group: str) -> tuple[str, ...]:
    exercises = exercises_of(group)
    kinds = [str(sum(e.kind == kind for e in exercises)) for kind in KINDS]
    name = f"Lab {group}" if exercises[0].lab else f"Chapter {group}"
    return (name, str(len(exercises)), str(sum(e.minutes for e in exercises)), *kinds)
