"""Which rooms of the library a page opens, found by running all of it in a Python that listens."""

import json
from pathlib import Path

from book._engine import contents
from book._engine.rooms import COMMON, room_of
from book._tools.layout import ROOT
from book.cells.record import printed_bare, recorded, task
from dtlib.contents import chapters

# Sources are opened, where no bytecode is.
LISTENING = """
import sys
sys.dont_write_bytecode, sys.pycache_prefix = True, "/nowhere"
opened = set()
sys.addaudithook(lambda event, given: opened.add(given[0]) if event == "open" else None)
"""
JUDGED = """
from book._engine.replay.answers import replay as judged
judged({group!r})
"""
OPENED = """
import json
print()
print(json.dumps([file for file in opened if isinstance(file, str)]))
"""


def cells_of(source: Path) -> dict:
    """The task of the cells and exercises of a page that run there."""
    cells = recorded()[source.stem]["cells"]
    given = task(source)
    return given | {"cells": [one for one in given["cells"] if cells.get(one["id"]) == "runs"]}


def opened(source: Path) -> set[str]:
    """The packs that a page fetches in the end: for its cells, its exercises and its questions."""
    after = OPENED
    for chapter in chapters():
        if ROOT / chapter.page == source.with_suffix(""):
            after = JUDGED.format(group=chapter.number) + OPENED
    files = json.loads(printed_bare(cells_of(source), LISTENING, after).splitlines()[-1])
    inside = contents.library()
    return {room_of(inside[Path(file)]) for file in files if Path(file) in inside} - {COMMON}
