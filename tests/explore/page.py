"""A page like one of the built site, with places of widgets on it, for tests in a browser."""

import base64
import html
import json
import re
from contextlib import contextmanager
from pathlib import Path

# Milliseconds after which a browser hangs. A busy machine is slow, and that is no fault.
PATIENCE = 180_000

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"

_SHEETS = ("colours.css", "prose.css", "tables.css", "cells.css", "widgets.css")
_PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>Widgets</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  html {{ font-family: system-ui, sans-serif; color: #323232; background: #fff }}
  html[data-theme="dark"] {{ color: #ced6dd; background: #14181e }}
  body {{ margin: 0 auto; padding: 0 16px; max-width: 760px }}
</style>
<style>{css}</style></head>
<body><main><h1>Widgets</h1>
{cells}
</main>
<script>
  // Every place is near: no test has to scroll first.
  window.IntersectionObserver = class {{
    constructor(seen) {{
      this.observe = (target) => seen([{{ target, isIntersecting: true }}]);
    }}
    unobserve() {{}}
  }};
</script>
<script>{host}</script><script>{numbers}</script><script>{wide}</script></body></html>"""


def place(widget) -> str:
    """The place of a widget; what it needs lies in the page, for there is nothing beside it."""
    needs = {
        "modules": _as_address("text/javascript", widget._esm),
        "sheets": _as_address("text/css", widget._css),
        "state": _as_address("application/json", json.dumps({"spec": widget.spec})),
    }
    figure = widget.static().html
    room = re.search(r'(?<=dt-static") style="([^"]*)"', figure)[1]  # as book/_ext/widgets.py
    written = " ".join(f'data-{name}="{html.escape(value)}"' for name, value in needs.items())
    return f'<div class="dt-place" style="{room}" {written}>{figure}</div>'


def _as_address(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def page(*outputs, theme: str = "light") -> str:
    """HTML with these outputs in cells: widgets with their static figures, others as HTML."""
    cells = []
    for output in outputs:
        inside = output if isinstance(output, str) else ""
        if hasattr(output, "spec"):
            inside = place(output)
        elif not inside:
            bundle = getattr(output, "_repr_mimebundle_", dict)()
            inside = bundle.get("text/html") or output._repr_html_()
        cells.append(f'<div class="cell_output">{inside}</div>')
    return _PAGE.format(
        theme=theme,
        css="".join(map(_read, _SHEETS)),
        cells="\n".join(cells),
        host=host(),
        numbers=_read("numbers.js"),
        wide=_read("wide.js"),
    )


@contextmanager
def opened(browser, folder: Path, *outputs, theme: str = "light", **options):
    """A tab with such a page, in a context with these options; nothing may go wrong there."""
    file = folder / "page.html"
    file.write_text(page(*outputs, theme=theme), encoding="utf-8")
    context = browser.new_context(**options)
    tab, faults = context.new_page(), []
    tab.faults = faults
    tab.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.goto(file.as_uri())
    tab.wait_for_selector("html[data-widgets=ready]")
    yield tab
    context.close()
    assert faults == []


def host() -> str:
    """The script that draws the widgets of a page."""
    return _read("widgets.js")


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
