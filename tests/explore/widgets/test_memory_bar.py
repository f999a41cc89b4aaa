"""The memory bar: the page computes what `rank_memory` does, for every model and split."""

import random

import pytest
from page import opened

from dtlib.drawing.svg import called
from dtlib.explore import MemoryBar, Task
from dtlib.explore.kit.still import still
from dtlib.explore.memory_bar.counts import POLICIES
from dtlib.explore.memory_bar.memory_bar import SLIDERS, SWITCHES, TASK
from dtlib.formulas.units import readable
from dtlib.foundations import TransformerSpec

playwright = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def bar():
    return MemoryBar()


def in_page(widget, expression: str, script: str | None = None, **values):
    """What the widget's script says, without a page; `script` may be another one."""
    script = (script or widget._esm).replace("export default widget(", "const drawing = widget(")
    return called(script, expression, spec=widget.spec, **values)


def settings(bar, draws: int, seed: int):
    """Settings drawn from all that the controls offer."""
    generator = random.Random(seed)
    counts = {"model": len(bar.spec["models"]), "gpu": len(bar.spec["gpus"])}
    counts |= {"recipe": len(bar.spec["recipes"]), "recompute": len(POLICIES)}
    for _ in range(draws):
        q = {name: generator.randrange(count) for name, count in counts.items()}
        q |= {name: generator.choice(values) for name, (_, values, _) in SLIDERS.items()}
        yield q | {name: generator.randrange(2) for name in SWITCHES}


def test_the_page_computes_every_term_of_every_setting_as_the_library_does(bar):
    drawn = list(settings(bar, 500, seed=0))
    refused = in_page(bar, "drawn.map((q) => refusedSplit(spec, q))", drawn=drawn)
    asked = []
    for q, why in zip(drawn, refused, strict=True):
        if why:
            with pytest.raises(ValueError, match=r"tp|ep|pp|seq"):
                bar.account(0, **q)
        else:
            asked += [(q, place) for place in {0, q["pp"] // 2, q["pp"] - 1}]
    assert len(asked) > 300
    pages = in_page(bar, "asked.map(([q, place]) => stageMemory(spec, q, place))", asked=asked)
    for (q, place), found in zip(asked, pages, strict=True):
        account = bar.account(place, **q)
        found["again"] += found["expert_again"]
        terms = account.terms() | {"memory": account["memory"]}
        shown = {name: found[name] for name in terms}
        assert shown == pytest.approx(terms, rel=1e-12), (q, place)


def test_sabotage_a_page_that_forgets_the_last_stage_is_noticed(bar):
    line = '[rank < q.pp - 1, "logits"],'
    assert line in bar._esm
    setting, places = bar.spec["setting"] | {"pp": 4}, list(range(4))
    wrong = in_page(
        bar, "places.map((place) => stageMemory(spec, q, place).memory)",
        bar._esm.replace(line, ""), q=setting, places=places,
    )  # fmt: skip
    right = [bar.account(place, pp=4)["memory"] for place in places]
    assert wrong[3] == pytest.approx(right[3], rel=1e-12)
    assert all(w > 1.02 * r for w, r in zip(wrong[:3], right[:3], strict=True))


def test_the_page_refuses_exactly_the_splits_that_the_library_refuses(bar):
    models = {facts["label"]: int(i) for i, facts in bar.spec["models"].items()}
    mixtral = {"model": models["Mixtral 8x7B"]}
    for changes, said in (
        (mixtral | {"ep": 2}, "must be a multiple of 2"),
        (mixtral | {"ep": 16, "dp": 16}, "16 ranks cannot share 8 experts"),
        ({"seq": 1024, "cp": 16, "tp": 16}, ""),
        (mixtral | {"ep": 8, "dp": 4, "cp": 2}, ""),
        ({"ep": 64}, ""),
    ):
        refused(bar, changes, said, "ep")


def test_every_refused_number_of_ranks_is_known():
    small = TransformerSpec("narrow", layers=6, hidden=96, heads=6, vocab=1000)
    narrow = MemoryBar(small)
    assert narrow.spec["models"]["0"]["tps"] == [1, 2]
    assert [len(stages) for stages in narrow.spec["models"]["0"]["stages"]] == [1, 2, 4]
    refused(narrow, {"tp": 4}, "cannot be cut into 4", "tp")
    refused(narrow, {"pp": 8}, "too few for 8", "pp")


def refused(widget, changes: dict, said: str, name: str) -> None:
    """Page and library agree on a split, which `said` speaks against if it speaks."""
    found = in_page(widget, "refusedSplit(spec, q)", q=widget.spec["setting"] | changes)
    assert said in found and bool(said) == bool(found)
    if not said:
        widget.account(**changes)
        return
    with pytest.raises(ValueError, match=name):
        widget.account(**changes)
    seen = still(widget, **changes)
    assert said in seen["said"] and "no such split" in seen["figures"][0]


def test_the_first_state_is_the_surprise(bar):
    terms = bar.account().terms()
    assert terms["weights"] < 15e9 < 80e9 < 165e9 < sum(terms.values())


def test_its_task_stands_where_it_can_be_set(bar):
    assert bar.spec["task"]["text"] == TASK.text
    assert MemoryBar(tp=4).spec["task"] is None  # it is met
    assert MemoryBar("mixtral-8x7b").spec["task"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "gpt-9"}, "gpt-9"),
        ({"gpu": "h100"}, "gpu: 'h100', but must be one of h100-sxm"),
        ({"recipe": "fp8"}, "recipe: 'fp8', but must be one of mixed"),
        ({"recompute": "half"}, "recompute is 'half', but must be 'none'"),
        ({"recompute": ["keys"]}, r"recompute: \(\('keys',\), 1\), but must be one of"),
        ({"zero": 4}, "zero is 4, but must be a stage: 0, 1, 2 or 3"),
        ({"offload": ["optimizer"]}, "MemoryBar: offload is .*, but must be .*: nothing else"),
        ({"dp": 3}, "dp: 3, but must be one of 1, 2, 4"),
        ({"place": 1}, "'place' must be below 1|place .* below 1"),
        ({"controls": ("model", "zero", "dp", "tp", "pp")}, "controls: at most 4; got 5"),
        ({"controls": ("speed",)}, "controls: 'speed', but must be one of model"),
        ({"task": Task("", "fullest > 0", {})}, "met already at the start"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are"),
    ],
)
def test_a_bar_that_would_mislead_is_refused(options, said):
    with pytest.raises((ValueError, KeyError), match=said):
        MemoryBar(**options)


