"""Each chapter opens with its motif, and its entry on the page of its part bears the same one.

Where the site has a public address, the motifs are also the pictures that are shown with it.
"""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book.motifs import motifs
from dtlib.contents import chapters

OF_CHAPTER = re.compile(r"^motif-(\d+[a-z]?)$")
READ = '<p class="read-mark" data-read="{number}"></p>'


class DrawMotifs(SphinxPostTransform):
    """Below a chapter's promise, and above its entry on its part's page."""

    default_priority = 209  # the promise stands there
    formats = ("html",)

    def run(self, **kwargs) -> None:
        page = self.env.docname
        number = next((c.number for c in chapters() if c.page == page), "")
        title = next(self.document.findall(nodes.title), None)
        if title is not None and number in motifs():
            title.parent.insert(title.parent.index(title) + 2, drawn(number))
        for entry in self.document.findall(nodes.container):
            found = next(filter(None, map(OF_CHAPTER.match, entry["classes"])), None)
            if found and found[1] in motifs():
                entry.insert(0, drawn(found[1]))
                entry.append(nodes.raw("", READ.format(number=found[1]), format="html"))


def drawn(number: str) -> nodes.raw:
    return nodes.raw("", motifs()[number].svg(""), format="html")


def write_cards(app: Sphinx, error: Exception | None) -> None:
    """Pictures are asked for by address only, so there must be one."""
    if error is None and app.builder.format == "html" and app.config.html_baseurl:
        from book.motifs.cards import cards

        folder = Path(app.outdir, "_static/cards")
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in cards(app.config.project):
            Path(folder, f"{name}.png").write_bytes(picture)


def setup(app: Sphinx) -> dict:
    app.add_post_transform(DrawMotifs)
    app.connect("build-finished", write_cards)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
