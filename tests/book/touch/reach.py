"""How far a reader goes on a page without meeting anything that answers the hand."""

from dataclasses import dataclass

from playwright.sync_api import Page

SCREEN = {"width": 1440, "height": 900}

# Widgets, bets among them; the boxes of exercises and questions; code that runs and can be changed.
# A number that shows the reader's machine beside the book's answers to a form, not to a hand here.
HANDS = (".dt-place", ".dt-answer-box", "[data-cell]:has(> .cell_input button.dt-run)")


@dataclass(frozen=True)
class Stretch:
    """A part of a page: how many screens it is long, the heading and words that it begins at."""

    screens: float
    place: str


def longest_stretch(page: Page, address: str, hands: tuple[str, ...] = HANDS) -> Stretch:
    """The longest part of a page, in screens of `SCREEN`, without one of the elements `hands`.

    What is folded, or not to be seen, answers nobody. The page begins and ends with its text.
    """
    page.set_viewport_size(SCREEN)
    page.goto(address, wait_until="load")
    return Stretch(**page.evaluate(LONGEST, ", ".join(hands)))


LONGEST = """async (hands) => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const text = document.querySelector("article");
  const box = (node) => node.getBoundingClientRect();
  const seen = (node) => node.checkVisibility() && box(node).height > 0;
  const { top, bottom } = box(text);
  const places = [...text.querySelectorAll(hands)].filter(seen).map(box);
  places.push({ top: bottom, bottom });
  let [from, longest] = [top, { length: -1, from: top }];
  for (const place of places.sort((a, b) => a.top - b.top)) {
    if (place.top - from > longest.length) longest = { length: place.top - from, from };
    from = Math.max(from, place.bottom);
  }
  const { from: start } = longest;
  const heads = [...text.querySelectorAll("h1, h2, h3")];
  const above = heads.findLast((head) => seen(head) && box(head).top <= start + 120);
  const words = [...text.querySelectorAll("p")].find((p) => seen(p) && box(p).top >= start - 1);
  const said = [above, words].map((node) => node?.innerText.replace(/[#¶\\n]/g, " ").trim() ?? "");
  const place = said.map((words) => words.slice(0, 40)).join(": ");
  return { screens: longest.length / innerHeight, place };
}"""
