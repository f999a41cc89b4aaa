"""The faces that a page opens with are asked for at once, not when the styles are read."""

from sphinx.application import Sphinx

FIRST = ("serif", "sans")
IN_A_BIBLIOGRAPHY = ("serif-italic", "serif-names")  # come late, they would move its lines


def preload(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    listed = 'class="citation"' in context.get("body", "")
    links = [
        f'<link rel="preload" as="font" type="font/woff2" crossorigin="anonymous" href="{address}">'
        for face in (*FIRST, *IN_A_BIBLIOGRAPHY * listed)
        if (address := context["pathto"](f"_static/fonts/{face}.woff2", 1))
    ]
    context["metatags"] = "\n".join([context.get("metatags", ""), *links])


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", preload)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
