"""Where a rank is: the lines of the reader's code, without those of the machinery.

A rank that fails, hangs or dies is described by frames. Frames of this package are dropped, and
of the libraries below the reader's code only the innermost one stays: it names the operation.
"""

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_MACHINERY = str(Path(__file__).parent)
_DTLIB = str(Path(__file__).parent.parent)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_STACK_LINE = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_SHOWN_AT_BOTH_ENDS = 6


class Frame(NamedTuple):
    """One level of a call stack; `text` is its source line, where that is known."""

    file: str
    line: int
    function: str
    text: str = ""


def remember_source(name: str, source: str) -> None:
    """Let tracebacks show the lines of a cell, which is in no file."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def frames_of(error: BaseException) -> list[Frame]:
    """The frames of an exception, outermost first.

    >>> def divide(): return 1 / 0
    >>> try:
    ...     divide()
    ... except ZeroDivisionError as error:
    ...     [frame.function for frame in frames_of(error)][-1]
    'divide'
    """
    frames, step = [], error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        text = linecache.getline(code.co_filename, step.tb_lineno).strip()
        frames.append(Frame(code.co_filename, step.tb_lineno, code.co_name, text))
        step = step.tb_next
    return frames


def frames_of_dump(dump: str) -> list[Frame]:
    """The frames that `faulthandler` wrote, outermost first, of the thread with most of them.

    A library may abort in a thread of its own; the reader's code runs in the deepest thread.

    >>> frames_of_dump('''Thread 0x1 (most recent call first):
    ...   File "b.py", line 2 in g
    ...   File "a.py", line 9 in <module>
    ... Thread 0x2 (most recent call first):
    ...   File "c.py", line 7 in watch
    ... ''')
    [Frame(file='a.py', line=9, function='<module>', text=''),
     Frame(file='b.py', line=2, function='g', text='')]
    """
    threads: list[list[Frame]] = [[]]
    for line in dump.splitlines():
        match = _STACK_LINE.match(line)
        if match:
            frame = Frame(match["file"], int(match["line"]), match["function"])
            threads[-1].insert(0, frame)
        elif threads[-1]:
            threads.append([])
    return max(threads, key=len)


def readers_frames(frames: Iterable[Frame]) -> list[Frame]:
    """Keep the reader's own frames, and the innermost library call below them."""
    frames = list(frames)
    machinery = [frame.file.startswith(_MACHINERY + os.sep) for frame in frames]
    start = machinery.index(True) if True in machinery else 0
    frames = [frames[index] for index in range(start, len(frames)) if not machinery[index]]
    own = [index for index, frame in enumerate(frames) if not is_library(frame.file)]
    if not own:
        return frames[-1:]
    below = frames[own[-1] + 1 :]
    return [frames[index] for index in own] + below[-1:]


def format_frames(frames: Iterable[Frame]) -> list[str]:
    """Two lines per frame, the place and its source; of a deep recursion only both ends."""
    frames = readers_frames(frames)
    hidden = len(frames) - 2 * _SHOWN_AT_BOTH_ENDS
    if hidden > 1:
        head, tail = frames[:_SHOWN_AT_BOTH_ENDS], frames[-_SHOWN_AT_BOTH_ENDS:]
        return [*_lines(head), f"  ... {hidden} more frames ...", *_lines(tail)]
    return _lines(frames)


def _lines(frames: Iterable[Frame]) -> list[str]:
    lines = []
    for frame in frames:
        if is_library(frame.file):
            lines.append(f"  {_place(frame.file)}, in {frame.function}")
            continue
        lines.append(f"  {_place(frame.file)}, line {frame.line}, in {frame.function}")
        text = frame.text or linecache.getline(frame.file, frame.line).strip()
        if text:
            lines.append(f"    {text}")
    return lines


def is_library(file: str) -> bool:
    """Does the file belong to Python or to an installed package other than this one?"""
    if file.startswith(_DTLIB + os.sep):
        return False
    installed = f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file
    return installed or file.startswith((_STANDARD_LIBRARY, "<frozen"))


def _place(file: str) -> str:
    """A short name for a file, the same on every machine: a notebook cell, or a relative path."""
    cell = _notebook_cell(file)
    if cell is not None:
        return cell
    roots = [root for root in [os.getcwd(), *sys.path] if root and file.startswith(root + os.sep)]
    return file[len(max(roots, key=len)) + 1 :] if roots else file


def _notebook_cell(file: str) -> str | None:
    """Jupyter compiles each cell as a file named after the process: say `Cell In[3]` instead."""
    compiler = getattr(_shell(), "compile", None)
    name = getattr(compiler, "format_code_name", lambda file: None)(file)
    return " ".join(name) if name else None


def is_notebook() -> bool:
    """Does this process run the cells of a notebook?"""
    return hasattr(_shell(), "kernel")


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
