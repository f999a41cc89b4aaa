"""Runs a reader's cell in the page: its names last, its last value is shown, its error is told.

It lies in the engine beside the library and needs the standard library alone; CPython runs the same
file in tests. A task comes in one file and its result goes out in another: `step`.
"""

import ast
import builtins
import io
import json
import linecache
import re
import sys
import traceback

TASK, RESULT = "/run/cell.json", "/run/answer.json"
LONGEST = 10_000  # characters of one value
WIDTH = 79  # of a line, as a notebook breaks lists and dictionaries
NOTEBOOK = "open this page as a notebook, or run it with the library on your own machine"
# What readers import that no page has; another name that is missing was never a module.
ELSEWHERE = {
    "IPython", "anywidget", "cloudpickle", "datasets", "ipywidgets", "jax", "matplotlib",
    "nbformat", "pandas", "quickjs", "scipy", "sympy", "tensorflow", "torch", "torchvision",
    "transformers", "triton",
}  # fmt: skip
NO_THREADS = re.compile(r"can't start new (?:thread|process)", re.IGNORECASE)
CURLY = re.compile("invalid character '[“”„‘’«»]'")
FRAME = re.compile(r'^(\s*)File "([^"]+)"', re.MULTILINE)
VERDICTS = ("Passed", "NotYet", "Unanswered", "UnknownExercise")


class NotHere(Exception):
    """What a notebook can do and a page cannot."""


class NotSet(NameError):
    """The code does not give the name that is judged."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Session:
    """The names of a page's cells, from one start of the engine to its end."""

    def __init__(self):
        self.cells = 0
        self.names: dict = {}
        self.forget()

    def forget(self) -> None:
        """Every name goes, as after a restart."""
        self.names.clear()
        self.names.update(__name__="__main__", __builtins__=builtins, display=display)

    def run(self, code: str, label: str | None = None, answer: str | None = None) -> dict:
        """Run ``code``; with ``label``, judge the value of the expression ``answer`` by the check.

        The result has ``verdict`` and ``text``; an error its first line as ``head``, a value of the
        library that knows how to draw itself its ``html``.
        """
        self.cells += 1
        here = f"<cell {self.cells}>"
        sys.stdin = io.StringIO()
        try:
            value = self._value(unindented(code), here)
            if label:
                value = self._judged(label, value, answer)
            result = told(value)
        except BaseException as error:
            result = failed(error, here)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return result

    def _value(self, code: str, here: str):
        """What the last line is worth, as in a notebook; nothing when it ends in a semicolon."""
        linecache.cache[here] = len(code), None, code.splitlines(True), here
        tree = parsed(code, here)
        ends = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
        last = tree.body.pop() if ends else None
        exec(compile(tree, here, "exec"), self.names)
        if last is None:
            return None
        value = eval(compile(ast.Expression(last.value), here, "eval"), self.names)
        if value is not None:
            self.names["_"] = value
        return None if code.rstrip().endswith(";") else value

    def _judged(self, label: str, value, answer: str | None):
        from dtlib.exercises import attempt

        if answer:
            missing = [name for name in names_in(answer) if not self._has(name)]
            if missing:
                raise NotSet(
                    f"the check judges {' and '.join(missing)}, which the code does not set"
                )
            value = eval(answer, self.names)
        return attempt(label, value)

    def _has(self, name: str) -> bool:
        return name in self.names or hasattr(builtins, name)


def names_in(expression: str) -> list[str]:
    """The names that an expression reads, each once.

    >>> names_in("(held, build(4), held)")
    ['held', 'build']
    """
    read = (node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name))
    return list(dict.fromkeys(read))


