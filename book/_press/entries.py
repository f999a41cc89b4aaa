"""The entries of a built page that a search can find, each with an address of its own.

An entry is a section, an exercise, a theorem, a claim of the folklore page, a symptom or a term of
the glossary. Code and outputs stand apart from its text, because who searches means the words.
Solutions are no part of it: an excerpt would give them away.
"""

import html
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

NO_WORDS = re.compile(r"<(svg|script|style)\b.*?</\1>|<math display=\"block\".*?</math>", re.DOTALL)
FORMULA = re.compile(r"<math\b.*?</math>", re.DOTALL)
ROW = re.compile(r"<(dt|tr)\b.*?</\1>(?:\s*<dd>.*?</dd>)*", re.DOTALL)
ROW_NAME = re.compile(r'id="((folklore|symptom|term)-[^"]*)"')
ROW_TITLE = re.compile(r"<(dt|td)\b.*?</\1>", re.DOTALL)
MARKS = re.compile(
    r'<a class="(?:headerlink|dt-anchor)".*?</a>|<span class="dt-kind".*?</span>', re.DOTALL
)
PARAGRAPH = re.compile(r"<(?:p|li|td|dd)\b")
TAG = re.compile(r"<[^>]*>")
COLOURED = re.compile(r'<span(?: class="\w\w?")?>([^<]*)</span>')  # a word of code, one of hundreds
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
BLOCKS = {"br", "dd", "div", "dt", "figcaption", "li", "p", "pre", "section", "summary", "td", "th"}
HEADINGS = {"h1", "h2", "h3", "h4"}
BOXES = {"exercise": "exercise", "theorem": "theorem"}
PASSED_OVER = {
    "headerlink",
    "solution",
    "how",
    "works",
    "part-of",
    "take-along",
    "turn",
    "dt-header",
}


@dataclass
class Entry:
    """What one address of a page has to say; `kind` is page, section or what a box or row is."""

    address: str
    kind: str
    title: str = ""
    text: str = ""
    code: str = ""


@dataclass
class _Element:
    tag: str
    tone: str  # where its words go: title, text, code or nowhere
    opens: Entry | None = None
    words: dict[str, list[str]] = field(default_factory=dict)


class _Reader(HTMLParser):
    """Words go to the innermost entry that is open."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.page, self.found, self.open = page, [], [_Element("", "")]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        classes = set(given.get("class", "").split())
        if tag in BLOCKS:
            self.handle_data(" ")
        if tag not in VOID:
            opens = self.entry(tag, given.get("id", ""), classes)
            self.open.append(_Element(tag, "text" if opens else self.tone(tag, classes), opens))

    def handle_endtag(self, tag: str) -> None:
        if all(element.tag != tag for element in self.open):
            return
        while self.end_of(self.open.pop()) != tag:
            pass

    def end_of(self, closed: _Element) -> str:
        """An entry that ends keeps its words; the tag."""
        if entry := closed.opens:
            said = {tone: squeezed("".join(words)) for tone, words in closed.words.items()}
            entry.title, entry.text = said.get("title", ""), said.get("text", "")
            entry.code = said.get("code", "")
        return closed.tag

    def handle_data(self, data: str) -> None:
        tone = self.open[-1].tone
        holder = next((e for e in reversed(self.open) if e.opens), None) if tone else None
        if holder:
            holder.words.setdefault(tone, []).append(data)

    def tone(self, tag: str, classes: set[str]) -> str:
        inherited = self.open[-1].tone
        if tag == "article":
            return "text"
        if not inherited or classes & PASSED_OVER:
            return ""
        if tag in HEADINGS or ("admonition-title" in classes and self.open[-1].opens):
            return "title"
        return "code" if tag == "pre" else inherited

    def entry(self, tag: str, name: str, classes: set[str]) -> Entry | None:
        """The entry that an element begins; the first section is the page itself."""
        kind = next((kind for of, kind in BOXES.items() if of in classes), "")
        if tag == "section" and not any(of.endswith("-content") for of in classes):
            kind = "section" if self.found else "page"
        if not (self.open[-1].tone and name and kind):
            return None
        self.found.append(Entry(self.page if kind == "page" else f"{self.page}#{name}", kind))
        return self.found[-1]


def squeezed(text: str) -> str:
    """Words with one space between them."""
    return " ".join(text.split())


def words_of(markup: str) -> str:
    """The words of a piece of HTML."""
    apart = PARAGRAPH.sub(r" \g<0>", MARKS.sub("", markup))
    return squeezed(html.unescape(TAG.sub("", apart)))


def row_entry(page: str, row: re.Match) -> Entry | None:
    """The entry of a term with its text, or of a row of a table, where it has an address."""
    name = ROW_NAME.search(row[0])
    title = ROW_TITLE.search(row[0])
    if not (name and title):
        return None
    text = words_of(row[0].replace(title[0], ""))
    return Entry(f"{page}#{name[1]}", name[2], words_of(title[0]), text)


def entries_of(page: str, markup: str) -> list[Entry]:
    """The entries of a page's HTML, in its order, those of rows last."""
    plain = FORMULA.sub(lambda found: TAG.sub("", found[0]), NO_WORDS.sub("", markup))
    plain = COLOURED.sub(r"\1", plain)
    rows = [(row, row_entry(page, row)) for row in ROW.finditer(plain)]
    for row, entry in rows:
        if entry:
            plain = plain.replace(row[0], "", 1)
    reader = _Reader(page)
    reader.feed(plain)
    return [entry for entry in reader.found if entry.title] + [e for _, e in rows if e]
