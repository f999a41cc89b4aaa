"""Two dozen published times of matrix products, and how far three models are from all of them.

The times are those of ai-dynamo/aiconfigurator (NVIDIA, Apache-2.0; commit 095f58a, systems/data):
a linear layer without bias in bf16, in TensorRT-LLM 1.0.0 on an A100 SXM and 1.3.0rc20 on an H100
SXM, repeated with up to five copies of the weights so that they do not stay in the cache. They are
chosen by rule, not by how well they fit: 1, 128, 2048 and 8192 rows, each with a small, a middling
and a large matrix of weights.
"""

from dataclasses import dataclass

from dtlib.formulas.table import Table
from dtlib.machines.hardware import GPU, catalog

GEMM_SOURCE = (
    "ai-dynamo/aiconfigurator (Apache-2.0), commit 095f58a: bf16, TensorRT-LLM 1.0.0 on A100 SXM "
    "and 1.3.0rc20 on H100 SXM"
)

# rows, columns, inner, seconds on the A100, seconds on the H100; to four digits
_TIMES = (
    (1, 1024, 1024, 4.779e-6, 4.049e-6),
    (1, 4096, 4096, 26.21e-6, 16.56e-6),
    (1, 16384, 4096, 98.47e-6, 50.23e-6),
    (128, 1024, 1024, 7.919e-6, 4.253e-6),
    (128, 4096, 4096, 37.31e-6, 16.10e-6),
    (128, 16384, 4096, 107.6e-6, 54.57e-6),
    (2048, 1024, 1024, 30.21e-6, 8.713e-6),
    (2048, 4096, 4096, 307.0e-6, 87.96e-6),
    (2048, 16384, 4096, 1037e-6, 346.9e-6),
    (8192, 1024, 1024, 90.01e-6, 26.23e-6),
    (8192, 4096, 4096, 1036e-6, 343.6e-6),
    (8192, 16384, 4096, 4279e-6, 1653e-6),
)

# Printed by benchmarks/foundations/gemm_model.py --data DIR; 3876 rows of the A100 and 5004 of the
# H100. name: constants, mean error on the A100, on the H100, on the half of the shapes that the
# constants were not fitted to, on the A100 with constants fitted to the H100, and the other way
# round
GEMM_ERRORS = {
    "pure roofline": (0, 0.418, 0.371, 0.394, 0.418, 0.371),
    "three constants": (3, 0.139, 0.091, 0.114, 0.168, 0.161),
    "tiles and waves": (5, 0.079, 0.056, 0.067, 0.082, 0.067),
}


@dataclass(frozen=True)
class GemmTime:
    """One measured product: (rows, inner) times (inner, columns) on a GPU took so many seconds."""

    gpu: GPU
    rows: int
    columns: int
    inner: int
    seconds: float

    def __repr__(self) -> str:
        shape = f"({self.rows} x {self.inner}) @ ({self.inner} x {self.columns})"
        return f"GemmTime({self.gpu.name}: {shape} in {self.seconds * 1e6:.4g} µs)"


def gemm_sample(gpu: str | None = None) -> tuple[GemmTime, ...]:
    """Published times of a dozen shapes on two GPUs, or on the one that is named.

    Raises ValueError for a GPU that the sample does not hold. Source: `GEMM_SOURCE`.

    >>> gemm_sample("h100-sxm")[0]
    GemmTime(h100-sxm: (1 x 1024) @ (1024 x 1024) in 4.049 µs)
    """
    held = ("a100-sxm", "h100-sxm")
    if gpu not in (None, *held):
        raise ValueError(f"gpu is {gpu!r}, but the sample holds {' and '.join(held)}")
    return tuple(
        GemmTime(catalog[name], *row[:3], row[3 + position])
        for position, name in enumerate(held)
        if gpu in (None, name)
        for row in _TIMES
    )


def gemm_errors() -> Table:
    """Mean error of three models on published times that chose none of their constants.

    Of 8,880 times: those of the shapes that were left out, of the A100 with constants fitted to the
    H100, and the other way round. As recorded.

    >>> print([row[0] for row in gemm_errors().rows])
    ['pure roofline', 'three constants', 'tiles and waves']
    """
    columns = ("model", "constants", "unseen shapes", "unseen A100", "unseen H100")
    rows = tuple(
        (name, str(constants), *(f"{error:.1%}".replace("%", "\u00a0%") for error in unseen))
        for name, (constants, _, _, *unseen) in GEMM_ERRORS.items()
    )
    return Table("Mean error, |predicted / measured - 1|", columns, rows)
