"""An answer for a writer within a minute: about what has changed since the last commit, or in it.

Lint of the whole tree; what the changed pages say; the tests that name what the changed modules
define; and the site, built on the one of the time before.
"""

import ast
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from book._tools.layout import ROOT, lab_sources, notebook_sources, pages
from book._tools.site import build_on

TESTS = ["pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "2", "-m", "not site"]


def run(chosen: list[Path] | None = None) -> int:
    """The whole answer, for these pages and labs, or for everything that has changed."""
    start = time.perf_counter()
    files = changed() if chosen is None else chosen
    code = [file for file in files if file.suffix == ".py"]
    written = [file for file in files if file in {*pages(), *lab_sources()}]
    commands = [["ruff", "check", "."], ["ruff", "format", "--check", "."]]
    if written:
        commands += [["book", "check", *map(str, written)]]
    if tests := sorted({*who_tests(code)}):
        commands += [[*TESTS, *map(str, tests)]]
    if notebooks := [file for file in written if file in notebook_sources()]:
        commands += [["book", "build", *map(str, notebooks)]]
    for command in commands:
        print(f"== {' '.join(command[:2])}", flush=True)
        if subprocess.call([sys.executable, "-m", *command], cwd=ROOT):
            return 1
    if written and build_on("_build/quick"):
        return 1
    print(f"{len(files)} files changed: all well in {time.perf_counter() - start:.0f} s")
    return 0


def changed(root: Path = ROOT) -> list[Path]:
    """The files that differ from the last commit; where none does, those of that commit."""
    for command in (["status", "--porcelain", "-uall"], ["diff", "--name-status", "HEAD~1"]):
        said = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True).stdout
        names = [line.split()[-1] for line in said.splitlines()]
        if found := [root / name for name in names if (root / name).is_file()]:
            return found
    return []


def who_tests(files: list[Path], root: Path = ROOT) -> Iterator[Path]:
    """The tests among these files, the modules with examples, and who in their room tests them."""
    for file in files:
        if file.is_relative_to(root / "tests"):
            if file.name.startswith("test_"):
                yield file
        elif file.is_relative_to(root / "dtlib"):
            text = file.read_text(encoding="utf-8")
            if ">>>" in text:
                yield file
            defined = [n.name for n in ast.parse(text).body if hasattr(n, "name")]
            named = re.compile(rf"\b(?:{'|'.join(map(re.escape, [file.stem, *defined]))})\b")
            for test in _room(file, root).rglob("test_*.py"):
                if named.search(test.read_text(encoding="utf-8")):
                    yield test


def _room(module: Path, root: Path) -> Path:
    """The folder of tests that stands for the module's, or for the next one above that has one."""
    folder = root / "tests" / module.parent.relative_to(root / "dtlib")
    while not folder.is_dir():
        folder = folder.parent
    return folder
