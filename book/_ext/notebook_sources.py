"""A text notebook (.md) and its executed notebook (.ipynb) lie side by side: which serves what.

The page is made from the text of the .md and the outputs of the .ipynb, which can be taken along
and has no markup; 'edit this page' leads to the .md. Links that need the public address of the
repository are there only when it is set.
"""

import sys
from pathlib import Path

import nbformat
from sphinx.application import Sphinx
from sphinx.config import Config

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book.notebooks.pages import page_notebook

COLAB = "https://colab.research.google.com/github"


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
            place = address.removeprefix("https://github.com/")
            links.append(
                ("Run it in Colab", f"{COLAB}/{place}/blob/{branch}/{pagename}.ipynb", False)
            )
        links.append(("Edit its text", f"{address}/edit/{branch}/{pagename}.md", False))
        links.append(("Report a mistake", f"{address}/issues/new", False))
    context["source_links"] = links


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", prefer_executed)
    app.connect("source-read", put_in_text)
    app.connect("html-page-context", source_links)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
