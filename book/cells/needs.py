"""Which statements of earlier cells a cell of a page takes its names from."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from book.cells.names import Statement, statements

DRAWS = re.compile(r"\b(?:default_rng|Random|Generator|iter|count)\(")


@dataclass(frozen=True)
class Cell:
    """A code cell of a page: its id, its text, and the exercise that it is the solution of."""

    id: str
    code: str
    solves: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """A statement at its place on the page."""

    place: int
    cell: str
    what: Statement
    solves: str


@dataclass
class Names:
    """The statements of a page in reading order."""

    cells: tuple[Cell, ...]
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        for cell in self.cells:
            for what in statements(cell.code):
                self.steps.append(Step(len(self.steps), cell.id, what, cell.solves))

    def imports(self) -> dict[str, str]:
        """Names that are imported, and from one place only, with the import of each."""
        found: dict[str, set[str]] = {}
        for step in self.steps:
            if step.what.imports:
                for name, text in _imported(step.what.text).items():
                    found.setdefault(name, set()).add(text)
        return {name: text for name, (text, *more) in found.items() if not more}

    def before(self, cell: Cell) -> list[Step]:
        """What must have run before a cell, without imports, in the order of the page."""
        own = [step for step in self.steps if step.cell == cell.id]
        if not own:
            return []
        end = own[-1].place + 1
        wanted = [(step.place, name) for step in own for name in step.what.reads]
        wanted += [(end, name) for step in own for name in step.what.late]
        return [step for step in self._closure(wanted, end) if step.cell != cell.id]

    def for_step(self, place: int) -> list[Step]:
        """What must have run before a statement."""
        what = self.steps[place].what
        wanted = [(place, name) for name in sorted(what.reads | what.late)]
        return self._closure(wanted, place)

    def for_code(self, code: str, place: int) -> list[Step]:
        """What code needs that stands before step number ``place``, but from no solution."""
        names, late, own = set(), set(), set()
        for what in statements(code):
            names |= what.reads - own
            late |= what.late
            own |= what.sets | what.changes
        wanted = [(place, name) for name in sorted(names | late - own)]
        return self._closure(wanted, place, solutions=False)

    def _closure(
        self, wanted: list[tuple[int, str]], end: int, solutions: bool = True
    ) -> list[Step]:
        """The steps that bind the names wanted, each before a place, and what those need."""
        from_imports = self.imports().keys() - self._bound_otherwise()
        found: set[int] = set()
        asked = set(wanted)
        while wanted:
            before, name = wanted.pop()
            if name in from_imports:
                continue
            for step in self._setters(name, before, solutions):
                later = {(step.place, one) for one in step.what.reads}
                # what a function reads, it reads when it is called: here, or at the end
                later |= {(place, one) for one in step.what.late for place in (before, end)}
                found.add(step.place)
                wanted += sorted(later - asked)
                asked |= later
        return [self.steps[place] for place in sorted(found)]

    def _bound_otherwise(self) -> set[str]:
        return {name for s in self.steps if not s.what.imports for name in s.what.sets}

    def _setters(self, name: str, before: int, solutions: bool) -> Iterable[Step]:
        """The last statement that binds the name, and those after it that may change it."""
        for step in reversed(self.steps[:before]):
            if step.solves and not solutions:
                continue
            what = step.what
            if name in what.sets:
                yield step
                return
            if name in what.changes or (name in what.reads and self._draws(name)):
                yield step

    def _draws(self, name: str) -> bool:
        """Whether a name is a generator, which every use moves on."""
        made = (s.what.text for s in self.steps if name in s.what.sets)
        return any(DRAWS.search(text) for text in made)


def _imported(text: str) -> dict[str, str]:
    """The names of an import, each with an import of its own.

    >>> _imported("from fractions import Fraction as F, gcd")
    {'F': 'from fractions import Fraction as F', 'gcd': 'from fractions import gcd'}
    """
    head, _, names = text.rpartition("import ")
    aliases = {alias.split(" as ")[-1].partition(".")[0]: alias for alias in names.split(", ")}
    return {name: f"{head}import {alias}" for name, alias in aliases.items()}
