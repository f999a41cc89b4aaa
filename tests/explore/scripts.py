"""The widgets' scripts, run without a browser."""

import json
from pathlib import Path

import quickjs

FOLDER = Path(__file__).resolve().parents[2] / "dtlib" / "explore"


class Scripts:
    """Pure scripts, as "folder/name.js", whose functions are called with plain values."""

    def __init__(self, *names: str):
        self.context = quickjs.Context()
        for name in names:
            self.context.eval((FOLDER / name).read_text(encoding="utf-8"))

    def __call__(self, expression: str, **values):
        """The value of a JavaScript expression over the given names."""
        for name, value in values.items():
            self.context.eval(f"globalThis.{name} = {json.dumps(value)}")
        return json.loads(self.context.eval(f"JSON.stringify({expression})"))
