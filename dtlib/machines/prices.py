"""Assumed prices and rates, each with the source and date that it was compared with.

Prices change faster than books. A calculation of chapter 5 takes its numbers from here, and each of
them says whether somebody published it or whether it is a round number of ours.
"""

from dataclasses import dataclass

from dtlib.formulas.table import Table
from dtlib.formulas.units import format_quantity, hour, minute

_KWH = 3_600_000


@dataclass(frozen=True)
class Assumption:
    """A number that a calculation rests on: `value` in base units, and what it was compared with.

    `cited` says that the source printed this very number; else it is a round one of the same size.
    """

    name: str
    value: float
    unit: str
    source: str
    date: str
    cited: bool = False

    def __repr__(self) -> str:
        shown = format_quantity(self.value, self.unit)
        return f"Assumption({self.name}: {shown}, {'cited' if self.cited else 'assumed'})"


_ASSUMPTIONS = (
    Assumption("on demand", 4 / hour, "USD/s",
               "one H100 of eight; Lambda's price list had 3.99", "September 2026"),
    Assumption("spot", 1.5 / hour, "USD/s",
               "a discount of 62 %; Google's on an H100 was 40 %", "September 2026"),
    Assumption("DeepSeek's rent", 2 / hour, "USD/s",
               "one H800, as its report assumes (DeepSeek-AI)", "December 2024", cited=True),
    Assumption("mean life on spot", 20 * hour, "s",
               "5 % an hour; it differs by place, hour and kind of machine", "2026"),
    Assumption("checkpoint", 2 * minute, "s", "blocking, to shared storage", "2026"),
    Assumption("restart", 10 * minute, "s",
               "a new instance, start of all ranks, reading the checkpoint", "2026"),
    Assumption("GPU power", 700, "W",
               "one H100 SXM, as in the model card of Llama 3.1 (Meta)", "July 2024", cited=True),
    Assumption("PUE", 1.2, "", "the building's cooling and conversion", "2026"),
    Assumption("electricity", 0.10 / _KWH, "USD/J", "an industrial tariff", "2026"),
    Assumption("purchase", 40_000, "USD",
               "one GPU with its share of server, network and building", "2026"),
    Assumption("staff and repairs", 0.4 / hour, "USD/s", "for one GPU in use", "2026"),
)  # fmt: skip


class _Assumptions(dict):
    def __missing__(self, name):
        raise KeyError(f"no assumption {name!r}; known: {', '.join(self)}")


assumptions = _Assumptions({entry.name: entry for entry in _ASSUMPTIONS})


def assumption_table() -> Table:
    """Every assumption with its source and date.

    >>> assumption_table().rows[0][:3]
    ('on demand', '4 USD/h', 'assumed')
    """
    rows = [
        (
            entry.name,
            format_quantity(entry.value, entry.unit),
            "cited" if entry.cited else "assumed",
            entry.source,
            entry.date,
        )
        for entry in _ASSUMPTIONS
    ]
    return Table("Assumptions", ("what", "value", "how", "compared with", "date"), tuple(rows))
