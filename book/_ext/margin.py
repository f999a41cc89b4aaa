"""What would interrupt a sentence stands in the margin: a work when it is first cited, and the
number that refutes what is said. It repeats what the text, its references and the page of all
folklore say, so that a page without a margin leaves it out.
"""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._tools.folklore import Entry, entries, entry_of_box

FOLKLORE = "book/folklore"
SENTENCE_END = re.compile(r"(?<=[.?])(?<!\b[A-Z]\.) ")  # not the dot of an initial
MOST = 3


class margin(nodes.Element):
    """An `aside` beside the paragraph that follows it; its class says what it holds."""


def visit_margin(self, node: margin) -> None:
    self.body.append(f'<aside class="margin {node["kind"]}">\n')


def depart_margin(self, node: margin) -> None:
    self.body.append("</aside>\n")


class CiteInMargin(SphinxPostTransform):
    """The title of a work stands beside the paragraph that cites it first."""

    default_priority = 215
    formats = ("html",)

    def run(self, **kwargs) -> None:
        cited: set[str] = set()
        for paragraph in list(self.document.findall(nodes.paragraph)):
            works = [work for work in self.works(paragraph) if work.get("refuri") not in cited]
            cited |= {work.get("refuri") for work in works}
            if works and isinstance(paragraph.parent, nodes.section):
                lines = [self.line(work) for work in works[:MOST]]
                place = paragraph.parent.index(paragraph)
                paragraph.parent.insert(place, margin("", *lines, kind="works"))

    def works(self, paragraph: nodes.paragraph) -> list[nodes.reference]:
        groups = [g for g in paragraph.findall(nodes.inline) if "bibtex-citation" in g["classes"]]
        found = [work for group in groups for work in group.findall(nodes.reference)]
        return list({work.get("refuri"): work for work in found if work.get("reftitle")}.values())

    def line(self, work: nodes.reference) -> nodes.paragraph:
        """Who, when and the title: 'Patarasuk and Yuan, 2009 Bandwidth optimal all-reduce ...'."""
        _, title, *_ = SENTENCE_END.split(work["reftitle"])
        name = work.astext()
        if name.isdigit():  # the link of a citation as 'Chan et al. [2007]'
            name = work.parent.astext().replace(" [", ", ").rstrip("]")
        return nodes.paragraph("", "", nodes.strong("", name), nodes.Text(f" {title}"))


class NumberInMargin(SphinxPostTransform):
    """Beside what is said stands the number that is right, and leads to its card."""

    default_priority = 204  # before the box gets its face, which takes its title apart
    formats = ("html",)

    def run(self, **kwargs) -> None:
        page = self.env.docname
        known = [entry for entry in entries() if entry.chapter.page == page]
        for box in self.document.findall(nodes.admonition) if known else []:
            if "folklore" in box["classes"] and isinstance(box.children[0], nodes.title):
                entry = entry_of_box(box.children[0].astext(), known)
                if entry and entry.right_number:
                    box.insert(1, margin("", self.number(entry), kind="right"))

    def number(self, entry: Entry) -> nodes.paragraph:
        address = self.app.builder.get_relative_uri(self.env.docname, FOLKLORE)
        card = nodes.reference("", "", refuri=f"{address}#{entry.anchor}", internal=True)
        card += nodes.Text(entry.right_number)
        return nodes.paragraph("", "", card)


def setup(app: Sphinx) -> dict:
    app.add_node(margin, html=(visit_margin, depart_margin))
    app.add_post_transform(CiteInMargin)
    app.add_post_transform(NumberInMargin)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
