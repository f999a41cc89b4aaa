"""ZeRO's stages step by step: the page shows the bytes that the library's step has counted."""

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import Task, ZeroStages
from dtlib.foundations import format_quantity
from dtlib.memory import ZeroStep, model_state_bytes, zero_sent_bytes

TASK = Task(
    "save", "micro_batches == 4 and held_share <= 0.4 and sent_share <= 1",
    {"zero": 1, "ranks": 8, "micro_batches": 4}, "Saved.",
)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return Scripts("zero_stages/model.js")


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize(("ranks", "m"), [(2, 1), (4, 2), (8, 4)])
def test_what_is_exported_is_the_step_of_the_library(model, zero, ranks, m):
    shown = ZeroStages()
    step = ZeroStep(zero, ranks, [1e9] * 3, m)
    state = {"zero": zero, "ranks": ranks, "micro_batches": m}
    bytes_ = model("zeroBytes(spec, state)", spec=shown.spec, state=state)
    assert bytes_["held"] == [moment.held for moment in step.moments]
    assert bytes_["sent"] == [moment.sent for moment in step.moments]
    assert bytes_["sent"][-1] == pytest.approx(zero_sent_bytes(3e9, zero, ranks, m, 2))
    values = model("zeroValues(spec, state)", spec=shown.spec, state=state)
    assert values == pytest.approx(shown.names(zero=zero, ranks=ranks, micro_batches=m))
    run = model("zeroRun(spec, state)", spec=shown.spec, state=state)
    assert [tuple(action) for action in run["actions"]] == list(step.actions)


@pytest.mark.parametrize("zero", range(4))
def test_the_strips_have_the_area_of_the_bytes(model, zero):
    """Solid and hatched strips together: the account, but for the part beside a gathered unit."""
    ranks, m = 4, 2
    spec = ZeroStages().spec
    run = spec["runs"][f"{zero} {m}"]
    held = spec["bytes"][f"{zero} {ranks} {m}"]["held"]

    def area(letter, rank):
        strips = model("zeroStrips(letter, rank, ranks)", letter=letter, rank=rank, ranks=ranks)
        return sum(to - start for start, to, _ in strips)

    areas = {x: area(x, 1) for x in ("p", "w", "n", "o", "b", "sum")}
    assert area("p", 0) == area("p", 3) == 0.25
    for i, bytes_ in enumerate(held):
        drawn = 0.0
        for w, g in zip(run["weights"][i], run["gradients"][i], strict=True):
            whole = 0.25 if zero == 3 and w == "w" else 0
            drawn += 2 * (areas["w" if w == "s" else w] + whole)
            drawn += 2 * areas["sum" if g == "s" else g] + 12 * areas["p" if zero else "w"]
        assert drawn * 1e9 == pytest.approx(bytes_)
    assert model_state_bytes(3e9, zero, ranks) in held


def test_every_action_is_said_in_words(model):
    for key, run in ZeroStages().spec["runs"].items():
        zero = int(key[0])
        for action in run["actions"]:
            words = model("zeroWords(a, zero, true)", a=action, zero=zero)
            assert words
            assert "undefined" not in words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ranks": (16,)}, "ranks: 16; the figure has room for 8"),
        ({"units": [1] * 5}, "units: 5; the figure has room for 4"),
        ({"zero": 4}, "zero: 4, but must be one of 0, 1, 2, 3"),
        ({"done": 99}, "done = 99; this step has 22 actions"),
        ({"task": Task("", "zero == 3", {})}, "met already at the start"),
        ({"task": Task("", "peak < 0", {})}, "is not met by its solution"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are zero"),
    ],
)
def test_a_figure_that_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        ZeroStages(**options)


def test_another_stage_keeps_its_place_in_the_step(browser, tmp_path):
    def says(tab, words):
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)", arg=words
        )

    with opened(browser, tmp_path, ZeroStages(), viewport={"width": 1000, "height": 1000}) as tab:
        says(tab, "Stage 3, 4 ranks, action 14 of 22: ")
        tab.get_by_role("radio", name="stage 1").check()
        says(tab, "Stage 1, 4 ranks, action 8 of 13: ")
        tab.get_by_label("Actions done").press("End")
        tab.get_by_role("slider", name="micro-batches").press("End")
        step = ZeroStep(1, 4, [1e9] * 3, 4)
        held, sent = (format_quantity(n, "B", 3) for n in step.moments[-1][-2:])
        says(tab, "action 31 of 31: all-gather: every rank gets the new weights")
        says(tab, f"A rank holds {held} and has sent {sent};")
