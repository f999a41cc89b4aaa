"""The faces of what is no plain text: theorem, exercise, folklore, table, the head of a chapter."""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.append(str(Path(__file__).resolve().parents[2]))
from dtlib.contents import chapters, parts

PREFIX = "Folklore: "
QUOTES = "‘’'\"“”"


class FaceExercises(SphinxPostTransform):
    """A title without its brackets; stars, kind and minutes in a line of their own."""

    default_priority = 205
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for exercise in list(self.document.findall(self.is_exercise)):
            title, *content = exercise.children
            strip_brackets(title)
            if len(content) == 1 and isinstance(content[0], nodes.section):
                content = content[0].children
            first = content[0] if content else None
            if isinstance(first, nodes.paragraph) and first.astext().startswith("★"):
                content = [effort_of(first), *content]
            exercise.children = []
            exercise.extend([title, *content])

    def is_exercise(self, node: nodes.Node) -> bool:
        return isinstance(node, nodes.Admonition) and "exercise" in node.get("classes", [])


def strip_brackets(title: nodes.Element) -> None:
    """' (Trace the ring)' is 'Trace the ring'."""
    if title.astext().startswith(" (") and title.astext().endswith(")"):
        last = title.children[-1]
        title.replace(last, nodes.Text(last.astext()[:-1]))
        first = title.children[0]
        title.replace(first, nodes.Text(first.astext()[2:]))


def effort_of(paragraph: nodes.paragraph) -> nodes.paragraph:
    """Take '★ compute, 8 minutes.' from the beginning of an exercise."""
    stars = paragraph.children[0]
    effort = nodes.paragraph("", classes=["effort"])
    effort.append(nodes.inline("", stars.astext().strip(), classes=["stars"]))
    kind = paragraph.children[1] if len(paragraph.children) > 1 else None
    paragraph.remove(stars)
    if isinstance(kind, nodes.emphasis):
        paragraph.remove(kind)
        effort.append(nodes.Text(f" {kind.astext().rstrip('.')}"))
    following = paragraph.children[0] if paragraph.children else None
    if isinstance(following, nodes.Text):
        paragraph.replace(following, nodes.Text(following.astext().lstrip()))
    return effort


class FaceFolklore(SphinxPostTransform):
    """What is said, struck through, under the word Folklore."""

    default_priority = 206
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for box in self.document.findall(nodes.admonition):
            if "folklore" not in box["classes"] or not isinstance(box.children[0], nodes.title):
                continue
            title = box.children[0]
            strip_quotes(title)
            said = title.children
            title.children = []
            title.append(nodes.inline("", "Folklore", classes=["kicker"]))
            title.append(nodes.Text(" "))
            title.append(struck(said))


def strip_quotes(title: nodes.title) -> None:
    first = title.children[0]
    title.replace(first, nodes.Text(first.astext().removeprefix(PREFIX).lstrip(QUOTES)))
    last = title.children[-1]
    if isinstance(last, nodes.Text):
        title.replace(last, nodes.Text(last.astext().rstrip(QUOTES)))


def struck(said: list[nodes.Node]) -> nodes.inline:
    claim = nodes.inline("", "", classes=["said"])
    claim.append(nodes.raw("", "<del>", format="html"))
    claim.extend(said)
    claim.append(nodes.raw("", "</del>", format="html"))
    return claim


class BoxTables(SphinxPostTransform):
    """A table that is too wide scrolls in a box of its own, not the page."""

    default_priority = 207
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for table in list(self.document.findall(nodes.table)):
            box = nodes.container("", classes=["table-box"])
            table.parent[table.parent.index(table)] = box
            box.append(table)


class OpenChapter(SphinxPostTransform):
    """A chapter's promise, or the question of a part, stands below the title."""

    default_priority = 208
    formats = ("html",)

    def run(self, **kwargs) -> None:
        page = self.env.docname
        said = {c.page: c.promise for c in chapters()} | {p.page: p.question for p in parts()}
        promise = said.get(page, "")
        title = next(self.document.findall(nodes.title), None)
        if promise and title is not None:
            section = title.parent
            place = section.index(title) + 1
            section.insert(place, nodes.paragraph("", promise, classes=["promise"]))


def setup(app: Sphinx) -> dict:
    for transform in (FaceExercises, FaceFolklore, BoxTables, OpenChapter):
        app.add_post_transform(transform)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
