"""The code of a page that stands open: of its cells, what no fold holds."""

import re
from html.parser import HTMLParser

CODE, FAILS = "cell_input", "tag_raises-exception"
EMPTY = {"br", "hr", "img", "input", "link", "meta", "source", "wbr"}

# What the reader is to find or sees below the figure anyway; what only shapes a drawing.
TELLING = re.compile(r"\b(?:solution|found|caption|alt)=(?!=)")
STYLING = re.compile(r"\b(?:plt|matplotlib|axe?s?|fig)\.\w+|\.(?:set_[xy]\w+|legend|spines)\b")


class OpenCode(HTMLParser):
    """`cells`: of each code cell that no closed fold holds, its code and whether it must fail."""

    def __init__(self, page: str):
        super().__init__()
        self.cells: list[tuple[str, bool]] = []
        self._inside: list[tuple[str, set[str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in EMPTY:
            return
        kinds = set((values.get("class") or "").split()) & {CODE, FAILS}
        if tag == "details" and "open" not in values:
            kinds.add("fold")
        self._inside.append((tag, kinds))
        if CODE in kinds and not self._within("fold"):
            self.cells.append(("", self._within(FAILS)))

    def handle_endtag(self, tag: str) -> None:
        if any(tag == open_tag for open_tag, _ in self._inside):
            while self._inside.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._within(CODE) and not self._within("fold"):
            text, fails = self.cells[-1]
            self.cells[-1] = (text + data, fails)

    def _within(self, kind: str) -> bool:
        return any(kind in kinds for _, kinds in self._inside)


def layer_faults(page: str, constructors: set[str]) -> list[str]:
    """The lines of a page's open code that belong to a fold.

    `constructors` are the names of the widgets; a call that is refused is there to be read.
    """
    makes = re.compile(rf"\b(?:{'|'.join(sorted(constructors))})\(")
    return [
        line.strip()
        for text, fails in OpenCode(page).cells
        for line in text.splitlines()
        for pattern in ((TELLING, STYLING) if fails else (TELLING, STYLING, makes))
        if pattern.search(line)
    ]
