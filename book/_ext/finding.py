"""The search of the site in place of Sphinx's own: written when all pages are, fetched when asked.

Sphinx's search, its general index and its index of theorems go, and the scripts of these.
"""

import hashlib
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._press.search import NO_PAGEFIND, write_index

FIND = Path(__file__).resolve().parents[1] / "_static/find"
SCRIPT = "_static/find/find.js"
OF_SPHINX = (
    *("documentation_options.js", "doctools.js", "sphinx_highlight.js", "language_data.js"),
    *("searchtools.js", "minus.png", "plus.png", "file.png", "basic.css"),
)


def put_ours(app: Sphinx, config) -> None:
    """A page of our own is called search, with no index of Sphinx behind it."""
    config.html_additional_pages = {**config.html_additional_pages, "search": "search.html"}
    config.html_use_index = config.html_domain_indices = False
    held = b"".join(file.read_bytes() for file in sorted(FIND.iterdir()))
    config.find_mark = hashlib.sha256(held).hexdigest()[:8]


def leave_out_sphinx(app: Sphinx) -> None:
    app.builder.search = False


def name_script(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    context["find_script"] = f"{context['pathto'](SCRIPT, 1)}?v={app.config.find_mark}"


def index(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    for name in OF_SPHINX:
        (site / "_static" / name).unlink(missing_ok=True)
    said = write_index(site)
    if said not in ("", NO_PAGEFIND):  # which who builds the site is told at its end
        logging.getLogger(__name__).warning(said)


def setup(app: Sphinx) -> dict:
    app.add_config_value("find_mark", "", "html")
    app.connect("config-inited", put_ours, priority=900)
    app.connect("builder-inited", leave_out_sphinx)
    app.connect("html-page-context", name_script)
    app.connect("build-finished", index, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
