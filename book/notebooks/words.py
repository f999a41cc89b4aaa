"""What stands in a line of a page, in words that any Markdown shows: no role, no data element."""

import re
from pathlib import Path

from book.notebooks import sources
from book.notebooks.names import names, title_of

MARKUP = re.compile(
    r"\{(?P<role>[a-z]+(?::[a-z]+)?)\}`(?P<given>[^`]+)`"
    r"|(?P<code>`+)(?!`).+?(?<!`)(?P=code)(?!`)"
    r"|<data value=\"[^\"]*\">(?P<number>.*?)</data>"
    r"|<span data-[^>]*>(?P<span>.*?)</span>"
    r"|\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)",
    re.DOTALL,
)
EXPLICIT = re.compile(r"(?P<words>.*?)\s*<(?P<label>[^>]+)>", re.DOTALL)
LEAVES = ("http://", "https://", "mailto:")


class UnknownMarkup(ValueError):
    """A role or a reference that has no words: says which, and on which page."""


class Words:
    """Turns the markup of one page into words, and remembers what it cited.

    >>> words = Words(ROOT / "chapters/3-collectives/12-ring-and-tree-algorithms.md")
    >>> words.plain("{ref}`ch-13` and {eq}`eq-ring-all-reduce-time` {cite}`li2020`, `{ref}`")
    'Chapter 13 and (12.2) (Li et al., 2020), `{ref}`'
    >>> words.cited
    ['li2020']
    """

    def __init__(self, page: Path):
        self.page = page
        self.cited: list[str] = []

    def plain(self, text: str) -> str:
        """The text without roles, data elements and links within the book.

        Raises UnknownMarkup for a role or label that it has no words for.
        """
        return MARKUP.sub(self._said, text)

    def _said(self, found: re.Match) -> str:
        if found["role"]:
            return self._role(found["role"], " ".join(found["given"].split()))
        if found["target"]:
            return self._link(found)
        inside = found["number"] if found["number"] is not None else found["span"]
        return found[0] if inside is None else inside

    def _role(self, role: str, given: str) -> str:
        if role in ("cite", "cite:t", "cite:p"):
            keys = [key.strip() for key in given.split(",")]
            self.cited += [key for key in keys if key not in self.cited]
            return sources.textual(keys) if role == "cite:t" else sources.parenthesised(keys)
        explicit = EXPLICIT.fullmatch(given)
        label = explicit["label"] if explicit else given
        words = explicit["words"] if explicit else ""
        match role:
            case "eq":
                return f"({self._name(label)})"
            case "numref":
                return words.replace("{number}", self._name(label)) or self._name(label)
            case "prf:ref":
                return words or self._name(label)
            case "ref":
                return words or (label.partition(":")[2] or self._name(label))
            case "doc":
                return words or title_of(label, self.page)
            case "term":
                return words or label
        raise UnknownMarkup(f"{self.page.name}: {{{role}}}`{given}` has no words in a notebook")

    def _link(self, found: re.Match) -> str:
        """A link into the book: its words, and which chapter where they do not say so."""
        target, text = found["target"], self.plain(found["text"])
        if target.startswith(LEAVES):
            return f"[{text}]({target})"
        if not text:
            return self._name(target.lstrip("#"))
        if not target.startswith("#ch-") or "hapter" in text:
            return text
        return f"{text} ({self._name(target[1:])})"

    def _name(self, label: str) -> str:
        if label not in names():
            raise UnknownMarkup(f"{self.page.name}: the label {label!r} is not known to the book")
        return names()[label]
