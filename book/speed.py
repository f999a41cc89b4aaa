"""What a page costs a reader: bytes and requests, and on a slow phone the time until it is there.

Bytes are the same in every run, so that tests hold them. Times and shifts are printed: the median
of three loads, with nothing in store, from a server that does not compress.
"""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from playwright.sync_api import Browser, BrowserContext, Page

from book._tools.browser import PATIENCE_MS, running
from book._tools.serve import server

FRONT = "book/intro.html"
LOADS = 3
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PROCESSOR = {"rate": 4}
LINE = {
    "offline": False,
    "latency": 150,  # ms
    "downloadThroughput": 1.6e6 / 8,
    "uploadThroughput": 0.75e6 / 8,
}

# Kept from the start: when the first widget was drawn, and what moved though nobody touched it.
WATCH = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const { hadRecentInput, value } of list.getEntries()) if (!hadRecentInput) shift += value;
}).observe({ type: "layout-shift", buffered: true });
new MutationObserver((_, watcher) => {
  if (!document.querySelector(".dt-place.is-live")) return;
  window.firstWidget = performance.now();
  watcher.disconnect();
}).observe(document, { subtree: true, childList: true, attributeFilter: ["class"] });"""
# What is near has come: the widgets within 900 px of the view, and the faces of what is written.
SETTLED = """async () => {
  await document.fonts.ready;
  const near = (box) => box.height && box.top < innerHeight + 900;
  const left = [...document.querySelectorAll(".dt-place:not(.is-live)")];
  return !left.some((place) => near(place.getBoundingClientRect()));
}"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
READ_ALL = """async () => {
  for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {
    scrollTo({ top: y, behavior: "instant" });
    await new Promise((done) => setTimeout(done, 40));
  }
}"""


class Weight(NamedTuple):
    """What comes before the reader has scrolled."""

    bytes: int
    requests: int


class Times(NamedTuple):
    """Seconds on a slow phone; no widget where none is near the top."""

    paint: float
    widget: float | None


def weight(context: BrowserContext, address: str) -> Weight:
    """The bytes and requests of a page that was opened and not touched."""
    page, sizes, coming = context.new_page(), [], set()
    page.on("request", lambda asked: coming.add(asked))
    page.on("requestfailed", lambda lost: coming.discard(lost))
    page.on("requestfinished", lambda done: sizes.append(done.sizes()["responseBodySize"]))
    page.on("requestfinished", lambda done: coming.discard(done))
    _open(page, address)
    while coming:
        page.wait_for_timeout(20)
    page.close()
    return Weight(sum(sizes), len(sizes))


def _open(page: Page, address: str) -> None:
    """Go there, and wait for all that comes without a touch."""
    page.goto(address, wait_until="networkidle", timeout=PATIENCE_MS)
    page.wait_for_function(SETTLED, timeout=PATIENCE_MS)


def times(browser: Browser, address: str) -> Times:
    """When a page is painted and its first widget drawn, on a slow phone."""
    loads = [_slow_load(browser, address) for _ in range(LOADS)]
    drawn = [widget for _, widget in loads if widget is not None]
    paint = statistics.median(paint for paint, _ in loads)
    return Times(paint, statistics.median(drawn) if drawn else None)


def _slow_load(browser: Browser, address: str) -> Times:
    with _tab(browser, PHONE) as page:
        phone = page.context.new_cdp_session(page)
        phone.send("Emulation.setCPUThrottlingRate", PROCESSOR)
        phone.send("Network.enable")
        phone.send("Network.emulateNetworkConditions", LINE)
        _open(page, address)
        drawn = page.evaluate("window.firstWidget")
        return Times(page.evaluate(FIRST_PAINT) / 1e3, drawn and drawn / 1e3)


def shift(browser: Browser, address: str, screen: dict[str, int]) -> float:
    """How much of a page moved while it was read from end to end."""
    with _tab(browser, screen) as page:
        _open(page, address)
        page.evaluate(READ_ALL)
        return page.evaluate("shift")


@contextmanager
def _tab(browser: Browser, screen: dict[str, int]) -> Iterator[Page]:
    """A tab of its own, which has nothing in store and is watched from the start."""
    context = browser.new_context(viewport=screen)
    context.add_init_script(WATCH)
    yield context.new_page()
    context.close()


def heaviest(site: Path) -> str:
    """The chapter whose file is the largest."""
    found = max(site.glob("chapters/*/*.html"), key=lambda file: file.stat().st_size)
    return found.relative_to(site).as_posix()


def table(site: Path, pages: Sequence[str]) -> Iterator[str]:
    """A line for each page of a built site."""
    yield f"{'page':40} {'bytes':>10} {'requests':>8} {'paint':>8} {'widget':>8}   shift 1440  390"
    with server(str(site)) as served, running() as browser:
        Thread(target=served.serve_forever, daemon=True).start()
        for name in pages:
            yield _line(browser, name, f"http://127.0.0.1:{served.server_port}/{name}")
        served.shutdown()


def _line(browser: Browser, name: str, address: str) -> str:
    context = browser.new_context(viewport=DESK)
    size, (paint, widget) = weight(context, address), times(browser, address)
    context.close()
    drawn = "-" if widget is None else f"{widget:.1f} s"
    moved = [shift(browser, address, screen) for screen in (DESK, PHONE)]
    return (
        f"{Path(name).stem:40} {size.bytes:>10,} {size.requests:>8} {paint:>6.1f} s {drawn:>8}"
        f"   {moved[0]:10.3f} {moved[1]:.3f}"
    )
