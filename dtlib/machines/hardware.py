"""The hardware of the book in one place: its nouns, its catalog, and the table of both.

A bandwidth is what one endpoint sends in one direction, an arithmetic rate is dense, and every
figure has a source and a date. Nouns are defined in `dtlib.machines.machine`, figures in
`dtlib.machines.datasheets`.
"""

from dtlib.formulas.table import Table, Tables
from dtlib.formulas.units import format_quantity
from dtlib.machines.datasheets import ACHIEVED, GPUS, LINKS, MEMORIES, NODES, catalog
from dtlib.machines.machine import GPU, Cluster, Link, Memory, Node

__all__ = ["GPU", "Cluster", "Link", "Memory", "Node", "catalog", "hardware_table"]


def hardware_table() -> Tables:
    """Every entry of the catalog with its numbers, then its source and year, for the appendix.

    >>> print([table.title for table in hardware_table()][:2])
    ['Links, per direction', 'Links: where the bandwidth comes from']
    """
    links = tuple(
        (
            f"`{link.name}`",
            format_quantity(link.beta, "B/s", 4),
            format_quantity(link.alpha, "s"),
        )
        for link in LINKS
    )
    gpus = tuple(
        (
            f"`{gpu.name}`",
            *(_peak(gpu, dtype) for dtype in ("fp32", "tf32", "fp16", "fp8")),
            format_quantity(gpu.hbm_bytes, "GiB", 3),
            format_quantity(gpu.hbm_bandwidth, "B/s", 4),
            f"`{gpu.link.name}`",
        )
        for gpu in GPUS
    )
    memories = tuple(
        (
            f"`{memory.name}`",
            format_quantity(memory.capacity, "B", 3),
            format_quantity(memory.latency, "s"),
            format_quantity(memory.bandwidth, "B/s", 3),
        )
        for memory in MEMORIES
    )
    nodes = tuple(
        (f"`{node.name}`", f"{node.gpus} × `{node.gpu.name}`", f"{node.nics} × `{node.nic.name}`")
        for node in NODES
    )
    return Tables(
        [
            Table("Links, per direction", ("in code", "bandwidth", "latency"), links),
            _sources("Links: where the bandwidth comes from", LINKS),
            _latencies("Links: where the latency comes from", LINKS, "alpha_source"),
            Table(
                "GPUs, dense arithmetic",
                (
                    "in code",
                    "fp32",
                    "tf32",
                    "bf16 and fp16",
                    "fp8",
                    "memory",
                    "memory bandwidth",
                    "link",
                ),
                gpus,
            ),
            _achieved("As achieved"),
            _sources("GPUs: where it comes from", GPUS),
            Table("Memories, reading", ("in code", "holds", "latency", "bandwidth"), memories),
            _sources("Memories: where size and bandwidth come from", MEMORIES),
            _latencies("Memories: where the latency comes from", MEMORIES, "latency_source"),
            Table("Nodes", ("in code", "GPUs", "network"), nodes),
            _sources("Nodes: where it comes from", NODES),
        ]
    )


def _peak(gpu: GPU, dtype: str) -> str:
    """The dense rate of a type; a card without bf16 says so beside its fp16."""
    if dtype not in gpu.flops:
        return "–"
    rate = format_quantity(gpu.peak(dtype), "FLOP/s", 4)
    return f"{rate} (no bf16)" if dtype == "fp16" and "bf16" not in gpu.flops else rate


def _achieved(title: str) -> Table:
    """What was measured beside what is printed, with its share and its source."""
    rows = tuple(
        (
            f"`{entry.name}`, {entry.what}",
            format_quantity(entry.printed, _unit(entry.what), 4),
            format_quantity(entry.achieved, _unit(entry.what), 4),
            f"{entry.share:.0%}".replace("%", " %"),
            f"{entry.source}, {entry.date}",
        )
        for entry in ACHIEVED
    )
    return Table(title, ("in code", "printed", "as achieved", "share", "source"), rows)


def _unit(what: str) -> str:
    return "B/s" if what == "one direction" else "FLOP/s"


def _sources(title: str, entries) -> Table:
    """One row for each entry: its source and the year of that."""
    rows = tuple((f"`{entry.name}`", entry.source, entry.date) for entry in entries)
    return Table(title, ("in code", "source", "year"), rows)


def _latencies(title: str, entries, field: str) -> Table:
    """One row for each source of latencies, with all entries that have theirs from it."""
    shared: dict[str, list[str]] = {}
    for entry in entries:
        shared.setdefault(getattr(entry, field), []).append(f"`{entry.name}`")
    rows = tuple((", ".join(names), source) for source, names in shared.items())
    return Table(title, ("in code", "source"), rows)
