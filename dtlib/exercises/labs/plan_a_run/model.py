"""The references of the lab 'Plan a run': what samples say, what a rank sends, what a step takes.

Keywords are ways to go wrong.
"""

from collections.abc import Callable
from statistics import mean, median

from dtlib import foundations
from dtlib.exercises.labs.plan_a_run.job import Job, Line, Machine, Samples
from dtlib.layout import Layout


def machine_of(
    samples: Samples, ranks: int, middle: Callable = median, whole: bool = False,
    sent: bool = True, most: bool = True,
) -> Machine:  # fmt: skip
    """The machine that these samples are of."""
    alone, crowd = (_middles(samples[name], middle) for name in ("alone", "crowd"))
    largest = max(alone)
    cores = ranks * alone[largest] / crowd[largest]
    total, steps = _line(_middles(samples["sum"], middle)), 2 * (ranks - 1)
    start = total.start if whole else total.start / steps
    each = total.each * ranks / steps if sent else total.each
    hop = _line(_middles(samples["hop"], middle))
    cores = min(ranks, cores) if most else cores
    return Machine(ranks, cores, _line(alone), Line(start, each), hop)


def _middles(pairs, middle: Callable) -> dict[int, float]:
    sizes = sorted({size for size, _ in pairs})
    return {size: middle(t for of, t in pairs if of == size) for size in sizes}


def _line(times: dict[int, float]) -> Line:
    fit = foundations.fit_alpha_beta(times.items())
    return Line(fit.alpha, 1 / fit.beta)


def mean_machine(samples: Samples, ranks: int) -> Machine:
    """As `machine_of`, with means in place of medians."""
    return machine_of(samples, ranks, middle=mean)


def traffic(
    layout: Layout, job: Job, ends: bool = True, backward: bool = True, micro: bool = True,
    cut: bool = True, norms: bool = True, factor: float = 2, loss: bool = True,
) -> dict[str, tuple[int, float]]:  # fmt: skip
    """Calls of rank 0 in a step, and the bytes that it sends, along each axis of several ranks."""
    tp, pp, dp = layout.tp, layout.pp, layout.dp
    m = layout.micro_batches(job.batch) if micro else 1
    tokens = layout.micro_batch * job.seq
    stream, alone = 4 * tokens * job.spec.hidden, pp == 1
    found = {}
    if tp > 1:
        wide = (4 if backward else 2) * job.spec.layers // pp + (1 + alone) * ends
        narrow = 3 * alone * ends
        own = wide * stream + narrow * 4 * tokens
        found["tp"] = m * (wide + narrow), factor * (tp - 1) / tp * m * own
    if pp > 1:
        found["pp"] = m, m * stream
    if dp > 1:
        n = 4 * held(layout, job, cut, norms)
        found["dp"] = 1 + loss, factor * (dp - 1) / dp * (n + 8 * loss)
    return found


def held(layout: Layout, job: Job, cut: bool = True, norms: bool = True) -> float:
    """Numbers that rank 0 has of the model: the first stage, its matrices divided along tp."""
    layers, alone = job.spec.layers // layout.pp, layout.pp == 1
    matrices = layers * job.layer_matrices + (1 + alone) * job.table
    whole = (2 * layers + alone) * job.norm
    return matrices / (layout.tp if cut else 1) + norms * whole


def predict(
    layout: Layout, job: Job, machine: Machine, shared: bool = True, starts: bool = True,
    depth: bool = True, hidden: bool = True, both: bool = True, steps: bool = True,
) -> dict[str, float]:  # fmt: skip
    """Seconds of a step by cause: computing, waiting, sums, sends, exchange."""
    m, b = layout.micro_batches(job.batch), layout.micro_batch
    divided = machine.work.each * b / layout.tp
    one = ((machine.work.start if starts else 0) + divided) / layout.pp
    computing = m * one * (machine.ranks / machine.cores if shared else 1)
    span = (m + layout.pp - 1) * one if depth else m * one
    waiting = max(0.0, span - computing) if hidden else span - m * one
    calls = dict.fromkeys(("tp", "pp", "dp"), (0, 0)) | traffic(layout, job)

    def summed(axis: str, P: int) -> float:
        count, sent = calls[axis]
        return count * (2 * (P - 1) if steps else 1) * machine.sum.start + sent * machine.sum.each

    count, sent = calls["pp"]
    sends = (2 if both else 1) * (count * machine.hop.start + sent * machine.hop.each)
    return {
        "computing": computing,
        "waiting": waiting,
        "sums": summed("tp", layout.tp),
        "sends": sends,
        "exchange": summed("dp", layout.dp),
    }


def step_time(layout: Layout, job: Job, machine: Machine) -> float:
    """Seconds of a step, all causes together."""
    return sum(predict(layout, job, machine).values())
