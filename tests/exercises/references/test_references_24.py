"""What chapter 24's exercises compare with, found in other ways."""

from itertools import product

import pytest

from dtlib.exercises.chapters.composition import ch24
from dtlib.exercises.judges.clusters import clusters, fastest, legal_layouts
from dtlib.exercises.judges.hybrids import gradients_in_pieces, norm_of_pieces
from dtlib.exercises.judges.pipelines import with_warm_up
from dtlib.layout import Layout
from dtlib.memory.zero.cost import zero_sent_bytes
from dtlib.mesh import Mesh
from dtlib.parallelism.pipeline import gpipe, one_f_one_b, simulate
from dtlib.parallelism.tensor.cost import activation_message_bytes, tensor_parallel_time


def uniform(p, m):
    return simulate(with_warm_up(p, m, lambda p, r: p - 1))


@pytest.mark.parametrize(("p", "m"), [(2, 2), (2, 5), (4, 8), (4, 16), (5, 9), (8, 32)])
def test_a_uniform_warm_up_takes_p_turns_for_each_further_micro_batch(p, m):
    assert uniform(p, m).makespan == 3 * (2 * p - 1 + p * (m - p))
    assert simulate(one_f_one_b(p, m)).makespan == 3 * (m + p - 1)


def test_between_fill_and_drain_one_rank_of_the_uniform_one_works_at_a_time():
    drawn = uniform(4, 16)
    asked = {one.name: one.value for one in ch24.one_at_a_time.asked}
    busy = [
        sum(span.start <= at + 0.5 < span.stop for span in drawn.spans) for at in range(30, 130)
    ]
    assert set(busy) == {asked["busy"]}
    assert drawn.makespan == asked["m_16"]
    assert drawn.makespan - uniform(4, 15).makespan == asked["each"]
    assert uniform(8, 32).bubble_fraction == pytest.approx(asked["bubble"])
    assert simulate(one_f_one_b(4, 16)).bubble_fraction < drawn.bubble_fraction


@pytest.mark.parametrize(("p", "m"), [(2, 1), (2, 6), (3, 3), (4, 8), (6, 4)])
def test_the_sum_of_terms_is_gpipes_simulated_step_and_1f1b_saves_a_message(p, m):
    compute, tensor, message = 30, 6, 1
    forward, backward = ((compute + tensor) // 3, 2 * (compute + tensor) // 3)
    f = [forward + message * (stage < p - 1) for stage in range(p)]
    b = [backward + message * (stage > 0) for stage in range(p)]
    step, other = (simulate(x(p, m), f=f, b=b, w=[0] * p).makespan for x in (gpipe, one_f_one_b))
    assert ch24._step_time(compute, tensor, message, 15, p, m) == step
    assert ch24._step_time(compute, tensor, message, 25, p, m) == step + 5
    assert step - other == (message if p > 2 else (m - 1) * message)


@pytest.mark.parametrize("case", [case for _, case in ch24._meshes()], ids=str)
def test_groups_by_strides_are_those_of_the_mesh(case):
    rank, sizes = case
    assert ch24._groups(rank, sizes) == Mesh.of(**sizes).groups_of(rank)


@pytest.mark.parametrize(("where", "case"), [*clusters()], ids=lambda one: str(one)[:30])
def test_the_fastest_layout_is_that_of_a_search_of_all_degrees(where, case):
    gpus, node, layers, batch, time, fits = case
    found = {}
    for tp, pp in product(range(1, gpus + 1), repeat=2):
        if gpus % (tp * pp) or node % tp:
            continue
        layout = Layout(tp=tp, pp=pp, dp=gpus // (tp * pp))
        try:
            layout.stage_layers(layers), layout.micro_batches(batch)
        except ValueError:
            continue
        found[layout.tp, layout.pp, layout.dp] = time(layout.tp, layout.pp, layout.dp)
    assert {*found} == {*legal_layouts(gpus, node, layers, batch)}
    best = min((one for one in found if fits(*one)), key=found.get)
    assert fastest(*case) == best
    assert best in found and fits(*best)


def test_memory_and_nodes_both_decide_in_some_of_the_clusters():
    cases = [case for _, case in clusters()]
    anyway = [fastest(*case[:5], lambda *one: True) for case in cases]
    fitting = [fastest(*case) for case in cases]
    assert sum(one != other for one, other in zip(anyway, fitting, strict=True)) >= 3
    assert len({*fitting[:5]}) == 5 and any(pp > 1 for _, pp, _ in fitting[:5])


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2, 2), (1, 3, 2), (3, 1, 2), (2, 4, 1)])
def test_every_number_counts_once_and_without_its_copies_it_does_not(sizes):
    named = dict(zip(("dp", "pp", "tp"), sizes, strict=True))

    def norm(**slip):
        ranks, right = gradients_in_pieces(sizes)
        squares = [norm_of_pieces(pieces, named, float, **slip) ** 2 for pieces in ranks]
        return sum(squares) ** 0.5 / right

    assert norm() == pytest.approx(1)
    assert (norm(tied=False) > 1.01) == (sizes[1] > 1)


def test_bytes_of_three_axes_by_other_formulas_and_width_costs_its_degree_less_one():
    asked = {one.name: one.value for one in ch24.bytes_of_three_axes.asked}
    n = activation_message_bytes(1, 4096, 8192)
    time = tensor_parallel_time(n, 80, 4, p=4, m=32, tp=8, alpha=0, beta=450e9)
    assert asked["tp_time"] == pytest.approx(time)
    assert asked["dp"] == pytest.approx(zero_sent_bytes(70e9 / 32, 0, 8, 1, 2))
    assert asked["tp_time"] > 4 * asked["dp_time"]
    assert asked["narrow"] / asked["tp"] == pytest.approx((4 - 1) / (8 - 1))


def test_the_line_through_two_published_runs_meets_the_third():
    asked = {one.name: one.value for one in ch24.a_line_through_two_runs.asked}

    def step(replicas):
        turns = simulate(one_f_one_b(35, 1920 // replicas)).makespan / 3
        return turns * asked["turn"] + asked["once"]

    assert step(8) == pytest.approx(60.1)
    assert step(12) == pytest.approx(44.4)
    assert step(10) == pytest.approx(asked["middle"]) == pytest.approx(50.2, rel=0.01)
    assert step(48) == pytest.approx(asked["at_48"])
