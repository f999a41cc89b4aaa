"""What a page shows of the library: `show(x)`, the chapter's header, and the three columns.

Everything here is a cell's output, so that the site, JupyterLab and Colab show the same, and
a page's check fails when the library moves away from what the page says.
"""

import ast
import html
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real

MISSING = "–"
_COLUMN = 80  # as many characters of code as a page is wide


class Output:
    """What a cell displays: plain text in a terminal, Markdown or HTML in a notebook."""

    def __init__(self, text: str, *, markdown: str = "", html: str = ""):
        self.text, self.markdown, self.html = text, markdown, html

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_) -> dict[str, str]:
        bundle = {
            "text/plain": self.text,
            "text/markdown": self.markdown,
            "text/html": self.html,
        }
        return {kind: text for kind, text in bundle.items() if text}


def show(*objects, docstring: bool = False, caption: str = "", alt: str = ""):
    """Show an object of the library as its page would print it; several functions in one listing.

    A function or class becomes its highlighted source, with the first paragraph of each docstring
    (`docstring=True` keeps all of it). A Formula becomes its card and the line of code that is the
    equation, a Schedule its drawing, a Timeline its chart; `caption` and `alt` describe a drawing.
    Anything else that knows how to display itself is returned as it is.
    Raises TypeError for an object that has no source and no display of its own.

    >>> from dtlib.formulas.units import format_quantity
    >>> print(show(format_quantity).text[:45])
    # dtlib.formulas.units
    def format_quantity(va
    """
    if not objects:
        raise TypeError("show: name at least one object")
    if len(objects) > 1:
        return _listing(objects, docstring)
    (x,) = objects
    if hasattr(x, "card") and not inspect.isclass(x):
        return Output(repr(x), markdown=f"{x.card()}\n\n{_fenced(_equation_as_code(x))}")
    if inspect.isroutine(x) or inspect.isclass(x):
        return _listing(objects, docstring)
    if hasattr(x, "savefig"):
        return _figure(x, caption, alt)
    if hasattr(x, "draw"):
        return _drawing(x.draw, caption, alt or repr(x))
    if hasattr(x, "stages_of"):
        from dtlib.parallelism.pipeline.drawing import draw_pipeline

        return _drawing(partial(draw_pipeline, x), caption, alt or repr(x))
    if hasattr(x, "rounds"):
        from dtlib.collectives.drawing import draw

        return _figure(draw(x), caption, alt or repr(x))
    if any(hasattr(x, f"_repr_{kind}_") for kind in ("mimebundle", "html", "markdown", "svg")):
        return x
    raise TypeError(
        f"show: {type(x).__name__} has no source to list and no display of its own; "
        "pass a function, a class, a Formula, a Schedule, a Timeline or a figure"
    )


def _figure(fig, caption: str, alt: str):
    from dtlib.style import show_figure

    return show_figure(fig, caption, alt=alt)


def _drawing(draw: Callable[..., str], caption: str, alt: str):
    """A figure that draws itself as SVG; what it says where there is no QuickJS to draw it."""
    from dtlib.drawing.svg import PAGE, PHONE
    from dtlib.style import FigureOutput

    try:
        drawn = [draw(alt=alt, width=width) for width in (PAGE, PHONE)]
        return FigureOutput("\n".join(drawn), caption)
    except ImportError:
        return Output(f"{alt} {caption}".strip())


def _listing(objects, docstring: bool) -> Output:
    """The objects' source under the name of their module, one heading for each module."""
    blocks, module = [], None
    for x in objects:
        heading = f"# {x.__module__}\n" if x.__module__ != module else ""
        module = x.__module__
        blocks.append(heading + _source(x, docstring))
    text = "\n\n\n".join(blocks)
    return Output(text, markdown=_fenced(text))


def _fenced(source: str) -> str:
    return f"```python\n{source}\n```"


def _equation_as_code(formula) -> str:
    """A formula's function without decorator and docstring: the code that is the equation."""
    source = _undecorated(textwrap.dedent(inspect.getsource(inspect.unwrap(formula))))
    body = ast.parse(source).body[0].body
    lines = source.splitlines()
    return "\n".join(lines[: body[0].lineno - 1] + lines[body[-1].lineno - 1 :])


