"""The memory bar: the page computes what `rank_memory` does, for every model and split."""

import json
import random

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import MemoryBar
from dtlib.explore.memory_bar import RECOMPUTE, SLIDERS, SWITCHES
from dtlib.foundations.sheet import readable


@pytest.fixture(scope="module")
def bar():
    return MemoryBar()


@pytest.fixture(scope="module")
def model(bar):
    scripts = Scripts("quantities.js", "sheet.js", "memory_bar_model.js")
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
        text = f"needs {readable(values['memory'], 'B')} of {readable(values['hbm'], 'B')}"
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
