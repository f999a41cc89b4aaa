"""A page like one of the built site, with stored widgets on it, for tests in a browser."""

import json
from contextlib import contextmanager
from pathlib import Path

# Milliseconds after which a browser hangs. A busy machine is slow, and that is no fault.
PATIENCE = 600_000

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"

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
<script type="application/vnd.jupyter.widget-state+json">{state}</script>
</main><script>{host}</script><script>{numbers}</script><script>{wide}</script></body></html>"""


def stored(widget) -> dict:
    """A widget's state as a notebook stores it."""
    state = {name: getattr(widget, name) for name in ("_esm", "_css", "spec")}
    return {"model_module": "anywidget", "state": state}


def page(*outputs, theme: str = "light") -> str:
    """HTML with these outputs in cells: widgets with their static figures, others as HTML."""
    cells, states = [], {}
    for number, output in enumerate(outputs):
        inside = output if isinstance(output, str) else ""
        if hasattr(output, "spec"):
            name = f"{number:032x}"
            states[name] = stored(output)
            view = json.dumps({"model_id": name})
            inside = f'<script type="application/vnd.jupyter.widget-view+json">{view}</script>'
            inside += output.static().html
        elif not inside:
            bundle = getattr(output, "_repr_mimebundle_", dict)()
            inside = bundle.get("text/html") or output._repr_html_()
        cells.append(f'<div class="cell_output">{inside}</div>')
    return _PAGE.format(
        theme=theme,
        css=_read("colours.css") + _read("custom.css"),
        cells="\n".join(cells),
        state=json.dumps({"state": states}, sort_keys=True).replace("</", "<\\/"),
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
    tab.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.goto(file.as_uri())
    tab.wait_for_selector("html[data-widgets=ready]")
    yield tab
    context.close()
    assert faults == []


def host() -> str:
    """The script that shows stored widgets."""
    return _read("anywidget-static.js")


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
