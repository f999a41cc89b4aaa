"""A file that a browser saved: the same verdicts here, in a notebook, and nothing that hangs."""

import json
from pathlib import Path

import pytest
import quickjs

from dtlib.__main__ import main
from dtlib.exercises.answers.notebook import digest, write_into
from dtlib.exercises.answers.saved import AnswersError, judged, saved_answers

KEPT = Path(__file__).resolve().parents[3] / "book/_static/reader/kept.js"
RING = "def contributors(P, r, t):\n    return {(r - i) % P for i in range(t + 2)}\n"
ANSWERS = {
    "dtlib-answer:ex-who-waits": {"texts": ["7.5", "31/2", "8"], "passed": True},
    "dtlib-answer:ask-sent-by-sixteen": {"texts": ["1 GB"], "passed": False},
    "dtlib-answer:ex-buckets": {"texts": ["about 3 s", ""], "passed": False},
    "dtlib-answer:ex-removed-since": {"texts": ["1"], "passed": True},
    "dtlib-code:ex-prove-the-ring": RING,
    "dtlib-code:a1b2c3d4": "a cell of a page, no exercise",
    "dtlib-bet:12.1": {"value": 3},
}
EXPECTED = [
    "Not yet. question 1 of chapter 12: sent: a rank sends chunks, in two phases",
    'Not yet. 12.5: (a), a number in s: what is "about"?',
    "12.7 passed: the claim holds for every rank in every round, 240 cases on 2 to 9 ranks",
    "ex-removed-since: the book has no such exercise",
    "17.4 passed: the work of the mean and the time of the slowest",
    "2 of 5 answers passed",
]
ENDLESS = {"dtlib-code:ex-fold": "while True:\n    pass"}
BROKEN = {
    "dtlib-code:ex-two-way-ring": "name = input()",
    "dtlib-code:ex-prove-the-ring": "import os\nos._exit(3)",
    "dtlib-code:ex-ring-in-any-order": "def ring_in_order(order):\n  return 1 +",
}


@pytest.fixture
def browser_saved(tmp_path):
    """The file that the page's own script saves of what it keeps."""

    def save(kept: dict) -> Path:
        context = quickjs.Context()
        context.eval("globalThis.dispatchEvent = () => 0; globalThis.CustomEvent = class {};")
        context.eval(KEPT.read_text(encoding="utf-8").replace("const dtKept", "globalThis.dtKept"))
        for name, data in kept.items():
            context.eval(f"dtKept.write({json.dumps(name)}, {json.dumps(data)})")
        file = tmp_path / "answers.json"
        file.write_text(context.eval("dtKept.save(new Date(0))"), encoding="utf-8")
        return file

    return save


def test_what_the_browser_saved_gets_the_same_verdicts(browser_saved, capsys):
    assert main(["answers", str(browser_saved(ANSWERS))]) == 0
    assert capsys.readouterr().out.splitlines() == EXPECTED


def test_code_that_does_not_end_or_is_none_is_told_in_a_line(browser_saved):
    endless = judged(saved_answers(browser_saved(ENDLESS)), seconds=3)
    assert list(map(repr, endless)) == ["Not yet. 12.10: the code did not end within 3 s"]
    assert list(map(repr, judged(saved_answers(browser_saved(BROKEN))))) == [
        "Not yet. 12.7: the code ended its process",
        "Not yet. 12.9: line 2 is no Python: invalid syntax",
        "Not yet. 12.11: line 1 raises EOFError: EOF when reading a line",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "dtlib-kept", "kept": 3}'])
def test_another_file_is_refused(tmp_path, text, capsys):
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(AnswersError, match="no file that the book has saved"):
        saved_answers(file)
    assert main(["answers", str(file)]) == 1
    assert main(["answers", str(tmp_path / "none.json")]) == 1
    assert main(["answers"]) == 2
    assert "answers FILE" in capsys.readouterr().err


def stub_cell(slug: str, source: str) -> dict:
    about = {"dtlib": {"exercise": slug, "stub": digest(source)}}
    return {"cell_type": "code", "metadata": about, "source": source.splitlines(keepends=True)}


def test_answers_go_into_the_cells_that_wait_and_over_none_that_was_changed(
    browser_saved, tmp_path
):
    cells = [
        stub_cell("ex-buckets", "seconds_a = ...\nseconds_b = ..."),
        stub_cell("ex-prove-the-ring", "def contributors(P, r, t):\n    return {...}"),
        stub_cell("ask-sent-by-sixteen", "answer_1 = ...  # a number of bytes"),
        {"cell_type": "markdown", "metadata": {}, "source": []},
    ]
    cells[2]["source"] = ["answer_1 = 5"]
    notebook = tmp_path / "page.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    answers = saved_answers(browser_saved(ANSWERS))
    assert write_into(notebook, answers) == (
        ["ex-buckets", "ex-prove-the-ring"],
        ["ask-sent-by-sixteen"],
    )
    sources = ["".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"]]
    assert sources[:3] == ["seconds_a = 'about 3 s'\nseconds_b = ...", RING, "answer_1 = 5"]
    assert write_into(notebook, answers, force=True) == (["ask-sent-by-sixteen"], [])
    assert "answer_1 = '1 GB'" in notebook.read_text()
