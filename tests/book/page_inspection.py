"""What must hold for every page of the site: looked at as a file, and in Chromium."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from font_inspection import CUT_OFF, uncovered, without_fonts
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 900}

# A guard against waiting for ever, not a rule about speed.
PATIENCE_MS = 180_000

# Raw kilobytes that a page may load: the file of chapter 16 with its widgets is 1200, the faces
# are 200.
LIMIT_KB = 2000

# What axe finds in the theme itself, and in the roles that docutils gives a bibliography.
THEME_AXE = set()
DOCUTILS = "citation"

# The letters of a figure or a widget on a phone, in px.
LEAST_TEXT = 11

AT_ONCE = {"preload": False, "resultTypes": ["violations"]}

# The mode changes colours only, so that the other rules are tried in light alone.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}


class PageFile(HTMLParser):
    """The ids, links, loaded files and headings of one HTML file."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        if values.get("id"):
            self.ids.add(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if values.get("src"):
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preload") and values.get("href"):
            self.loads.append(values["href"])


@cache
def page_file(path: Path) -> PageFile:
    return PageFile(path.read_text(encoding="utf-8"))


def file_faults(path: Path, site: Path) -> list[str]:
    """Links and anchors that lead nowhere, files from other hosts, a missing title."""
    page = page_file(path)
    faults = [f"loads {load}" for load in page.loads if re.match(r"(https?:)?//", load)]
    faults += ["no title"] * ("title" not in page.tags)
    return faults + [
        f"{link} leads nowhere" for link in page.links + page.loads if _is_dead(link, path, site)
    ]


def _is_dead(link: str, path: Path, site: Path) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site.resolve()) or not target.exists():
        return True
    anchor = unquote(parts.fragment)
    return bool(anchor) and target.suffix == ".html" and anchor not in page_file(target).ids


def start_browser() -> Iterator[Browser]:
    """Chromium on a machine without fonts, so that every machine sees the same pages."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = launch(playwright, without_fonts(Path(folder)))
        yield browser
        browser.close()


def launch(playwright: Playwright, environment: dict[str, str]) -> Browser:
    """Debian's Chromium; a missing one is a failure, because nothing else sees the pages."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail("the page checks need Chromium: apt-get install chromium", pytrace=False)
    return playwright.chromium.launch(
        executable_path=found, args=ARGUMENTS, env=environment, timeout=PATIENCE_MS
    )


def browser_faults(context: BrowserContext, address: str, home: str) -> list[str]:
    """What is wrong with a page as a reader's browser shows it: on a phone, in light, in dark."""
    page, faults, loaded = context.new_page(), [], []

    def only_home(route) -> None:
        url = route.request.url
        if url.startswith((home, "data:", "blob:")):
            route.continue_()
        else:
            faults.append(f"asks for {url}")
            route.abort()

    page.route("**/*", only_home)
    page.on("console", lambda said: faults.extend(console_faults(said)))
    page.on("response", lambda got: faults.extend(_missing(got)))
    page.on("pageerror", lambda error: faults.append(f"script error: {error}"))
    page.on("requestfinished", lambda done: loaded.append(done.sizes()["responseBodySize"]))
    open_page(page, address)
    faults += _content_faults(page)
    if sum(loaded) > LIMIT_KB * 1024:
        faults.append(f"loads {sum(loaded) / 1024:.0f} KB, more than {LIMIT_KB}")
    faults += uncovered(page)
    faults += layout_faults(page)
    page.set_viewport_size(DESKTOP)
    page.evaluate(ONE_TOKEN_OF_A_KIND)
    faults += [f"axe {fault}" for fault in axe_faults(page)]
    faults += _dark_faults(page)
    page.close()
    return faults


def layout_faults(page: Page) -> list[str]:
    """What is cut off on a desktop or on a phone, and what a phone does not show."""
    faults = [f"cut off on a desktop: {text}" for text in page.evaluate(CUT_OFF)]
    page.set_viewport_size(PHONE)
    width = page.evaluate("document.documentElement.scrollWidth")
    if width > PHONE["width"]:
        wide = page.evaluate(WIDE_ELEMENTS, PHONE["width"])
        faults.append(f"scrolls sideways on a phone ({width} px): {', '.join(wide)}")
    faults += [f"ratio out of sight on a phone: {row}" for row in page.evaluate(HIDDEN_RATIOS)]
    faults += [f"wider than a phone: {figure}" for figure in page.evaluate(WIDE_FIGURES)]
    faults += [f"small on a phone: {text}" for text in page.evaluate(SMALL_TEXTS, LEAST_TEXT)]
    return faults + [f"cut off on a phone: {text}" for text in page.evaluate(CUT_OFF)]


def _dark_faults(page: Page) -> list[str]:
    page.emulate_media(color_scheme="dark")
    if not page.evaluate(TURNED_DARK):
        return ["does not turn dark"]
    page.evaluate(TRANSITIONS_OVER)
    return [f"axe in dark {fault}" for fault in axe_faults(page, only_colours=True)]


def axe_faults(page: Page, only_colours: bool = False) -> list[str]:
    """What axe finds besides the faults of the theme: the rule, and the first places."""
    faults, options = [], AT_ONCE | (COLOURS if only_colours else {})
    for fault in Axe().run(page, options=options).response["violations"]:
        nodes = [node for node in fault["nodes"] if DOCUTILS not in node["html"]]
        places = [str(node["target"][0]) for node in nodes]
        if places and fault["id"] not in THEME_AXE:
            faults.append(f"{fault['id']}: {', '.join(places[:3])}")
    return faults


