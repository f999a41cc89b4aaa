"""Widgets on a page: a place for each, with its static figure inside; the rest lies in files.

A notebook keeps with each widget its whole script and sheet, the kit's part in every one. A page
needs none of that before its text. What the kit's widgets share is one module and one sheet, each
kind adds its own, named after what they hold, so that a browser keeps them from page to page; the
data of a widget lies beside its page. `widgets.js` fetches them when the reader comes near.

The sheets need no cascade layer: the kit's rules stand below `.dt-kit`, a kind's own below its own
name too, so that the own ones weigh more in whatever order they come; and in a layer, both would
lose to every plain rule of the page.
"""

import hashlib
import html
import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path, PurePosixPath

from docutils import nodes
from myst_nb.core.render import WIDGET_VIEW_MIMETYPE
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[2]))
from dtlib.drawing import svg
from dtlib.explore.kit import source

FOLDER = "_static/widgets"
BY_JUPYTER = {"layout", "tabbable", "tooltip"}
NEEDS_KERNEL = '<p class="needs-kernel">This control needs a running notebook.</p>'
DECLARED = re.compile(r"^(?:async )?(?:const|let|function|class) (\w+)", re.M)
ROOM = re.compile(r'(?<=<figure class="dt-figure dt-static") style="([^"]*)"')


@cache
def shared_names() -> list[str]:
    """What the kit's scripts declare at their outermost level."""
    scripts = [Path(svg.__file__).parent / name for name in svg.SCRIPTS]
    scripts += [Path(source.__file__).parent / name for name in source.SCRIPTS]
    return DECLARED.findall("\n".join(file.read_text("utf-8") for file in scripts))


class Files(dict):
    """Texts by their address in the site; a name carries a mark of what the file holds."""

    def put(self, folder: str, name: str, ending: str, text: str) -> str:
        """Add a text; the name that it has in its folder."""
        mark = hashlib.sha256(text.encode()).hexdigest()[:8]
        file = f"{name}-{mark}.{ending}"
        self[f"{folder}/{file}"] = text
        return file

    def script(self, kind: str, whole: str) -> list[str]:
        """A kind's module after that of the kit; alone where it does not begin with the kit."""
        shared, seam, own = whole.partition(source.SEAM)
        if not seam or shared != source.kit_script():
            return [self.put(FOLDER, kind, "js", whole)]
        names = shared_names()
        kit = self.put(FOLDER, "kit", "js", f"{shared}\nexport {{ {', '.join(names)} }};\n")
        used = ", ".join(name for name in names if re.search(rf"\b{name}\b", own))
        # Inside of a function, a kind may give a name of the kit a meaning of its own.
        inside = own.replace("export default ", "return ")
        module = (
            f'import {{ {used} }} from "./{kit}";\nexport default (() => {{\n{inside}\n}})();\n'
        )
        return [kit, self.put(FOLDER, kind, "js", module)]

    def sheets(self, kind: str, whole: str) -> list[str]:
        """The kit's sheet and the kind's own, where it has one."""
        shared, seam, own = whole.partition(source.SEAM)
        if not seam:
            return [self.put(FOLDER, kind, "css", whole)] if whole else []
        kit = self.put(FOLDER, "kit", "css", shared)
        return [kit, self.put(FOLDER, kind, "css", own)] if own.strip() else [kit]


def place(files: Files, page: str, state: dict, figure: str, which: int = 1) -> str:
    """The place of a widget with this state, its static figure inside.

    ``which`` of its kind it is on the page: so a link can name it, and a bet by its key.
    """
    data = {k: v for k, v in state.items() if not k.startswith("_") and k not in BY_JUPYTER}
    spec = state.get("spec", {})
    kind = spec.get("kind", "widget").removeprefix("dt-kind-")
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    folder = PurePosixPath(page).name
    attributes = {
        "id": f"bet-{spec['key']}" if kind == "bet" else f"{kind}-{which}",
        "class": f"dt-place dt-place-{kind}",
        "data-modules": " ".join(files.script(kind, state["_esm"])),
        "data-sheets": " ".join(files.sheets(kind, state.get("_css", ""))),
        "data-state": f"{folder}/{files.put(page, kind, 'json', text)}",
    }
    if room := ROOM.search(figure):
        attributes["style"] = room[1]
    written = " ".join(f'{name}="{html.escape(value)}"' for name, value in attributes.items())
    return f"<div {written}>\n{ROOM.sub('', figure)}\n</div>"


def give_places(app: Sphinx, doctree: nodes.document) -> None:
    """Put each widget's place where its cell displayed it, and leave its state out of the page."""
    page = app.env.docname
    scripts = NbMetadataCollector.get_js_files(app.env, page)
    _, stored = scripts.pop("ipywidgets_state", (None, {"body": "{}"}))
    for key in [key for key in scripts if key.startswith("ipywidgets_")]:
        del scripts[key]
    states, files, kinds = json.loads(stored["body"]).get("state", {}), Files(), Counter()
    for view in list(doctree.findall(_is_view)):
        model = json.loads(re.sub("<[^>]*>", "", view.astext()))["model_id"]
        widget = states.get(model, {})
        text = NEEDS_KERNEL
        if widget.get("model_module") == "anywidget":
            kind = widget["state"].get("spec", {}).get("kind")
            kinds[kind] += 1
            text = place(files, page, widget["state"], _figure_after(view), kinds[kind])
        view.replace_self(nodes.raw(view.rawsource, text, format="html"))
    if files:
        _files_of(app)[page] = files


def _is_view(node: nodes.Node) -> bool:
    return isinstance(node, nodes.raw) and f'type="{WIDGET_VIEW_MIMETYPE}"' in node.astext()


def _figure_after(view: nodes.raw) -> str:
    """The static figure, which is the cell's next output; it leaves its own place."""
    output = view.parent.parent
    after = output.parent[output.parent.index(output) + 1 :]
    for figure in after[0].findall(nodes.raw) if after else ():
        if "dt-static" in figure.astext():
            output.parent.remove(after[0])
            return figure.astext()
    return ""


def write_files(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Write a page's files with the page, which asks for the script that wants them."""
    files = _files_of(app).get(pagename)
    if not files:
        return
    app.add_js_file("widgets.js", defer="defer")
    for address, text in files.items():
        file = Path(app.outdir, address)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def forget(app: Sphinx, env, page: str) -> None:
    _files_of(app).pop(page, None)


def _files_of(app: Sphinx) -> dict[str, Files]:
    """The files of every page, kept from build to build with what else was read of it."""
    if not hasattr(app.env, "widget_files"):
        app.env.widget_files = {}
    return app.env.widget_files


def setup(app: Sphinx) -> dict:
    app.connect("doctree-read", give_places)
    app.connect("html-page-context", write_files)
    app.connect("env-purge-doc", forget)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
