"""Some published times of NCCL's collectives, and how far three models are from all of them.

The times are those of ai-dynamo/aiconfigurator (NVIDIA, Apache-2.0; commit 095f58a, systems/data):
nccl-tests in half precision on one node, NCCL 2.27.3 on A100 SXM and 2.29.2 on H100 SXM. They are
chosen by rule, not by how well they fit: 512 B, 256 KiB, 8 MiB and 512 MiB, on 2 and on 8 GPUs, of
every operation. `switch_sample` is from S. Bekman, ml-engineering (commit 744d01e,
network/README.md): the bus bandwidth of an 8 GiB all-reduce on H200 GPUs, once as NCCL chooses and
once with its ring.
"""

from dtlib.collectives.nccl.fit import CollectiveTime
from dtlib.formulas.table import Table

NCCL_SOURCE = (
    "ai-dynamo/aiconfigurator (Apache-2.0), commit 095f58a: nccl-tests, NCCL 2.27.3 on A100 SXM "
    "and 2.29.2 on H100 SXM, one node"
)
SWITCH_SOURCE = "S. Bekman, ml-engineering, commit 744d01e, network/README.md: nccl-tests on H200"

# operation, bytes, ranks, seconds on the A100, seconds on the H100; to four digits
_TIMES = (
    ("all_reduce", 2**9, 2, 9.98e-6, 6.18e-6),
    ("all_reduce", 2**18, 2, 15.26e-6, 8.81e-6),
    ("all_reduce", 2**23, 2, 87.13e-6, 47.3e-6),
    ("all_reduce", 2**29, 2, 2781e-6, 1686e-6),
    ("all_reduce", 2**9, 8, 22.57e-6, 15.59e-6),
    ("all_reduce", 2**18, 8, 27.5e-6, 19.15e-6),
    ("all_reduce", 2**23, 8, 128e-6, 78.91e-6),
    ("all_reduce", 2**29, 8, 4226e-6, 2111e-6),
    ("all_gather", 2**9, 2, 8.98e-6, 5.31e-6),
    ("all_gather", 2**18, 2, 13.57e-6, 7.64e-6),
    ("all_gather", 2**23, 2, 59.72e-6, 36.27e-6),
    ("all_gather", 2**29, 2, 1790e-6, 1039e-6),
    ("all_gather", 2**9, 8, 15.56e-6, 10.14e-6),
    ("all_gather", 2**18, 8, 20.99e-6, 13.6e-6),
    ("all_gather", 2**23, 8, 73.51e-6, 44.86e-6),
    ("all_gather", 2**29, 8, 2288e-6, 1402e-6),
    ("reduce_scatter", 2**9, 2, 8.9e-6, 6.07e-6),
    ("reduce_scatter", 2**18, 2, 13.02e-6, 7.35e-6),
    ("reduce_scatter", 2**23, 2, 53.1e-6, 32.41e-6),
    ("reduce_scatter", 2**29, 2, 1612e-6, 1078e-6),
    ("reduce_scatter", 2**9, 8, 15.58e-6, 10.24e-6),
    ("reduce_scatter", 2**18, 8, 18.2e-6, 12.17e-6),
    ("reduce_scatter", 2**23, 8, 79.49e-6, 43.82e-6),
    ("reduce_scatter", 2**29, 8, 2207e-6, 1399e-6),
    ("all_to_all", 2**9, 2, 10.52e-6, 6.49e-6),
    ("all_to_all", 2**18, 2, 14.71e-6, 14.15e-6),
    ("all_to_all", 2**23, 2, 56.05e-6, 31.18e-6),
    ("all_to_all", 2**29, 2, 1635e-6, 958.9e-6),
    ("all_to_all", 2**9, 8, 15.82e-6, 7.44e-6),
    ("all_to_all", 2**18, 8, 18.4e-6, 12.93e-6),
    ("all_to_all", 2**23, 8, 67.84e-6, 41.36e-6),
    ("all_to_all", 2**29, 8, 2314e-6, 1490e-6),
)

# ranks, bus bandwidth in GB/s as NCCL chooses, and with its ring
_SWITCH_TIMES = (
    (4, 363.3, 363.3),
    (5, 414.2, 364.4),
    (6, 435.6, 365.1),
    (7, 460.0, 365.7),
    (8, 473.1, 365.6),
)

# Printed by benchmarks/collectives/nccl_model.py --data DIR: 252 rows of the A100, 252 of the H100,
# and of other runs 20 on A100s and 34 on H200s, in which only the start of a call was fitted anew.
# name: constants, mean error on all rows, on the A100, on the H100, on the two other runs
NCCL_ERRORS = {
    "one latency, one bandwidth a machine": (8, 0.199, 0.193, 0.223, 0.147, 0.104),
    "the two for each operation and group size": (56, 0.135, 0.142, 0.134, 0.147, 0.067),
    "streamed": (16, 0.063, 0.062, 0.068, 0.091, 0.024),
}
# the last model on what it was not fitted to: the sizes between, a group size from the others,
# one GPU from the other, with all sizes and from 64 MiB
NCCL_HELD_OUT = {
    "a100-sxm": (0.063, 0.066, 0.289, 0.123),
    "h100-sxm": (0.070, 0.073, 0.402, 0.182),
}


def nccl_sample(machine: str | None = None) -> dict[str, tuple[CollectiveTime, ...]]:
    """Published times of 32 collectives on each of two machines, or on the one that is named.

    Raises ValueError for a machine that the sample does not hold. Source: `NCCL_SOURCE`.

    >>> nccl_sample("h100-sxm")["h100-sxm"][0]
    CollectiveTime(operation='all_reduce', n=512, P=2, seconds=6.18e-06, path=None)
    """
    held = ("a100-sxm", "h100-sxm")
    if machine not in (None, *held):
        raise ValueError(f"machine is {machine!r}, but the sample holds {' and '.join(held)}")
    return {
        name: tuple(CollectiveTime(*row[:3], row[3 + position]) for row in _TIMES)
        for position, name in enumerate(held)
        if machine in (None, name)
    }


def switch_sample() -> tuple[CollectiveTime, ...]:
    """Published times of an 8 GiB all-reduce on 4 to 8 H200s, by the switch and by the ring.

    On 4 ranks NCCL chooses its ring by itself. Source: `SWITCH_SOURCE`.

    >>> [f"{s.seconds * 1e3:.1f} ms by {s.path}" for s in switch_sample()[-2:]]
    ['31.8 ms by switch', '41.1 ms by ring']
    """
    n = 2**33
    return tuple(
        CollectiveTime("all_reduce", n, P, 2 * (P - 1) / P * n / (rate * 1e9), path)
        for P, chosen, ring in _SWITCH_TIMES
        for path, rate in ((None if P == 4 else "switch", chosen), ("ring", ring))
    )


def nccl_errors() -> Table:
    """Mean error of three models on 558 published times, as recorded.

    >>> print([row[2] for row in nccl_errors().rows])
    ['19.9 %', '13.5 %', '6.3 %']
    """
    columns = ("model", "constants", "all", "A100", "H100", "other A100", "H200")
    rows = tuple(
        (name, str(constants), *(f"{error:.1%}".replace("%", " %") for error in errors))
        for name, (constants, *errors) in NCCL_ERRORS.items()
    )
    return Table("Mean |predicted / measured - 1|", columns, rows)
