"""OutlierBlocks: one large number among many, and what it costs those that share its scale."""

from dtlib.efficiency.precision.blocks import block_quantise, rms_error, whole_quantise
from dtlib.efficiency.precision.formats import E2M1, E4M3
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.formulas.require import require
from dtlib.later import np

NUMBERS = 4096
BLOCKS = {16: "16", 32: "32", 128: "128", NUMBERS: f"all {NUMBERS:,}"}
SIZES = tuple(2**k for k in range(25))
KINDS = ("INT8", "E4M3", "E2M1")


class OutlierBlocks(Widget):
    """The error of 4,095 normal numbers against the size of one outlier, for three formats.

    Every block's largest number becomes the largest of the format, scales are float32. The error is
    the root mean square of all but the outlier, over the size of the numbers.
    Arguments: `title`; `block` at the start, of ``BLOCKS``; `task`, a `Task` over the controls and
    ``INT8``, ``E4M3``, ``E2M1``, errors, and ``share``, bits of a scale for each number.
    Raises ValueError for another block, and for a task as others do.
    """

    def __init__(self, *, title: str, block: int = NUMBERS, task: Task | None = None):
        require(block in BLOCKS, "OutlierBlocks", "block", block, f"one of {tuple(BLOCKS)}")
        self.errors = {
            f"{kind} {size}": [error_beside(kind, size, outlier) for outlier in SIZES]
            for kind in KINDS
            for size in BLOCKS
        }
        super().__init__(
            title=title,
            task=task,
            controls=[
                choice("block", "Numbers that share a scale", BLOCKS, block),
                slider("outlier", "outlier, over the usual size", SIZES, 1),
            ],
            errors=self.errors,
            sizes=list(SIZES),
            kinds=list(KINDS),
        )

    def names(self, *, block: int, outlier: int) -> dict[str, float]:
        place = SIZES.index(outlier)
        found = {kind: self.errors[f"{kind} {block}"][place] for kind in KINDS}
        return found | {"share": 32 / block}


def error_beside(kind: str, block: int, outlier: float) -> float:
    """The error of normal numbers, one of which is so many times as large as usual.

    >>> 0.02 < error_beside("E4M3", 4096, 1) < 0.03, error_beside("INT8", 4096, 1000)
    (True, 1.0)
    """
    x = np.random.default_rng(0).normal(size=NUMBERS)
    x[0] = outlier
    if kind == "INT8":
        found = whole_quantise(x, block).values
    else:
        found = block_quantise(x, {"E4M3": E4M3, "E2M1": E2M1}[kind], block).values
    return round(rms_error(x[1:], found[1:]), 5)