def _source(x, docstring: bool) -> str:
    function = inspect.unwrap(x)
    try:
        source = textwrap.dedent(inspect.getsource(function)).rstrip()
    except (OSError, TypeError) as error:
        raise TypeError(f"show: {x!r} has no Python source to list") from error
    if hasattr(x, "card"):
        source = _undecorated(source)
    return source if docstring else _trim_docstrings(source)


def _undecorated(source: str) -> str:
    """A formula's function without the decorator that made it one; its card says the same."""
    first = ast.parse(source).body[0].lineno
    return "\n".join(source.splitlines()[first - 1 :])


def _trim_docstrings(source: str) -> str:
    """The source with every docstring cut to its first paragraph, and that to a page's width."""
    lines = source.splitlines()
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    for node in sorted(nodes, key=lambda node: node.lineno, reverse=True):
        if not ast.get_docstring(node):
            continue
        start, stop = node.body[0].lineno - 1, node.body[0].end_lineno
        paragraph = "\n".join(lines[start:stop]).split("\n\n")[0].rstrip()
        if not paragraph.endswith(('"""', "'''")):
            paragraph += '"""'
        lines[start:stop] = _folded(paragraph).splitlines()
    return "\n".join(lines)


def _folded(paragraph: str) -> str:
    """A paragraph whose lines fit on a page, indented as its first."""
    if max(map(len, paragraph.splitlines())) <= _COLUMN:
        return paragraph
    indent = " " * (len(paragraph) - len(paragraph.lstrip()))
    return textwrap.fill(
        " ".join(paragraph.split()),
        _COLUMN,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def chapter_header(number: str) -> Output:
    """A chapter's first output: what you need, minutes, hardware, and what it was executed with.

    Raises KeyError for a number that the plan does not have.
    """
    from dtlib.contents import chapters
    from dtlib.recordings import versions

    plan = {chapter.number: chapter for chapter in chapters()}
    if str(number) not in plan:
        raise KeyError(f"no chapter {number!r} in the plan; it has {', '.join(plan)}")
    chapter = plan[str(number)]
    needs = "; ".join(
        f"Chapter {need}, {plan[need].title}" if need in plan else need for need in chapter.needs
    )
    executed = ", ".join(f"{name} {version}" for name, version in versions().items())
    facts = [
        ("You need", needs or "no earlier chapter"),
        ("Time", f"{chapter.minutes} minutes"),
        ("Hardware", chapter.hardware),
        ("Executed with", executed.replace("python", "Python").replace("numpy", "NumPy")),
    ]
    items = "".join(
        f'<div class="dt-fact dt-{title.split()[0].lower()}">'
        f"<dt>{title}</dt> <dd>{html.escape(text)}</dd></div>\n"
        for title, text in facts
    )
    text = "\n".join(f"{title}: {text}" for title, text in facts)
    markdown = "  \n".join(f"**{title}:** {text}" for title, text in facts)
    return Output(text, markdown=markdown, html=f'<dl class="dt-header">{items}</dl>')


def parts_map(ready: Sequence | None = None) -> Output:
    """The eight parts as a map: what each derives, its chapters as links, and how long they take.

    `ready` are the chapters that can be read; left out, those of this copy of the repository.

    >>> print(str(parts_map()).splitlines()[0])
    1 Foundations: What a machine can do, what a run needs, and how to compare the two ...
    """
    from dtlib.contents import chapters, parts, written

    ready = written() if ready is None else ready
    length = (
        f"{len(ready)} of {len(chapters())} chapters are written: about {_hours(ready)} hours, "
        "with their exercises. What you have read to its end is filled."
    )
    text = "\n".join(f"{part.number} {part.title}: {part.promise}" for part in parts())
    items = "\n".join(_on_the_map(part, ready) for part in parts())
    return Output(text, html=f'<div class="parts-map"><ol>\n{items}\n</ol><p>{length}</p></div>')


def _hours(chapters: Sequence) -> int:
    return round(sum(chapter.minutes for chapter in chapters) / 60)


def _on_the_map(part, ready: Sequence) -> str:
    """A part as an item of the map. Its links are to files, which the site has as pages."""
    cells = []
    for it in part.chapters:
        name = html.escape(f"{it.number} {it.title}", quote=True)
        if it in ready:
            address = f'href="../{it.page}.ipynb" data-read="{it.number}"'
            cells.append(f'<a {address} title="{name}" aria-label="Chapter {name}">{it.number}</a>')
        else:
            cells.append(f'<span title="{name}, planned">{it.number}</span>')
    there = [it for it in part.chapters if it in ready]
    hours = _hours(there)
    takes = f"{hours} hour{'s' * (hours > 1)}" if there else "planned"
    title = f'<a href="../{part.page}.md" data-part="{part.number}">{html.escape(part.title)}</a>'
    return (
        f"<li><b>{title}</b> <small>{takes}</small>"
        f"<p>{html.escape(part.promise)}</p>{' '.join(cells)}</li>"
    )


_COLUMNS = ("predicted", "simulated", "measured")


def compare(rows, unit: str, *, caption: str = "", digits: int = 3) -> Output:
    """Prediction, simulation and measurement side by side, with the ratio measured : predicted.

    `rows` are (label, predicted, simulated, measured). A value is a number in base units of `unit`
    ("s", "B", ...), None where there is none, or, measured, a list of samples, of which the median
    is shown with its 10th and 90th percentile. The ratio compares the last two columns that are
    there, so without a measurement it is simulated : predicted.
    Raises ValueError for a row that has no four members.

    >>> compare([("ring", 0.035, 0.035, [0.05, 0.052, 0.06])], "s")
           predicted  simulated           measured  ratio
    ring       35 ms      35 ms  52 ms (50.4–58.4)  1.49×
    """
    grid = [["", *_COLUMNS, "ratio"], *(_compared(row, unit, digits) for row in rows)]
    return Output(
        _columns(grid),
        markdown=_markdown_table(grid, caption),
        html=_html_table(grid, caption),
    )


def _compared(row, unit: str, digits: int) -> list[str]:
    if len(row) != 4:
        raise ValueError(f"row {row!r}: expected (label, predicted, simulated, measured)")
    label, *cells = row
    values = [_middle(cell) for cell in cells]
    there = [value for value in values if value is not None]
    ratio = MISSING
    if len(there) > 1 and values[0] not in (None, 0):
        ratio = _format(there[-1] / values[0], "×", digits)
    return [str(label), *(_cell(cell, unit, digits) for cell in cells), ratio]


def _middle(cell) -> float | None:
    """The number of a cell: itself, or the median of its samples."""
    if cell is None or isinstance(cell, Real):
        return None if cell is None or math.isnan(cell) else cell
    from statistics import median

    return median(cell)


def _cell(cell, unit: str, digits: int) -> str:
    middle = _middle(cell)
    if middle is None:
        return MISSING
    text = _format(middle, unit, digits)
    if isinstance(cell, Real) or len(cell) < 2:
        return text
    from statistics import quantiles

    deciles = quantiles(cell, n=10, method="inclusive")
    low, high = _format(deciles[0], unit, digits), _format(deciles[-1], unit, digits)
    if low.rpartition(" ")[2] == high.rpartition(" ")[2] == text.rpartition(" ")[2]:
        low, high = low.rpartition(" ")[0] or low, high.rpartition(" ")[0] or high
    return f"{text} ({low}–{high})"


def _format(value: float, unit: str, digits: int) -> str:
    from dtlib.formulas.units import format_quantity

    return format_quantity(value, unit, digits)


def _columns(grid: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in grid) for i in range(len(grid[0]))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in grid
    ]
    return "\n".join(line.rstrip() for line in lines)


def _markdown_table(grid: list[list[str]], caption: str) -> str:
    rule = ["---", *["---:"] * (len(grid[0]) - 1)]
    lines = ["| " + " | ".join(row) + " |" for row in [grid[0], rule, *grid[1:]]]
    return "\n".join(lines) + (f"\n\n{caption}" if caption else "")


def _html_cell(text: str) -> str:
    """A number and its spread, which a narrow screen shows below it."""
    number, bracket, spread = html.escape(text).partition(" (")
    return f'{number} <span class="dt-spread">({spread}</span>' if bracket else number


def _html_table(grid: list[list[str]], caption: str) -> str:
    head = "<td></td>" + "".join(f'<th scope="col">{name}</th>' for name in grid[0][1:])
    body = "".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(f"<td>{_html_cell(cell)}</td>" for cell in row[1:])
        + "</tr>\n"
        for row in grid[1:]
    )
    title = f"<caption>{caption}</caption>" if caption else ""
    return (
        f'<div class="dt-compare"><table>{title}\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>"
    )