def test_fewer_controls_when_a_page_asks_for_them_and_other_models_only_where_one_can_choose(bar):
    spec = MemoryBar("llama-3.1-8b", controls=["pp", "micro_batches"], more=(), task=None).spec
    assert [control["name"] for control in spec["controls"]] == ["pp", "micro_batches"]
    assert [*spec["models"]] == ["1"]
    folded = [control for control in bar.spec["controls"] if control.get("folded")]
    assert len(folded) == len(bar.spec["controls"]) - 4 == 12


def test_the_figure_shows_the_micro_batches_that_every_stage_holds():
    shown = MemoryBar("llama-3.1-8b", pp=4, micro_batches=32, task=None)
    figure = still(shown)["figures"][0]
    for place, held in enumerate((4, 3, 2)):
        assert f">{held} micro-batches<" in figure
        assert shown.account(place)["in_flight"] == held
    assert ">2 micro-batches<" not in still(shown, micro_batches=1)["figures"][0]


# In a browser.

STAGES = {"pp": 4, "tp": 8, "task": None}
TERM = "activations under way: "


def amount(account, name: str) -> str:
    return readable(account[name], "B")


def test_bars_and_terms_from_the_keyboard_on_a_phone(browser, tmp_path):
    shown = MemoryBar("llama-3.1-70b", **STAGES)
    viewport = {"width": 390, "height": 900}
    with opened(browser, tmp_path, shown, theme="dark", viewport=viewport) as tab:
        bars = tab.get_by_role("button", name="stage ")
        assert bars.count() == 4
        assert tab.locator(".dt-drawing [tabindex='0']").count() == 1
        bars.first.focus()
        for key in ("ArrowDown", "ArrowDown", "Enter"):
            tab.keyboard.press(key)
        second = shown.account(2)
        says(tab, f"stage 2 needs {amount(second, 'memory')},")
        assert bars.nth(2).get_attribute("aria-pressed") == "true"
        line, terms = tab.locator(".dt-opened"), second.terms()
        largest = tab.get_by_role("button", name=f"{max(terms, key=terms.get)}: ")
        assert largest.get_attribute("aria-pressed") == "true"
        term = tab.get_by_role("button", name=f"{TERM}{amount(second, 'activations')}")
        term.press("Enter")
        assert term.get_attribute("aria-pressed") == "true"
        assert largest.get_attribute("aria-pressed") == "false"
        assert amount(second, "layer") in line.inner_text()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        tab.locator("summary").click()
        tab.get_by_role("radio", name="H200, 141 GiB").check()
        playwright.expect(tab.locator(".dt-drawing")).to_contain_text("H200: 151 GB")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        tab.get_by_role("button", name="Reset").click()
        says(tab, f"stage 0 needs {amount(shown.account(), 'memory')},")


