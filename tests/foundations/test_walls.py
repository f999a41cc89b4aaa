"""The three walls against counting, search and the limits that they must have."""

import math

import pytest
import sympy as sp

from dtlib.foundations import GB, NOTATION, GiB, catalog, day, training_time
from dtlib.foundations.walls import (
    affordable_tokens,
    exchange_wall_ranks,
    exchanging_affordable_tokens,
    exchanging_training_time,
    gradient_exchange_time,
    least_devices,
    memory_wall_params,
    time_wall_params,
)

H100 = catalog["h100-sxm"]
RATE = {"peak": H100.peak("bf16"), "mfu": 0.4}
NETWORK = {"batch_tokens": 4e6, "beta": 50 * GB}
NAMES = ("params", "tokens", "P", "peak", "mfu", "batch_tokens", "beta", "deadline")
symbols = {name: NOTATION[name].sympy() for name in NAMES}


def only(*names):
    return {name: symbols[name] for name in names}


def test_the_fewest_devices_hold_the_state_and_one_fewer_does_not():
    for params in (1e8, 5e9, 5.4e9, 70e9, 405e9, 16 * GiB):
        devices = least_devices(params, 80 * GiB)
        assert devices * 80 * GiB >= 16 * params > (devices - 1) * 80 * GiB


def test_the_memory_wall_is_where_one_more_device_is_needed():
    for devices in (1, 8, 1000):
        wall = memory_wall_params(devices, 80 * GiB)
        assert least_devices(wall, 80 * GiB) == devices
        assert least_devices(wall * 1.001, 80 * GiB) == devices + 1


def test_at_the_time_wall_the_run_ends_with_the_deadline():
    for ranks in (1, 64, 1024):
        wall = time_wall_params(ranks, **RATE, deadline=90 * day, tokens_per_param=20)
        assert training_time(wall, 20 * wall, ranks, **RATE) == pytest.approx(90 * day)
        late = training_time(wall * 1.01, 20 * wall * 1.01, ranks, **RATE)
        assert late > 1.02 * 90 * day


def test_a_thousand_times_the_ranks_hold_a_thousand_times_and_finish_thirty_two_times():
    def wall(ranks):
        return time_wall_params(ranks, **RATE, deadline=90 * day, tokens_per_param=20)

    assert wall(1024) / wall(1) == pytest.approx(32)
    assert memory_wall_params(1024, 1) / memory_wall_params(1, 1) == 1024


def test_one_h100_is_full_and_busy_at_nearly_the_same_model():
    held = memory_wall_params(1, H100.hbm_bytes)
    finished = time_wall_params(1, **RATE, deadline=90 * day, tokens_per_param=20)
    assert 0.9 < finished / held < 1


def test_without_limit_of_bandwidth_the_exchange_costs_nothing():
    free = exchanging_training_time(**only(*NAMES[:-1]))
    alone = training_time(**only(*NAMES[:5]))
    assert sp.simplify(sp.limit(free, symbols["beta"], sp.oo) - alone) == 0
    assert sp.simplify(free - alone) != 0
    given = {"params": 7e9, "P": 64, **RATE, "deadline": 90 * day}
    tokens = exchanging_affordable_tokens(**given, batch_tokens=4e6, beta=math.inf)
    assert tokens == pytest.approx(affordable_tokens(**given), rel=1e-12)


def test_the_affordable_tokens_take_exactly_the_deadline():
    run = exchanging_training_time(**only(*NAMES[:-1]))
    most = exchanging_affordable_tokens(
        **only("params", "P", "peak", "mfu", "deadline", "batch_tokens", "beta")
    )
    assert sp.simplify(run.subs(symbols["tokens"], most) - symbols["deadline"]) == 0
    plain = affordable_tokens(**only("params", "P", "peak", "mfu", "deadline"))
    alone = training_time(**only(*NAMES[:5]))
    assert sp.simplify(alone.subs(symbols["tokens"], plain) - symbols["deadline"]) == 0


def test_one_rank_has_nobody_to_exchange_with():
    assert gradient_exchange_time(7e9, P=1, beta=50 * GB) == 0
    one = exchanging_training_time(7e9, 1e11, P=1, **RATE, **NETWORK)
    assert one == training_time(7e9, 1e11, P=1, **RATE)


@pytest.mark.parametrize("params", [1e9, 7e9, 405e9])
def test_at_the_third_wall_a_step_exchanges_as_long_as_it_computes_whatever_the_model(params):
    ranks = exchange_wall_ranks(**RATE, **NETWORK)
    compute = training_time(params, NETWORK["batch_tokens"], ranks, **RATE)
    assert gradient_exchange_time(params, ranks, NETWORK["beta"]) == pytest.approx(compute)
    assert gradient_exchange_time(params, 2 * ranks, NETWORK["beta"]) > 1.9 * compute / 2


def test_beyond_the_third_wall_further_ranks_buy_at_most_twice_as_much():
    ranks = round(exchange_wall_ranks(**RATE, **NETWORK))
    given = {"params": 7e9, **RATE, "deadline": 90 * day, **NETWORK}
    at_the_wall, at_infinity = (exchanging_affordable_tokens(P=P, **given) for P in (ranks, 10**12))
    assert 1.9 < at_infinity / at_the_wall < 2.01
