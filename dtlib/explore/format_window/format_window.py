"""FormatWindow: a format of the reader's bits, and which recorded gradients its window keeps."""

from collections.abc import Mapping

from dtlib.efficiency.precision.formats import FloatFormat
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import slider
from dtlib.explore.kit.widget import Widget
from dtlib.formulas.require import require

EXPONENTS, MANTISSAS = tuple(range(2, 9)), tuple(range(1, 11))
POWERS = tuple(range(25))


class FormatWindow(Widget):
    """Above, how many numbers have which power of two; below, the worst relative error there.

    The reader chooses the bits of an IEEE format and a power of two by which all numbers are
    multiplied. Whole powers of two are kept, lose digits, become zero or overflow together.
    Arguments: `title`; `counts`, how many numbers have a floor(log2) of each power; `exponent_bits`
    and `mantissa_bits` at the start; `task`, a `Task` over the controls and ``kept``, ``fewer``,
    ``zero``, ``over``, shares of the numbers, and ``bits``, the sign counted.
    Raises ValueError for no counts, and for a task as others do.
    """

    def __init__(
        self,
        *,
        title: str,
        counts: Mapping[int, int],
        exponent_bits: int = 5,
        mantissa_bits: int = 10,
        task: Task | None = None,
    ):
        good = bool(counts) and sum(counts.values()) > 0 and min(counts.values()) >= 0
        require(good, "FormatWindow", "counts", dict(counts), "some, and none below 0")
        self.counts = {int(power): counts[power] for power in sorted(counts)}
        super().__init__(
            title=title,
            task=task,
            controls=[
                slider("exponent_bits", "bits of the exponent", EXPONENTS, exponent_bits),
                slider("mantissa_bits", "bits of the fraction", MANTISSAS, mantissa_bits),
                slider("power", "scale, as a power of two", POWERS, 0),
            ],
            counts=[[power, count] for power, count in self.counts.items()],
        )

    def names(self, *, exponent_bits: int, mantissa_bits: int, power: int) -> dict[str, float]:
        kind = FloatFormat("built", exponent_bits, mantissa_bits)
        total = sum(self.counts.values())
        shares = dict.fromkeys(("kept", "fewer", "zero", "over"), 0)
        for binade, count in self.counts.items():
            at = binade + power
            if at > kind.most_exponent:
                name = "over"
            elif at >= kind.least_exponent:
                name = "kept"
            else:
                name = "fewer" if at >= kind.least_exponent - mantissa_bits - 1 else "zero"
            shares[name] += count / total
        return shares | {"bits": kind.bits}
