"""The ways out of a page that is a notebook: with the library as one zip, and on ranks of its own.

They stand at the foot of the page (`take-along`), where code that runs in the page leads, too.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._tools.listings.lab_archive import page_archive

ARCHIVES = "_downloads/pages"
WORDS = "Download it with what it needs"


def offer(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """The zip beside the page's other links, and the name by which it is unpacked."""
    if "body" not in context or notebook_of(app, pagename) is None:
        return
    name = Path(pagename).name
    zipped = context["pathto"](f"{ARCHIVES}/{name}.zip", 1)
    first, *others = context["source_links"]
    context["source_links"] = [first, (WORDS, zipped, True), *others]
    context["runs_as"] = name


def notebook_of(app: Sphinx, page: str) -> Path | None:
    """The executed notebook of a page, where it has one."""
    notebook = Path(app.srcdir, f"{page}.ipynb")
    return notebook if notebook.exists() else None


def write_archives(app: Sphinx, error: Exception | None) -> None:
    """Put the zips beside the pages."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, ARCHIVES)
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in filter(None, (notebook_of(app, page) for page in app.env.found_docs)):
        (folder / f"{notebook.stem}.zip").write_bytes(page_archive(notebook))


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", offer, priority=600)
    app.connect("build-finished", write_archives)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
