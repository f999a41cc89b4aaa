"""Python as it runs in a page: an engine in Chromium is given code, and says what it prints."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from playwright.sync_api import Page, sync_playwright

from book._engine.build import engine
from book._tools.browser import MISSING, find_chromium
from book._tools.layout import ROOT
from book._tools.serve import server

HALF = "_static/code/engine.js"  # the page's half, in the book and on a site
# A run that takes longer hangs; a start fetches nothing but from this machine.
PATIENCE_MS = 600_000
RUN = """async (code) => {
  if (!window.engine) {
    const { Engine } = await import("/_static/code/engine.js");
    window.engine = new Engine();
    window.engine.addEventListener("change", ({ detail }) => { window.said += detail.out ?? ""; });
  }
  window.said = "";
  const { verdict, text } = await window.engine.run({ code });
  await new Promise((later) => setTimeout(later));
  return [verdict, text, window.said];
}"""


class EngineError(RuntimeError):
    """Code that did not come to its end in the page."""


class PagePython:
    """One Python of one page: names stay from run to run."""

    def __init__(self, page: Page):
        self._page = page

    def run(self, code: str) -> str:
        """What the code prints. Raises EngineError with the traceback where it fails."""
        verdict, text, said = self._page.evaluate(RUN, code)
        if verdict not in ("none", "value"):
            raise EngineError(f"{verdict}: {text}")
        return said

    def restart(self) -> None:
        """A Python without names, as after a reader's stop."""
        self._page.evaluate("window.engine?.reset()")


@contextmanager
def python_in_page(name: str = "cowasm") -> Iterator[PagePython]:
    """An engine, by its name, in a page of its own. Raises Unreachable and EngineError."""
    program = find_chromium()
    if program is None:
        raise EngineError(MISSING)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        _lay_out(Path(folder), name)
        with server(folder) as site:
            Thread(target=site.serve_forever, daemon=True).start()
            browser = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            page = browser.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.goto(f"http://127.0.0.1:{site.server_port}/")
            yield PagePython(page)
            browser.close()
            site.shutdown()


def _lay_out(site: Path, name: str) -> None:
    engine(name).write(site)
    shutil.copyfile(ROOT / "book" / HALF, site / HALF)
    (site / "index.html").write_text("<!doctype html><title>Python</title>", encoding="utf-8")
