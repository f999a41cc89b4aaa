"""The engine of the page, in Chromium, as a Python in which cells can be run."""

import json
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from book._engine.build import engine
from book._tools.browser import ADVICE, MISSING, find_chromium
from book._tools.layout import ROOT
from book._tools.serve import server
from book.cells.record import Python, Told, in_bare_python, record

CODE = "_static/code"
REPLAY = Path(__file__).with_name("replay.py")
PATIENCE = 600  # seconds for one page
RUN = """async ([address, code]) => {
    const { Engine } = await import(address);
    window.engine ??= new Engine();
    const told = [];
    const hear = ({ detail }) => detail.out && detail.stream !== 2 && told.push(detail.out);
    engine.addEventListener("change", hear);
    const result = await engine.run({ code });
    engine.removeEventListener("change", hear);
    return [told.join(""), result];
}"""


def record_pages(sources: list[Path]) -> int:
    """Run the cells of pages in both Pythons, write down which run, and print how many."""
    with page_engine() as in_engine:
        for stem, found in record(sources, [in_bare_python, in_engine]):
            counted = Counter(found["cells"].values()).most_common()
            print(f"{stem}: {', '.join(f'{count} {said}' for said, count in counted)}", flush=True)
    return 0


@contextmanager
def page_engine() -> Iterator[Python]:
    """The engine; it starts with the first task. Raises RuntimeError without Chromium."""
    chromium = find_chromium()
    if chromium is None:
        raise RuntimeError(f"{MISSING}: {ADVICE}")
    with tempfile.TemporaryDirectory() as folder, server(write_site(Path(folder))) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            tab = browser.new_page()
            tab.set_default_timeout(1000 * PATIENCE)
            address = f"http://127.0.0.1:{site.server_port}"
            tab.goto(f"{address}/index.html")
            yield lambda given: told_by(tab, f"{address}/{CODE}/engine.js", given)
            browser.close()
        site.shutdown()


def write_site(folder: Path) -> str:
    """An empty page and the engine beside it."""
    engine().write(folder)
    shutil.copyfile(ROOT / "book" / CODE / "engine.js", folder / CODE / "engine.js")
    (folder / "index.html").write_text("<!doctype html><title>cells</title>", encoding="utf-8")
    return str(folder)


def told_by(tab: Page, address: str, given: dict) -> Told:
    """What the cells of a task say in the engine, cell by cell, so that none is cut as too long."""
    said: Told = {"imports": {}, "cells": []}
    tab.evaluate(RUN, [address, REPLAY.read_text(encoding="utf-8")])
    for cell in given["cells"]:
        task = json.dumps(given | {"cells": [cell]})
        printed, result = tab.evaluate(RUN, [address, f"main({task!r})"])
        if result["verdict"] != "none":
            raise RuntimeError(f"cell {cell['id']}: {result['text']}")
        one = json.loads(printed)
        said["imports"] = one["imports"]
        said["cells"] += one["cells"]
    return said
