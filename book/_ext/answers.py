"""The exercises of a page, as its script needs to know them in order to judge an answer.

The three questions at the end of a chapter, and those in its text, are put there from their
declarations; the script gives them the same boxes.
"""

import html
import json
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book.notebooks.stubs import exercise_text, stub
from dtlib.contents import chapters
from dtlib.exercises.declarations.on_page import asked_on_page
from dtlib.exercises.declarations.question import pauses_of, questions_of
from dtlib.exercises.manifest import Exercise, exercises_of

LABEL = re.compile(r"^:label: (ex-\S+)$", re.MULTILINE)
SCRIPTS = ("reader/judge.js", "reader/answers.js", "code/offer.js")


def data_of(number: str, page: Path) -> dict[str, dict]:
    """What a page needs of each exercise and question that stands on it, by its lasting name.

    ``page`` is the chapter's text, from which the stubs of code come.
    """
    labels = set(LABEL.findall(page.read_text(encoding="utf-8")))
    exercises = {
        exercise.slug: {"label": f"exercise {exercise.label}"} | box_of(exercise, page)
        for exercise in exercises_of(number)
        if exercise.slug in labels
    }
    questions = {
        one.slug: {"label": f"{kind} {place}"} | asked_on_page(one)
        for kind, asked in (("question", questions_of), ("pause", pauses_of))
        for place, one in enumerate(asked(number), start=1)
    }
    return exercises | questions


def number_of(page: str) -> str:
    """The number of the chapter that a page is, or ''."""
    return next((one.number for one in chapters() if one.page == page), "")


def box_of(exercise: Exercise, page: Path) -> dict:
    """What the answer of one exercise is judged by; for code, what stands in its editor."""
    asked = asked_on_page(exercise.declaration)
    if asked["kind"] == "code":
        asked |= stub(exercise_text(page, exercise.slug), exercise.declaration)._asdict()
    return asked


class AskQuestions(SphinxPostTransform):
    """The three questions stand below what the reader can now do, or else before the exercises."""

    default_priority = 215
    formats = ("html",)

    def run(self, **kwargs) -> None:
        asked = questions_of(number_of(self.env.docname))
        before = self.document.next_node(self._is_exercises)
        if asked and before is not None:
            box = nodes.raw("", questions_box(asked), format="html")
            before.parent.insert(before.parent.index(before), box)

    def _is_exercises(self, node: nodes.Node) -> bool:
        return isinstance(node, nodes.section) and "exercises" in node["ids"]


class Pause(SphinxDirective):
    """A question in the text, by its lasting name: `:::{pause} pause-hops`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (slug,) = self.arguments
        declared = {one.slug: one for one in pauses_of(number_of(self.env.docname))}
        if slug not in declared:
            raise self.error(f"no pause {slug!r}; declared are {', '.join(declared) or 'none'}")
        text = html.escape(declared[slug].about.title)
        title = '<p class="admonition-title">Before you read on</p>'
        box = f'<aside class="admonition pause" id="{slug}">{title}<p>{text}</p></aside>'
        return [nodes.raw("", box, format="html")]


def questions_box(asked: tuple) -> str:
    """The questions as a list; each has a place for its answer."""
    items = "".join(
        f'<li id="{one.slug}"><p>{html.escape(one.about.title)}</p></li>' for one in asked
    )
    title = '<p class="admonition-title">Three questions, to see that you can</p>'
    return f'<aside class="admonition questions">{title}<ol>{items}</ol></aside>'


def hand_over(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Put the exercises of a chapter at the end of its page."""
    number = number_of(pagename)
    if not number or "body" not in context:
        return
    notebook = context["pathto"](f"_sources/{context['sourcename']}", 1)
    exercises = data_of(number, Path(app.srcdir, f"{pagename}.md"))
    engine = getattr(app.config, "engine_bytes", 0)
    page = {"notebook": notebook, "engine": engine, "exercises": exercises}
    data = json.dumps(page).replace("<", "\\u003c")
    context["body"] += f'<script type="application/json" id="dt-exercises">{data}</script>'
    for script in SCRIPTS:
        app.add_js_file(script, priority=900)  # after kept.js


def setup(app: Sphinx) -> dict:
    app.add_directive("pause", Pause)
    app.add_post_transform(AskQuestions)
    app.connect("html-page-context", hand_over)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
