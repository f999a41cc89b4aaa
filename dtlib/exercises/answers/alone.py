"""Judges one answer in code in a process of its own: a task on stdin, its verdict the last line.

What the code prints is thrown away, input() finds nothing, and memory has a limit.
"""

import ast
import contextlib
import io
import json
import os
import sys
from typing import Any

from dtlib.exercises.answers.unanswered import attempt
from dtlib.exercises.engine import found

_BYTES = 16 * 2**30  # of addresses: torch reserves some of them


def verdict_of(code: str, call: str, label: str) -> str:
    """What a reader is told of code, and of the expression ``call`` after it.

    >>> verdict_of("def f(P):\\n    return P", "f", "17.10")[:38]
    'Not yet. 17.10: your function must tak'
    >>> verdict_of("1 / 0", "f", "17.10")
    'Not yet. 17.10: line 1 raises ZeroDivisionError: division by zero'
    """
    shown, _ = found(label)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, "<answer>", "exec"), names)
            answer = eval(call, names) if call else names[_last_defined(code)]
            return repr(attempt(label, answer))
    except SyntaxError as error:
        return f"Not yet. {shown}: line {error.lineno} is no Python: {error.msg}"
    except BaseException as error:
        return f"Not yet. {shown}: {_place(error)}raises {type(error).__name__}: {_line(error)}"


def _last_defined(code: str) -> str:
    """The name that the last statement with a name makes."""
    for statement in reversed(ast.parse(code).body):
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            return statement.name
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            return statement.targets[0].id
    raise NameError("the code defines no name")


def _place(error: BaseException) -> str:
    trace, line = error.__traceback__, 0
    while trace:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "<answer>" else line
        trace = trace.tb_next
    return f"line {line} " if line else "it "


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # not everywhere
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))


if __name__ == "__main__":
    task = json.load(sys.stdin)
    _limit_memory()
    words = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    print(verdict_of(**task), file=words, flush=True)
    os._exit(0)  # whatever threads the code has begun
