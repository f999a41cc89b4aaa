"""Which runs the grid has, as data: cells of a width, a number of tokens and a seed.

The nouns are `Cell`, one run, and the lists of cells in the order in which they are trained, so
that whoever stops early has a grid of fewer cells and no half ones.

- **TINY**: five widths to 4 Mi tokens, two minutes of one core: for a reader who waits.
- **REDUCED**: seven widths, 6 N D up to 5.6e12, half an hour of one core a seed.
- **FULL**: nine widths, up to 64 Mi tokens and 2.2e13, over an hour of one core a seed.
- **RATES**: half a Mi tokens at rates a factor of two apart, by either rule: what chapter 10 reads.

Runs that judge a fit are not here: they are made by a prediction (`predictions`), with at least
3.5 times the compute of every run that was fitted.
"""

from dataclasses import dataclass

from dtlib.formulas.require import require, require_count, require_positive
from dtlib.models.work import training_flops

MI = 2**20  # tokens
RATE = 0.02
KINDS = ("fit", "early", "held-out", "rate")
EARLY = MI  # below so many tokens a run is a transient of the warm-up, and is not fitted
_BUDGETS = [MI // 4, MI // 2, *(MI * 2**k for k in range(7))]


@dataclass(frozen=True)
class Cell:
    """One run. `tokens` D; `rate` and `rule` of learning; `prediction`, for a run that judges one.

    `kind` says what it is for: "fit"; "early", too short to be fitted; "held-out"; "rate".
    Raises ValueError for another kind, and for numbers that are no counts.

    >>> cell = Cell("fit", width=32, tokens=2 * MI, seed=1)
    >>> cell.name, cell.trunk, cell.params, f"{cell.flops:.2e}"
    ('fit-w32-s1-2Mi', 'w32-s1', 12288, '1.55e+11')
    """

    kind: str
    width: int
    tokens: int
    seed: int
    rate: float = RATE
    rule: str = "mup"
    prediction: str = ""

    def __post_init__(self):
        require(self.kind in KINDS, "Cell", "kind", self.kind, " or ".join(map(repr, KINDS)))
        predicted, judges = bool(self.prediction), self.kind == "held-out"
        allowed = "the name of one for a held-out run, and empty for others"
        require(predicted == judges, "Cell", "prediction", self.prediction, allowed)
        require_count("Cell", width=self.width, tokens=self.tokens)
        require_count("Cell", 0, seed=self.seed)
        require_positive("Cell", rate=self.rate)

    @property
    def trunk(self) -> str:
        """The name of the trunk that it branches off."""
        usual = (self.rate, self.rule) == (RATE, "mup")
        return f"w{self.width}-s{self.seed}" + ("" if usual else f"-{self.rule}-{self.rate:g}")

    @property
    def name(self) -> str:
        """A name of its own, which a file may have."""
        return f"{self.kind}-{self.trunk}-{self.tokens / MI:g}Mi"

    @property
    def params(self) -> int:
        """N, the entries of the layer's matrices: 12 width^2."""
        return 12 * self.width**2

    @property
    def flops(self) -> float:
        """C = 6 N D."""
        return training_flops(self.params, self.tokens)

    def work(self, tokens: int | None = None) -> float:
        """What so many tokens of it cost (default: all), in units of the time of a small model.

        On one core a step's time is that of calling its operations, and of their arithmetic, which
        at width 58 is as long.
        """
        return (self.tokens if tokens is None else tokens) * (1 + self.params / 40_000)


def family(largest: dict[int, int], seed: int) -> tuple[Cell, ...]:
    """For each width all budgets up to its largest, in Mi tokens; the cheapest cells first.

    >>> [cell.name for cell in family({16: 1, 24: 1}, seed=3)][-2:]
    ['fit-w16-s3-1Mi', 'fit-w24-s3-1Mi']
    """
    return tuple(
        Cell("fit" if tokens >= EARLY else "early", width, tokens, seed)
        for tokens in _BUDGETS
        for width, most in largest.items()
        if tokens <= most * MI
    )


TINY = {16: 4, 24: 4, 32: 4, 48: 4, 64: 4}
REDUCED = {16: 16, 24: 16, 32: 16, 48: 16, 64: 16, 96: 8, 128: 4}
FULL = {16: 32, 24: 64, 32: 64, 48: 64, 64: 64, 96: 32, 128: 16, 192: 8, 256: 4}
FAMILIES = {"tiny": TINY, "reduced": REDUCED, "full": FULL}
RATES = tuple(
    Cell("rate", width, MI // 2, 1, rate, rule)
    for width in (16, 32, 64, 128)
    for rule in ("mup", "same")
    for rate in (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08)
    if rule == "mup" or width != 32  # at the base width the two rules are one
)
HELD_OUT = {  # of each family, with 3.6 to 4 times its largest compute: width -> Mi tokens
    "tiny": {64: 16},
    "reduced": {128: 16, 96: 32, 192: 8},
    "full": {192: 32, 256: 16},
}
