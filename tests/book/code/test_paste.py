"""What is pasted becomes plain Python: the same lines, at the indent where they go."""

import json
from pathlib import Path

import pytest
import quickjs

SCRIPT = Path(__file__).resolve().parents[3] / "book/_static/code/paste.js"
CASES = [
    ("    def f():\r\n        return 1", "", "def f():\n    return 1"),
    ("\tif x:\n\t\ty", "", "if x:\n    y"),
    ("x = 1\n    y = 2\n    z = 3", "", "x = 1\ny = 2\nz = 3"),
    ("for i in a:\n    b(i)", "    ", "for i in a:\n        b(i)"),
    ("print(“it’s”)", "", 'print("it\'s")'),
    (">>> x = 1\n>>> for i in a:\n...     b\n1\n", "", "x = 1\nfor i in a:\n    b"),
    ("b + c", "a = ", "b + c"),
    ("  lone", "", "lone"),
    ("\n\n", "", "\n\n"),
    ("if x:\n        y\n        z", "", "if x:\n    y\n    z"),
    ("f(a,\n  b)", "", "f(a,\n  b)"),
]


@pytest.mark.parametrize(("text", "before", "becomes"), CASES)
def test_pasted(text, before, becomes):
    context = quickjs.Context()
    context.eval(SCRIPT.read_text(encoding="utf-8").replace("export ", ""))
    call = f"pasted({json.dumps(text)}, {json.dumps(before)})"
    assert context.eval(call) == becomes


def test_a_line_that_is_no_prompt_goes_only_where_there_are_prompts():
    kept = "x = 1\n1\n"
    context = quickjs.Context()
    context.eval(SCRIPT.read_text(encoding="utf-8").replace("export ", ""))
    assert context.eval(f"pasted({json.dumps(kept)})") == kept
