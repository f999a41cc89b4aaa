"""Words about numbers ('four times', 'at every size', 'hardly') are bound, as numbers are.

Such a word may stand in a page, a lab, or a text that a code cell hands to a figure or a widget, if
it is bound in one of these ways. (A section of claims, each with its test, is passed over.)

- In prose it is the text of a data element whose expression gives the number or compares:
  `<data value="ring / tree > 4">four times and more</data>` (`book._tools.prose_numbers`).
- `book/words/STEM.toml` names it, word for word, with what holds it: `holds`, an expression that
  compares; `test`, a test of the library, `tests/...py::test_...`; or `cell`, an `assert` that a
  cell of the same page executes.

      [[bound]]
      words = "the ring is four times as long as the tree"
      holds = "ring_all_reduce_time(...) > 4 * tree_all_reduce_time(...)"

- It needs no check, because nothing was derived or measured. The same file lists it with a reason:

      [[given]]
      reason = "what the algorithm does: the definition of its round"
      words = ["half of the vector", "the other half"]

Words of `book/words/common.toml` are given on every page. An entry that its page lacks is an error.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from book._tools.expressions import Expression
from book._tools.layout import ROOT, lab_sources, line_of, pages
from book._tools.number_words import CARDINALS, LARGE

_COUNT = "|".join([*CARDINALS, *LARGE])
_PART = "half|halves|third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|twelfth|twentieth"
_PART += "|hundredth|thousandth|millionth"
_WHERE = "size|length|number|point|scale|width|row|machine|case|cluster"
KINDS = {
    "a ratio": rf"twice|thrice|twofold|(?:{_COUNT})fold|(?:{_COUNT}|\d[\d.,]*) times|factor of"
    r"|(?:doubl|tripl|quadrupl|halv)(?:e|es|ed|ing)|half (?:as|of|the|a|its|their|that)"
    rf"|(?:a|one) (?:{_PART})|(?:{_COUNT}) (?:halves|(?:{_PART})s)"
    rf"|(?:{_COUNT}) in (?:{_COUNT}|\d+|a)",
    "a bound": r"within (?:a |about |some )?(?:\d[\d.,]*|\w+ per ?cent)",
    "for all": rf"(?:at|for|on|in) (?:every|any|all) (?:\w+ )?(?:{_WHERE})s?",
    "an extreme": "the (?:largest|smallest|biggest|fastest|slowest|longest|shortest|worst|best|most"
    "|least|fewest|cheapest|dearest|highest|lowest)",
    "nearness": "hardly|barely|scarcely|nearly|almost",
}
WORDS = re.compile(
    rf"\b(?:{'|'.join(f'(?:{pattern})' for pattern in KINDS.values())})\b", re.IGNORECASE
)
CELL = re.compile(r"^(`{3,})\{code-cell\}[^\n]*\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
PASSED_OVER = re.compile(
    r"\A---\n.*?^---$"  # the header of a notebook
    r"|^##+ Claims\n.*?(?=^##? |\Z)"
    r"|<data\b[^>]*>[^<]*</data>|<!--.*?-->|<a\b[^>]*>"
    r"|<del>[^\n]*?</del>"  # a claim of somebody else, struck through on the page of folklore
    r"|^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)[ \t]*$|`[^`\n]+`"
    r"|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^)\n]*\)|^:\w+:.*?$|^:+\{pause\}.*?$",
    re.DOTALL | re.MULTILINE,
)
OPTIONS = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
# Pages that repeat what stands elsewhere: promises, docstrings, titles of exercises and labs.
REPEATED = ("planned.md", "part-", "quick-reference.md", "names.md", "exercises.md", "labs.md")
SHORTEST_TEXT = 12  # characters: what is shorter is a name or a label


@dataclass(frozen=True)
class Text:
    """A text that readers see, and the line of its page on which it begins."""

    text: str
    line: int


@dataclass(frozen=True)
class Found:
    """A word about a number that nothing holds."""

    word: str
    around: str
    line: int


def texts(page: str) -> Iterator[Text]:
    """The prose of a page, and the texts in its code cells."""
    blank = lambda found: re.sub(r"[^\n]", " ", found.group())  # noqa: E731
    yield Text(PASSED_OVER.sub(blank, page), 1)
    for cell in CELL.finditer(page):
        first = line_of(page, cell.start(2))
        for line, text in _strings(cell[2]):
            yield Text(PASSED_OVER.sub(blank, text), first + line - 1)


def _strings(code: str) -> Iterator[tuple[int, str]]:
    """Every text in a cell's code, with its line; placeholders of f-strings become '{}'."""
    plain = OPTIONS.sub(lambda found: "\n" * found.group().count("\n"), code)
    plain = re.sub(r"^[%!:].*$", "", plain, flags=re.MULTILINE)
    inside: set[ast.AST] = set()
    for node in ast.walk(ast.parse(plain)):
        if isinstance(node, ast.JoinedStr):
            inside.update(ast.walk(node))
            parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and node not in inside and _is_a_text(node.value):
            yield node.lineno, node.value


