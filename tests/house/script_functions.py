"""How long the functions of a script are: a scanner that knows strings, comments and braces."""

import re
from collections.abc import Iterator

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/                                   # comments
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'                 # strings
    |(?:(?<=[=(,:;!&|?{}\[\n>])|(?<=\breturn))\s*
        /(?![/*\s])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/  # patterns
    |`|\$\{|[{}()]""",
    re.DOTALL | re.VERBOSE,
)
TEXT = re.compile(r"\\.|`|\$\{", re.DOTALL)
SCOPE = re.compile(
    r"^(?:const \w+ = )?\(\(\) => \Z", re.MULTILINE
)  # a script that is no module keeps its names so
NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "with", "await"}


def javascript_functions(source: str) -> Iterator[tuple[str, int]]:
    """The name and the number of lines of each function that has braces, inner ones first.

    The scope of a whole script, `(() => { ... })()`, is its module and no function.
    Raises ValueError for braces that do not match.

    >>> list(javascript_functions("function f(a = '}') {\\n  return `${a} }`;\\n}"))
    [('f', 3)]
    >>> list(javascript_functions("(() => {\\n  const f = () => {\\n  };\\n})();"))
    [('f', 2)]
    """
    open_, heads, position, in_text, parens = [], [], 0, False, []
    while found := (TEXT if in_text else TOKEN).search(source, position):
        token, position = found.group(), found.end()
        if token == "`":
            in_text = not in_text
        elif token == "(":
            parens.append(found.start())
        elif token == ")":
            heads.append((parens.pop(), position))
        elif token in ("{", "${"):
            open_.append((found.start(), in_text, _name(source, found.start(), heads)))
            in_text = False
        elif token == "}" and not in_text:
            if not open_:
                raise ValueError(f"a closing brace without its own at {found.start()}")
            start, in_text, name = open_.pop()
            own_scope = not open_ and SCOPE.search(source, 0, start)
            if name is not None and not own_scope:
                yield name, source.count("\n", start, position) + 1
    if open_:
        raise ValueError(f"a brace at {open_[-1][0]} is never closed")


def _name(source: str, brace: int, heads: list[tuple[int, int]]) -> str | None:
    """The function whose body opens at a brace: its name, "" without one; None for other braces."""
    before = source[:brace].rstrip()
    arrow = before.endswith("=>")
    before = before.removesuffix("=>").rstrip()
    parens = {end: start for start, end in heads}
    if before.endswith(")"):
        before = source[: parens[len(before)]].rstrip()
    elif arrow:
        before = re.sub(r"\w+$", "", before).rstrip()
    else:
        return None
    if arrow:
        before = re.sub(r"(\s*[=:]|\s*\basync)+$", "", before)
    word = re.search(r"([\w$]*)$", before).group()
    return None if word in NOT_FUNCTIONS and not arrow else word.removesuffix("function")
