"""Every check of chapter 13: the solution passes; the stub, wrong answers and dtlib's own fail."""

import numpy as np
import pytest
from exercise_cases import Case, EveryExercise

from dtlib.exercises import NotYet, check

GB, MB, us = 10**9, 10**6, 1e-6
FACTOR = {
    "all-reduce": lambda P: 2 * (P - 1) / P,
    "reduce-scatter": lambda P: (P - 1) / P,
    "all-gather": lambda P: (P - 1) / P,
    "all-to-all": lambda P: (P - 1) / P,
    "broadcast": lambda P: 1,
    "reduce": lambda P: 1,
}


def dashboard(operation, share, P, seconds):
    if operation not in FACTOR:
        raise ValueError(operation)
    whole = P * share if operation in ("all-gather", "reduce-scatter") else share
    return FACTOR[operation](P) * whole / seconds


def forgiving_dashboard(operation, share, P, seconds):
    if operation not in FACTOR:
        return 0.0
    return dashboard(operation, share, P, seconds)


def dashboard_without_sizes(operation, share, P, seconds):
    return FACTOR[operation](P) * share / seconds


def dashboard_as_printed(operation, share, P, seconds):
    return 2 * (P - 1) / P * share / seconds


def dashboard_always_whole(operation, share, P, seconds):
    return FACTOR[operation](P) * P * share / seconds


def split_start(times, phases=2, through_zero=False, off=1):
    steps = np.array([phases * (P - off) for P in times], dtype=float)
    seconds = np.array(list(times.values()))
    columns = [steps] if through_zero else [np.ones_like(steps), steps]
    rows = np.stack(columns, axis=1) / seconds[:, None]
    found = np.linalg.lstsq(rows, np.ones_like(steps), rcond=None)[0]
    return (0.0, float(found[0])) if through_zero else tuple(map(float, found))


def communication(
    params, layers, hidden, seq, t, p, replicas, micro, beta_in, beta_out, *, slips=""
):
    act = 2 * seq * hidden
    share = t if "data" in slips else t * p
    data = 2 * (replicas - 1) / replicas * 2 * params / share / beta_out
    passes = layers if "tensor" in slips else layers / p * micro
    tensor = 4 * passes * 2 * (t - 1) / t * act / beta_in
    pipeline = 2 * (1 if "pipeline" in slips else micro) * act / beta_out
    return data + tensor + pipeline


def slipping(slips):
    def communication_of(params, layers, hidden, seq, t, p, replicas, micro, beta_in, beta_out):
        return communication(
            params, layers, hidden, seq, t, p, replicas, micro, beta_in, beta_out, slips=slips
        )

    return communication_of


