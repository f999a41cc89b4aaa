"""The head of a page for those who link to it, and the files that a site has besides its pages.

What needs an absolute address (canonical, cards, feed, list of pages) is there once the site has
one: `html: baseurl` in _config.yml.
"""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._press import addresses
from book._tools.layout import with_slash
from book.motifs import motifs
from dtlib.contents import chapters

LOST = "404"
TAG = re.compile(r"<[^>]*>")  # numbers in prose are HTML


def home_of(app: Sphinx) -> str:
    """The public address of the site, with a slash at its end, or ''."""
    return with_slash(app.config.html_baseurl)


def said_of(page: str, doctree: nodes.document | None) -> str:
    """A chapter's promise; of another page its first paragraph."""
    promise = next((c.promise for c in chapters() if c.page == page), "")
    if promise or doctree is None:
        return addresses.description(promise)
    plain = (p for p in doctree.findall(nodes.paragraph) if isinstance(p.parent, nodes.section))
    first = next((p.astext() for p in plain), "")
    return addresses.description(TAG.sub("", first))


def card_of(page: str) -> str:
    """The name of the picture that is shown with a page: its chapter's, or else the book's."""
    number = next((c.number for c in chapters() if c.page == page), "")
    return number if number in motifs() else "book"


def head(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """What layout.html puts into the head."""
    home = home_of(app)
    context["site_home"] = home
    context["description"] = said_of(pagename, doctree)
    context["card"] = f"{home}_static/cards/{card_of(pagename)}.png" if home else ""
    # A page that stands for every missing one is read from any depth.
    context["base"] = (urlsplit(home).path or "/") if pagename == LOST else ""
    context["pageurl"] = "" if pagename == LOST else context.get("pageurl")


def lost_page(app: Sphinx):
    yield LOST, {}, "404.html"


def day_of(file: Path) -> str:
    """The day on which a file was last changed, as git knows it, or else its own."""
    command = ["git", "log", "-1", "--format=%cs", "--", file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True)
    return done.stdout.strip() or f"{datetime.fromtimestamp(file.stat().st_mtime, UTC):%Y-%m-%d}"


def write_files(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    site, source, home = Path(app.outdir), Path(app.srcdir), home_of(app)
    moved = addresses.moves(source / "book/moves.toml")
    for problem in addresses.write_moves(site, moved):
        logging.getLogger(__name__).warning(problem)
    (site / "robots.txt").write_text(addresses.robots(home), encoding="utf-8")
    if not home:
        return
    pages = [f"{page}.html" for page in sorted(app.env.found_docs)]
    (site / "sitemap.xml").write_text(addresses.sitemap(home, pages), encoding="utf-8")
    changes = source / "CHANGELOG.md"
    if changes.exists():
        text = changes.read_text(encoding="utf-8")
        whole = addresses.feed(home, app.config.project, text, day_of(changes))
        (site / "changes.xml").write_text(whole, encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", head)
    app.connect("html-collect-pages", lost_page)
    app.connect("build-finished", write_files, priority=910)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
