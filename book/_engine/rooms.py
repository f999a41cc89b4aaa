"""The rooms of the library that come in packs of their own, when a page opens a file of theirs.

A page opens few of them: those of the parts that its code imports, and the exercises of its own.
The common pack has the rest: the ground, and the face of every room, which imports nothing. What
comes later is there by its name, without content: so Python finds a module that has not come, and
importing it opens its file, which brings its pack (book/_engine/worker/worker.js).
"""

from collections.abc import Iterator
from functools import cache

from book._engine.packs import Files
from dtlib.contents import chapters

LIBRARY = "/book/dtlib"
COMMON = "dtlib"
Folders = tuple[str, ...]


@cache
def rooms() -> dict[str, Folders]:
    """The folders of each room, by the name of its pack; a file is of the first that holds it.

    >>> rooms()["memory-exercises"]
    ('/book/dtlib/exercises/chapters/memory/', '/book/dtlib/exercises/questions/memory/')
    """
    return {name: tuple(f"{LIBRARY}/{one}/" for one in folders) for name, folders in _rooms()}


def _rooms() -> Iterator[tuple[str, Folders]]:
    for part in dict.fromkeys(chapter.room for chapter in chapters()):
        yield part, (part,)
        yield f"{part}-exercises", (f"exercises/chapters/{part}", f"exercises/questions/{part}")
    yield "labs", ("exercises/labs", "micro_lab")
    yield "exercises", ("exercises",)
    yield "estimator", ("estimator",)
    yield "measurements", ("measurements",)


def room_of(path: str) -> str:
    """The name of the pack that holds a file of the page.

    >>> room_of("/book/dtlib/memory/zero/cost.py"), room_of("/book/dtlib/memory/__init__.py")
    ('memory', 'dtlib')
    """
    folder, _, name = path.rpartition("/")
    for room, folders in rooms().items():
        if path.startswith(folders):
            return COMMON if f"{folder}/" in folders and name == "__init__.py" else room
    return COMMON


def divided(files: Files) -> dict[str, Files]:
    """The files of each pack that has any; in the common one, the first, others are empty."""
    packs: dict[str, Files] = {COMMON: dict.fromkeys(files, b""), **{room: {} for room in rooms()}}
    for path, held in files.items():
        packs[room_of(path)][path] = held
    return {name: held for name, held in packs.items() if held}