def test_nothing_shuts_a_reader_out_of_stages_and_folded_controls(browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with opened(browser, tmp_path, MemoryBar("llama-3.1-70b", **STAGES)) as tab:
        tab.locator("summary").click()
        options = {"rules": {"label-content-name-mismatch": {"enabled": True}}}
        found = axe.run(tab, options=options).response["violations"]
        assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found] == []


def says(tab, text: str) -> None:
    playwright.expect(tab.locator(".dt-summary")).to_contain_text(text)


def test_a_press_on_a_segment_opens_its_line_and_its_stage(browser, tmp_path):
    shown = MemoryBar("llama-3.1-70b", **STAGES)
    with opened(browser, tmp_path, shown, viewport={"width": 1000, "height": 1100}) as tab:
        last = tab.get_by_role("button", name="stage 3").bounding_box()
        tab.mouse.click(last["x"] + 4, last["y"] + last["height"] / 2)
        says(tab, f"stage 3 needs {amount(shown.account(3), 'memory')},")
        line = tab.locator(".dt-opened").inner_text()
        assert "weights" in line and amount(shown.account(3), "weights") in line


def test_no_words_of_the_figure_are_cut_off_or_lie_on_one_another(browser, tmp_path):
    for width in (390, 1440):
        viewport = {"width": width, "height": 900}
        for options in ({}, {"seq": 131072, "zero": 3, "cp": 16}, {"pp": 16}, STAGES):
            shown = MemoryBar("llama-3.1-70b", **{"task": None} | options)
            with opened(browser, tmp_path, shown, viewport=viewport) as tab:
                boxes = tab.locator(".dt-drawing text").evaluate_all(BOXES)
                edge = tab.locator(".dt-drawing").bounding_box()
            assert all(left >= edge["x"] - 1 for _, left, *_ in boxes), boxes
            assert all(right <= edge["x"] + edge["width"] + 1 for *_, right, _, _ in boxes), boxes
            assert list(meetings(boxes)) == [], (width, options)


BOXES = """all => all.map((one) => {
  const { left, right, top, bottom } = one.getBoundingClientRect();
  return [one.textContent, left, right, top + 3, bottom - 3];
})"""


def meetings(boxes):
    """Pairs of words that lie on one another."""
    for i, (one, left, right, top, bottom) in enumerate(boxes):
        for other, begin, stop, above, below in boxes[i + 1 :]:
            if left < stop and begin < right and top < below and above < bottom:
                yield one, other


def test_sabotage_words_that_lie_on_one_another_are_noticed():
    assert [*meetings([("a", 0, 10, 0, 10), ("b", 9, 20, 5, 15)])] == [("a", "b")]
    assert [*meetings([("a", 0, 10, 0, 10), ("b", 11, 20, 5, 15)])] == []


def test_a_split_that_cannot_be_says_why(browser, tmp_path):
    shown = MemoryBar("mixtral-8x7b", dp=8, ep=8, controls=["dp", "ep"], task=None)
    with opened(browser, tmp_path, shown, viewport={"width": 1000, "height": 900}) as tab:
        tab.get_by_label("replicas, 1 to 1024").press("ArrowLeft")
        says(tab, "must be a multiple of 8")
        assert tab.locator(".dt-opened").count() == 0
        tab.get_by_label("replicas, 1 to 1024").press("ArrowRight")
        says(tab, "Mixtral 8x7B on 8 GPUs")
