"""The base of all widgets: what Python knows of one, its script and sheet, its static figure."""

import html
from typing import ClassVar

import anywidget
import traitlets

from dtlib.drawing.svg import bare
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import among
from dtlib.explore.kit.source import (
    SEAM,
    as_sentence,
    kit_script,
    kit_sheet,
    nested,
    own_files,
)
from dtlib.shown import Output


class Widget(anywidget.AnyWidget):
    """A figure that the reader moves. `spec` is all that its script needs to know.

    A kind's script and sheet lie beside its module, under the module's name: `<widget>.js`, pure
    functions that others want too in `model.js`, and `<widget>.css` where marks do not say it all.
    Arguments: `title`; `controls`, of `dtlib.explore.kit.controls`; `task`, a `Task` over the
    controls' names and those of `names`; all others become parts of `spec`.
    Raises ValueError for a task that is met at the start, or not met by its solution, or whose
    solution no control can take.
    """

    spec = traitlets.Dict().tag(sync=True)
    printed: ClassVar[dict] = {}  # what differs from the first state in the static figure
    waiting: ClassVar[str] = "Run this cell to move this figure"  # where no kernel is at work yet
    borrows: ClassVar[tuple[str, ...]] = ()  # widgets whose `model.js` this one's script builds on

    def __init_subclass__(cls, **options) -> None:
        if "_esm" not in cls.__dict__:  # anywidget derives once more, with traits in their place
            sheet = bare(own_files(cls.__module__, ".css"))
            inside = nested(f".dt-kit.{cls._kind()}", sheet) if sheet else ""
            own = own_files(cls.__module__, ".js", cls.borrows)
            cls._esm = kit_script() + SEAM + bare(own)
            cls._css = kit_sheet() + SEAM + inside
        super().__init_subclass__(**options)

    def __init__(self, *, title: str, controls: list[dict], task: Task | None = None, **data):
        start = {one["name"]: one["values"][one["index"]] for one in controls}
        values = {one["name"]: one["values"] for one in controls}
        for name, value in (task.solution if task else {}).items():
            among(f"solution, {name}", value, values.get(name, [value]))

        def names(**values) -> dict:
            state = start | values
            return state | self.names(**state)

        spec = {
            "kind": self._kind(),
            "title": title,
            "controls": controls,
            "task": task and task.checked(names),
            **data,
        }
        super().__init__(spec=spec)

    @classmethod
    def _kind(cls) -> str:
        return f"dt-kind-{cls.__name__.lower()}"

    def names(self, **state) -> dict:
        """What a task may ask about besides the controls, for these values of them."""
        return {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec['title']!r})"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        data, metadata = self._repr_mimebundle_()
        data["text/plain"] = f"{self.waiting}: {as_sentence(self.spec['title'])}"
        display(data, metadata=metadata, raw=True)
        display(self.static())

    def static(self) -> Output:
        """The figure of the first state, or the `printed`, for print and for pages without scripts.

        It is drawn by the widget's own script, and keeps the room that the widget will take. Where
        there is no QuickJS, as in a reader's own notebook, there is no figure.
        """
        try:
            from dtlib.explore.kit.still import still
        except ImportError:
            return Output(f"{self!r}, as a figure", html="")
        seen = still(self, **self.printed)
        said = seen["said"]
        caption = f"{as_sentence(self.spec['title'])} {said[0].upper()}{as_sentence(said[1:])}"
        room = f"--dt-wide: {seen['wide']}px; --dt-narrow: {seen['narrow']}px"
        words = [] if seen["whole"] else [f"<figcaption>{html.escape(caption)}</figcaption>"]
        inside = "\n".join([*seen["figures"], *seen["phone"], *words])
        figure = f'<figure class="dt-figure dt-static" style="{room}">\n{inside}\n</figure>'
        return Output(f"{self!r}, as a figure", html=figure)