CASES = {
    "ex-bound-three-algorithms": Case(
        solution=(0.002175, 0.0010875, 0.001995),
        wrong=[
            ((0.0012375, 0.0010875, 0.001995), "two phases: bytes"),
            ((0.002175, 0.002175, 0.001995), "both phases"),
            ((0.002175, 0.0010875, 0.00312), "only n/4 is left"),
            ((0.002175, 0.0010875, 0.0009975), "way back"),
            ((2.175, 1.0875, 1.995), "in seconds"),
        ],
        secret=[0.002175, 0.0010875, 0.001995],
    ),
    "ex-eighty-milliseconds": Case(
        solution=(12.5e9, 21.875e9, 0.4375),
        wrong=[
            ((12.5, 21.875e9, 0.4375), "in bytes/s"),
            ((12.5e9, 12.5e9, 0.25), "how much does a port carry"),
            ((12.5e9, 25e9, 0.5), "little less than 2"),
            ((12.5e9, 21.875e9, 0.25), "one to compare"),
            ((12.5e9, 21.875e9, 0.21875), "one direction"),
        ],
        secret=[12.5e9, 21.875e9, 0.4375],
    ),
    "ex-overlap-share": Case(
        solution=(2600 / 2120, (2600 / 2120 - 1) / 0.3),
        wrong=[
            ((2120 / 2600, 0.7547), "other way round"),
            ((2600 / 2480, 0.7547), "80 % are hidden"),
            ((2600 / 2120, 0.8), "share of the gain"),
            ((2600 / 2120, 2600 / 2120 / 1.3), "gain over gain"),
        ],
        secret=[2600 / 2120, (2600 / 2120 - 1) / 0.3],
    ),
    "ex-repair-dashboard": Case(
        solution=dashboard,
        wrong=[
            (dashboard_as_printed, "factor is that of an all-reduce"),
            (dashboard_without_sizes, "larger buffer"),
            (dashboard_always_whole, "too large by P"),
            (forgiving_dashboard, "must raise a ValueError"),
            (lambda operation: 0, "must take dashboard"),
        ],
    ),
    "ex-tensor-four": Case(
        solution=(
            4 * 10 * 4 * 6 * (1e-6 + 2 * 4096 * 8192 / (4 * 300e9)),
            30 * (10e-6 + 140e9 / 32 / 16 / 50e9),
        ),
        wrong=[
            ((4 * 10 * 8 * 14 * (1e-6 + 2 * 4096 * 8192 / (8 * 300e9)), 0.1643), "eight ranks"),
            ((4 * 10 * 8 * 6 * (1e-6 + 2 * 4096 * 8192 / (4 * 300e9)), 0.1643), "micro-batches"),
            (
                (
                    4 * 10 * 4 * 6 * (1e-6 + 2 * 4096 * 8192 / (4 * 300e9)),
                    30 * (10e-6 + 140e9 / 64 / 16 / 50e9),
                ),
                "a fourth of each",
            ),
        ],
        secret=[4 * 10 * 4 * 6 * (1e-6 + 2 * 4096 * 8192 / (4 * 300e9)), 0.164362],
    ),
    "ex-launch-or-link": Case(
        solution=split_start,
        wrong=[
            (lambda times: split_start(times, phases=1), "two phases"),
            (lambda times: split_start(times, through_zero=True), "every call pays"),
            (lambda times: split_start(times, off=0), "off by two steps"),
            (lambda times: tuple(reversed(split_start(times))), "too (large|small)"),
        ],
    ),
    "ex-dedicated-servers": Case(
        solution=lambda n, P, S, beta: 2 * P * n / (S * beta),
        wrong=[
            (lambda n, P, S, beta: P * n / (S * beta), "one way"),
            (lambda n, P, S, beta: 2 * n / (S * beta), "every worker, not one"),
            (lambda n, P, S, beta: 2 * (P - 1) * n / (S * beta), "dedicated server"),
            (lambda n, P, S, beta: 2 * P * n / beta, "S has no effect"),
            (lambda n, P, S, beta: 2 * (P - 1) / P * n / beta, "that is a ring"),
            (lambda n, P, S, beta: 3 * P * n / (S * beta), "one server"),
            (lambda n, P, S, beta: 2 * P * n / (min(S, P) * beta), "more servers than workers"),
        ],
    ),
    "ex-order-of-bytes": Case(
        solution=(512 * 700e6, 510 * 700e6, 256**2 / 510),
        wrong=[
            ((256 * 700e6, 510 * 700e6, 128.5), "push and pull"),
            ((512 * 700e6, 510 * 700e6 / 256, 128.5), "that is one port"),
            ((512 * 700e6, 510 * 700e6, 257.0), "only what it"),
            ((512 * 700e6, 510 * 700e6, 512 / 510), "compare ports"),
        ],
        secret=[512 * 700e6, 510 * 700e6, 256**2 / 510],
    ),
    "ex-how-far-above": Case(
        solution=(787.5e9, 480e9 / 1.75 * 9 / 8),
        wrong=[
            ((900e9, 308.57e9), "many ranks"),
            ((700e9, 308.57e9), "any all-reduce"),
            ((787.5e9, 480e9 / 1.75), "finished share"),
            ((787.5e9, 480e9), "only ranks add"),
        ],
        secret=[787.5e9, 480e9 / 1.75 * 9 / 8],
    ),
    "ex-repair-757": Case(
        solution=slipping(""),
        wrong=[
            (slipping("data tensor pipeline"), "as on the page"),
            (slipping("data"), "whose gradients"),
            (slipping("tensor"), "one configuration"),
            (slipping("pipeline"), "how many micro-batches"),
            (slipping("data pipeline"), "tensor axis is right"),
            (slipping("tensor pipeline"), "data axis is right"),
            (slipping("data tensor"), "pipeline is right"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_two_groups_are_the_fewest_and_the_starts_are_found_from_them():
    with pytest.raises(NotYet):
        check("ex-launch-or-link", lambda times: (1e-5, 1e-6))
