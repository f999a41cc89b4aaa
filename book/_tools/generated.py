"""Pages and tables that are written from the plan, from data and recordings, never by hand.

They are the README's table of chapters, the pages of the parts and of planned chapters, the quick
reference, the names by room, the exercises, the labs, the pages of symptoms and of folklore, the
page that says how every notebook was executed, and the chapters in _toc.yml. The picture is not
compared: the last digits of a drawing may differ between machines.
"""

import io
import json
import re
from pathlib import Path

from book._tools.folklore import folklore_page
from book._tools.layout import ROOT, notebook_sources, write_if_new
from book._tools.listings.exercise_index import exercise_page
from book._tools.listings.lab_list import labs_page
from book._tools.names_by_room import names_page
from book._tools.parts.pages import part_pages
from book._tools.quick_reference import quick_reference_page
from book._tools.symptoms import symptoms_page
from dtlib.contents import Chapter, parts

BEGIN, END = "begin: chapters, from dtlib/contents.toml", "end: chapters"
README_MARKS = f"<!-- {BEGIN} -->\n", f"<!-- {END} -->"
TOC_MARKS = f"  # {BEGIN}\n", f"  # {END}"


def planned_page(root: Path = ROOT) -> str:
    """One line for every chapter that is not written yet."""
    lines = [
        "# Planned chapters",
        "",
        "These chapters are planned and not written. A reference to one of them leads to its place "
        "on the page of its part; when the chapter comes, it leads to the chapter.",
    ]
    for part in parts():
        waiting = [chapter for chapter in part.chapters if not chapter.is_written(root)]
        if waiting:
            lines += ["", f"## [Part {part.number}: {part.title}](/{part.page}.md)", ""]
            lines += [part.promise]
        for chapter in waiting:
            lines += ["", f"**{chapter.number} · [{chapter.title}](#{chapter.label}).** "]
            lines[-1] += chapter.promise
    return "\n".join(lines) + "\n"


def readme_table(root: Path = ROOT) -> str:
    """The eight parts as a table: their written chapters, as links, and their promises."""
    lines = ["| part | what it answers | chapters |", "| --- | --- | --- |"]
    for part in parts():
        numbers = ", ".join(_readme_entry(chapter, root) for chapter in part.chapters)
        lines.append(f"| {part.number} {part.title} | {part.promise} | {numbers} |")
    return "\n".join(lines) + "\n"


def _readme_entry(chapter: Chapter, root: Path) -> str:
    if chapter.is_written(root):
        return f"[{chapter.number} {chapter.title}]({chapter.page}.md)"
    return chapter.number


def toc_chapters(root: Path = ROOT) -> str:
    """The parts of _toc.yml in YAML: each with its own page first, then its written chapters."""
    lines = []
    for part in parts():
        written = [chapter for chapter in part.chapters if chapter.is_written(root)]
        lines += [f"  - caption: {part.caption}", "    numbered: true", "    chapters:"]
        lines += [f"      - file: {one.page}" for one in (part, *written)]
    return "".join(f"{line}\n" for line in lines)


def status_page(root: Path = ROOT) -> str:
    """How long every stored notebook took to execute, when, where and with what."""
    lines = [
        "# Status",
        "",
        "How each notebook of this edition was executed. The record changes only when the stored "
        "notebook changes, so a rebuild that gives the same outputs leaves it alone; the time is "
        "of one run on the machine named, starting the kernel included.",
        "",
        "| notebook | seconds | date | Python | packages | machine |",
        "| --- | ---: | --- | --- | --- | --- |",
    ]
    for source in notebook_sources(root):
        record = root / "book/measurements/status" / f"{source.stem}.json"
        if record.exists():
            lines.append(_status_row(source.relative_to(root), json.loads(record.read_text())))
    return "\n".join(lines) + "\n"


def _status_row(source: Path, record: dict) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    cells = [
        f"{{doc}}`/{source.with_suffix('').as_posix()}`",
        f"{record['seconds']:.1f}",
        record["date"],
        record["python"],
        packages,
        record["machine"],
    ]
    return f"| {' | '.join(cells)} |"


def _between(text: str, marks: tuple[str, str], new: str, name: str) -> str:
    begin, end = marks
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"{name} needs one line {begin.strip()!r} and one {end.strip()!r}")
    return re.sub(
        rf"{re.escape(begin)}.*?{re.escape(end)}",
        lambda _: begin + new + end,
        text,
        flags=re.DOTALL,
    )


def generated(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file with the text that it must have."""
    readme, toc = root / "README.md", root / "_toc.yml"
    return {
        **part_pages(root),
        root / "book/planned.md": planned_page(root),
        root / "book/exercises.md": exercise_page(),
        root / "book/labs.md": labs_page(root),
        root / "book/quick-reference.md": quick_reference_page(root),
        root / "book/names.md": names_page(root),
        root / "book/status.md": status_page(root),
        root / "book/folklore.md": folklore_page(root),
        root / "book/symptoms.md": symptoms_page(root),
        readme: _between(readme.read_text(), README_MARKS, readme_table(root), readme.name),
        toc: _between(toc.read_text(), TOC_MARKS, toc_chapters(root), toc.name),
    }


def stale(root: Path = ROOT) -> dict[Path, str]:
    """The generated files that are not what they must be, with the text that they must have."""
    wanted = generated(root).items()
    return {file: text for file, text in wanted if not file.exists() or file.read_text() != text}


def problems(root: Path = ROOT) -> list[str]:
    """What `check` finds, each with its file."""
    said = "is not what the plan, the data and the records say; run: make notebooks"
    return [f"{file.relative_to(root)} {said}" for file in stale(root)]


def write(root: Path = ROOT) -> None:
    """Write every generated file anew."""
    for file, text in stale(root).items():
        write_if_new(file, text)


def picture(file: Path = ROOT / "book/_static/ring-all-reduce.svg") -> None:
    """The README's picture: a schedule as the chapters draw it, in ink that reads on any page."""
    from dtlib.collectives import ring_all_reduce
    from dtlib.collectives.drawing import draw

    drawing = io.StringIO()
    figure = draw(ring_all_reduce(4))
    figure.savefig(drawing, format="svg", metadata={"Date": None, "Creator": None})
    write_if_new(file, drawing.getvalue())
