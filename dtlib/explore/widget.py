"""The base of the widgets that do not stand on the kit yet: each names its scripts and sheets.

A page shows several kinds, each with its own copy of the sheets that they share. So that no copy
reaches a widget of another kind, whichever came last, the sheet of a kind is nested below the class
that `within` in frame.js gives to the place of its widgets.
"""

from functools import cache
from importlib import resources

import anywidget
import traitlets

from dtlib.drawing.svg import bare
from dtlib.explore.kit.source import nested
from dtlib.shown import Output

_RENDER = "export default { render };"
_FOLDERS = ("explore/js", "explore/kit", "drawing")
_PAGE = ("scales.js", "dom.js", "frame.js", "equations.js", "page.js")


@cache
def script(*names: str) -> str:
    """The scripts of these names as one text, without indentation and comment lines."""
    folders = [resources.files("dtlib") / folder for folder in _FOLDERS]
    whole = [part for name in names for part in (_PAGE if name == "page.js" else (name,))]
    return bare(
        [folder / name for name in whole for folder in folders if (folder / name).is_file()]
    )


class Widget(anywidget.AnyWidget):
    """A figure that the reader moves. `spec` is all that its script needs to know."""

    spec = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **options) -> None:
        kind = f"dt-kind-{cls.__name__.lower()}"
        if isinstance(cls.__dict__.get("_css"), str):
            cls._css = f"{script('static.css')}\n{nested(f':is(.{kind}, .dt-static)', cls._css)}"
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
