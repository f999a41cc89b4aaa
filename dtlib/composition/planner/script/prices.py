"""What a script's step would take on a cluster: arithmetic at the peak, and its collectives."""

from collections import Counter
from dataclasses import dataclass

from dtlib.collectives.nccl.model import OPERATIONS
from dtlib.collectives.nccl.network import collective_time
from dtlib.composition.planner.script.reading import ScriptReading
from dtlib.formulas.require import require
from dtlib.formulas.table import Table
from dtlib.formulas.units import format_quantity
from dtlib.machines.machine import Cluster


@dataclass(frozen=True)
class ScriptPrice:
    """The seconds of a step of a script: `computing` at the peak, `sending` by kind of collective.

    `sending` has (phase, operation, ranks of a group) as keys; `unpriced` are operations for which
    there is no model, with their number. Nothing is said of what overlaps: a step takes at least
    the longer of computing and sending.
    """

    reading: ScriptReading
    cluster: Cluster
    computing: float
    sending: dict[tuple[str, str, int], float]
    unpriced: dict[str, int]

    @property
    def fits(self) -> bool:
        """Whether a GPU has room for the most that the step holds."""
        return self.reading.peak_bytes <= self.cluster.node.gpu.hbm_bytes

    def table(self) -> Table:
        """The seconds, as a table."""
        rows = [("computing", "", "", format_quantity(self.computing, "s"))]
        rows += [
            (phase, operation, f"{ranks:,}", format_quantity(seconds, "s"))
            for (phase, operation, ranks), seconds in self.sending.items()
        ]
        rows.append(("", "all collectives", "", format_quantity(sum(self.sending.values()), "s")))
        rows += [("", name, "", f"{count} not priced") for name, count in self.unpriced.items()]
        gpu = self.cluster.node.gpu
        held, of = (format_quantity(x, "B") for x in (self.reading.peak_bytes, gpu.hbm_bytes))
        where = f"{self.cluster.ranks:,} x {gpu.name}"
        title = f"{self.reading.script} on {where}: {held} of {of}"
        return Table(title, ("phase", "operation", "ranks", "time"), tuple(rows))

    def __repr__(self) -> str:
        return repr(self.table())


def script_price(reading: ScriptReading, cluster: Cluster, dtype: str = "bf16") -> ScriptPrice:
    """What the step of a script would take on a cluster of as many ranks.

    Equation: FLOP over the peak, and the time of each collective on its group.
    Arguments: `reading`, of `read_script`; `cluster`; `dtype` of the products, for the peak.
    Returns a `ScriptPrice`. Raises ValueError for a cluster of other ranks.
    Source: `collective_time`.
    """
    allowed = f"{reading.ranks}, those that the script was read for"
    same = cluster.ranks == reading.ranks
    require(same, "script_price", "the ranks of cluster", cluster.ranks, allowed)
    sending: Counter = Counter()
    unpriced: Counter = Counter()
    for each in reading.collectives:
        if len(each.ranks) == 1:
            continue
        if each.operation not in OPERATIONS:
            unpriced[each.operation] += 1
            continue
        key = each.phase, each.operation, len(each.ranks)
        sending[key] += collective_time(cluster, each.operation, each.bytes, key[2], each.apart)
    computing = sum(reading.flops.values()) / cluster.node.gpu.peak(dtype)
    return ScriptPrice(reading, cluster, computing, dict(sending), dict(unpriced))