def _is_a_text(value: object) -> bool:
    return isinstance(value, str) and len(value) >= SHORTEST_TEXT


def unbound(page: str, phrases: list[str]) -> list[Found]:
    """The words about numbers in a page that lie in none of the phrases."""
    found = []
    for text in texts(page):
        covered = [
            match.span() for phrase in phrases for match in _pattern(phrase).finditer(text.text)
        ]
        for match in WORDS.finditer(text.text):
            if not any(a <= match.start() and match.end() <= b for a, b in covered):
                around = text.text[max(0, match.start() - 40) : match.end() + 40]
                line = text.line + text.text.count("\n", 0, match.start())
                found.append(Found(match.group(), " ".join(around.split()), line))
    return found


@cache
def _pattern(phrase: str) -> re.Pattern:
    """A phrase as it may stand in a page, whose lines may break anywhere."""
    return re.compile(r"\s+".join(map(re.escape, phrase.split())))


@dataclass(frozen=True)
class Listed:
    """What a file of words says: the phrases that it binds or gives, and what is wrong with it."""

    phrases: list[str]
    problems: list[str]


def listed(file: Path, page: str) -> Listed:
    """The entries of a file for its page; every phrase must occur, every binding must hold."""
    if not file.exists():
        return Listed([], [])
    entries = tomllib.loads(file.read_text(encoding="utf-8"))
    phrases, problems = [], []
    unknown = set(entries) - {"bound", "given"}
    problems += [f"{key!r} is neither bound nor given" for key in sorted(unknown)]
    for entry in entries.get("bound", []):
        phrases.append(entry["words"])
        problems += [f"{entry['words']!r}: {why}" for why in _broken(entry, page)]
    for entry in entries.get("given", []):
        phrases += entry["words"]
        if len(entry.get("reason", "").split()) < 3:
            problems.append(f"{entry['words'][0]!r}: say the reason in a few words")
    return Listed(phrases, problems)


def _broken(entry: dict, page: str) -> Iterator[str]:
    holders = set(entry) - {"words"}
    if len(holders) != 1 or not holders <= {"holds", "test", "cell"}:
        yield f"needs one of holds, test, cell; it has {sorted(holders)}"
    elif "holds" in entry:
        yield from _does_not_hold(entry["holds"])
    elif "test" in entry:
        file, _, name = entry["test"].partition("::")
        name = name.split("::")[-1].split("[")[0]
        if not (ROOT / file).is_file() or f"def {name}(" not in (ROOT / file).read_text():
            yield f"there is no test {entry['test']}"
    elif not any(_has(cell[2], entry["cell"]) for cell in CELL.finditer(page)):
        yield f"no cell of the page has {entry['cell']!r}"
    elif not entry["cell"].startswith("assert "):
        yield f"{entry['cell']!r} asserts nothing"


def _does_not_hold(source: str) -> Iterator[str]:
    try:
        expression = Expression(source)
        if not expression.is_comparison:
            yield f"compares nothing: {source}"
        elif not expression.value:
            yield f"does not hold: {source}"
    except ValueError as error:
        yield str(error)


def _has(text: str, phrase: str) -> bool:
    return bool(_pattern(phrase).search(text))


def check(page: Path, root: Path = ROOT) -> list[str]:
    """What is wrong with the words of one page, each with file and line."""
    text = page.read_text(encoding="utf-8")
    file = root / "book/words" / f"{page.stem}.toml"
    own = listed(file, text)
    whole = [part.text for part in texts(text)]
    stale = [p for p in own.phrases if not any(_has(part, p) for part in whole)]
    problems = [f"{file.name}: {problem}" for problem in own.problems]
    problems += [f"{file.name}: the page does not say {phrase!r}" for phrase in stale]
    for found in unbound(text, own.phrases + common_words(root)):
        name = page.relative_to(root) if page.is_relative_to(root) else page
        problems.append(f"{name}:{found.line}: {found.word!r} is not bound: ...{found.around}...")
    return problems


@cache
def common_words(root: Path) -> list[str]:
    """Phrases that name no number wherever they stand."""
    return listed(root / "book/words/common.toml", "").phrases


def sources(root: Path = ROOT) -> list[Path]:
    """Every page of the site and every lab, but for those that repeat sentences of the library."""
    read = [page for page in pages(root) if not page.name.startswith(REPEATED)]
    return read + lab_sources(root)
