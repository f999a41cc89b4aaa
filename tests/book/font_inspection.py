"""A machine without fonts, and what a page must hold on it: faces for all it prints, nothing cut.

The only font of that machine has one letter, a box three quarters of an em wide: wider than any
face for reading. Text that no face of the site covers is set in it, and so is all text of a page
whose faces do not come.
"""

import os
import shutil
from pathlib import Path

import matplotlib
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from playwright.sync_api import BrowserContext, Page

BOX = 750  # thousandths of an em
# As systems set it: letters need not be whole pixels wide.
CONFIGURATION = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{0}</dir><cachedir>{0}/cache</cachedir><match target="pattern">
<edit name="hintstyle" mode="append"><const>hintslight</const></edit></match></fontconfig>"""
FACES = "**/_static/fonts/*.woff2"


def without_fonts(folder: Path) -> dict[str, str]:
    """The environment of a machine whose only font is the box, which is made in `folder`."""
    pen = TTGlyphPen(None)
    pen.moveTo((60, 0))
    for corner in ((60, 650), (BOX - 60, 650), (BOX - 60, 0)):
        pen.lineTo(corner)
    pen.closePath()
    box, empty = pen.glyph(), TTGlyphPen(None).glyph()
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", "box", "space"])
    letters = dict.fromkeys(range(0x21, 0x7F), "box")
    font.setupCharacterMap(letters | {0x20: "space", 0xA0: "space"})
    font.setupGlyf({".notdef": box, "box": box, "space": empty})
    font.setupHorizontalMetrics({".notdef": (BOX, 60), "box": (BOX, 60), "space": (300, 0)})
    font.setupHorizontalHeader(ascent=950, descent=-300)
    font.setupNameTable({"familyName": "Box", "styleName": "Regular"})
    font.setupOS2(sTypoAscender=950, sTypoDescender=-300, usWinAscent=950, usWinDescent=300)
    font.setupPost()
    font.save(folder / "box.ttf")
    return _only(folder)


def with_dejavu_alone(folder: Path) -> dict[str, str]:
    """The environment of a machine that has three faces of DejaVu, which matplotlib brings."""
    faces = Path(matplotlib.get_data_path(), "fonts/ttf")
    for name in ("DejaVuSans", "DejaVuSansMono", "DejaVuSerif"):
        shutil.copyfile(faces / f"{name}.ttf", folder / f"{name}.ttf")
    return _only(folder)


def _only(folder: Path) -> dict[str, str]:
    configuration = folder / "fonts.conf"
    configuration.write_text(CONFIGURATION.format(folder), encoding="utf-8")
    return os.environ | {"FONTCONFIG_FILE": str(configuration)}


def block_faces(context: BrowserContext) -> None:
    """The site's faces never come."""
    context.route(FACES, lambda route: route.abort())


def uncovered(page: Page) -> list[str]:
    """The characters of a page that no face of the site has, with the family they are asked of."""
    styles = page.evaluate(PROBES)
    page.evaluate("document.fonts.ready.then(() => 0)")
    devtools = page.context.new_cdp_session(page)
    devtools.send("DOM.enable")
    devtools.send("CSS.enable")
    root = devtools.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
    faults = []
    for number, (style, characters) in enumerate(styles):
        if not _from_site(devtools, root, f"[data-probe='{number}']"):
            lacking = [
                c
                for i, c in enumerate(characters)
                if not _from_site(devtools, root, f"[data-probe='{number}'] > :nth-child({i + 1})")
            ]
            faults.append(f"no face for {' '.join(lacking)} in {style}")
    page.evaluate("document.querySelector('[data-probes]').remove()")
    devtools.detach()
    return faults


def _from_site(devtools, root: int, selector: str) -> bool:
    place = {"nodeId": root, "selector": selector}
    node = {"nodeId": devtools.send("DOM.querySelector", place)["nodeId"]}
    fonts = devtools.send("CSS.getPlatformFontsForNode", node)["fonts"]
    return all(font["isCustomFont"] for font in fonts)


# Of each style of letters on the page, the characters that are printed in it, each once.
PROBES = """() => {
  const found = new Map();
  const add = (style, text) => {
    const name = [style.fontFamily, style.fontStyle, style.fontWeight].join(" | ");
    const known = found.get(name) ?? found.set(name, { style, characters: new Set() }).get(name);
    for (const character of text) if (/\\S/.test(character)) known.characters.add(character);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT);
  for (let e = walk.currentNode; e; e = walk.nextNode()) {
    if (e.closest("script, style, noscript, template")) continue;
    const own = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("");
    if (own.trim()) add(getComputedStyle(e), own.replace(/[\\u2061-\\u2063\\u200b]/g, ""));
    for (const place of ["::before", "::after"]) {
      const style = getComputedStyle(e, place);
      if (/^"/.test(style.content)) add(style, style.content.slice(1, -1));
    }
  }
  const shelf = document.createElement("div");
  shelf.dataset.probes = "";
  shelf.setAttribute("aria-hidden", "true");
  [...found.values()].forEach(({ style, characters }, number) => {
    const line = shelf.appendChild(document.createElement("p"));
    line.dataset.probe = number;
    line.style.cssText = `font: ${style.fontStyle} ${style.fontWeight} 16px ${style.fontFamily}`;
    for (const character of characters) {
      line.appendChild(document.createElement("span")).textContent = character;
    }
  });
  document.body.append(shelf);
  return [...found].map(([name, { characters }]) => [name, [...characters]]);
}"""

# Text whose end is hidden, with no way to scroll to it: of HTML inside a box that cuts, and of
# drawings beyond their frame, the window, or a box that cuts.
CUT_OFF = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const faults = [];
  const article = document.querySelector("article") ?? document.body;
  const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const aside = ".dt-hidden, .visually-hidden, .headerlink";
  const short = (e) => e.textContent.trim().replace(/\\s+/g, " ").slice(0, 40);
  for (const e of article.querySelectorAll("*")) {
    if (e.closest(aside) || e.closest("svg") || !shown(e)) continue;
    const style = getComputedStyle(e);
    if (!/hidden|clip/.test(style.overflowX) || style.position === "absolute") continue;
    if (e.scrollWidth > e.clientWidth + 1 && e.textContent.trim()) faults.push(short(e));
  }
  for (const text of article.querySelectorAll("svg text")) {
    if (text.closest(aside) || !text.textContent.trim() || !shown(text)) continue;
    const box = text.getBoundingClientRect();
    if (!box.width) continue;
    let [left, right] = [0, document.documentElement.clientWidth];
    for (let up = text.parentElement; up && up !== article; up = up.parentElement) {
      const flow = getComputedStyle(up).overflowX;
      if (/auto|scroll/.test(flow)) {
        const area = up.getBoundingClientRect();
        [left, right] = [area.left - up.scrollLeft, area.left - up.scrollLeft + up.scrollWidth];
        break;
      }
      const frames = up.matches(".dt-widget") || /hidden|clip/.test(flow);
      if (!frames || up.localName === "g") continue;
      const frame = up.getBoundingClientRect();
      [left, right] = [Math.max(left, frame.left), Math.min(right, frame.right)];
    }
    const beyond = Math.max(left - box.left, box.right - right);
    if (beyond > 1.5) faults.push(`${short(text)} (${Math.round(beyond)} px)`);
  }
  return faults;
}"""
