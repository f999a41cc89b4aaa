"""What a page says of its code cells to the script that runs them: ``dt-cells``.

    "<id>": {"runs": true, "needs": ["imports", "<id>", ...]}
    "<id>": {"runs": false, "why": "torch"}

A cell that is there for its figure or listing has no entry. ``needs`` are run first, in this order,
silently and once; of a cell that is needed ``code`` is what others take from it, if it is not all
of it. An exercise has an entry by its slug, the imports of the page have one of their own.
"""

import re
from pathlib import Path

from book.cells.needs import Names, Step
from book.cells.page import before_exercise, exercises, names_of, texts

IMPORTS = "imports"
Entry = dict[str, object]


def cells_of(source: Path, record: dict) -> dict[str, Entry]:
    """The entries of a page; ``record`` says which cells run."""
    names = names_of(source)
    runs = {one for one, said in record["cells"].items() if said == "runs"}
    needed = {cell.id: names.before(cell) for cell in names.cells if cell.id in runs}
    needed |= {
        slug: before_exercise(names, slug, code) for slug, code in exercises(source) if slug in runs
    }
    parts = _parts(names, needed)
    used = "\n".join(cell.code for cell in names.cells if cell.id in runs)
    entries: dict[str, Entry] = {
        IMPORTS: {"runs": True, "needs": [], "code": imports(record, used)}
    }
    for one, said in record["cells"].items():
        if one in needed:
            entries[one] = {"runs": True, "needs": [IMPORTS, *_in_order(names, needed[one])]}
        elif said != "shown":
            entries[one] = {"runs": False, "why": said}
    for cell in names.cells:
        whole = {step.place for step in names.steps if step.cell == cell.id}
        part = parts.get(cell.id, set())
        if part and (part != whole or cell.id not in runs):
            entry = entries.setdefault(cell.id, {"runs": False, "why": "shown"})
            entry["code"] = "\n".join(texts([names.steps[place] for place in sorted(part)]))
    return entries


def imports(record: dict, used: str) -> str:
    """The page's imports of names that stand in code that runs.

    >>> imports({"imports": ["import numpy as np", "from a import b"]}, "np.zeros(3)")
    'import numpy as np'
    """
    words = set(re.findall(r"\w+", used))
    return "\n".join(line for line in record[IMPORTS] if line.split()[-1] in words)


def _in_order(names: Names, steps: list[Step]) -> list[str]:
    """The cells of steps, in the order of the page."""
    wanted = {step.cell for step in steps}
    return [cell.id for cell in names.cells if cell.id in wanted]


def _parts(names: Names, needed: dict[str, list[Step]]) -> dict[str, set[int]]:
    """Of each cell that others need the statements that they need, by place.

    Who needs one statement of a cell gets all that others need of it, and so needs what those
    need: ``needed`` grows until that is so.
    """
    while True:
        parts: dict[str, set[int]] = {}
        for steps in needed.values():
            for step in steps:
                parts.setdefault(step.cell, set()).add(step.place)
        grown = False
        for one, steps in needed.items():
            places = set().union(*(parts[step.cell] for step in steps))
            more = places - {step.place for step in steps}
            if more:
                wider = {step.place for place in more for step in names.for_step(place)} | places
                needed[one] = [names.steps[place] for place in sorted(wider)]
                grown = True
        if not grown:
            return parts
