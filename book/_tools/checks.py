"""Every check of the book, in order, each with its time.

The exit status is 0 when every check has passed, 1 when one has failed, and 3 when none has failed
but a step could not run on this machine.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from book._tools.browser import ADVICE, MISSING, find_chromium
from book._tools.layout import ROOT

SITE = "mark.site"  # a test of the built site carries it, or its file does


def site_tests() -> list[str]:
    """The files that have tests of the built site, so that no other is imported for them.

    >>> "tests/book/test_pages.py" in site_tests(), "tests/test_mesh.py" in site_tests()
    (True, False)
    """
    files = sorted(ROOT.glob("tests/**/test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if SITE in file.read_text("utf-8")]


PYTEST = ["pytest", "-p", "no:cacheprovider", "-p", "no:nbval"]  # nbval: `book verify` alone
BY_FILE = ["-n", "2", "--dist", "loadfile"]  # what a file sets up is set up once
SLOWEST = ["--durations=25", "--durations-min=1"]
STEPS: dict[str, list[Sequence[str]]] = {
    "style": [["ruff", "check", "."], ["ruff", "format", "--check", "."]],
    "library": [[*PYTEST, "-m", "not site", *BY_FILE, *SLOWEST]],
    "sources": [["book", "check"]],
    "notebooks": [["book", "verify"]],
    "site": [["book", "site"]],
    "pages": [[*PYTEST, "-m", "site", "-n", "2", *site_tests()]],
}

NEED_CHROMIUM = {"pages"}


def run(step: str) -> bool:
    """Run the commands of a step; whether all of them succeeded."""
    commands = [[sys.executable, "-m", *command] for command in STEPS[step]]
    # Modules are compiled once, not again in each worker, rank and kernel.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    codes = [subprocess.call(command, cwd=ROOT, env=environment) for command in commands]
    return not any(codes)


def run_all(steps: Sequence[str]) -> int:
    """Run these steps, or all, and say how long each took and what failed; the exit status."""
    unknown = set(steps) - set(STEPS)
    if unknown:
        raise SystemExit(f"no step {min(unknown)!r}; the steps are {', '.join(STEPS)}")
    times, failed, not_run = {}, [], []
    for step in steps or STEPS:
        if step in NEED_CHROMIUM and find_chromium() is None:
            not_run.append(step)
            continue
        print(f"\n== {step}", flush=True)
        start = time.perf_counter()
        if not run(step):
            failed.append(step)
        times[step] = time.perf_counter() - start
    print("\n== " + ", ".join(f"{step} {seconds:.0f} s" for step, seconds in times.items()))
    for step in not_run:
        print(f"{step}: not run, {MISSING}: {ADVICE}")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
        return 1
    if not_run:
        print("every other check passed; the tests of widgets in a browser were skipped, too")
        return 3
    print("all checks passed")
    return 0
