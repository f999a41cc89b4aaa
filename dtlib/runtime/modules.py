"""The reader's own modules on warm ranks: one that was edited is imported anew.

Python imports a module once per process, and warm ranks are old processes. Without this, a new
launch would run yesterday's `my_ring.py`.
"""

import importlib
import os
import sys
import time
from pathlib import Path

from dtlib.runtime.frames import is_library

_DTLIB = str(Path(__file__).parent.parent)
# File systems date a change with a clock that ticks some milliseconds late.
_TICK = 0.02


class ModuleWatch:
    """Knows since when each of the reader's modules is loaded, and forgets the edited ones."""

    def __init__(self) -> None:
        self._loaded_since: dict[str, float] = {}
        self._last_look = time.time()

    def forget_edited(self) -> None:
        """Drop modules whose files are newer than they are; a package goes as a whole.

        A module that is new here was imported some time after the last look: if its file has
        changed since then, it may be out of date, and importing it once more does no harm.
        """
        files = _files_of_the_reader()
        edited = {
            name.partition(".")[0]
            for name, file in files.items()
            if _changed_at(file) > self._loaded_since.get(name, self._last_look)
        }
        for name in files:
            if name.partition(".")[0] in edited:
                del sys.modules[name]
        if edited:
            importlib.invalidate_caches()
        self._last_look = time.time()
        self._loaded_since = {
            name: self._loaded_since.get(name, self._last_look)
            for name in files
            if name in sys.modules
        }


def _files_of_the_reader() -> dict[str, str]:
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return {name: file for name, file in files.items() if file and _is_the_readers(name, file)}


def _is_the_readers(name: str, file: str) -> bool:
    if name in ("__main__", "__mp_main__") or not os.path.isabs(file):
        return False
    return not is_library(file) and not file.startswith(_DTLIB + os.sep)


def _changed_at(file: str) -> float:
    try:
        return os.stat(file).st_mtime + _TICK
    except OSError:
        return 0.0
