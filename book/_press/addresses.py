"""What tells others of a page: its description, the list of all pages, changes, and moves."""

import html
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

LONGEST = 160
VERSION = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
MOVED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="0; url={to}"><link rel="canonical" href="{to}">
<meta name="robots" content="noindex"></head>
<body><p>This page has moved: <a href="{to}">go there</a>.</p></body></html>
"""


def description(text: str) -> str:
    """A text in at most 160 characters: whole sentences where that leaves enough, else words."""
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    sentence = max(text.rfind(end, 0, LONGEST) for end in (". ", "? ", "! "))
    if sentence >= LONGEST // 3:
        return text[: sentence + 1]
    return text[: text.rfind(" ", 0, LONGEST - 1)].rstrip(",;:") + "…"


def sitemap(home: str, pages: Iterable[str]) -> str:
    """The address of every page, for search engines."""
    lines = "".join(f"<url><loc>{html.escape(home + page)}</loc></url>\n" for page in pages)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{lines}</urlset>\n'
    )


def robots(home: str) -> str:
    """Every page may be read; where the list of them lies, once the site has an address."""
    return "User-agent: *\nAllow: /\n" + (f"Sitemap: {home}sitemap.xml\n" if home else "")


def feed(home: str, title: str, changelog: str, day: str) -> str:
    """The editions of a changelog as an Atom feed; `day` dates what has no date of its own."""
    heads = list(VERSION.finditer(changelog))
    ends = [head.start() for head in heads[1:]] + [len(changelog)]
    entries = "".join(
        entry(home, head["title"], changelog[head.end() : end], day)
        for head, end in zip(heads, ends, strict=True)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f'<title>{html.escape(title)}: changes</title>\n<id>{home}</id>\n<link href="{home}"/>\n'
        f'<link rel="self" href="{home}changes.xml"/>\n<updated>{day}T00:00:00Z</updated>\n'
        f"<author><name>{html.escape(title)}</name></author>\n{entries}</feed>\n"
    )


def entry(home: str, title: str, text: str, day: str) -> str:
    """One edition with its changes, as they stand in the changelog."""
    own = DATE.search(title)
    name = re.sub(r"[^\w.]+", "-", title).strip("-")
    return (
        f"<entry><title>{html.escape(title)}</title><id>{home}changes#{name}</id>"
        f'<link href="{home}"/><updated>{own[0] if own else day}T00:00:00Z</updated>'
        f'<content type="text">{html.escape(text.strip())}</content></entry>\n'
    )


def moves(file: Path) -> dict[str, str]:
    """Old address -> new one, from book/moves.toml."""
    return tomllib.loads(file.read_text(encoding="utf-8"))["moves"] if file.exists() else {}


def write_moves(site: Path, moved: dict[str, str]) -> list[str]:
    """A page that leads on at every old address; what is wrong with them."""
    problems = []
    for old, new in moved.items():
        page, _, place = new.partition("#")
        target, source = site / page, site / old
        if not target.is_file() or (place and f'id="{place}"' not in target.read_text("utf-8")):
            problems.append(f"moves.toml: {new}, to which {old} leads, is not there")
        elif source.exists() and 'http-equiv="refresh"' not in source.read_text("utf-8"):
            problems.append(f"moves.toml: {old} is still a page")
        else:
            source.parent.mkdir(parents=True, exist_ok=True)
            up = "../" * old.count("/")
            source.write_text(MOVED.format(to=html.escape(up + new)), encoding="utf-8")
    return problems
