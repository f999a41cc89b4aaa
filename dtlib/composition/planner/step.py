r"""The time of a training step, cause by cause, for one layout or for many at once.

    >>> from dtlib.foundations import Cluster, catalog, published_models
    >>> cluster = Cluster(catalog["dgx-h100"], 8)
    >>> some = Layouts.of([Layout(tp=2, dp=32, zero=1), Layout(tp=8, pp=2, dp=4)], 32)
    >>> llama = published_models["llama-3.1-8b"]
    >>> step_times(llama, cluster, some, batch=512, seq=8192).round(1)
    array([ 7.6, 12. ])

A step is a `Sheet`: with one layout it prints itself, with many each line is a column.
"""

import numpy as np

from dtlib.composition.planner.layer import Passes, check_shapes
from dtlib.composition.planner.lines import CAUSES, pass_quantities, step_lines
from dtlib.composition.planner.machine import machine_of
from dtlib.composition.planner.software import Software, software_named
from dtlib.composition.planner.stages import exchange_quantities, stage_quantities
from dtlib.formulas.require import require, require_count, require_type
from dtlib.formulas.sheet import Given, Sheet
from dtlib.layout import Layout
from dtlib.layouts import Layouts
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec


def step_times(
    spec: TransformerSpec,
    cluster: Cluster,
    layouts: Layouts,
    *,
    batch: int,
    seq: int,
    software: str | Software = "megatron",
    dtype: str = "bf16",
) -> np.ndarray:
    """Seconds of a step, for each layout. Arguments and errors as in `step_sheet`."""
    return sum(
        step_parts(
            spec, cluster, layouts, batch=batch, seq=seq, software=software, dtype=dtype
        ).values()
    )


def step_parts(
    spec: TransformerSpec,
    cluster: Cluster,
    layouts: Layouts,
    *,
    batch: int,
    seq: int,
    software: str | Software = "megatron",
    dtype: str = "bf16",
) -> dict[str, np.ndarray]:
    """Seconds of a step by cause (`CAUSES`), each for every layout; their sum is the step.

    Arguments and errors as in `step_sheet`.
    """
    sheet = step_sheet(spec, cluster, layouts, batch=batch, seq=seq, software=software, dtype=dtype)
    found, count = sheet.values_at(), len(layouts)
    return {cause: np.broadcast_to(found[cause], count) * 1.0 for cause in CAUSES}


def step_sheet(
    spec: TransformerSpec,
    cluster: Cluster,
    layouts: Layouts | Layout,
    *,
    batch: int,
    seq: int,
    software: str | Software = "megatron",
    dtype: str = "bf16",
) -> Sheet:
    """The lines of a step: every cause, from the passes of a layer to the optimizer's step.

    Equation: m micro-batches of the slowest stage, what fills and drains the pipeline, what of the
    exchange no arithmetic hides, and the optimizer. A pass is the longer of GPU's and host's time.
    Arguments: `spec`; `cluster`, all of whose ranks each layout uses; `layouts`, columns, or one
    `Layout`, for which the sheet has numbers; `batch` sequences of a step, `seq` tokens of each;
    `software`, a profile or its name; `dtype` of the products.
    Returns a `Sheet` whose line `step` is the sum of `CAUSES`. Raises ValueError, naming argument,
    value and rule, for sizes that do not divide or ranks that the cluster has not; TypeError for a
    `spec` or `cluster` that is none.
    Source: the formulas of its lines.
    """
    require_type("a step", TransformerSpec, spec=spec)
    require_type("a step", Cluster, cluster=cluster)
    require_count("a step", batch=batch, seq=seq)
    one = isinstance(layouts, Layout)
    of = Layouts.of([layouts], spec.layers) if one else layouts
    require_type("a step", Layouts, layouts=of)
    _check(spec, cluster, of, seq)
    software = software_named(software)
    passes = Passes(spec, machine_of(cluster), software, of, seq, dtype)
    m = of.micro_batches(batch)
    given = {
        **pass_quantities(passes),
        **stage_quantities(passes),
        "m": Given(m, "", "micro-batches of one rank"),
        **exchange_quantities(passes),
    }
    if one:
        given = {name: _single(entry) for name, entry in given.items()}
    return Sheet(given, step_lines(alone=bool((of.pp == 1).all()), experts=bool(spec.moe)))


def _check(spec: TransformerSpec, cluster: Cluster, of: Layouts, seq: int) -> None:
    require(
        of.layers == spec.layers, "a step", "layouts.layers", of.layers,
        f"{spec.layers}, the model's layers",
    )  # fmt: skip
    check_shapes(spec, of, seq)
    wrong = np.flatnonzero(of.ranks != cluster.ranks)
    found = int(of.ranks[wrong[0]]) if len(wrong) else None
    allowed = f"{cluster.ranks}, those of the cluster"
    require(found is None, "a step", "ranks of a layout", found, allowed)


def _single(entry: Given) -> Given:
    value = np.asarray(entry.value)
    return Given(value.reshape(-1)[0].item(), entry.unit, entry.label, entry.source)