def unindented(code: str) -> str:
    """The code without the indentation of its first line, which what is pasted often has.

    >>> unindented("    for i in range(2):\\n        print(i)")
    'for i in range(2):\\n    print(i)'
    """
    first = next((line for line in code.splitlines() if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    if not indent:
        return code
    return "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))


def parsed(code: str, here: str) -> ast.Module:
    """The code as a tree; a line that only a notebook understands is named."""
    try:
        return ast.parse(code, here)
    except SyntaxError as error:
        lines = code.splitlines()
        line = "".join(lines[(error.lineno or 1) - 1 :][:1]).strip()
        if line.startswith(("%", "!")) or line.endswith("?"):
            raise NotHere(f"{_command(line)}: {NOTEBOOK}.") from None
        if CURLY.match(error.msg or ""):
            error.msg += "; Python's quotes are ' and \""
        raise


def _command(line: str) -> str:
    word = line.split()[0]
    if word == "%%ranks":
        return "%%ranks needs processes, which a page has not"
    return f"{word} is a command of notebooks, not of Python"


# What the reader sees of a value


def told(value) -> dict:
    """The result of a cell that came to its end."""
    if value is None:
        return {"verdict": "none", "text": ""}
    kind = type(value).__name__
    if kind in VERDICTS:
        return {"verdict": kind, "text": str(value)}
    result = {"verdict": "value", "text": shortened(shown(value))}
    drawn = html_of(value)
    return result | ({"html": drawn} if drawn else {})


def html_of(value) -> str:
    """The HTML of an object of the library; what others say of themselves stays text."""
    if not type(value).__module__.startswith("dtlib."):
        return ""
    if hasattr(value, "_repr_mimebundle_"):
        return value._repr_mimebundle_().get("text/html", "")
    return value._repr_html_() if hasattr(value, "_repr_html_") else ""


def shortened(text: str) -> str:
    """
    >>> shortened("ab" * 5_001)[-28:]
    'abab ... (10,002 characters)'
    """
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text):,} characters)"


def shown(value, column: int = 0) -> str:
    """What a notebook prints of a value: on one line if it fits, else an item on each.

    >>> print(shown([list(range(20)), list(range(20))]))
    [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
     [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]]
    """
    try:
        text = in_words(value)
    except RecursionError:  # a list that holds itself
        return repr(value)
    brackets = {list: "[]", tuple: "()", dict: "{}"}.get(type(value))
    if not brackets or not value or len(text) + column <= WIDTH:
        return text
    column += 1
    if isinstance(value, dict):
        heads = [f"{in_words(key)}: " for key in value]
        items = [
            head + shown(item, column + len(head))
            for head, item in zip(heads, value.values(), strict=True)
        ]
    else:
        items = [shown(item, column) for item in value]
    end = "," if type(value) is tuple and len(items) == 1 else ""
    return brackets[0] + (",\n" + " " * column).join(items) + end + brackets[1]


def in_words(value) -> str:
    """`repr`, in which numpy's numbers say what they are, as they do since numpy 2."""
    kind = type(value)
    if kind is dict:
        return f"{{{', '.join(f'{in_words(k)}: {in_words(v)}' for k, v in value.items())}}}"
    if kind in (list, tuple):
        items = ", ".join(map(in_words, value))
        return f"[{items}]" if kind is list else f"({items}{',' * (len(value) == 1)})"
    text = repr(value)
    numbers = kind.__module__ == "numpy" and "generic" in [base.__name__ for base in kind.__mro__]
    if not numbers or text.startswith("np."):
        return text
    return f"np.{text}_" if kind.__name__.startswith("bool") else f"np.{kind.__name__}({text})"


def display(*values) -> None:
    """Print values as the last line of a cell would be."""
    for value in values:
        print(shortened(shown(value)))


def printed(*values, plainly=print, **options) -> None:
    """`print`, in which numbers of numpy inside a list look as they do since numpy 2."""
    inside = (list, tuple, dict)
    plainly(*(in_words(value) if type(value) in inside else value for value in values), **options)


# What the reader sees of an error


