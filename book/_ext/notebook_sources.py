"""A text notebook (.md) and its executed notebook (.ipynb) lie side by side: which serves what.

The page is made from the .ipynb; 'edit this page' leads to the .md. Buttons that need the public
address of the repository are drawn only when it is set.
"""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

BUTTONS = ("use_repository_button", "use_issues_button", "use_edit_page_button")


def prefer_executed(app: Sphinx, config: Config) -> None:
    """Leave out each .md that has an .ipynb of the same name beside it."""
    source = Path(app.srcdir)
    for notebook in source.glob("*/**/*.ipynb"):
        text = notebook.with_suffix(".md")
        if text.exists():
            config.exclude_patterns.append(text.relative_to(source).as_posix())


def follow_address(app: Sphinx, config: Config) -> None:
    """Draw the repository's buttons exactly when the address of the repository is set."""
    options = config.html_theme_options
    for button in BUTTONS:
        options[button] = bool(options.get("repository_url"))
    if not options.get("repository_url"):
        options["launch_buttons"] = {}


def edit_the_text(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Let the edit button open the text that people write."""
    if not Path(app.srcdir, pagename).with_suffix(".md").exists():
        return
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", [group]):
            if "/edit/" in str(button.get("url")):
                button["url"] = button["url"].removesuffix(".ipynb") + (
                    ".md" if button["url"].endswith(".ipynb") else ""
                )


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", prefer_executed)
    app.connect("config-inited", follow_address)
    app.connect("html-page-context", edit_the_text, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
