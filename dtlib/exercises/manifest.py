"""The one list of exercises: what each trains, how long it takes, what tests it."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from importlib.resources import files

from dtlib.contents import chapter, padded
from dtlib.errors import DtlibError
from dtlib.exercises.declarations.declaration import Declaration
from dtlib.formulas.table import Table, Tables

KINDS = ("compute", "repair", "derive", "design")


class ManifestError(DtlibError, ValueError):
    """An entry of the manifest is incomplete or contradicts another."""


@dataclass(frozen=True)
class Exercise:
    """One exercise of a chapter (label "12.4") or one task of a lab (label "all-reduce.2")."""

    label: str
    slug: str
    title: str
    chapter: str
    kind: str
    stars: int
    minutes: int
    skill: str
    test: str
    covers: tuple[str, ...] = ()
    check: bool = True
    lab: str = ""
    declaration: Declaration | None = None

    @property
    def group(self) -> str:
        """What stands before the number in the label: the chapter or the lab."""
        return self.label.rpartition(".")[0]

    @property
    def number(self) -> int:
        return int(self.label.rpartition(".")[2])

    @property
    def module(self) -> str:
        """The module that holds the grader."""
        room = f"lab_{self.lab}" if self.lab else f"chapter_{padded(self.chapter)}"
        return f"dtlib.exercises.{room.replace('-', '_')}"

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ManifestError(f"exercise {self.label}: {problem}")

    def _problem(self) -> str:
        expected_group = self.lab or self.chapter
        if self.group != expected_group or not self.label.rpartition(".")[2].isdecimal():
            return f"the label must be {expected_group!r}, a point and a number"
        if not self.slug.startswith("ex-"):
            return f"the slug must start with 'ex-', got {self.slug!r}"
        if self.kind not in KINDS:
            return f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}"
        if self.stars not in (1, 2, 3):
            return f"stars must be 1, 2 or 3, got {self.stars!r}"
        if not (isinstance(self.minutes, int) and self.minutes > 0):
            return f"minutes must be a positive whole number, got {self.minutes!r}"
        empty = [name for name in ("title", "skill", "test") if not getattr(self, name).strip()]
        return f"{', '.join(empty)} must not be empty" if empty else ""


@dataclass(frozen=True)
class Manifest:
    """All exercises, in the order in which they are printed."""

    exercises: tuple[Exercise, ...]

    def __post_init__(self) -> None:
        for name in ("label", "slug"):
            seen: set[str] = set()
            for exercise in self.exercises:
                value = getattr(exercise, name)
                if value in seen:
                    raise ManifestError(f"two exercises have the {name} {value!r}")
                seen.add(value)
        for group in dict.fromkeys(e.group for e in self.exercises):
            numbers = [e.number for e in self.of(group)]
            if numbers != list(range(1, len(numbers) + 1)):
                raise ManifestError(f"the exercises of {group} must count 1, 2, 3, ...: {numbers}")

    def of(self, group: str) -> tuple[Exercise, ...]:
        """The exercises of one chapter ("12") or one lab ("all-reduce"), in order."""
        return tuple(e for e in self.exercises if e.group == group)

    def covering(self, item: str) -> tuple[Exercise, ...]:
        """The exercises that take up one item of the sources."""
        return tuple(e for e in self.exercises if item in e.covers)


def parse(text: str) -> Manifest:
    """Read a manifest from TOML text; raises `ManifestError` that names the entry.

    >>> parse('[[exercise]]\\nlabel = "12.1"')
    Traceback (most recent call last):
    ...
    dtlib.exercises.manifest.ManifestError: exercise 12.1: missing chapter, kind, ...
    """
    known = {field.name for field in fields(Exercise)} - {"declaration"}
    required = known - {"covers", "check", "lab"}
    exercises = []
    for entry in tomllib.loads(text).get("exercise", []):
        if "declared" in entry:
            exercises += declared(entry["declared"])
            continue
        label = entry.get("label", "without a label")
        for trouble, names in (("missing", required - set(entry)), ("unknown", set(entry) - known)):
            if names:
                raise ManifestError(f"exercise {label}: {trouble} {', '.join(sorted(names))}")
        exercises.append(Exercise(**entry | {"covers": tuple(entry.get("covers", ()))}))
    return Manifest(tuple(exercises))


@cache
def exercises_of(group: str) -> tuple[Exercise, ...]:
    """The exercises of one chapter or lab; where they are declared, no other module is imported."""
    return tuple(declared(group)) if group in declared_groups() else manifest().of(group)


@cache
def declared_groups() -> frozenset[str]:
    """The chapters and labs whose exercises are declared."""
    entries = tomllib.loads(_text())["exercise"]
    return frozenset(entry["declared"] for entry in entries if "declared" in entry)


def declared(group: str) -> Iterator[Exercise]:
    """The exercises that the module of a chapter or a lab declares, in the order of the module.

    A lab's module says to which chapter it belongs, ``CHAPTER = "15"``.

    >>> [exercise.label for exercise in declared("17")][:2]
    ['17.1', '17.2']
    """
    lab = "" if group[0].isdigit() else group
    room = f"labs.{lab.replace('-', '_')}" if lab else f"chapters.ch{padded(group)}"
    module = import_module(f"dtlib.exercises.{room}")
    stated = [thing for thing in vars(module).values() if isinstance(thing, Declaration)]
    for number, declaration in enumerate(stated, 1):
        yield Exercise(
            label=f"{group}.{number}",
            slug=declaration.slug,
            chapter=module.CHAPTER if lab else group,
            lab=lab,
            test="tests/exercises/test_declarations.py",
            declaration=declaration,
            **declaration.about._asdict(),
        )


def exercise_tables() -> Tables:
    """For instructors: each chapter's and lab's exercises, with minutes, skill and how to judge.

    >>> print(repr(exercise_tables()).splitlines()[0])
    Chapter 1, One machine is not enough: 11 exercises, 112 minutes
    """
    groups = dict.fromkeys(e.group for e in manifest().exercises)
    return Tables(map(_exercise_table, groups))


def _exercise_table(group: str) -> Table:
    exercises = manifest().of(group)
    first = exercises[0]
    teaches = chapter(first.chapter)
    where = f"Lab {group}, to chapter" if first.lab else "Chapter"
    minutes = sum(e.minutes for e in exercises)
    where = f"{where} {teaches.number}, {teaches.title}"
    title = f"{where}: {len(exercises)} exercises, {minutes} minutes"
    columns = ("exercise", "title", "kind", "stars", "minutes", "trains to", "judged by")
    rows = [
        (e.label, e.title, e.kind, "★" * e.stars, str(e.minutes), e.skill, _judged_by(e))
        for e in exercises
    ]
    return Table(title, columns, tuple(rows))


def _judged_by(exercise: Exercise) -> str:
    if not exercise.check:
        return "rubric"
    return "check and rubric" if exercise.kind == "derive" else "check"


@cache
def manifest() -> Manifest:
    """The manifest of the book, read once."""
    return parse(_text())


def _text() -> str:
    return files("dtlib.exercises").joinpath("manifest.toml").read_text(encoding="utf-8")
