"""The exercises of a page, as its script needs to know them in order to judge an answer."""

import json
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[2]))
from dtlib.contents import chapters
from dtlib.exercises.declarations.on_page import asked_on_page
from dtlib.exercises.manifest import exercises_of


def data_of(number: str) -> dict[str, dict]:
    """What a page needs of each declared exercise of a chapter, by its lasting name."""
    return {
        exercise.slug: {"label": exercise.label} | asked_on_page(exercise.declaration)
        for exercise in exercises_of(number)
    }


def hand_over(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Put the exercises of a chapter at the end of its page."""
    number = next((c.number for c in chapters() if c.page == pagename), None)
    if number is None or "body" not in context:
        return
    notebook = context["pathto"](f"_sources/{context['sourcename']}", 1)
    data = json.dumps({"notebook": notebook, "exercises": data_of(number)}).replace("<", "\\u003c")
    context["body"] += f'<script type="application/json" id="dt-exercises">{data}</script>'


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", hand_over)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
