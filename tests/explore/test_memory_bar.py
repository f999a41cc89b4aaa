"""The memory bar: the page computes what `rank_memory` does, for every model and split."""

import json
import random

import pytest
from page import opened
from scripts import FOLDER, Scripts

from dtlib.explore import MemoryBar, Task
from dtlib.explore.memory_bar import RECOMPUTE, SLIDERS, SWITCHES, TASKS
from dtlib.formulas.units import readable
from dtlib.foundations import TransformerSpec


@pytest.fixture(scope="module")
def bar():
    return MemoryBar()


@pytest.fixture(scope="module")
def model(bar):
    scripts = Scripts("../drawing/quantities.js", "js/sheet.js", "js/memory_bar_model.js")
    scripts.context.eval(f"const spec = {json.dumps(bar.spec)}; const bar = memoryModel(spec)")
    return scripts


def settings(bar, draws: int, seed: int):
    """Settings drawn from all that the controls offer."""
    generator = random.Random(seed)
    counts = {"model": len(bar.spec["models"]), "gpu": len(bar.spec["gpus"])}
    counts |= {"recipe": len(bar.spec["recipes"]), "recompute": len(RECOMPUTE)}
    for _ in range(draws):
        q = {name: generator.randrange(count) for name, count in counts.items()}
        q |= {name: generator.choice(values) for name, (_, values) in SLIDERS.items()}
        yield q | {name: generator.randrange(2) for name in SWITCHES}


def test_the_page_computes_every_term_of_every_setting_as_the_library_does(bar, model):
    computed = 0
    for q in settings(bar, 500, seed=0):
        refused = model("refusedSplit(spec, q)", q=q)
        if refused:
            with pytest.raises(ValueError, match=r"tp|ep|pp|seq"):
                bar.account(0, **q)
            continue
        for place in {0, q["pp"] // 2, q["pp"] - 1}:
            account = bar.account(place, **q)
            found = model("bar.evaluate(q, place)", q=q, place=place)
            terms = account.terms()
            found["again"] += found["expert_again"]
            shown = {name: found[name] for name in terms}
            assert shown == pytest.approx(terms, rel=1e-12), (q, place)
            assert found["memory"] == pytest.approx(account["memory"], rel=1e-12), (q, place)
            computed += 1
    assert computed > 300


def test_keys_make_it_fit_and_the_task_notices(browser, tmp_path, bar):
    def says(tab, **changes):
        values = bar.values(**changes)
        border = "more than" if values["memory"] > values["hbm"] else "within"
        held, hbm = (readable(values[name], "B") for name in ("memory", "hbm"))
        text = f"needs {held}, {border} {hbm}."
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)", arg=text
        )

    with opened(browser, tmp_path, MemoryBar(), viewport={"width": 1000, "height": 1100}) as tab:
        says(tab)
        tab.get_by_label("tensor-parallel ranks, 1 to 16").focus()
        tab.keyboard.press("ArrowRight")
        says(tab, tp=2)
        assert "is-met" not in tab.locator(".dt-task").get_attribute("class")
        tab.keyboard.press("ArrowRight")
        says(tab, tp=4)
        assert "Done. Replicas divide" in tab.locator(".dt-task").inner_text()
        tab.locator(".dt-reset").click()
        says(tab)


def test_the_page_refuses_exactly_the_splits_that_the_library_refuses(bar, model):
    start = bar.spec["start"]
    models = {facts["label"]: i for i, facts in enumerate(bar.spec["models"])}
    for changes, said in (
        ({"model": models["Mixtral 8x7B"], "ep": 2}, "must be a multiple of 2"),
        ({"model": models["Mixtral 8x7B"], "ep": 16, "dp": 16}, "16 ranks cannot share 8 experts"),
        ({"seq": 1024, "cp": 16, "tp": 16}, ""),
        ({"model": models["Mixtral 8x7B"], "ep": 8, "dp": 4, "cp": 2}, ""),
        ({"ep": 64}, ""),
    ):
        found = model("refusedSplit(spec, q)", q=start | changes)
        assert said in found and bool(said) == bool(found)
        if said:
            with pytest.raises(ValueError, match="ep"):
                bar.account(**changes)
        else:
            bar.account(**changes)


def test_every_refused_number_of_ranks_is_known(model):
    small = TransformerSpec("narrow", layers=6, hidden=96, heads=6, vocab=1000)
    narrow = MemoryBar(small, task=None)
    assert narrow.spec["models"][0]["tps"] == [1, 2]
    assert [len(stages) for stages in narrow.spec["models"][0]["stages"]] == [1, 2, 4]
    q = narrow.spec["start"]
    for changes, said in (({"tp": 4}, "cannot be cut into 4"), ({"pp": 8}, "too few for 8")):
        assert said in model("refusedSplit(other, q)", other=narrow.spec, q=q | changes)
        with pytest.raises(ValueError, match=r"tp|pp"):
            narrow.account(**changes)


