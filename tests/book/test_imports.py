"""The site is built without torch, and importing the library is quick: heavy packages come late."""

import subprocess
import sys

import pytest

from book._tools.layout import ROOT

HEAVY = ("torch", "matplotlib", "sympy")
PACKAGES = sorted(f"dtlib.{file.parent.name}" for file in ROOT.glob("dtlib/*/__init__.py"))
MODULES = [f"dtlib.{file.stem}" for file in ROOT.glob("dtlib/*.py") if file.stem[0] != "_"]


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize("name", ["dtlib", *PACKAGES, *sorted(MODULES)])
def test_importing_brings_nothing_heavy(name):
    code = f"import sys, {name}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    result = run(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_the_books_tools_work_without_torch():
    blocked = "import sys; sys.modules['torch'] = None\n"
    tools = "from book._tools import equations, generated, prose_numbers, site\n"
    result = run(f"{blocked}{tools}assert len(equations.by_label()) > 10")
    assert result.returncode == 0, result.stderr
