"""Where the time of a long run went: the work that counts, and the rest by its cause.

Times are whole ticks of a microsecond, so that the causes add up to the whole time exactly.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from dtlib.formulas.table import Table
from dtlib.formulas.units import format_quantity

TICKS = 10**6  # in a second


def ticks(seconds: float) -> int:
    """A time in whole microseconds, the nearest.

    >>> ticks(1.5)
    1500000
    """
    return round(seconds * TICKS)


class Phase(NamedTuple):
    """From tick `start` to tick `stop` the run did `what`.

    "kept" is work and the saves within it, "lost" the same after the last checkpoint that a failure
    leaves; then come "detecting", "waiting" for a spare and "restarting".
    """

    what: str
    start: int
    stop: int


@dataclass(frozen=True)
class Account:
    """The time of one run in ticks, by what it went into, and how often it was interrupted.

    `work` is what no failure undid. `saving` is the saves within it, `lost` all work and saves that
    a failure undid, `detecting`, `waiting` (for a spare) and `restarting` what came before the next
    work. `phases` lists the same in the order of time.
    """

    work: int
    saving: int
    lost: int
    detecting: int
    waiting: int
    restarting: int
    failures: int
    phases: tuple[Phase, ...] = field(repr=False)

    @property
    def causes(self) -> dict[str, int]:
        """What was not work, in ticks, by its cause."""
        names = ("saving", "lost", "detecting", "waiting", "restarting")
        return {name: getattr(self, name) for name in names}

    @property
    def total(self) -> int:
        """All ticks of the run: its work and what each cause took."""
        return self.work + sum(self.causes.values())

    @property
    def goodput(self) -> float:
        """The share of the time that was work."""
        return self.work / self.total

    def table(self) -> Table:
        """The account as a table: each item, its time and its share of the whole."""
        items = {"work": self.work, **self.causes}
        return Table(
            f"{self.failures} failures in {format_quantity(self.total / TICKS, 's')}",
            ("item", "time", "share"),
            tuple(
                (name, format_quantity(spent / TICKS, "s"), f"{spent / self.total:.2%}")
                for name, spent in items.items()
            ),
        )