def test_sabotage_a_page_that_forgets_the_last_stage_is_noticed(bar):
    source = (FOLDER / "js" / "memory_bar_model.js").read_text(encoding="utf-8")
    line = 'drop(place < q.pp - 1, "logits");'
    assert line in source
    forgetful = Scripts("../drawing/quantities.js", "js/sheet.js")
    forgetful.context.eval(source.replace(line, ""))
    forgetful.context.eval(f"const spec = {json.dumps(bar.spec)}; const bar = memoryModel(spec)")
    q = bar.spec["start"] | {"pp": 4}
    wrong = [forgetful("bar.evaluate(q, place).memory", q=q, place=place) for place in range(4)]
    right = [bar.account(place, pp=4)["memory"] for place in range(4)]
    assert wrong[3] == pytest.approx(right[3], rel=1e-12)
    assert all(w > 1.02 * r for w, r in zip(wrong[:3], right[:3], strict=True))


def test_the_first_state_is_the_surprise():
    terms = MemoryBar().account().terms()
    assert terms["weights"] < 15e9 < 80e9 < 165e9 < sum(terms.values())


def test_a_model_has_its_own_task_where_it_can_be_set():
    for name, task in TASKS.items():
        assert MemoryBar(name).spec["task"]["text"] == task.text
    assert MemoryBar(tp=4).spec["task"] is None  # it is met
    assert MemoryBar("mixtral-8x7b").spec["task"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "gpt-9"}, "gpt-9"),
        ({"gpu": "h100"}, "gpu: 'h100'; allowed are h100-sxm"),
        ({"recipe": "fp8"}, "recipe: 'fp8'; allowed are mixed"),
        ({"recompute": "half"}, "recompute is 'half', but must be 'none'"),
        ({"recompute": ["keys"]}, r"recompute: \(\('keys',\), 1\); allowed are"),
        ({"zero": 4}, "zero is 4, but must be a stage: 0, 1, 2 or 3"),
        ({"offload": ["optimizer"]}, "MemoryBar: offload is .*, but must be .*: nothing else"),
        ({"dp": 3}, "dp: 3; allowed are 1, 2, 4"),
        ({"place": 1}, "'place' must be below 1|place .* below 1"),
        ({"controls": ("model", "zero", "dp", "tp", "pp")}, "at most 4 come first; got 5"),
        ({"controls": ("speed",)}, "controls: 'speed'; allowed are model"),
        ({"task": Task("", "fullest > 0", {})}, "met already at the start"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are"),
    ],
)
def test_a_bar_that_would_mislead_is_refused(options, said):
    with pytest.raises((ValueError, KeyError), match=said):
        MemoryBar(**options)


def test_a_bar_is_the_same_on_every_build_and_has_a_figure_for_print():
    first, second = MemoryBar(pp=2), MemoryBar(pp=2)
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert "of one H100" in first.static().html
    assert first.static().html.count("<math>") == len(first.account().terms())
    assert repr(first) == "MemoryBar('What one GPU must hold')"


def test_fewer_controls_when_a_page_asks_for_them():
    spec = MemoryBar(controls=["pp", "micro_batches"], more=(), task=None).spec
    assert [control["name"] for control in spec["first"]] == ["pp", "micro_batches"]
    assert spec["more"] == []


def test_bars_and_terms_from_the_keyboard_on_a_phone(browser, tmp_path):
    shown = MemoryBar("llama-3.1-70b", pp=4, tp=8, task=None)
    viewport = {"width": 390, "height": 900}
    with opened(browser, tmp_path, shown, theme="dark", viewport=viewport) as tab:
        stages = tab.locator(".dt-mem-row")
        assert stages.count() == 4
        stages.first.focus()
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("ArrowDown")
        held = readable(shown.account(2)["memory"], "B")
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)",
            arg=f"stage 2 needs {held},",
        )
        assert stages.nth(2).get_attribute("aria-pressed") == "true"
        term = tab.get_by_role("button", name="activations under way")
        term.focus()
        detail = tab.locator(".dt-mem-detail").inner_text()
        assert readable(shown.account(2)["activations"], "B") in detail
        assert readable(shown.account(2)["layer"], "B") in detail
        tab.keyboard.press("Enter")
        assert term.get_attribute("aria-pressed") == "true"
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        tab.locator("summary").click()
        tab.get_by_label("GPU", exact=True).select_option("H200, 141 GiB")
        tab.wait_for_function(
            "text => document.querySelector('.dt-mem-verdict').textContent.includes(text)",
            arg=readable(shown.values(gpu=2)["hbm"], "B"),
        )
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_split_that_cannot_be_says_why(browser, tmp_path):
    shown = MemoryBar("mixtral-8x7b", dp=8, ep=8, controls=["dp", "ep"], task=None)
    with opened(browser, tmp_path, shown, viewport={"width": 1000, "height": 900}) as tab:
        tab.get_by_label("replicas, 1 to 1024").focus()
        tab.keyboard.press("ArrowLeft")
        said = tab.locator(".dt-mem-refused")
        assert said.is_visible()
        assert "must be a multiple of 8" in said.inner_text()
        assert tab.locator(".dt-mem").is_hidden()
        tab.keyboard.press("ArrowRight")
        assert said.is_hidden()
