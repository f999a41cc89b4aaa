"""The tools of the book, one command.

    python -m book check [NAME ...]      is it true what the sources say? numbers, words, equations
    python -m book write [NAME ...]      fill in numbers and equations; write the generated pages
    python -m book build [NAME ...]      write, then run what changed; --all runs everything
    python -m book verify [NAME ...]     run the stored notebooks again and compare every output
    python -m book quick [NAME ...]      within a minute: lint, the tests of what changed, its page
    python -m book test [STEP ...]       every check: style library sources notebooks site pages
    python -m book site                  the site, from nothing, every warning an error
    python -m book anywhere [NAME ...]   run what the site gives away where no book is; --colab
    python -m book serve FOLDER PORT     the built site, on this machine
    python -m book pdf [NAME ...]        the built site on paper: the book and each chapter
    python -m book release               wheel, site and PDF of this edition, with their checksums
    python -m book speed [NAME ...]      what pages cost: bytes, requests, seconds, shift
    python -m book length [NAME ...]     the words that a chapter asks its reader to read
    python -m book course FOLDER         all labs as the sources of an nbgrader course
    python -m book picture               the README's picture
    python -m book replay [NAME ...]     every listed answer judged in CPython and in a page: alike?
    python -m book chromium              install it where it is missing and may be installed
    python -m book fonts NODE_MODULES    cut the book's faces anew

NAME is a page or a lab: its name, its number ("12") or its file. Without one all are meant.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from book._tools.entries import tell
from book._tools.layout import ROOT, lab_sources, notebook_sources, pages, select


def check(names: Sequence[str]) -> int:
    """What the sources say: every problem, each with its place."""
    from book import bets
    from book._tools import (
        equations,
        folklore,
        generated,
        labs,
        length,
        prose_numbers,
        symptoms,
        words,
    )
    from book._tools.parts import doors
    from book.notebooks import build, residues

    chosen = select(names, [*pages(), *lab_sources()])
    own = set(lab_sources())
    known, worded = equations.by_label(), words.sources()
    printed = [page for page in chosen if page not in own]
    found = [problem for page in printed for problem in equations.check(page, known)]
    numbered = [*([] if names else prose_numbers.DATA_FILES), *printed]
    found += [problem for page in numbered for problem in prose_numbers.check(page)]
    found += [p for page in chosen if page in worded for p in words.check(page)]
    found += bets.problems([page for page in chosen if page.is_relative_to(ROOT / "chapters")])
    found += length.problems([page for page in chosen if page.is_relative_to(ROOT / "chapters")])
    written = [page for page in chosen if page in notebook_sources()]
    found += build.problems(written)
    found += labs.problems([page for page in chosen if page in own])
    found += residues.problems(labs.files_of(chosen))
    if not names:
        whole = (doors, folklore, symptoms, generated)
        found += [problem for tool in whole for problem in tool.problems()]
    return tell(found)


def write(names: Sequence[str]) -> int:
    """Fill in numbers and equations, and write the generated pages."""
    from book._tools import equations, generated, prose_numbers

    chosen, known = select(names, pages()), equations.by_label()
    for page in chosen:
        if equations.fill(page, known):
            print(f"{page.name}: equations written anew")
    for page in [*([] if names else prose_numbers.DATA_FILES), *chosen]:
        if prose_numbers.fill(page):
            print(f"{page.name}: numbers written anew")
    generated.write()
    return 0


def build(names: Sequence[str], everything: bool = False) -> int:
    """Write, then run the notebooks of what changed."""
    from book._tools import generated, labs
    from book.notebooks import build as notebooks

    chosen = select(names, [*pages(), *lab_sources()])
    own = [page for page in chosen if page in lab_sources()]
    write([page.stem for page in chosen if page not in own] if names else [])
    good = notebooks.build([p for p in chosen if p in notebook_sources()], everything=everything)
    labs.build(own)
    generated.write()  # the page that says how long each took
    return 0 if good else 1


def verify(names: Sequence[str]) -> int:
    """Run the stored notebooks again with nbval; the solved one of a lab."""
    from book._tools import labs, notebooks

    chosen = select(names, [*notebook_sources(), *lab_sources()])
    own = set(lab_sources())
    return notebooks.verify(
        [labs.solved_file(p) if p in own else p.with_suffix(".ipynb") for p in chosen]
    )


def quick(names: Sequence[str]) -> int:
    """Lint, the tests of what changed, the pages in a site that is built on."""
    from book._tools import quick

    return quick.run(select(names, [*pages(), *lab_sources()]) if names else None)


def test(names: Sequence[str]) -> int:
    """Every check of the book, in order."""
    from book._tools import checks

    return checks.run_all(names)


def site(names: Sequence[str]) -> int:
    """The site, from nothing."""
    from book._tools import site

    return site.build()


def anywhere(names: Sequence[str], colab: bool) -> int:
    """Run what the built site gives away in a fresh environment that has nothing of the book."""
    from book._tools.serve import served
    from book.notebooks import anywhere

    site = ROOT / "_build/html"
    with served(site) as address:
        chosen = select(names, [*notebook_sources(), *lab_sources()])
        return anywhere.run_all(chosen, site, address, colab)


def serve(names: Sequence[str]) -> int:
    """The built site, on this machine."""
    from book._tools import serve

    return serve.serve(*names)


def speed(names: Sequence[str]) -> int:
    """What pages of the built site cost a reader; without a name, the front and heaviest ones."""
    from book import speed

    site = ROOT / "_build/html"
    chosen = select(names, pages()) if names else []
    named = [page.relative_to(ROOT).with_suffix(".html").as_posix() for page in chosen]
    for line in speed.table(site, named or [speed.FRONT, speed.heaviest(site)]):
        print(line, flush=True)
    return 0


def pdf(names: Sequence[str]) -> int:
    """The built site on paper: the whole book and each chapter, or the pages with these names."""
    from book._press import pdf
    from book._press.release import BOOK
    from book._tools import browser

    site, folder = ROOT / "_build/html", ROOT / "_build/pdf"
    files = select(names, pages()) if names else sorted(ROOT.glob("chapters/*/*.md"))
    alone = [pdf.Sheet(f.relative_to(ROOT).with_suffix(".html").as_posix()) for f in files]
    wanted = {Path(sheet.page).stem: [sheet] for sheet in alone}
    with browser.running() as chromium:
        for name, sheets in (wanted if names else {BOOK: pdf.book()} | wanted).items():
            file = folder / f"{name}.pdf"
            count = pdf.write(chromium, site, file, sheets)
            size = file.stat().st_size / 1e6
            print(f"{count:4} pages, {size:5.1f} MB  {file.relative_to(ROOT)}", flush=True)
    return 0


def release(names: Sequence[str]) -> int:
    """What an edition gives away, from the built site: wheel, site, PDF, and their checksums."""
    from book._press import release

    for line in release.write(ROOT / "_build/html", ROOT / "_build/release"):
        print(line, flush=True)
    return 0


def cells(names: Sequence[str]) -> int:
    """Which code cells run in the page: run them in a bare Python and in the engine, and record."""
    from book.cells.in_page import record_pages

    return record_pages(select(names, notebook_sources()))


def length(names: Sequence[str]) -> int:
    """How many words each chapter asks its reader to read."""
    from book._tools.length import words_read

    for page in select(names, sorted(ROOT.glob("chapters/*/*.md"))):
        print(f"{words_read(page.read_text(encoding='utf-8')):6,}  {page.stem}")
    return 0


def course(names: Sequence[str]) -> int:
    """All labs as the sources of an nbgrader course."""
    from book._tools import labs

    labs.write_course(Path(*names), lab_sources())
    return 0


def picture(names: Sequence[str]) -> int:
    """The README's picture."""
    from book._tools import generated

    generated.picture()
    return 0


