"""On a phone a tile or a message is refused in words that are seen, wherever the figure stands."""

import pytest
from page import opened

from dtlib.explore import AllReduceBuilder, PipelineBuilder

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True,
         "reduced_motion": "reduce"}  # fmt: skip
SPACE = "<p style='height: 1500px'>A page to scroll.</p>"
HEIGHTS = range(60, 721, 60)  # pixels below the upper edge of the view, where the finger taps
WITHOUT = """
.dt-widget .dt-summary.dt-summary { position: static !important }
.dt-widget .dt-stage.is-low { position: sticky !important }"""

BOX = """(name) => document.querySelector(`.dt-stage [aria-label^='${name}']`)
  ?.getBoundingClientRect().toJSON()"""

# A finger meets what is painted, not what is to be.
SCROLL = """async (by) => {
  scrollBy({ top: by, behavior: "instant" });
  for (let left = 3; left--; ) await new Promise(requestAnimationFrame);
}"""

# Of the lines of the sentence, how many there are and how many nothing hides.
SEEN = """(sentence) => {
  const text = document.createRange();
  text.selectNodeContents(sentence);
  const lines = [...text.getClientRects()];
  const at = (x, y) => document.elementFromPoint(x, y);
  const shown = ({ left, right, y, height }) =>
    [left + 1, right - 1].every((x) => at(x, y + height / 2) === sentence);
  return [lines.length, lines.filter(shown).length];
}"""


def middle(tab, name: str) -> tuple[float, float]:
    """Of what is so called in the figure."""
    box = tab.wait_for_function(BOX, arg=name).json_value()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def an_early_tile(tab):
    """The first micro-batch on the second stage, before it was on the first."""
    tab.get_by_role("radio", name="2 The bound").check()
    return "Stage 1, time 0:", "F0 of stage 1 must wait for F0 of stage 0"


def a_part_twice(tab):
    """What rank 1 has sent on already, with more that came to it."""
    for rank in (0, 1, 1, 2):
        tab.touchscreen.tap(*middle(tab, f"rank {rank}, chunk 0: "))
    tab.get_by_role("button", name="Run round 1").tap()
    tab.touchscreen.tap(*middle(tab, "rank 1, chunk 0: "))
    return "rank 2, chunk 0: ", "B would count twice"


def pipeline():
    return PipelineBuilder(title="A pipeline", key="a-pipeline")


def all_reduce():
    return AllReduceBuilder(title="Build it", alpha=10e-6, beta=50e9)


SCENES = {pipeline: an_early_tile, all_reduce: a_part_twice}
each_scene = pytest.mark.parametrize("make", SCENES, ids=lambda make: make.__name__)


def heights_at_which_it_is_seen(browser, folder, make, style="p {}") -> list[int]:
    """Where a finger may tap so that all of the refusal is seen."""
    found = []
    with opened(browser, folder, SPACE, make(), SPACE, **PHONE) as tab:
        tab.add_style_tag(content=style)
        sentence = tab.locator(".dt-summary")
        tab.locator(".dt-stage").evaluate("node => node.scrollIntoView({ block: 'center' })")
        tapped, says = SCENES[make](tab)
        for height in HEIGHTS:
            tab.evaluate(SCROLL, middle(tab, tapped)[1] - height)
            tab.touchscreen.tap(*middle(tab, tapped))
            told = "([box, says]) => box.textContent.startsWith(says)"
            tab.wait_for_function(told, arg=[sentence.element_handle(), says])
            lines, shown = sentence.evaluate(SEEN)
            found += [height] * (lines == shown > 0)
    return found


@each_scene
def test_a_refusal_is_seen_wherever_the_finger_is(browser, tmp_path, make):
    assert heights_at_which_it_is_seen(browser, tmp_path, make) == [*HEIGHTS]


@each_scene
def test_sabotage_a_sentence_that_does_not_stay_is_missed(browser, tmp_path, make):
    found = heights_at_which_it_is_seen(browser, tmp_path, make, WITHOUT)
    assert 0 < len(found) < len(HEIGHTS)
