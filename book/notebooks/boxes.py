"""Boxes of a page as plain Markdown: quotes with a bold heading, or what can be opened.

A box is a fence of colons. What stands inside may hold other boxes, with fewer colons.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from book.notebooks.names import names

OPENING = re.compile(r"^(?P<fence>:{3,})\{(?P<kind>[\w:-]+)\}[ \t]*(?P<title>.*)$")
OPTION = re.compile(r"^:(?P<name>[\w-]+):[ \t]*(?P<value>.*)$")
LABEL = re.compile(r"^\([\w-]+\)=\n+", re.MULTILINE)
CLOSED_EQUATION = re.compile(r"^\$\$ \((?P<label>[\w-]+)\)$", re.MULTILINE)
DISPLAY = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.MULTILINE | re.DOTALL)
CLAIM = re.compile(r"^(?P<claim>\S.*)\n: (?P<test>`tests/[^\n]+)$", re.MULTILINE)

APART = re.compile(r"(?<=`\))\n\n(?=- .* \(test: `)")


class Box(NamedTuple):
    """A fence of colons: what it is, its title, its options, and the text inside."""

    kind: str
    title: str
    options: dict[str, str]
    body: str


def parts(text: str) -> Iterator[str | Box]:
    """A text as its running text and its boxes, in order.

    Raises ValueError for a box that is not closed.

    >>> list(parts("a\\n:::{admonition} T\\n:class: note\\nb\\n:::"))
    ['a', Box(kind='admonition', title='T', options={'class': 'note'}, body='b')]
    """
    lines, waiting = iter(text.split("\n")), []
    for line in lines:
        opening = OPENING.match(line)
        if not opening:
            waiting.append(line)
            continue
        if "\n".join(waiting).strip():
            yield "\n".join(waiting).strip("\n")
        waiting = []
        yield _box(opening, lines)
    if "\n".join(waiting).strip():
        yield "\n".join(waiting).strip("\n")


def _box(opening: re.Match, lines: Iterator[str]) -> Box:
    options, body = {}, []
    for line in lines:
        option = OPTION.match(line)
        if line.rstrip() == opening["fence"]:
            inside = "\n".join(body).strip("\n")
            return Box(opening["kind"], opening["title"].strip(), options, inside)
        if option and not body:
            options[option["name"]] = option["value"]
        else:
            body.append(line)
    raise ValueError(f"the box {opening[0]!r} is not closed")


def shown(text: str) -> str:
    """A text with its boxes as quotes, its labels gone, its equations numbered.

    >>> print(shown(":::{prf:proof}\\nBy counting.\\n:::"))
    > **Proof.**
    >
    > By counting.
    """
    pieces = [quoted(part) if isinstance(part, Box) else part for part in parts(text)]
    return _evidence(_equations(LABEL.sub("", "\n\n".join(pieces))))


def quoted(box: Box) -> str:
    """A box as a quote with a bold heading, or folded where the page folds it."""
    body = shown(box.body)
    if "dropdown" in box.options.get("class", "").split():
        return opened(box.title, body)
    text = f"**{_heading(box)}**\n\n{DISPLAY.sub(_on_one_line, body)}"
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _heading(box: Box) -> str:
    """What stands above a box: 'Theorem 12.1 (Messages).', 'Proof.', or its own title."""
    name = names().get(box.options.get("label", ""), "")
    kind = box.kind.removeprefix("prf:").capitalize()
    if not box.kind.startswith("prf:"):
        return box.title or kind
    return (name or kind) + (f" ({box.title})" if box.title else "") + "."


def opened(summary: str, body: str) -> str:
    """What a reader opens with a click, in any notebook."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _equations(text: str) -> str:
    """Labels of equations become the numbers that the site prints, inside the formula.

    A formula in a box has been put on one line before, because a quote's sign would be read as
    a part of it.
    """
    return CLOSED_EQUATION.sub(
        lambda found: f"\\tag{{{names()[found['label']]}}}\n$$",
        text,
    )


def _on_one_line(found: re.Match) -> str:
    return f"$$ {' '.join(found[1].split())} $$"


def _evidence(text: str) -> str:
    """Claims with their tests, as a list."""
    listed = CLAIM.sub(lambda found: f"- {found['claim']} (test: {found['test']})", text)
    return APART.sub("\n", listed)
