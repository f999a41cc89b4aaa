"""The search: Pagefind's index of the entries of all pages, which the reader's browser asks.

Each entry is a small document of its own, so that what is found is a section and not a page; its
title weighs most, then its page's title, then its text, and code least. Pagefind's own panels and
sheets are left out: the book has its own (book/_static/find).
"""

import html
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from book._press.entries import Entry, entries_of

FOLDER = "pagefind"
NOT_OURS = ("*ui*", "*highlight*")
# Pagefind squares them.
WEIGHTS = {"title": 7.0, "page": 1.0, "text": 1.0, "code": 0.1}
# What repeats others: it is found, after what it repeats (book/_static/find/rank.js).
LISTS = ("book/names", "book/quick-reference", "book/references", "book/status", "book/planned")
CODE_BEGINS = "⁂"
GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "λ": "lambda", "τ": "tau"}
NO_PAGEFIND = (
    "no search: Pagefind has no program for this machine (pip install pagefind_bin, or put one "
    "from pagefind.app on the PATH); the rest of the site is whole"
)


def program() -> str | None:
    """Pagefind's program, from its package or from the PATH."""
    try:
        from pagefind_bin import get_executable
    except ImportError:
        return shutil.which("pagefind")
    return str(get_executable())


def kind_of(entry: Entry) -> str:
    """What an entry is: what `Entry` says, or a list of what stands elsewhere."""
    repeats = entry.address.startswith(LISTS) or entry.address.endswith(("#claims", "#exercises"))
    by_chapter = entry.kind == "section" and entry.address.startswith("book/folklore")
    return "list" if repeats or by_chapter else entry.kind


def stands_on(entry: Entry, page: str) -> str:
    """The page that an entry stands on; of a chapter, its name."""
    chapter = re.match(r"\d+\w?(?=\. )", entry.title)
    if entry.kind != "page":
        return page
    return f"Chapter {chapter[0]}" if chapter else ""


def document_of(entry: Entry, page: str) -> str:
    """An entry as Pagefind reads it; `page` is the title of the page that it stands on."""
    spelled = " ".join(GREEK[letter] for letter in entry.title if letter in GREEK)
    where = stands_on(entry, page)
    weight = "title" if entry.kind == "page" else "page"
    parts = [
        ("title", entry.title),
        (weight, where),
        ("text", entry.text),
        ("code", CODE_BEGINS),
        ("title", spelled),
        ("code", entry.code),
    ]
    weighed = "".join(
        f'<p data-pagefind-weight="{WEIGHTS[name]}">{html.escape(text)}</p>'
        for name, text in parts
        if text
    )
    given = {"title": entry.title, "page": where, "kind": kind_of(entry), "address": entry.address}
    meta = "".join(
        f'<meta data-pagefind-meta="{name}[content]" content="{html.escape(value)}">'
        for name, value in given.items()
    )
    return f'<html lang="en"><head>{meta}</head><body>{weighed}</body></html>'


def documents(site: Path) -> list[str]:
    """Every entry of a built site, as Pagefind reads it."""
    found = []
    for file in sorted(site.rglob("*.html")):
        page = file.relative_to(site).as_posix()
        entries = entries_of(page, file.read_text(encoding="utf-8"))
        found += [document_of(entry, entries[0].title) for entry in entries]
    return found


def write_index(site: Path) -> str:
    """Write the index beside the pages; '' or the reason why there is none."""
    pagefind = program()
    if pagefind is None:
        return NO_PAGEFIND
    with tempfile.TemporaryDirectory() as folder:
        for number, document in enumerate(documents(site)):
            Path(folder, f"{number}.html").write_text(document, encoding="utf-8")
        options = ["--site", folder, "--output-path", str(site / FOLDER), "--silent"]
        done = subprocess.run([pagefind, *options], capture_output=True, text=True)
    if done.returncode:
        return f"no search: {(done.stderr or done.stdout).strip()}"
    for pattern in NOT_OURS:
        for file in (site / FOLDER).glob(pattern):
            file.unlink()
    return ""