def replay(names: Sequence[str], engine: str) -> int:
    """Every listed answer of chapters and labs, judged in CPython and by an engine in a page."""
    from book._engine.replay import compared

    return compared.replay(names, engine)


def chromium(names: Sequence[str]) -> int:
    """Chromium for the page checks, where it may be installed."""
    from book._tools import browser

    return browser.provide()


def fonts(names: Sequence[str]) -> int:
    """The book's faces, cut anew."""
    from book import fonts

    fonts.cut_all(Path(*names))
    return 0


COMMANDS: dict[Callable, str | int] = {
    check: "*", write: "*", build: "*", verify: "*", quick: "*", test: "*", site: 0, serve: 2,
    anywhere: "*", cells: "*", pdf: "*", speed: "*", length: "*", course: 1, picture: 0,
    replay: "*", chromium: 0, fonts: 1, release: 0,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m book",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command, count in COMMANDS.items():
        given = commands.add_parser(command.__name__, description=command.__doc__)
        given.set_defaults(run=command, names=[])
        if count != 0:
            given.add_argument("names", nargs=count, metavar="NAME")
        if command is build:
            given.add_argument("--all", action="store_true", dest="everything")
        if command is anywhere:
            given.add_argument("--colab", action="store_true", help="with the versions of Colab")
        if command is replay:
            given.add_argument("--engine", default="cowasm", choices=("cowasm", "pyodide"))
    arguments = vars(parser.parse_args())
    return arguments.pop("run")(**arguments)


if __name__ == "__main__":
    sys.exit(main())
