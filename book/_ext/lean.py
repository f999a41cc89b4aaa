"""A page is sent without what nobody would see: bytes cost a reader on a slow line seconds.

Spans of code without a colour, values of colours beside names that the page's sheet defines, names
that no sheet and no script asks for, and the boxes of a schedule one by one, which are one path for
each look.
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._tools.layout import ROOT

SHEETS = ROOT / "book/_static"
COLOURED = re.compile(r"^\.highlight :is\(([^)]+)\)", re.MULTILINE)
DEFINED = re.compile(r"^\s*(--dt-[\w-]+):", re.MULTILINE)
CODE = re.compile(r'(?<=<div class="highlight"><pre>).*?(?=</pre>)', re.DOTALL)
SPAN = re.compile(r'<span class="(\w+)">([^<]*)</span>')
UNASKED = re.compile(r'(?: docutils container| nohighlight)(?=")|(?<=<pre>)<span></span>')
VALUE = re.compile(r"var\((--dt-[\w-]+), [^()]+\)")
BOX = (
    r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" rx="[\d.]+"'
    r' fill-opacity="([\d.]+)"/>'
)
ROW = re.compile(rf"(?:{re.sub(r'[(](?=.d)', '(?:', BOX)}){{4,}}")


def coloured() -> set[str]:
    """The classes of code to which the sheet gives a colour."""
    listed = COLOURED.findall((SHEETS / "cells.css").read_text(encoding="utf-8"))
    return {name.strip(" .") for names in listed for name in names.split(",")}


def defined() -> set[str]:
    """The names of colours that every page knows."""
    return set(DEFINED.findall((SHEETS / "colours.css").read_text(encoding="utf-8")))


def lean(body: str, spans: set[str], colours: set[str]) -> str:
    """The body of a page, shorter and alike; `spans` and `colours` are what the sheets know.

    >>> code = '<div class="highlight"><pre><span class="n">x</span> <span class="o">=</span></pre>'
    >>> lean(code, {"o"}, set())
    '<div class="highlight"><pre>x <span class="o">=</span></pre>'
    >>> lean('fill="var(--dt-ink, #111)" stroke="var(--dt-own, red)"', set(), {"--dt-ink"})
    'fill="var(--dt-ink)" stroke="var(--dt-own, red)"'
    """
    body = CODE.sub(lambda code: SPAN.sub(lambda found: _span(found, spans), code[0]), body)
    body = UNASKED.sub("", body)
    body = VALUE.sub(lambda found: f"var({found[1]})" if found[1] in colours else found[0], body)
    return ROW.sub(lambda row: boxes(row[0]), body)


def _span(found: re.Match, spans: set[str]) -> str:
    return found[0] if found[1] in spans else found[2]


def boxes(row: str) -> str:
    """Boxes of one group as a path for each opacity; their corners are as round as their line.

    >>> boxes('<rect x="1" y="2" width="3" height="4" rx="2" fill-opacity="0.5"/>' * 2)
    '<path stroke-linejoin="round" fill-opacity="0.5" d="M1 2h3v4h-3zM1 2h3v4h-3z"/>'
    """
    looks: dict[str, str] = {}
    for x, y, width, height, opacity in re.findall(BOX, row):
        looks[opacity] = looks.get(opacity, "") + f"M{x} {y}h{width}v{height}h-{width}z"
    return "".join(
        f'<path stroke-linejoin="round" fill-opacity="{opacity}" d="{path}"/>'
        for opacity, path in looks.items()
    )


def shorten(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    if "body" in context:
        context["body"] = lean(context["body"], app.config.lean_spans, app.config.lean_colours)


def look_up(app: Sphinx, config) -> None:
    config.lean_spans, config.lean_colours = coloured(), defined()


def setup(app: Sphinx) -> dict:
    app.add_config_value("lean_spans", set(), "", set)
    app.add_config_value("lean_colours", set(), "", set)
    app.connect("config-inited", look_up)
    app.connect("html-page-context", shorten, priority=990)  # when the page is whole
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
