"""The sources that a page cites, as words: '(Li et al., 2020)', and each in full with its link."""

import re
from functools import cache

from pybtex.database import BibliographyData, Entry, parse_file
from pybtex.plugin import find_plugin

from book._tools.layout import ROOT

FILE = ROOT / "book/references.bib"
ESCAPED = re.compile(r"\\([.\-()#+!])")  # what Markdown does not need escaped in running text


@cache
def library() -> BibliographyData:
    """The book's list of sources."""
    return parse_file(str(FILE))


def parenthesised(keys: list[str]) -> str:
    """Sources in brackets, as they are cited at the end of a sentence.

    >>> parenthesised(["li2020", "patarasuk2009"])
    '(Li et al., 2020; Patarasuk and Yuan, 2009)'
    """
    return f"({'; '.join(f'{authors(key)}, {_year(key)}' for key in keys)})"


def textual(keys: list[str]) -> str:
    """Sources as they are cited within a sentence.

    >>> textual(["li2020"])
    'Li et al. (2020)'
    """
    return ", ".join(f"{authors(key)} ({_year(key)})" for key in keys)


def authors(key: str) -> str:
    """The last names of one or two authors, or of the first 'et al.'

    Raises KeyError for a key that the list does not have.
    """
    entry = _entry(key)
    people = entry.persons.get("author") or entry.persons["editor"]
    names = [
        " ".join(str(name) for name in person.rich_prelast_names + person.rich_last_names)
        for person in people
    ]
    if len(names) > 2 or names[-1] == "others":
        return f"{names[0]} et al."
    return " and ".join(names)


def sorting(key: str) -> tuple[str, str]:
    """What sources are listed by: their authors, then their year."""
    return authors(key).casefold(), _year(key)


def in_full(keys: list[str]) -> list[str]:
    """Each source as a list of sources has it, in Markdown, with its link.

    >>> in_full(["patarasuk2009"])[0][:47]
    'Pitch Patarasuk and Xin Yuan. Bandwidth optimal'
    """
    style = find_plugin("pybtex.style.formatting", "unsrt")()
    backend = find_plugin("pybtex.backends", "markdown")()
    shown = style.format_entries([_entry(key) for key in keys])
    return [ESCAPED.sub(r"\1", " ".join(one.text.render(backend).split())) for one in shown]


def _entry(key: str) -> Entry:
    return library().entries[key]


def _year(key: str) -> str:
    return _entry(key).fields["year"]
