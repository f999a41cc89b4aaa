"""What the page of the reader's own bets and progress needs of the book: every bet, every exercise.

Bets come from the states of the widgets that the pages show, so that no number is said twice.
"""

import json
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[2]))
from dtlib.contents import Chapter, parts
from dtlib.exercises.declarations.question import pauses_of, questions_of
from dtlib.exercises.manifest import exercises_of

PAGE = "book/calibration"


def bets_of(files: dict[str, str]) -> list[dict]:
    """The bets of a page in its order, each with its true value, from the files of its widgets."""
    states = [text for name, text in files.items() if name.endswith(".json")]
    specs = [json.loads(text).get("spec", {}) for text in states]
    truths = {spec["key"]: spec for spec in specs if "answer_text" in spec}
    made = [spec for spec in specs if spec.get("kind") == "dt-kind-bet"]
    return [
        {
            "key": spec["key"],
            "question": spec["title"],
            "unit": spec["unit"],
            "answer": truths[spec["key"]]["answer"],
            "says": truths[spec["key"]]["answer_text"],
        }
        for spec in made
    ]


def course(app: Sphinx, context: dict) -> list[dict]:
    """The written chapters, each with what its reader can bet and answer on its page."""
    files = getattr(app.env, "widget_files", {})
    written = [(p, c) for p in parts() for c in p.chapters if c.page in app.env.found_docs]
    return [
        {
            "number": chapter.number,
            "part": f"{part.number} · {part.title}",
            "title": chapter.title,
            "address": context["pathto"](chapter.page),
            "bets": bets_of(files.get(chapter.page, {})),
            "exercises": _judged(chapter),
            "questions": [
                one.slug for asked in (pauses_of, questions_of) for one in asked(chapter.number)
            ],
        }
        for part, chapter in written
    ]


def _judged(chapter: Chapter) -> list[str]:
    """The exercises that the page itself judges; what needs torch is judged in the notebook."""
    return [exercise.slug for exercise in exercises_of(chapter.number) if not exercise.needs]


def hand_over(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    if pagename != PAGE or "body" not in context:
        return
    app.add_js_file("reader/calibration.js", priority=900, defer="defer")  # after kept.js
    data = json.dumps(course(app, context), ensure_ascii=False).replace("<", "\\u003c")
    context["body"] += f'<script type="application/json" id="dt-course">{data}</script>'


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", hand_over)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
