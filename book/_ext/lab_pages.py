"""The labs: a chapter leads to its own, and each can be taken along as a zip made with the site."""

import sys
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._tools.listings.lab_archive import archive
from book._tools.listings.lab_list import ARCHIVES, labs
from book._tools.listings.library import library_wheel
from book.notebooks.first_cell import taken_along

PAGE = "book/labs"


class LeadToLabs(SphinxPostTransform):
    """Below the heading 'Exercises' of a chapter: its labs."""

    default_priority = 209
    formats = ("html",)

    def run(self, **kwargs) -> None:
        mine = [lab for lab in labs() if lab.chapter.page == self.env.docname]
        for section in list(self.document.findall(nodes.section)) if mine else []:
            if "exercises" in section["ids"]:
                section.insert(1, self.line(mine))

    def line(self, mine: list) -> nodes.paragraph:
        address = self.app.builder.get_relative_uri(self.env.docname, PAGE)
        line = nodes.paragraph("", "", nodes.strong("", "In the lab: "), classes=["to-labs"])
        for position, lab in enumerate(mine):
            name = nodes.reference("", lab.title, refuri=f"{address}#lab-{lab.name}", internal=True)
            line += [nodes.Text("; " if position else ""), name]
        return line


def write_archives(app: Sphinx, error: Exception | None) -> None:
    """Put the zip of every lab beside the pages, and its notebook alone."""
    if error is None and app.builder.format == "html":
        folder = Path(app.outdir, ARCHIVES)
        folder.mkdir(parents=True, exist_ok=True)
        for lab in labs():
            (folder / f"{lab.name}.zip").write_bytes(archive(lab.source))
            alone = nbformat.read(lab.source.with_suffix(".ipynb"), 4)
            nbformat.write(taken_along(alone, library_wheel()), folder / f"{lab.name}.ipynb")


def setup(app: Sphinx) -> dict:
    app.add_post_transform(LeadToLabs)
    app.connect("build-finished", write_archives)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
