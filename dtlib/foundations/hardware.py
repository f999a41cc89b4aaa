"""The hardware of the book in one place: its nouns, its catalog, and the table of both.

A bandwidth is what one endpoint sends in one direction, an arithmetic rate is dense, and every
figure has a source and a date. Nouns are defined in `dtlib.foundations.machine`, figures in
`dtlib.foundations.datasheets`.
"""

from dtlib.foundations.datasheets import GPUS, LINKS, MEMORIES, NODES, catalog
from dtlib.foundations.machine import GPU, Cluster, Link, Memory, Node
from dtlib.foundations.table import Table, Tables
from dtlib.foundations.units import format_quantity

__all__ = ["GPU", "Cluster", "Link", "Memory", "Node", "catalog", "hardware_table"]


def hardware_table() -> Tables:
    """Every entry of the catalog with its numbers, source and date, for the hardware appendix.

    >>> print([table.title for table in hardware_table()])
    ['Links, per direction', 'GPUs, dense arithmetic', 'Memories, reading', 'Nodes']
    """
    links = tuple(
        (
            f"`{link.name}`",
            format_quantity(link.beta, "B/s", 3),
            format_quantity(link.alpha, "s"),
            f"{link.source} ({link.date})",
            link.alpha_source,
        )
        for link in LINKS
    )
    gpus = tuple(
        (
            f"`{gpu.name}`",
            format_quantity(gpu.peak("bf16"), "FLOP/s", 3),
            format_quantity(gpu.peak("fp8"), "FLOP/s", 4) if "fp8" in gpu.flops else "none",
            format_quantity(gpu.hbm_bytes, "GiB", 3),
            format_quantity(gpu.hbm_bandwidth, "B/s", 4),
            gpu.link.name,
            f"{gpu.source} ({gpu.date})",
        )
        for gpu in GPUS
    )
    memories = tuple(
        (
            f"`{memory.name}`",
            format_quantity(memory.capacity, "B", 3),
            format_quantity(memory.latency, "s"),
            format_quantity(memory.bandwidth, "B/s", 3),
            f"{memory.source} ({memory.date})",
            memory.latency_source,
        )
        for memory in MEMORIES
    )
    nodes = tuple(
        (
            f"`{node.name}`",
            f"{node.gpus} x {node.gpu.name}",
            f"{node.nics} x {node.nic.name}",
            f"{node.source} ({node.date})",
        )
        for node in NODES
    )
    return Tables(
        [
            Table(
                "Links, per direction",
                ("in code", "bandwidth", "latency", "source of the bandwidth", "of the latency"),
                links,
            ),
            Table(
                "GPUs, dense arithmetic",
                ("in code", "bf16", "fp8", "memory", "memory bandwidth", "link", "source"),
                gpus,
            ),
            Table(
                "Memories, reading",
                ("in code", "holds", "latency", "bandwidth", "source", "of the latency"),
                memories,
            ),
            Table("Nodes", ("in code", "GPUs", "network", "source"), nodes),
        ]
    )
