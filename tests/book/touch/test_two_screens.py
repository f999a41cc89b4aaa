"""Something answers the hand within two screens, on every chapter."""

import pytest
from page_inspection import start_browser
from reach import HANDS, longest_stretch

from dtlib.contents import written

pytestmark = pytest.mark.site
AT_MOST = 2
TOY = """<!doctype html><article style="position: absolute; top: 0"><h1>Toy</h1>
<div class="dt-place" style="height: 900px"></div><h2>Far</h2><p>Go on</p>
<details{}><summary>more</summary><div class="dt-place" style="height: 450px"></div></details>
<p style="height: 2750px">Nothing</p>
<div class="dt-answer-box" style="height: 90px"></div></article>"""


@pytest.fixture(scope="module")
def tab():
    browser = start_browser()
    yield next(browser).new_page()
    browser.close()


@pytest.mark.parametrize("chapter", written(), ids=lambda one: one.number)
def test_no_stretch_without_anything_for_the_hand_is_longer(tab, home, chapter):
    found = longest_stretch(tab, f"{home}{chapter.page}.html")
    print(f"chapter {chapter.number}: {found.screens:.1f} screens, from '{found.place}'")
    assert found.screens <= AT_MOST, f"{found}; at most {AT_MOST} screens"


def test_what_is_folded_answers_nobody_and_what_counts_is_a_parameter(tab, tmp_path):
    file = tmp_path / "toy.html"

    def stretch(page, hands=HANDS):
        file.write_text(page, encoding="utf-8")
        return longest_stretch(tab, file.as_uri(), hands)

    closed, opened = stretch(TOY.format("")), stretch(TOY.format(" open"))
    assert 3 < opened.screens < closed.screens < 3.6
    assert closed.place == "Far: Go on"
    assert stretch(TOY.format(""), (".dt-place",)).screens > closed.screens
    counted = stretch(TOY.format(" open"), ("details", ".dt-answer-box"))
    assert counted == opened
