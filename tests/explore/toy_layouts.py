"""The layouts of a run that nobody has: a widget is tried on a table, without a planner."""

from itertools import product

from dtlib.explore import LayoutRow

GPUS, LAYERS, BATCH, LIMIT = 64, 32, 128, 80e9
AGAIN = {"none": (1.0, 6.0), "selective": (1.02, 3.0), "full": (1.3, 0.4)}  # time, GB kept


def rows():
    """Legal layouts of 32 layers on 64 GPUs, each with a time and a memory that trade off."""
    everything = product((1, 2, 4, 8), (1, 2, 4, 8), (0, 1), (1, 2), (1, 2, 4), AGAIN)
    for tp, pp, zero, interleave, micro_batch, recompute in everything:
        dp = GPUS // (tp * pp)
        m = BATCH // (dp * micro_batch)
        alone, in_rounds = zero and dp == 1, pp > 1 and m % pp == 0
        if m < 1 or alone or not (interleave == 1 or in_rounds):
            continue
        longer, kept = AGAIN[recompute]
        work = 20 * longer * (1 + 0.06 * (tp - 1)) * (1 + 0.1 / micro_batch)
        step = work * (1 + (pp - 1) / (interleave * m)) * (1 + 0.02 * (interleave - 1))
        states = 16 * 30e9 / (tp * pp) if not zero else (4 + 12 / dp) * 30e9 / (tp * pp)
        held = kept * 1e9 * micro_batch * (LAYERS / pp) * min(m, pp) / tp / 4
        yield LayoutRow(tp, pp, dp, zero, interleave, micro_batch, recompute, step, states + held)
