"""Widgets without a browser."""

from dtlib.drawing.svg import called


def still(widget, **change) -> dict:
    """A widget in its first state, or with this change of it: `figures`, each an SVG text,
    the same for a `phone`, what is `said`, the `names` of its task, and the heights that it takes,
    `wide` and `narrow`."""
    script = widget._esm.replace("export default widget(", "const drawing = widget(")
    return called(script, "drawing.still(spec, change)", spec=widget.spec, change=change)
