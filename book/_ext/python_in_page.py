"""Python in the page (book/_engine): its files are made before the pages and put beside them.

`page_engine` in _config.yml names the engine, or is empty for none. A page that wants to know asks
`config.engine_bytes`: what a reader's first click fetches, 0 where the site has no engine.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._engine import build
from book._engine.packages import Unreachable


def make(app: Sphinx, config) -> None:
    """The engine's files, in the cache; without them the site is built, and says so at its end."""
    app.page_engine = None
    if not config.page_engine:
        return
    try:
        app.page_engine = build.engine(config.page_engine)
    except Unreachable as error:
        logging.getLogger(__name__).info("%s", error)
        return
    config.engine_bytes = app.page_engine.size


def place(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html" and app.page_engine:
        app.page_engine.write(Path(app.outdir))


def setup(app: Sphinx) -> dict:
    app.add_config_value("page_engine", "", "html", str)
    app.add_config_value("engine_bytes", 0, "html", int)
    app.connect("config-inited", make)
    app.connect("build-finished", place)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
