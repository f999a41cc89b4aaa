"""The player plays the library's schedules: its counts are those of simulator and formula."""

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import RevolvePlayer, Task
from dtlib.memory import Chain, revolve, revolve_advances, simulate_recompute

TASK = Task(
    "below three passes",
    "layers == 32 and advances <= 96 and slots <= 3",
    {"slots": 3},
    "Three slots.",
)
PLAY = "playActions(parseActions(text), layers, done)"


def player(**options) -> RevolvePlayer:
    return RevolvePlayer(**{"title": "Few slots", "lengths": (4, 8, 32)} | options)


@pytest.fixture(scope="module")
def model():
    return Scripts("revolve_player/model.js")


@pytest.mark.parametrize(("slots", "advances"), [(1, 496), (2, 140), (3, 93), (5, 68)])
def test_thirty_two_layers_take_the_published_number_of_advances(model, slots, advances):
    spec = player().spec
    text = spec["schedules"][f"32 {slots}"]
    end = model(PLAY, text=text, layers=32, done=10_000)
    assert end["advances"] == spec["least"][f"32 {slots}"] == advances
    assert (end["left"], end["kept"], end["most"]) == (0, [], slots)


@pytest.mark.parametrize("layers", [4, 8, 32])
def test_the_page_counts_as_the_simulator_does(model, layers):
    spec = player().spec
    for slots in range(1, 11):
        schedule = revolve(layers, slots)
        cost = simulate_recompute(schedule, Chain.equal(layers))
        text = spec["schedules"][f"{layers} {slots}"]
        assert text == str(schedule)
        end = model(PLAY, text=text, layers=layers, done=10_000)
        assert end["advances"] == revolve_advances(layers, slots) == cost.extra_forwards
        assert end["most"] == cost.peak_slots
        assert end["repeats"] == max(cost.forwards) - 1
        assert end["repeats"] == player().names(layers=layers, slots=slots)["repeats"]


def test_halfway_it_knows_what_is_kept(model):
    text = player().spec["schedules"]["4 2"]
    kept = [model(PLAY, text=text, layers=4, done=n)["kept"] for n in range(len(text.split()) + 1)]
    assert max(map(len, kept)) == 2
    assert kept[1] == [0] and kept[-1] == []


def test_sabotage_a_schedule_with_an_action_less_counts_less(model):
    text = player().spec["schedules"]["32 3"]
    less = " ".join(word for word in text.split() if word != "A0:12")
    end = model(PLAY, text=less.replace("A0", "T0", 1), layers=32, done=10_000)
    assert end["advances"] < 93


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layers": 5}, "layers: 5, but must be one of 4, 8, 32"),
        ({"slots": 11}, "slots: 11, but must be one of"),
        ({"task": Task("", "slots > 0", {})}, "met already at the start"),
        ({"task": Task("", "advances < 0", {})}, "is not met by its solution"),
    ],
)
def test_what_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        player(**options)


def test_keys_change_the_slots_and_the_task_notices(browser, tmp_path):
    def says(tab, text):
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)", arg=text
        )

    viewport = {"width": 1000, "height": 900}
    with opened(browser, tmp_path, player(task=TASK), viewport=viewport) as tab:
        says(tab, "32 layers, 1 slot: 496 of 496 layers")
        slots = tab.get_by_role("slider", name="slots")
        slots.press("ArrowRight")
        says(tab, "2 slots: 140 of 140")
        assert "Done." not in tab.locator(".dt-task").inner_text()
        slots.press("ArrowRight")
        says(tab, "3 slots: 93 of 93")
        assert "Done. Three slots." in tab.locator(".dt-task").inner_text()
        scrub = tab.get_by_role("slider", name="Actions done")
        scrub.press("Home")
        says(tab, "0 of 93")
        tab.get_by_role("button", name="One action on").click()
        tab.get_by_role("button", name="One action on").click()
        row = tab.locator(".dt-readout").inner_text()
        assert "save nothing" in row and "1 of 3" in row
        tab.locator(".dt-reset").click()
        says(tab, "1 slot: 496 of 496")
