"""What all widgets share: one ES module each, computed in the page, with a static figure behind.

A widget's script is the scripts it names, one after the other, so that it needs no import and
no network. On the built site `anywidget-static.js` runs the very script that a notebook runs.
The static figure is a second output of the same cell: it shows where no script runs and in print,
and the widget's style sheet hides it wherever the widget is there.

A page shows several kinds, each with its own copy of the sheets that they share. So that no copy
reaches a widget of another kind, whichever came last, the sheet of a kind is nested below the class
that `within` in page.js gives to the place of its widgets. (A cascade layer for the shared sheets
would not do: whatever a page says outside of layers beats what is in one.)
"""

import re
from functools import cache
from importlib import resources

import anywidget
import traitlets

from dtlib.shown import Output


@cache
def script(*names: str) -> str:
    """The scripts of these names as one text, without indentation and comment lines."""
    folder = resources.files(__package__) / "js"
    lines = [
        line.strip()
        for name in names
        for line in (folder / name).read_text(encoding="utf-8").splitlines()
    ]
    return "\n".join(line for line in lines if line and not line.startswith("//"))


_RENDER = "export default { render };"
# What may not stand inside of a rule.
_ON_TOP = re.compile(r"@(?:keyframes|font-face)[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}\n?")


def style_of(kind: str, sheets: str) -> str:
    """Style sheets that hold in widgets of one kind, and in the figures behind widgets."""
    on_top = "".join([script("static.css"), "\n", *_ON_TOP.findall(sheets)])
    return f"{on_top.rstrip()}\n:is(.{kind}, .dt-static) {{\n{_ON_TOP.sub('', sheets)}\n}}"


class Widget(anywidget.AnyWidget):
    """A figure that the reader moves. `spec` is all that its script needs to know."""

    spec = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **options) -> None:
        kind = f"dt-kind-{cls.__name__.lower()}"
        if isinstance(cls.__dict__.get("_css"), str):
            cls._css = style_of(kind, cls._css)
        if isinstance(cls.__dict__.get("_esm"), str):
            cls._esm = cls._esm.replace(
                _RENDER, f'export default {{ render: within("{kind}", render) }};'
            )
        super().__init_subclass__(**options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec['title']!r})"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        data, metadata = self._repr_mimebundle_()
        display(data, metadata=metadata, raw=True)
        display(self.static())

    def static(self) -> Output:
        """The figure of the default state, for print and for pages without scripts."""
        return Output(
            f"{self!r}, as a figure",
            html=f'<figure class="dt-figure dt-static">\n{self._figure()}\n</figure>',
        )

    def _figure(self) -> str:
        """HTML inside the static figure."""
        raise NotImplementedError
