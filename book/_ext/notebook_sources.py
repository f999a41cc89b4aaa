"""A text notebook (.md) and its executed notebook (.ipynb) lie side by side: which serves what.

The page is made from the text of the .md and the outputs of the .ipynb, which can be taken along
and has no markup; 'edit this page' leads to the .md. What is taken along begins with the cell that
installs the library, whose wheel lies beside it on the site. Links that need the public address of
the repository are there only when it is set.
"""

import sys
from pathlib import Path

import nbformat
from sphinx.application import Sphinx
from sphinx.config import Config

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._tools.layout import WHEELS, site_branch, with_slash
from book._tools.listings.library import library_wheel
from book.notebooks.first_cell import hosted, taken_along
from book.notebooks.pages import page_notebook


def prefer_executed(app: Sphinx, config: Config) -> None:
    """Leave out each .md that has an .ipynb of the same name beside it."""
    source = Path(app.srcdir)
    for notebook in source.glob("*/**/*.ipynb"):
        text = notebook.with_suffix(".md")
        if text.exists():
            config.exclude_patterns.append(text.relative_to(source).as_posix())


def put_in_text(app: Sphinx, docname: str, content: list[str]) -> None:
    """Read the text of a page where its notebook stands: the notebook says it in other words."""
    file = Path(app.env.doc2path(docname))
    if file.suffix == ".ipynb" and file.with_suffix(".md").exists():
        content[0] = nbformat.writes(page_notebook(file.with_suffix(".md")))


def source_links(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """What a reader can do with the source: the words, the address, whether it is saved."""
    if "body" not in context or not context.get("sourcename"):
        return
    notebook = context["sourcename"].endswith(".ipynb")
    links = []
    if notebook:
        links.append(
            (
                "Download this page as a notebook",
                context["pathto"](f"_sources/{context['sourcename']}", 1),
                True,
            )
        )
    options = app.config.html_theme_options
    address, branch = options.get("repository_url"), options.get("repository_branch", "main")
    if address:
        if notebook:
            place = f"{site_branch(Path(app.srcdir))}/_sources/{context['sourcename']}"
            links += [(name, there, False) for name, there in hosted(address, place).items()]
        links.append(("Edit its text", f"{address}/edit/{branch}/{pagename}.md", False))
        links.append(("Report a mistake", f"{address}/issues/new", False))
    context["source_links"] = links


def write_taken_along(app: Sphinx, error: Exception | None) -> None:
    """Give the notebooks of the built site their first cell, and put the wheel where it looks."""
    if error is not None or app.builder.format != "html":
        return
    site, wheel, home = Path(app.outdir), library_wheel(), with_slash(app.config.html_baseurl)
    (site / WHEELS).mkdir(exist_ok=True)
    (site / WHEELS / wheel.name).write_bytes(wheel.content)
    for file in site.glob("_sources/**/*.ipynb"):
        stored = nbformat.read(Path(app.srcdir, file.relative_to(site / "_sources")), 4)
        nbformat.write(taken_along(stored, wheel, home), file)


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", write_taken_along)
    app.connect("config-inited", prefer_executed)
    app.connect("source-read", put_in_text)
    app.connect("html-page-context", source_links)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