def console_faults(said) -> list[str]:
    """Errors and warnings; that a file did not come is told by `_missing`, with its name."""
    told = said.type in ("error", "warning") and "Failed to load resource" not in said.text
    return [f"console {said.type}: {said.text}"] if told else []


def _missing(response) -> list[str]:
    return [f"{response.status} for {response.url}"] if response.status >= 400 else []


def open_page(page: Page, address: str) -> None:
    """Go there on a desktop and wait until the widgets are drawn."""
    page.set_default_timeout(PATIENCE_MS)
    page.set_viewport_size(DESKTOP)
    page.goto(address, wait_until="load")
    if page.locator(".dt-place").count():
        page.evaluate(COME_NEAR)
        page.wait_for_selector("html[data-widgets=ready]", state="attached")


def _content_faults(page: Page) -> list[str]:
    counts = page.evaluate(COUNTS)
    headings = counts.pop("h1 headings")
    faults = [f"{headings} h1 headings"] if headings != 1 else []
    return faults + [f"{count} {what}" for what, count in counts.items() if count]


# A widget is drawn when the reader comes near, which is noticed once a frame.
COME_NEAR = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  for (const place of document.querySelectorAll(".dt-place")) {
    place.scrollIntoView({ behavior: "instant" });
    await frame();
    await frame();
  }
  scrollTo({ top: 0, behavior: "instant" });
}"""

# A page hears of the other mode before the next frame is drawn.
TURNED_DARK = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return document.documentElement.dataset.theme === "dark";
}"""

# A colour on its way from light to dark is neither.
TRANSITIONS_OVER = """() => Promise.allSettled(
  document.getAnimations().filter((a) => a instanceof CSSTransition).map((a) => a.finished))"""

COUNTS = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const raw = (element) => !element.querySelector("math");
  const text = (element) =>
    [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join(" ");
  const tex = (element) =>
    !element.closest("pre, code, script, style, textarea") &&
    /\\\\[a-z([]|\\$[^$]*[\\^_][^$]*\\$/i.test(text(element));
  return {
    "h1 headings": all("h1").filter((heading) => heading.offsetParent).length,
    "formulas not typeset": all(".math").filter(raw).length,
    "places with TeX": all("body *").filter(tex).length,
    "widgets that need a kernel": all(".needs-kernel").length,
    "widgets that are not drawn": all(".dt-place:not(.is-live)").length,
    "images without alternative text": all("img:not([alt])").length,
  };
}"""

# Thousands of code tokens would take most of the time of axe, and those whose classes agree all the
# way up are coloured alike: the first of them keeps its span, the later ones become plain text.
# The first that counts has two characters: axe does not judge one.
ONE_TOKEN_OF_A_KIND = """() => {
  const seen = new Set();
  for (const token of document.querySelectorAll("pre span")) {
    let kind = "";
    for (let up = token; up; up = up.parentElement) kind += `${up.className} ${up.style.cssText}|`;
    if (seen.has(kind) && !token.firstElementChild) token.replaceWith(...token.childNodes);
    if (token.textContent.trim().length > 1) seen.add(kind);
  }
}"""

# The last column of a table of predictions is what the reader came for; of each table that hides
# it, the first row. Folded tables have no width. It takes a frame until the resize is answered.
HIDDEN_RATIOS = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const hidden = (box) => {
    const ratio = box.querySelector("tr > :last-child")?.getBoundingClientRect();
    return ratio?.width && ratio.right > box.getBoundingClientRect().right + 1;
  };
  return [...document.querySelectorAll(".dt-compare")].filter(hidden)
    .map((box) => box.querySelector("tbody tr")?.innerText.replaceAll("\\t", " ") ?? "");
}"""

# Nobody scrolls a figure to its end. The last column of a table is another matter: it may be wide.
WIDE_FIGURES = """() => {
  const cut = (box) => box.clientWidth && box.scrollWidth > box.clientWidth + 1;
  const named = (box) => (box.querySelector("figcaption, .dt-title") ?? box).textContent;
  return [...document.querySelectorAll(".dt-figure, .dt-widget .dt-stage")].filter(cut)
    .map((box) => `${named(box).trim().slice(0, 60)} (${box.scrollWidth} px)`);
}"""

# A drawing shrinks with its column, and its letters with it. Exponents and indices are smaller.
SMALL_TEXTS = """(least) => {
  const matrix = (box) => box.getScreenCTM?.() ?? { a: 1, b: 0 };
  const size = (box) =>
    parseFloat(getComputedStyle(box).fontSize) * Math.hypot(matrix(box).a, matrix(box).b);
  const written = (box) => [...box.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const seen = (box) => box.getClientRects().length && !box.closest("math, sub, sup");
  const small = (box) =>
    written(box) && seen(box) && size(box) < least - 0.05;
  const places = ".dt-figure *, .dt-place *";
  const told = (box) => `${box.textContent.trim().slice(0, 30)} (${size(box).toFixed(1)} px)`;
  return [...document.querySelectorAll(places)].filter(small).map(told);
}"""

WIDE_ELEMENTS = """(width) => {
  const clipped = (element) => {
    for (let up = element.parentElement; up; up = up.parentElement) {
      if (getComputedStyle(up).overflowX !== "visible") return true;
    }
    return false;
  };
  const wide = [...document.querySelectorAll("body *")].filter(
    (e) => e.getBoundingClientRect().right > width + 1 && !clipped(e));
  return wide.slice(0, 3).map((e) => `${e.tagName.toLowerCase()}.${e.className}`);
}"""
