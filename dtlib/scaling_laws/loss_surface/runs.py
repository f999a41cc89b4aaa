"""Finished training runs as a table: what every estimator of part 2 reads."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from dtlib.formulas.require import require
from dtlib.later import np
from dtlib.models.work import training_flops


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of one family of models: arrays of one length.

    `N`, parameters; `D`, tokens; `loss` at the end, nats per token; `C`, FLOP, which are 6 N D
    where none are given. Raises ValueError for columns of different lengths, for none at all, and
    for a number that is missing, infinite or not above 0: it names the column and the row.

    >>> runs = Runs(N=[1e8, 1e9], D=[2e9, 2e10], loss=[3.1, 2.6])
    >>> len(runs), runs.C.tolist(), runs.cells
    (2, [1.2e+18, 1.2e+20], 2)
    >>> Runs(N=[1e8, 1e9], D=[2e9, float("nan")], loss=[3.1, 2.6])
    Traceback (most recent call last):
    ValueError: Runs: D of row 1 is nan, but must be a finite number above 0
    """

    N: object
    D: object
    loss: object
    C: object = None

    def __post_init__(self):
        if self.C is None:
            N, D = (np.asarray(column, dtype=float) for column in (self.N, self.D))
            require(N.shape == D.shape, "Runs", "N and D", (N.shape, D.shape), "of one length")
            object.__setattr__(self, "C", training_flops(N, D))
        for field in fields(self):
            column = np.asarray(getattr(self, field.name), dtype=float)
            object.__setattr__(self, field.name, column)
            shape, allowed = (field.name, column.shape), "one column as long as N, with a row"
            good = column.ndim == 1 and column.shape == self.N.shape and len(column) > 0
            require(good, "Runs", "shape", shape, allowed)
            bad = np.flatnonzero(~(np.isfinite(column) & (column > 0)))
            if len(bad):
                raise ValueError(
                    f"Runs: {field.name} of row {bad[0]} is {column[bad[0]]}, "
                    "but must be a finite number above 0"
                )

    @classmethod
    def of(cls, records: Iterable) -> "Runs":
        """The table of records that have `N`, `D` and `loss`, as those of `recorded_runs`.

        >>> from types import SimpleNamespace
        >>> Runs.of([SimpleNamespace(N=1e6, D=1e8, loss=4.0)]).loss.tolist()
        [4.0]
        """
        records = list(records)
        return cls(*([getattr(record, name) for record in records] for name in ("N", "D", "loss")))

    def __len__(self) -> int:
        return len(self.N)

    def __getitem__(self, chosen) -> "Runs":
        """The runs that a mask, a slice or a list of rows chooses: `runs[runs.C < 1e20]`."""
        return Runs(*(np.atleast_1d(getattr(self, field.name)[chosen]) for field in fields(self)))

    def __repr__(self) -> str:
        low, high = self.C.min(), self.C.max()
        pairs = f"{self.cells} pairs of N and D"
        return f"Runs({len(self)}, with {pairs}, {low:.2g} to {high:.2g} FLOP)"

    @property
    def tokens_per_param(self):
        """D / N."""
        return self.D / self.N

    @property
    def cell(self):
        """For each run the number of its cell: runs of the same N and D differ in their seed."""
        return np.unique(np.stack([self.N, self.D], 1), axis=0, return_inverse=True)[1].ravel()

    @property
    def cells(self) -> int:
        """How many different pairs of N and D there are."""
        return int(self.cell.max()) + 1
