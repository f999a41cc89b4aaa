"""How many words a chapter asks a reader to read, and how many it may.

What is read is the prose from the title to the exercises. Code, displayed equations, what is folded
away (`:class: dropdown`), exercises, solutions and claims are not; an equation in a line of text is
one word.
"""

import re
from pathlib import Path

from book._tools.layout import ROOT

FEWEST, MOST = 3000, 4500
_FENCE = re.compile(r"^(?P<fence>`{3,})[^\n]*\n.*?^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
_FOLDED = re.compile(
    r"^(?P<fence>:{3,})\{[^\n]*\n(?::[^\n]*\n)*?:class:[^\n]*\bdropdown\b.*?^(?P=fence)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_REST = re.compile(r"^##+ (?:Exercises|Claims)$.*", re.DOTALL | re.MULTILINE)


def words_read(page: str) -> int:
    """The words of a chapter's source that its reader reads.

    >>> words_read("# Ring\\n\\nWith $P = 2$ ranks {ref}`ch-12`:\\n\\n## Exercises\\n\\nMany more.")
    5
    """
    text = re.sub(r"\A---\n.*?^---$", "", page, flags=re.DOTALL | re.MULTILINE)
    text = _FENCE.sub("", _REST.sub("", text))
    text = _FOLDED.sub("", text)
    text = re.sub(r"\$\$.*?\$\$(?: \([\w-]+\))?", "", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$\n]+\$", "x", text)
    text = re.sub(r"<[^>]*>|^:{3,}.*$|^:\w+:.*$|^\(.*\)=$|^\+\+\+.*$", "", text, flags=re.MULTILINE)
    return len(re.findall(r"\S*\w\S*", text))


def problems(files: list[Path]) -> list[str]:
    """The chapters that are too long or too short, each with its count."""
    counts = {file: words_read(file.read_text(encoding="utf-8")) for file in files}
    return [
        f"{file.relative_to(ROOT)}: {count:,} words to read, allowed are {FEWEST:,} to {MOST:,}"
        for file, count in counts.items()
        if not FEWEST <= count <= MOST
    ]
