"""Widgets refuse what would mislead, and are the same on every build."""

import pytest

from dtlib.collectives import (
    Switch,
    halving_doubling_all_reduce_time,
    ring_all_reduce_time,
    tree_all_reduce_time,
)
from dtlib.explore import Explorer, Fastest, Task, answer, bet, between
from dtlib.explore.kit.setting import curve
from dtlib.explore.kit.still import called
from dtlib.formulas.units import GB, KB, us
from dtlib.foundations import formula, gang_mtbf, young_multiplier
from dtlib.machines.alpha_beta import bandwidth_efficiency, message_time

N = {"n": between(1 * KB, 1 * GB, start=1000 * KB)}
P = {"P": between(2, 1024, start=8)}
ALPHA = {"alpha": between(0.1 * us, 100 * us, start=5 * us)}
BETA = {"beta": between(1 * GB, 400 * GB, start=50 * GB)}
FIXED = {"alpha": 5 * us, "beta": 50 * GB}
PAIR = {"ring": ring_all_reduce_time, "tree": tree_all_reduce_time}
SWITCH = Switch(4, alpha=5 * us, beta=50 * GB)


def explorer(**options):
    options = {"x": N, "sliders": P | ALPHA | BETA, "title": "Ring or tree"} | options
    return Explorer(PAIR, **options)


def test_a_curve_of_the_page_is_the_formula():
    spec = explorer().spec["curves"]
    assert [c["js"] for c in spec] == [f.js() for f in PAIR.values()]


def test_a_formula_that_is_called_with_other_arguments_does_not_show_its_own_value():
    @formula(symbol=r"\kappa_P", unit="", conditions="the mean time is that of the gang")
    def gang_multiplier(P, write_time, restart_time, mtbf):
        return young_multiplier(write_time, restart_time, gang_mtbf(mtbf, P))

    filled = [name for name, _, _ in curve("gang", gang_multiplier)["parts"]]
    assert filled == ["P", "write_time", "restart_time", "mtbf", "gang_mtbf"]
    assert "young_interval" in [name for name, *_ in curve("one", young_multiplier)["parts"]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sliders": P | ALPHA}, "'ring' needs 'beta'"),
        ({"sliders": P | ALPHA | BETA, "fixed": {"alpha": 1 * us}}, "'alpha' cannot both move"),
        ({"sliders": P | ALPHA | BETA | {"m": between(1, 8, start=2)}}, "'m' moves nothing"),
        (
            {"sliders": P | ALPHA | BETA | {"latency": between(1, 8, start=2)}},
            "'latency' is not in",
        ),
        ({"x": N | P, "sliders": ALPHA | BETA}, "one variable"),
        ({"y_scale": "cubic"}, "y_scale 'cubic'"),
        ({"task": Task("", "ring > 0", {})}, "met already at the start"),
        ({"task": Task("", "ring < 0", {"P": 64})}, "not met by its solution"),
        ({"task": Task("", "ring < tree", {"P": 65})}, "solution, P: 65, but must be one of 2, 4"),
        ({"task": Task("", "rong < tree", {})}, "no 'rong'"),
    ],
)
def test_an_explorer_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        explorer(**options)


def test_curves_of_one_axis_have_one_unit():
    mixed = {"time": message_time, "efficiency": bandwidth_efficiency}
    with pytest.raises(ValueError, match="have one unit"):
        Explorer(mixed, x=N, sliders=ALPHA | BETA, title="")


def test_what_is_not_a_formula_is_refused():
    with pytest.raises(ValueError, match="is not a Formula"):
        Explorer({"plain": lambda n: n}, x=N, sliders={}, title="")


def test_a_map_names_the_fastest_formula():
    map_ = Fastest(
        PAIR | {"halving": halving_doubling_all_reduce_time},
        x=N,
        y=P,
        sliders={},
        fixed=FIXED,
        title="",
    )
    script = map_._esm.replace("export default ", "")
    drawn = called(script, "mapOf(spec, { n: 1e6, P: 8 }, 690)", spec=map_.spec)
    assert [line["value"] for line in drawn["lines"]["cells"]] == list(P["P"].values)
    for cells, line in zip(drawn["cells"], drawn["lines"]["cells"], strict=True):
        for cell, column in zip(cells, drawn["columns"]["cells"], strict=True):
            at = {"n": column["value"], "P": line["value"], **FIXED}
            times = [f(**at) for f in map_._formulas.values()]
            assert times[cell["best"]] == pytest.approx(min(times))
            assert cell["lead"] == pytest.approx(sorted(times)[1] / min(times))


def test_a_map_needs_two_formulas():
    with pytest.raises(ValueError, match="at least two"):
        Fastest({"ring": ring_all_reduce_time}, x=N, y=P, sliders=ALPHA | BETA, title="")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("a", "?", "ms"), {}, "give an anchor"),
        (("a", "?", "ms"), {"low": 5, "high": 5}, "low 5 must be below high 5"),
        (("a", "?", "ms", 10), {"low": 20, "high": 50}, "anchor 10 is not between"),
    ],
)
def test_a_bet_names_what_is_wrong(arguments, options, said):
    with pytest.raises(ValueError, match=said):
        bet(*arguments, **options)


def test_an_answer_is_in_the_units_of_its_bet():
    bet("2.1", "How long?", unit="ms", anchor=35.0)
    assert answer("2.1", 0.04).spec["answer"] == pytest.approx(40)
    assert answer("2.1", 40, unit="ms").spec["answer_text"] == "40 ms"
    bet("2.2", "Which share?", unit="%", low=1, high=100)
    assert answer("2.2", 0.25).spec["answer_text"] == "25 %"
    bet("2.3", "How often?", unit="times", low=1, high=100)
    assert answer("2.3", 7.35).spec["answer_text"] == "7.3 times"


@pytest.mark.parametrize(
    ("key", "value", "unit", "error", "said"),
    [
        ("3.9", 1, None, KeyError, "no such bet above"),
        ("3.1", 1, "GB", ValueError, "the bet is in 'ms'"),
        ("3.1", 1e9, None, ValueError, "off the line"),
    ],
)
def test_an_answer_names_what_is_wrong(key, value, unit, error, said):
    bet("3.1", "How long?", unit="ms", anchor=35.0)
    with pytest.raises(error, match=said):
        answer(key, value, unit)
