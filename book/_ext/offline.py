"""Everything that a page loads is served by the site itself: no CDN, no thebe."""

import shutil
from importlib.metadata import distribution
from pathlib import Path

from sphinx.application import Sphinx

# What the pages load of MathJax: 2 MB of the 10 that the package holds.
MATHJAX = ("tex-mml-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")


def copy_mathjax(app: Sphinx) -> None:
    """Copy MathJax from its PyPI package into the site."""
    if app.builder.format != "html":
        return
    package = distribution("sphinx-mathjax-offline")
    origin = Path(package.locate_file("sphinx-mathjax-offline/static/mathjax"))
    for part in MATHJAX:
        target = Path(app.outdir, "_static", "mathjax", part)
        target.parent.mkdir(parents=True, exist_ok=True)
        if (origin / part).is_dir():
            shutil.copytree(origin / part, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(origin / part, target)


def drop_thebe(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Leave out the files of thebe: Jupyter Book inserts them twice, and nothing uses them."""
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if not _is_of_thebe(file)]


def _is_of_thebe(file) -> bool:
    body = getattr(file, "attributes", {}).get("body") or ""
    return "thebe" in f"{getattr(file, 'filename', '')} {body}".lower()


def setup(app: Sphinx) -> dict:
    app.config.mathjax_path = "mathjax/tex-mml-chtml.js"
    app.connect("builder-inited", copy_mathjax)
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
