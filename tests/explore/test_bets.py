"""A bet in the browser: without a value at first, refused with a sentence, kept as it was made."""

import json

import pytest
from page import opened

from dtlib.explore import answer, bet

playwright = pytest.importorskip("playwright.sync_api")

KEPT = "localStorage.getItem('dtlib-bet:9.1')"


@pytest.fixture
def tab(browser, tmp_path):
    question = bet("9.1", "How long?", unit="ms", anchor=35.0, anchor_label="8 GPUs", high=100_000)
    with opened(browser, tmp_path, question, answer("9.1", 40, unit="ms")) as tab:
        yield tab


@pytest.fixture
def group(tab):
    return tab.locator(".dt-bet")


def kept(tab) -> dict | None:
    return json.loads(tab.evaluate(KEPT) or "null")


def test_a_bet_starts_without_a_value_and_its_anchor_is_a_mark(tab, group):
    assert group.get_by_role("textbox").input_value() == ""
    slider = group.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "no bet yet"
    assert "is-unset" in slider.get_attribute("class")
    assert group.locator(".is-anchor text").text_content() == "8 GPUs: 35 ms"
    group.get_by_role("button", name="I bet").click()
    said = "Write a number from 100 µs to 100 s first, or move along the line, or skip."
    assert group.get_by_role("alert").inner_text() == said
    assert kept(tab) is None and "You have not bet yet" in tab.locator(".dt-answer").inner_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("abc", "“abc” is not a number in ms. Write one from 100 µs to 100 s."),
        ("-5", "“-5” is not on the line, which goes from 100 µs to 100 s."),
        ("0", "“0” is not on the line, which goes from 100 µs to 100 s."),
        ("1e999", "“1e999” is not on the line, which goes from 100 µs to 100 s."),
        ("200 s", "“200 s” is not on the line, which goes from 100 µs to 100 s."),
        ("Infinity", "“Infinity” is not a number in ms. Write one from 100 µs to 100 s."),
        ("5 GB", "“5 GB” is not a number in ms. Write one from 100 µs to 100 s."),
        ("1.000,5", "“1.000,5” is not a number in ms. Write one from 100 µs to 100 s."),
        ("1 2", "“1 2” is not a number in ms. Write one from 100 µs to 100 s."),
        ("  ", "Write a number from 100 µs to 100 s first, or move along the line, or skip."),
    ],
)
def test_what_is_no_bet_is_refused_with_what_is_allowed_and_not_kept(tab, group, text, says):
    field = group.get_by_role("textbox")
    field.fill("70")
    field.press("Tab")
    field.fill(text)
    for act in (
        lambda: group.get_by_role("button", name="I bet").click(),
        lambda: field.press("Enter"),
    ):
        act()
        assert group.get_by_role("alert").inner_text() == says
        assert field.get_attribute("aria-invalid") == "true"
        assert kept(tab) is None
    field.fill("70")
    field.press("Enter")
    assert kept(tab)["value"] == 70 and "You bet 70 ms" in group.inner_text()


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("100,5", 100.5, "100.5 ms"),
        ("0,512", 0.512, "512 µs"),
        ("1,000", 1000, "1 s"),
        ("12,345.5 ms", 12345.5, "12.3455 s"),
        ("4 s", 4000, "4 s"),
        ("1e3", 1000, "1 s"),
        (".5", 0.5, "500 µs"),
    ],
)
def test_a_number_is_kept_and_shown_as_it_was_written(tab, group, text, value, said):
    field = group.get_by_role("textbox")
    field.fill(text)
    field.press("Enter")
    assert kept(tab)["value"] == pytest.approx(value, rel=1e-12)
    assert f"You bet {said}." in group.inner_text()
    assert f"You bet {said}." in tab.locator(".dt-answer").inner_text()


def test_every_key_moves_the_bet_and_none_gets_stuck(tab, group):
    slider, field = group.get_by_role("slider"), group.get_by_role("textbox")
    field.fill("97")
    field.press("Tab")
    slider.focus()
    seen = []
    for key in ["ArrowRight"] * 4 + ["ArrowLeft"] * 4 + ["PageUp", "End", "PageDown", "Home"]:
        tab.keyboard.press(key)
        seen.append(slider.get_attribute("aria-valuetext"))
    assert seen[:4] == ["100 ms", "110 ms", "120 ms", "130 ms"]
    assert seen[4:8] == ["120 ms", "110 ms", "100 ms", "97 ms"]
    assert seen[9] == "100 s" and seen[11] == "100 µs" and len(set(seen[7:])) == 5


def test_a_press_in_the_very_middle_of_the_line_is_a_bet(tab, group):
    slider = group.get_by_role("slider")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert slider.get_attribute("aria-valuetext") == "100 ms"
    group.get_by_role("button", name="I bet").click()
    assert kept(tab)["value"] == 100


def test_a_bet_that_is_taken_back_leaves_nothing(tab, group):
    group.get_by_role("textbox").fill("70")
    group.get_by_role("button", name="I bet").click()
    group.get_by_role("button", name="Bet again").click()
    assert kept(tab) is None
    assert group.get_by_role("slider").get_attribute("aria-valuetext") == "no bet yet"
    assert group.get_by_role("textbox").input_value() == ""


@pytest.mark.parametrize("value", [-5, 0, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["anchor", "low", "high"])
def test_a_line_without_ends_is_refused_by_the_library(name, value):
    with pytest.raises(ValueError, match=f"bet '9.2': {name} .* is not a positive number"):
        bet("9.2", "How long?", unit="ms", **{"anchor": 3, "low": 1, "high": 10} | {name: value})
