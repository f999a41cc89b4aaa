"""The layers of a page: what is read stands open, what made it and what proves it is folded.

A fold is a `details` element, so that it opens without a script and prints or hides as one thing.
Folded are: the code of a figure or a widget, the call that checks an answer, the solution of an
exercise, the frames of an error, and the claims of a chapter with their tests.
"""

import html
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book.notebooks.pages import DRAWN

COMPARED = 'class="dt-compare'
FEW_LINES = 4
# Arguments that say what the reader is to find, or what stands below the figure anyway.
TELLING = re.compile(r"\b(?:solution|found|caption|alt)=")
EXECUTED = re.compile(r'<div class="dt-fact dt-executed">.*?<dd>(.*?)</dd></div>\s*', re.DOTALL)
FRAME = re.compile(r"^\s+\S.*, line \d+", re.MULTILINE)


class fold(nodes.Element):
    """A `details` element; `summary` is its line, `kind` the class that gives it its face."""


def visit_fold(self, node: fold) -> None:
    summary = html.escape(node["summary"])
    self.body.append(self.starttag(node, "details", CLASS=f"fold {node['kind']}"))
    self.body.append(f"<summary>{summary}</summary>\n")


def depart_fold(self, node: fold) -> None:
    self.body.append("</details>\n")


def folded(summary: str, kind: str, *content: nodes.Node, ids: list[str] | None = None) -> fold:
    return fold("", *content, summary=summary, kind=kind, ids=ids or [])


def put_in_place(old: nodes.Node, new: nodes.Node) -> None:
    """Unlike `replace_self`, without giving the new node the old one's names and classes."""
    old.parent[old.parent.index(old)] = new


def is_cell(node: nodes.Node, what: str = "cell_code") -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == what


class FoldCode(SphinxPostTransform):
    """The code that only made a figure follows it in one line; so does a short `show(...)`.

    No solution, success, caption or alternative text stands in code that is open.
    """

    default_priority = 190
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for cell in list(self.document.findall(is_cell)):
            parts = {part.get("nb_element"): part for part in cell}
            source = parts.get("cell_code_source")
            if source is None:
                continue
            summary = self.summary(cell, source, parts.get("cell_code_output", nodes.container()))
            if summary:
                cell.attributes.pop("hide_mode", None)
                cell.remove(source)
                cell.append(folded(summary, "how", source))

    def summary(self, cell: nodes.Node, source: nodes.Node, output: nodes.Node) -> str:
        """What the line says, or nothing for code that is to be read."""
        made = "".join(raw.astext() for raw in output.findall(nodes.raw))
        if any(mark in made for mark in DRAWN):
            return "code of this figure"
        if COMPARED in made and TELLING.search(source.astext()):
            return "code of this table"
        if cell.get("hide_mode") == "input" or TELLING.search(source.astext()):
            return "code"
        listings = [block.get("language") for block in output.findall(nodes.literal_block)]
        short = len(source.astext().strip().splitlines()) <= FEW_LINES
        return "how it was shown" if short and "python" in listings else ""


class FoldErrors(SphinxPostTransform):
    """The message of an error stands; the frames that it came through are folded."""

    default_priority = 191
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for block in list(self.document.findall(nodes.literal_block)):
            if "traceback" not in block["classes"]:
                continue
            text = block.astext().rstrip()
            frames = FRAME.search(text)
            message = text[: frames.start()].rstrip() if frames else text
            box = nodes.container("", self.lines(block, message), classes=["error"])
            if frames:
                trace = self.lines(block, text[frames.start() :])
                box.append(folded("where it was raised", "trace", trace))
            put_in_place(block, box)

    def lines(self, block: nodes.literal_block, text: str) -> nodes.literal_block:
        return nodes.literal_block(text, text, language="none", classes=block["classes"])


class FoldChecks(SphinxPostTransform):
    """The call that judges an answer in a notebook: on the page, a box below the exercise does.

    Where the box is an editor, it stands in the place of the lines with the call (class `stub`).
    """

    default_priority = 192
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for block in list(self.document.findall(nodes.literal_block)):
            text = block.astext()
            if not re.search(r'^check\("', text, re.MULTILINE) or block.get("language") != "python":
                continue
            block["classes"].append("stub")
            if text.startswith("check(") and "..." in text:
                box, place = block.parent, block.parent.index(block)
                box.remove(block)
                box.insert(place, folded("check it in a notebook", "how", block))


class FoldDropdowns(SphinxPostTransform):
    """A box of the class `dropdown`: the solution of an exercise, or a long aside."""

    default_priority = 210
    formats = ("html",)

    def run(self, **kwargs) -> None:
        boxes = self.document.findall(
            lambda n: "dropdown" in getattr(n, "attributes", {}).get("classes", [])
        )
        for box in list(boxes):
            title, *content = box.children
            solves = "solution" in box["classes"]
            summary = "Solution" if solves else title.astext()
            kind = "solution" if solves else "more"
            ids = [name for name in box["ids"] if "/" not in name]
            put_in_place(box, folded(summary, kind, *without_section(content), ids=ids))


def without_section(content: list[nodes.Node]) -> list[nodes.Node]:
    """A section that only wraps the text of an exercise bears an id that others bear, too."""
    return [
        inner for node in content for inner in (node if isinstance(node, nodes.section) else [node])
    ]


class FoldClaims(SphinxPostTransform):
    """The claims of a chapter, each with the test that holds it, and what the page was run with."""

    default_priority = 212
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for section in list(self.document.findall(nodes.section)):
            if "claims" not in section["ids"]:
                continue
            title, *content = section.children
            items = (nodes.definition_list_item, nodes.list_item)
            count = sum(isinstance(node, items) for node in section.findall())
            says = f"Evidence: {count} claims of this chapter, each held by a test"
            section.children = [title]
            section.append(folded(says, "evidence", *content, *self.versions()))

    def versions(self) -> list[nodes.paragraph]:
        """'Executed with Python ...', taken from the head of the chapter."""
        for raw in list(self.document.findall(nodes.raw)):
            if found := EXECUTED.search(raw.astext()):
                rest = raw.astext().replace(found[0], "")
                put_in_place(raw, nodes.raw("", rest, format="html"))
                return [nodes.paragraph("", f"Executed with {html.unescape(found[1])}.")]
        return []


def setup(app: Sphinx) -> dict:
    app.add_node(fold, html=(visit_fold, depart_fold))
    for transform in (FoldCode, FoldErrors, FoldChecks, FoldDropdowns, FoldClaims):
        app.add_post_transform(transform)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
