"""What all widgets share: one ES module each, computed in the page, with a static figure behind.

A widget's script is the scripts it names, one after the other, so that it needs no import and
no network. On the built site `anywidget-static.js` runs the very script that a notebook runs.
The static figure is a second output of the same cell: it shows where no script runs and in print,
and the widget's style sheet hides it wherever the widget is there.
"""

from functools import cache
from importlib import resources

import anywidget
import traitlets

from dtlib.show import Output


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


class Widget(anywidget.AnyWidget):
    """A figure that the reader moves. `spec` is all that its script needs to know."""

    _css = script("widget.css")
    spec = traitlets.Dict().tag(sync=True)

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
