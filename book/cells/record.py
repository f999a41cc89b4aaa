"""Finds out which cells run in the page, by running them, and writes it down.

Each cell is run in a Python without torch, matplotlib and what else no page has, then in the engine
itself; it runs there if it says, word for word, what the book stores, and does so soon.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from book._engine import runner
from book._tools.layout import ROOT, notebook_sources, write_if_new
from book.cells.page import (
    before_exercise,
    exercises,
    is_shown,
    names_of,
    printed,
    stored,
    texts,
)

RECORD = Path(__file__).with_name("recorded.json")
SOON = 5.0  # seconds that a reader may wait for a cell and all that it needs, on a busy machine
BARE = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name in {left_out!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
sys.path[:0] = {folders!r}
import replay
replay.main(sys.stdin.read())
"""
LEFT_OUT = sorted({*runner.ELSEWHERE, "multiprocessing", "dtlib.explore"})
WORDS = {"multiprocessing": "processes", "cloudpickle": "processes", "dtlib.explore": "shown"}

Told = dict
Python = Callable[[dict], Told]


def task(source: Path) -> dict:
    """The cells of a page that may run there, each with what it needs, and the page's imports."""
    names, outputs = names_of(source), stored(source)
    cells = [
        {"id": cell.id, "before": texts(names.before(cell)), "code": cell.code}
        for cell in names.cells
        if not is_shown(cell, outputs.get(cell.id, []))
    ]
    cells += [
        {"id": slug, "before": texts(before_exercise(names, slug, code)), "code": code}
        for slug, code in exercises(source)
    ]
    return {"imports": names.imports(), "cells": cells}


def in_bare_python(given: dict) -> Told:
    """What the cells say in a process of CPython without what a page has not."""
    return json.loads(printed_bare(given))


def printed_bare(given: dict, before: str = "", after: str = "") -> str:
    """What such a process prints: ``before``, the cells, ``after``."""
    folders = [str(ROOT), *(str(ROOT / "book" / room) for room in ("cells", "_engine"))]
    code = BARE.format(left_out=LEFT_OUT, folders=folders)
    ran = subprocess.run(
        [sys.executable, "-c", before + code + after],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return ran.stdout


def verdict(told: dict, outputs: list[dict] | None) -> str:
    """``runs``, or why not: a module's name, ``processes``, ``slow``, ``differs``.

    ``outputs`` is what the cell must say, None for what is the reader's own.
    """
    if told["verdict"] == "elsewhere":
        missing = told["text"].partition(" is not in the page")[0]
        return WORDS.get(missing, missing if " " not in missing else "processes")
    if outputs is not None and not is_same(outputs, told):
        return "differs"
    return "slow" if told["seconds"] > SOON else "runs"


def is_same(outputs: list[dict], told: dict) -> bool:
    """Whether a cell said what the book stores; of an error, its message."""
    raised = [output for output in outputs if output["output_type"] == "error"]
    before = printed([output for output in outputs if output not in raised])
    if not raised:
        return f"{told['out']}{told['text']}".rstrip() == before.rstrip()
    message, says = printed(raised).rstrip(), told["text"].rstrip()
    told_so = bool(says) and (says.endswith(message) or message.endswith(says))
    return told_so and told["out"] == before


def recorded() -> dict[str, dict]:
    """By page: ``imports`` that work in the page, and ``cells``, id by id."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def found(source: Path, pythons: list[Python]) -> dict:
    """What the record says of a page: a cell runs if it does so in every Python."""
    given, outputs = task(source), stored(source)
    cells = names_of(source).cells
    expected = {cell.id: None if "live" in cell.tags else outputs[cell.id] for cell in cells}
    said = {cell.id: "shown" for cell in cells} | {one["id"]: "runs" for one in given["cells"]}
    for python in pythons:
        told = python(given)
        for one in told["cells"]:
            said[one["id"]] = verdict(one, expected.get(one["id"], []))
        runs = [one for one in given["cells"] if said[one["id"]] == "runs"]
        given = {"imports": given["imports"], "cells": runs}
    return {"imports": list(dict.fromkeys(told["imports"].values())), "cells": said}


def record(sources: list[Path], pythons: list[Python]) -> Iterator[tuple[str, dict]]:
    """Find out and write down, page by page; the name of each and what was found."""
    pages = {source.stem for source in notebook_sources()}
    for source in sources:
        known = recorded() if RECORD.exists() else {}
        known[source.stem] = found(source, pythons)
        kept = {stem: said for stem, said in sorted(known.items()) if stem in pages}
        write_if_new(RECORD, json.dumps(kept, indent=1) + "\n")
        yield source.stem, known[source.stem]
