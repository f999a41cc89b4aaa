"""What answers a bet is marked, so that the page covers it until its reader has bet or skipped.

A cell says by its tag `after-bet-<key>` that what it puts out answers the bet of that key. Every
bet has its answer below it, a tag names a bet above it, and no cell between a bet and its answer
prints the answer's number without the tag.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

from book._tools.layout import ROOT
from book.notebooks.pages import page_notebook

TAG = "after-bet-"
STATES = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
_BET = re.compile(r'\bbet\("([^"]+)"')
_ANSWER = re.compile(r'\banswer\("([^"]+)"')
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\.?\d)")
_HTML = re.compile(r"<style.*?</style>|<[^>]*>", re.DOTALL)


@dataclass(frozen=True)
class Cell:
    """A cell of code: its text, its tags, and what the stored notebook says that it printed."""

    source: str
    tags: tuple[str, ...] = ()
    printed: str = ""

    @property
    def bets(self) -> list[str]:
        return _BET.findall(self.source)

    @property
    def answers(self) -> list[str]:
        return _ANSWER.findall(self.source)

    @property
    def after(self) -> list[str]:
        return [tag.removeprefix(TAG) for tag in self.tags if tag.startswith(TAG)]


def problems(pages: list[Path]) -> list[str]:
    """Every bet without an answer, every wrong tag, every answer that stands uncovered."""
    return [
        f"{page.relative_to(ROOT)}: {fault}"
        for page in pages
        for fault in faults(cells_of(page), answers_of(page))
    ]


def faults(cells: list[Cell], answers: dict[str, float]) -> list[str]:
    """What is wrong with the bets of a page; `answers` are the true numbers, in the bets' units.

    >>> faults([Cell('bet("9.1", "?")'), Cell("", printed="4 ms"), Cell('answer("9.1", x)')],
    ...        {"9.1": 4.0})
    ["a cell below bet 9.1 prints its answer, '4', without the tag after-bet-9.1"]
    """
    made = {key: at for at, cell in enumerate(cells) for key in cell.bets}
    given = {key: at for at, cell in enumerate(cells) for key in cell.answers}
    found = [f"bet {key} has no answer below it" for key in made if given.get(key, -1) < made[key]]
    for at, cell in enumerate(cells):
        found += [
            f"a cell has the tag {TAG}{key}, and no bet {key} is above it"
            for key in cell.after
            if made.get(key, at) >= at
        ]
    for key, true in answers.items():
        for cell in cells[made.get(key, 0) + 1 : given.get(key, -1) + 1]:
            said = [] if key in cell.after else telling(cell.printed, true)
            found += [
                f"a cell below bet {key} prints its answer, {text!r}, without the tag {TAG}{key}"
                for text in said[:1]
            ]
    return found


def telling(printed: str, true: float) -> list[str]:
    """The numbers of a text that are the true one, to as many digits as they have.

    >>> telling("8 ranks: 1.75 GB, 1,640 ms", 1640.2), telling("1.7 GB", 1.75)
    (['1,640'], [])
    """
    numbers = _NUMBER.findall(printed)
    return [
        text for text in numbers if abs(float(text.replace(",", "")) - true) <= 0.004 * abs(true)
    ]


def cells_of(page: Path) -> list[Cell]:
    """The cells of a source, with what its stored notebook says that they printed."""
    return [
        Cell(cell.source, tuple(cell.metadata.get("tags", ())), _printed(cell))
        for cell in page_notebook(page).cells
        if cell.cell_type == "code"
    ]


def answers_of(page: Path) -> dict[str, float]:
    """The true numbers of a page's answers by the keys of their bets, from the widgets' states."""
    states = page_notebook(page).metadata.get("widgets", {}).get(STATES, {}).get("state", {})
    specs = [state["state"].get("spec", {}) for state in states.values()]
    return {spec["key"]: spec["answer"] for spec in specs if "answer_text" in spec}


def _printed(cell: nbformat.NotebookNode) -> str:
    """What a cell printed, or shows as a table; the numbers of a widget are its own."""
    if any(VIEW in output.get("data", {}) for output in cell.outputs):
        cell = {"outputs": [one for one in cell.outputs if one.output_type == "stream"]}
    texts = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        said = output.get("text", data.get("text/html", ""))
        texts.append(_HTML.sub(" ", said if isinstance(said, str) else "".join(said)))
    return "\n".join(texts)
