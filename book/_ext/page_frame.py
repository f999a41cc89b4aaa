"""The book's own theme (book/_theme): what its frame shows around the text of a page.

The bar has the eight parts with a cell for each chapter; the list at the left has the sections of
the page; the foot has every page that is no chapter. Of scripts and style sheets a page gets what
is the book's own, and what formulas and widgets need.
"""

import hashlib
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

sys.path.append(str(Path(__file__).resolve().parents[2]))
from dtlib.contents import parts

THEME = Path(__file__).resolve().parents[1] / "_theme"
OF_SPHINX = {"documentation_options.js", "doctools.js", "sphinx_highlight.js"}
VIEWPORT = re.compile(r'\s*<meta [^>]*name="viewport"[^>]*>')
OF_FILE = re.compile(r'(href="\.\./[^"#]+)\.(?:ipynb|md)(?=" data-(?:read|part)=)')
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def style_sheet(app: Sphinx) -> str:
    """The sheets of html_css_files, one after the other, without their comments."""
    folders = [Path(app.confdir, folder) for folder in app.config.html_static_path]
    sheets = [
        Path(folder, name).read_text(encoding="utf-8")
        for name, _ in app.config.html_css_files
        for folder in folders
        if Path(folder, name).exists()
    ]
    lines = COMMENT.sub("", "\n".join(sheets)).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip()) + "\n"


def write_style_sheet(app: Sphinx, error: Exception | None) -> None:
    """A page asks for one sheet only."""
    if error is None and app.builder.format == "html":
        Path(app.outdir, "_static/page.css").write_text(style_sheet(app), encoding="utf-8")


def headings(env: BuildEnvironment, page: str) -> list[tuple[str, str, str]]:
    """The sections of a page: address on it, number within the chapter, title."""
    whole = next(env.tocs[page].findall(nodes.list_item), None)
    lists = [] if whole is None else [n for n in whole if isinstance(n, nodes.bullet_list)]
    found = [item.next_node(nodes.reference) for inner in lists for item in inner]
    return [
        (link["anchorname"], str((link.get("secnumber") or ("",))[-1]), link.astext())
        for link in found
        if link is not None
    ]


def beside(env: BuildEnvironment) -> list[tuple[str, str]]:
    """The pages that the bar does not map, in the order of the table of contents."""
    mapped = {one.page for part in parts() for one in (part, *part.chapters)}
    root = env.config.root_doc
    pages = [page for page in env.toctree_includes.get(root, []) if page not in mapped]
    return [(page, env.titles[page].astext()) for page in pages]


def is_wanted(script) -> bool:
    """Whether a page loads it: the scripts of Sphinx serve its search page alone."""
    name = Path(str(script.filename or "")).name
    return name not in OF_SPHINX and "DOCUMENTATION_OPTIONS" not in script.attributes.get(
        "body", ""
    )


def frame(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """What the templates of the theme ask for."""
    env = app.env
    places = {c.page: (p, c) for p in parts() for c in p.chapters}
    places |= {p.page: (p, None) for p in parts()}
    context["part"], context["chapter"] = places.get(pagename, (None, None))
    context["parts"], context["all_pages"] = parts(), env.found_docs
    context["headings"] = headings(env, pagename) if pagename in env.tocs else []
    context["beside"] = beside(env)
    open_files_as_pages(context)
    context["page_style"] = app.config.page_style
    context["metatags"] = VIEWPORT.sub("", context.get("metatags") or "")
    context["script_files"] = [script for script in context["script_files"] if is_wanted(script)]
    for script in context["script_files"]:
        if script.filename and "async" not in script.attributes:
            script.attributes["defer"] = "defer"


def mark_style(app: Sphinx, config) -> None:
    """A changed sheet has a new address, so that no reader keeps the old one."""
    config.page_style = hashlib.sha256(style_sheet(app).encode()).hexdigest()[:8]


def open_files_as_pages(context: dict) -> None:
    """What an output calls by its file, as in Jupyter, is a page of the site."""
    context["body"] = OF_FILE.sub(r"\1.html", context.get("body", ""))


def write_front(app: Sphinx, error: Exception | None) -> None:
    """The address of the site is its front page: the same page, whose links begin in its folder."""
    front = f"{app.config.root_doc}.html"
    if error is None and app.builder.format == "html" and Path(app.outdir, front).exists():
        page = Path(app.outdir, front).read_text(encoding="utf-8")
        page = page.replace("<head>", f'<head>\n<base href="{front}">', 1)
        back = "../" * front.count("/")
        page = page.replace('href="#', f'href="{back}#')
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.add_html_theme("algebra", str(THEME))
    app.add_config_value("page_style", "", "html")
    app.add_config_value("comments_config", {}, "html")  # Jupyter Book sets it in any case
    app.connect("config-inited", mark_style, priority=900)
    app.connect("html-page-context", frame, priority=950)
    app.connect("build-finished", write_style_sheet)
    app.connect("build-finished", write_front)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