def failed(error: BaseException, here: str) -> dict:
    """The result of a cell that did not come to its end."""
    kind = type(error).__name__
    if kind in VERDICTS:
        return {"verdict": kind, "text": str(error)}
    if isinstance(error, NotHere):
        return {"verdict": "elsewhere", "text": str(error)}
    missing = what_is_missing(error)
    if missing:
        return {"verdict": "elsewhere", "text": f"{missing} is not in the page: {NOTEBOOK}."}
    head = in_one_line(error)
    if hasattr(error, "_render_traceback_"):
        text = "\n".join(error._render_traceback_())
    else:
        text = told_by_frames(error, here, head)
    return {"verdict": "error", "text": shortened(text), "head": shortened(head)}


def what_is_missing(error: BaseException) -> str:
    """The module that exists and that no page has, or '': a name that was mistyped is an error."""
    if NO_THREADS.search(str(error)):
        return "A second thread or process"
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    top = error.name.partition(".")[0]
    known = top == "dtlib" or top in ELSEWHERE or top in sys.stdlib_module_names
    return error.name.lstrip("_") if known else ""


def in_one_line(error: BaseException) -> str:
    """Its type and the first line of what it says, in words where Python has none."""
    kind = type(error).__name__
    says = {
        "KeyboardInterrupt": "stopped",
        "MemoryError": "the memory of the page is full",
        "SystemExit": "the cell ended itself; the page goes on",
    }.get(kind)
    lines = str(error.msg if isinstance(error, SyntaxError) else error).splitlines()
    says = says or (lines[0] if lines else "")
    return f"{kind}: {says}" if says else kind


def told_by_frames(error: BaseException, here: str, head: str) -> str:
    """Its traceback with the lines of the reader, and of the library only the last one."""
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        return head
    report = traceback.TracebackException.from_exception(error)
    of_library = any(kind.__name__ == "DtlibError" for kind in type(error).__mro__)
    syntax = isinstance(error, SyntaxError) and error.filename == here
    _keep_frames(report, 0 if of_library or syntax else 1)
    text = FRAME.sub(lambda found: f"{found[1]}{place(found[2], here)}", "".join(report.format()))
    if isinstance(error, MemoryError):
        text = f"{text.rstrip().removesuffix('MemoryError')}{head}\n"
    return text


def _keep_frames(report: traceback.TracebackException, library: int) -> None:
    """Cut the frames of this file and, after the reader's last, all but the last ``library``."""
    frames = [frame for frame in report.stack if frame.filename != __file__]
    ours = [place for place, frame in enumerate(frames) if frame.filename.startswith("<cell ")]
    cut = ours[-1] + 1 if ours else 0
    rest = frames[cut:]
    kept = frames[:cut] + rest[len(rest) - min(library, len(rest)) :]
    report.stack = traceback.StackSummary.from_list(kept)
    for other in (report.__cause__, report.__context__):
        if other is not None:
            _keep_frames(other, library)


def place(file: str, here: str) -> str:
    """Where a frame is, in a reader's words."""
    if file.startswith("<cell "):
        return "this cell" if file == here else "an earlier cell"
    _, library, rest = file.rpartition("/dtlib/")
    return f"dtlib/{rest}" if library else file


# The engine's side


session = Session()


def no_input(prompt: object = "") -> str:
    """In the place of `input`."""
    raise NotHere("input() asks, and a page cannot: write the value into the code.")


def begin() -> None:
    """What the page has in the place of a console."""
    builtins.input, builtins.print = no_input, printed
    # what the engine's C code leaves on sys.path is the current folder: a reader has no files there
    sys.path[:] = ["/book", *(entry for entry in sys.path if entry not in ("", ".", "/book"))]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, write_through=True)


def step() -> None:
    """One message from the page: a file in, a file out, the same in every engine."""
    with open(TASK, encoding="utf-8") as file:
        task = json.load(file)
    result = session.run(**task)
    with open(RESULT, "w", encoding="utf-8") as file:
        json.dump(result, file)
