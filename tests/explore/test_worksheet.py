"""A worksheet computes in the page what its sheet computes, and refuses what would mislead."""

import json
import random

import pytest
from page import opened
from scripts import Scripts

from dtlib import estimate
from dtlib.collectives import ring_all_reduce_time
from dtlib.explore.controls import Task, between
from dtlib.explore.worksheet import Worksheet
from dtlib.formulas.sheet import Given, Sheet, line, total
from dtlib.formulas.units import GB, readable, us
from dtlib.foundations import Cluster, catalog, published_models, training_flops
from dtlib.foundations.roofline.pace import arithmetic_time
from dtlib.memory import model_state_bytes

INPUTS = {
    "params": between(1e9, 1e12, start=30e9),
    "dp": between(1, 1024, start=64),
    "stage": [3, 0, 1, 2],
}
TASK = Task("Let it not fit.", "memory > hbm", {"dp": 1}, "It does not.")


def sheet() -> Sheet:
    given = {
        "params": 1e9, "tokens": 4e6, "P": 128, "peak": 989e12, "mfu": 0.45, "stage": 0, "dp": 1,
        "n": 2 * GB, "hbm": Given(80 * GB, "B", "memory of one GPU", "a data sheet"),
    }  # fmt: skip
    lines = {
        "work": training_flops,
        "arithmetic": line(arithmetic_time, flops="work", peak_fraction="mfu"),
        "gradients": line(ring_all_reduce_time, P="dp", alpha=2 * us, beta=50 * GB),
        "step": total("arithmetic", "gradients", label="one step"),
        "state": line(model_state_bytes, label="weights, gradients, optimizer"),
        "memory": total("state", within="hbm"),
    }
    return Sheet(given, lines)


def worksheet(**options) -> Worksheet:
    return Worksheet(sheet(), INPUTS, **{"title": "Thirty billion", "task": TASK} | options)


def test_the_page_computes_what_the_sheet_computes():
    scripts = Scripts("../drawing/quantities.js", "js/sheet.js")
    spec, draw = worksheet().spec, random.Random(0)
    for _ in range(50):
        state = {c["name"]: draw.choice(c["values"]) for c in spec["inputs"]}
        found = scripts("sheetModel(spec).evaluate(state)", spec=spec, state=state)
        expected = sheet().values_at(**state)
        assert sorted(found) == sorted(expected)
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-12)


def test_an_estimate_is_a_sheet_and_runs_in_the_page():
    run = estimate(published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 8), batch=512,
                   seq=8192, tp=2, pp=2, zero=1, recompute="selective", tokens=15e12)  # fmt: skip
    inputs = {"dp_beta": between(1 * GB, 400 * GB, start=50 * GB)}
    spec = Worksheet(run, inputs, title="Llama").spec
    state = {"dp_beta": 2 * GB}
    found = Scripts("../drawing/quantities.js", "js/sheet.js")(
        "sheetModel(spec).evaluate(state)", spec=spec, state=state
    )
    assert found == pytest.approx(run.values_at(**state), rel=1e-12)


def test_the_page_reads_quantities_as_the_library_does():
    scripts, draw = Scripts("../drawing/quantities.js", "js/sheet.js"), random.Random(1)
    for unit in ("", "s", "B", "FLOP"):
        for _ in range(100):
            value = 10 ** draw.uniform(-3, 16)
            assert scripts("readable(value, unit)", value=value, unit=unit) == readable(value, unit)


def test_a_worksheet_is_the_same_on_every_build_and_has_a_table_for_print():
    first, second = worksheet(), worksheet()
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert repr(first) == "Worksheet('Thirty billion')"
    assert first.static().html.count("<tr>") == 6 and "7.5 GB" in first.static().html
    assert first._esm.count("export default {") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"task": Task("", "memory < hbm", {})}, "met already at the start"),
        ({"task": Task("", "memory > 9 * hbm", {"dp": 512})}, "not met by its solution"),
        ({"task": Task("", "memory > hbm", {"P": 8})}, "P cannot take the value 8"),
        ({"task": Task("", "ram > hbm", {})}, "no 'ram'"),
        ({"open_": ["ram"]}, "no line 'ram'"),
        ({"hidden": ["hbm"]}, "no line 'hbm'"),
    ],
)
def test_a_worksheet_names_what_is_wrong(options, says):
    with pytest.raises(ValueError, match=says):
        worksheet(**options)


def test_an_input_must_be_given_and_must_move_something():
    idle = Sheet({"n": 1.0, "params": 1e9, "tokens": 1e9}, {"work": training_flops})
    with pytest.raises(ValueError, match="'n' moves nothing"):
        Worksheet(idle, {"n": between(1, 8, start=1)}, title="")
    with pytest.raises(ValueError, match="'step' is not given"):
        Worksheet(sheet(), {"step": between(1, 8, start=1)}, title="")


def test_a_part_of_a_hidden_total_has_no_bar():
    lines = {line["key"]: line for line in worksheet(hidden=["memory"]).spec["lines"]}
    assert lines["state"]["part"] == "" and lines["gradients"]["part"] == "step"


@pytest.fixture
def tab(browser, tmp_path):
    """The worksheet on a narrow page, which it must not make wider."""
    shown = worksheet(open_=["state"], hidden=["work"])
    with opened(browser, tmp_path, shown, viewport={"width": 390, "height": 900}) as tab:
        yield tab
        assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth")


def values(tab) -> list[str]:
    return tab.locator(".dt-amount .dt-row-value").all_inner_texts()


def expected(**changes) -> list[str]:
    state = {"params": 30e9, "dp": 64, "stage": 3} | changes
    found = sheet().values_at(**state)
    shown = [name for name in sheet().lines if name != "work"]
    return [readable(found[name], sheet().unit(name)) for name in shown]


def test_keys_move_an_input_and_every_line_that_depends_on_it(tab):
    assert values(tab) == expected()
    tab.get_by_role("slider", name="replicas").focus()
    fed = tab.locator(".is-fed .dt-key").all_inner_texts()
    assert [name.strip("▸\n ") for name in fed] == [
        "gradients", "one step", "weights, gradients, optimizer", "memory"
    ]  # fmt: skip
    tab.keyboard.press("ArrowRight")
    assert values(tab) == expected(dp=128)
    assert tab.locator(".dt-change").all_inner_texts()[-1] == "×0.5"
    tab.get_by_role("button", name="Reset").click()
    assert values(tab) == expected()


def test_a_task_is_noticed_and_the_line_that_is_over_says_so(tab):
    tab.get_by_role("slider", name="replicas").press("Home")
    assert tab.get_by_role("status").inner_text() == "Done. It does not."
    note = tab.locator(".is-over .dt-note").inner_text()
    assert note == "too much for 80 GB (memory of one GPU)"
    tab.get_by_text("memory 480 GB, more than 80 GB").wait_for()


def test_a_line_opens_to_its_equation_with_numbers_and_arrows_walk_the_lines(tab):
    state = tab.get_by_role("button", name="weights, gradients, optimizer").first
    assert state.get_attribute("aria-expanded") == "true"
    shown = tab.locator(".dt-detail:visible .dt-number").all_text_contents()
    assert [number.replace("\u202f", " ") for number in shown] == ["30 billion", "64"] * 3
    state.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    memory = tab.get_by_role("button", name="memory")
    assert memory.get_attribute("aria-expanded") == "true"
    assert tab.get_by_text("= weights, gradients, optimizer 7.5 GB").is_visible()
