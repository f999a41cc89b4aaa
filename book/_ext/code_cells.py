"""Each code cell of a page bears its id, and the page says which of them run there (book/cells)."""

import json
import re
import sys
from collections import defaultdict, deque
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._tools.layout import ROOT
from book.cells.data import cells_of
from book.cells.page import names_of
from book.cells.record import recorded

MARK = re.compile(r'<div class="([^"]*?) ?dt-cell-(\w+)')


def source_of(page: str) -> Path | None:
    """The text of a page whose cells are on record."""
    source = ROOT / f"{page}.md"
    return source if source.stem in recorded() and source.exists() else None


class NameCells(SphinxPostTransform):
    """A cell is known by its text, and cells of one text by their order."""

    default_priority = 180
    formats = ("html",)

    def run(self, **kwargs) -> None:
        source = source_of(self.env.docname)
        if source is None:
            return
        ids: dict[str, deque[str]] = defaultdict(deque)
        for cell in names_of(source).cells:
            ids[cell.code.strip()].append(cell.id)
        for code in list(self.document.findall(nodes.container)):
            if code.get("nb_element") == "cell_code_source":
                found = ids[code.astext().strip()]
                if found:
                    code.parent["classes"].append(f"dt-cell-{found.popleft()}")


def hand_over(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """The attribute of each cell, and at the end of the page the data of all."""
    source = source_of(pagename)
    if source is None or "body" not in context:
        return
    body = MARK.sub(r'<div data-cell="\2" class="\1', context["body"])
    cells = cells_of(source, recorded()[source.stem])
    data = json.dumps(cells, separators=(",", ":")).replace("<", "\\u003c")
    context["body"] = f'{body}<script type="application/json" id="dt-cells">{data}</script>'


def setup(app: Sphinx) -> dict:
    app.add_post_transform(NameCells)
    app.connect("html-page-context", hand_over)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
