"""The book, or one page of it, as a PDF: printed by Chromium from the pages of the built site.

All pages are put into one document (`gather.js`) and printed together. So a link between two of
them is a link inside, pages are counted through, faces are there once, and headings are the
outline. The document is printed twice: the first time tells where each section begins, which the
contents of the second say. At the end qpdf packs what Chromium leaves unpacked, half of all bytes.

Solutions stand at the end of their chapter, as in any printed textbook: on the site they are
folded, and on paper, below their exercise, they would answer it before the reader has tried.
"""

from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pikepdf
import yaml
from playwright.sync_api import Browser, Page

from book._tools.layout import ROOT
from book._tools.serve import server

HERE = Path(__file__).parent
# What a page of the book is without a browser is nothing: it shows what the browser has kept.
NOT_PAPER = {"book/calibration"}
PATIENCE_MS = 600_000
EMPTY = """<!doctype html><html lang="en" data-theme="light"><head><base href="{home}">
<link rel="stylesheet" href="_static/page.css"></head><body></body></html>"""


class Sheet(NamedTuple):
    """A page of the site, and how deep it stands: 1 for a chapter, which is below its part."""

    page: str
    depth: int = 0


def book(root: Path = ROOT) -> list[Sheet]:
    """The pages of the book in the order of its table of contents."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    parts = [[one["file"] for one in part["chapters"]] for part in toc["parts"]]
    below = {file for first, *rest in parts if first.startswith("book/part-") for file in rest}
    files = [toc["root"], *(file for part in parts for file in part)]
    return [Sheet(f"{file}.html", int(file in below)) for file in files if file not in NOT_PAPER]


def write(browser: Browser, site: Path, file: Path, sheets: Sequence[Sheet]) -> int:
    """Print these pages of a built site into a file; how many pages of paper it has.

    Raises SystemExit for a page that was not built, ValueError for a link that leads nowhere.
    """
    missing = [sheet.page for sheet in sheets if not (site / sheet.page).is_file()]
    if missing:
        raise SystemExit(f"{site} has no page {missing[0]}; build the site with: make site")
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    given = {
        "pages": [sheet._asdict() for sheet in sheets],
        "title": config["title"],
        "by": config["author"],
        "address": config["html"]["baseurl"],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with server(str(site)) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        page = browser.new_page(color_scheme="light")
        page.set_default_timeout(PATIENCE_MS)
        _gather(page, f"http://127.0.0.1:{running.server_port}/", given)
        _print(page, file, again=len(sheets) > 1)
        page.close()
        running.shutdown()
    return _pack(file, config["author"])


def _gather(page: Page, home: str, given: dict) -> None:
    page.goto(f"{home}robots.txt")  # a page of the site, without a script or sheet of its own
    page.set_content(EMPTY.format(home=home))
    page.add_style_tag(path=HERE / "paper.css")
    page.add_script_tag(path=HERE / "gather.js")
    page.emulate_media(media="print")
    if lost := page.evaluate("gather", given):
        raise ValueError(f"links inside that lead nowhere: {', '.join(lost)}")


def _print(page: Page, file: Path, again: bool) -> None:
    how = {
        "path": file, "prefer_css_page_size": True, "print_background": True, "tagged": True,
        "outline": True,
    }  # fmt: skip
    page.pdf(**how)
    if again:
        page.evaluate("fillIn", begins(file))
        page.pdf(**how)


def begins(file: Path) -> dict[str, int]:
    """The page, counted from 1, on which each place that something leads to stands."""
    with pikepdf.open(file) as made:
        numbers = {page.objgen: number for number, page in enumerate(made.pages, 1)}
        places = made.Root.get("/Dests", pikepdf.Dictionary())
        return {str(name)[1:]: numbers[place[0].objgen] for name, place in places.items()}


def _pack(file: Path, author: str) -> int:
    """Pack a printed file, and name in it who wrote it."""
    with pikepdf.open(file, allow_overwriting_input=True) as made:
        made.docinfo["/Author"] = author
        made.save(file, object_stream_mode=pikepdf.ObjectStreamMode.generate)
        return len(made.pages)
