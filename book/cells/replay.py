"""Runs cells one by one, each with what it needs and nothing else; the same file in both Pythons.

In the page's engine and in a bare Python `runner` is a module of its own beside this one.
"""

import contextlib
import io
import json
import re
import time

import runner

UNKNOWN = re.compile("NameError: name '(.*)' is not defined")


def replay(imports: dict[str, str], cells: list[dict]) -> list[dict]:
    """What each cell (``id``, ``before``, ``code``) prints, gives or raises, and its ``seconds``.

    ``imports`` are those of the page, by the name that each binds.
    """
    usable = [line for line in imports.values() if works(line)]
    return [replayed(imports, usable, **cell) for cell in cells]


def replayed(imports: dict, usable: list, id: str, before: list[str], code: str) -> dict:
    """One cell, in a namespace of its own; if what it needs is not here, that is what it tells."""
    session, printed = runner.Session(), io.StringIO()
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        results = [session.run(one) for one in [*usable, *before]]
    with contextlib.redirect_stdout(printed):
        results.append(session.run(code))
    seconds = round(time.process_time() - start, 2)
    results += [session.run(imports[name]) for name in unknown(results) if name in imports]
    told = next((one for one in results if one["verdict"] == "elsewhere"), results[-1])
    return {"id": id, "out": printed.getvalue(), "seconds": seconds} | told


def unknown(results: list[dict]) -> list[str]:
    """The names that were not there."""
    heads = [UNKNOWN.fullmatch(one.get("head", "")) for one in results]
    return [found[1] for found in heads if found]


def works(line: str) -> bool:
    """Whether an import finds its module here."""
    return runner.Session().run(line)["verdict"] == "none"


def main(task: str) -> None:
    """Replay a page's task, as JSON; print the imports that work and what the cells told."""
    given = json.loads(task)
    told = replay(given["imports"], given["cells"])
    usable = {name: line for name, line in given["imports"].items() if works(line)}
    print(json.dumps({"imports": usable, "cells": told}))
