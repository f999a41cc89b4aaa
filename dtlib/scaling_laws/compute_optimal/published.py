"""The isoFLOP runs of Porian et al. 2024: one experiment in five settings, from Kaplan's on.

`porian.csv` has source, licence and date in its head, and says what was left out.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from dtlib.formulas.require import require
from dtlib.later import np
from dtlib.scaling_laws.loss_surface.runs import Runs


@dataclass(frozen=True)
class Setting:
    """How runs were made and counted: what it changes, and the authors' `exponent` of N*."""

    name: str
    change: str
    exponent: float


PORIAN_SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("kaplan", "as Kaplan et al. did it", 0.834),
        Setting("head", "last layer counted", 0.701),
        Setting("warmup", "and a short warm-up", 0.604),
        Setting("decay", "and a decay that ends with the run", 0.571),
        Setting("tuned", "or no decay, but rate and batch tuned", 0.497),
    )
}


def porian_runs(setting: str) -> Runs:
    """The runs of a setting: N, D and loss in nats per token, on RefinedWeb.

    Raises ValueError for another name than those of PORIAN_SETTINGS.

    >>> {name: len(porian_runs(name)) for name in PORIAN_SETTINGS}
    {'kaplan': 107, 'head': 131, 'warmup': 132, 'decay': 88, 'tuned': 121}
    """
    allowed = " or ".join(map(repr, PORIAN_SETTINGS))
    require(setting in PORIAN_SETTINGS, "porian_runs", "setting", setting, allowed)
    budget, params, loss = _table()[setting]
    return Runs(params, budget / 6 / params, loss)


@cache
def _table() -> dict[str, tuple]:
    text = files(__package__).joinpath("porian.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    return {
        name: tuple(
            np.array([float(row[column]) for row in rows if row["setting"] == name])
            for column in ("budget", "params", "loss")
        )
        for name in PORIAN_SETTINGS
    }
