"""The rules of the house: each looks at a tree and names what breaks it.

A rule is a function of the tree's root that yields one line for each violation; the line names the
place without a line number, so that it stays the same while the file around it changes.
"""

import ast
import builtins
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, permutations
from pathlib import Path

import sympy
from script_functions import javascript_functions

from dtlib.formulas.formula import Formula
from dtlib.formulas.notation import NOTATION
from dtlib.lazy import for_editors, shown_in

# fmt: off
GROUND = [
    "lazy", "later", "errors", "files", "formulas", "style", "drawing", "timeline", "recordings",
    "mesh", "machines", "models", "layout", "layouts", "runtime", "editions",
]
ABOVE = [
    "contents", "shown", "estimator", "micro_lab", "explore", "exercises", "__main__", "__init__",
]
FUNCTION, MODULE, FOLDER, CLONE = 60, 350, 24, 10
OTHERS = {"node_modules", "vendor"}
WRITTEN = ("dtlib", "tests", "book", "benchmarks", "labs")
CHANGES = [
    "append", "add", "update", "clear", "pop", "popitem", "remove", "discard", "extend", "insert",
    "setdefault", "appendleft",
]
# fmt: on
PYTHON_ERRORS = {
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}
BOXES = {"list", "dict", "set", "defaultdict", "deque", "OrderedDict", "Counter"}


@cache
def files(root: Path, *endings: str, folders: tuple[str, ...] = WRITTEN) -> list[Path]:
    """The files of these endings in our folders, in order; what others wrote is not ours."""
    found = (file for folder in folders for file in (root / folder).rglob("*"))
    return sorted(f for f in found if f.suffix in endings and not OTHERS & set(f.parts))


def source(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(source(file))


def named(root: Path, file: Path) -> str:
    return file.relative_to(root).as_posix()


@cache
def modules(root: Path) -> dict[str, Path]:
    """The library's modules by full name; a package stands under its own."""
    names = {f: f.relative_to(root).with_suffix("").parts for f in files(root, ".py")}
    return {".".join(p).removesuffix(".__init__"): f for f, p in names.items() if p[0] == "dtlib"}


def room(module: str) -> str:
    """The room, or the module at the top, to which a full name belongs."""
    return [*module.split("."), "__init__"][1]


@cache
def faces(root: Path) -> dict[str, dict[str, str]]:
    """Package -> what its face shows -> the module that defines it."""
    return {
        package: {name: module for module, names in shown_in(tree(file)).items() for name in names}
        for package, file in modules(root).items()
        if file.name == "__init__.py"
    }


@cache
def imported(root: Path) -> dict[str, set[str]]:
    """Module -> the library's modules that it imports, at its head or late, through faces too."""
    known, shown = modules(root), faces(root)

    def of(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names if alias.name in known)
            elif isinstance(child, ast.ImportFrom) and child.module in known:
                for alias in child.names:
                    inner = f"{child.module}.{alias.name}"
                    home = shown.get(child.module, {}).get(alias.name, child.module)
                    yield inner if inner in known else home
            elif not for_editors(child):
                yield from of(child)

    return {name: set(of(tree(file))) - {name} for name, file in known.items()}


@cache
def opened(root: Path) -> dict[str, int]:
    """Module -> the place in the contents of the first chapter that opens it."""
    contents = tomllib.loads(source(root / "dtlib" / "contents.toml"))
    chapters = [chapter for part in contents["part"] for chapter in part["chapter"]]
    places = {}
    for place, chapter in enumerate(chapters):
        for path in chapter["modules"]:
            opens = "dtlib." + path.removesuffix(".py").replace("/", ".")
            for module in modules(root):
                if f"{module}.".startswith(f"{opens}."):
                    places.setdefault(module, place)
    return places


def floors(root: Path) -> list[str]:
    """The rooms from the ground up; the parts of the book stand between the ground and the roof."""
    contents = tomllib.loads(source(root / "dtlib" / "contents.toml"))
    rooms = [part["folder"].partition("-")[2].replace("-", "_") for part in contents["part"]]
    return [*GROUND, *rooms, *ABOVE]


def imports_run_down(root: Path) -> Iterator[str]:
    """A room imports the rooms below it; within a part, a chapter's modules those of earlier ones.

    The ground is below all chapters, whichever of them opens it.
    """
    order, place = floors(root), opened(root)
    rooms = {module: room(module) for module in modules(root)}
    for module, wanted in imported(root).items():
        floor = order.index(rooms[module])
        for other in wanted - {"dtlib"}:
            above = order.index(rooms[other]) - floor
            part = len(GROUND) <= floor < len(order) - len(ABOVE)
            later = part and above == 0 and place.get(other, 0) > place.get(module, len(place))
            if above > 0 or later:
                yield f"{module} -> {other}"


def no_circles(root: Path) -> Iterator[str]:
    """No module imports itself by way of others, at its head or late."""
    try:
        TopologicalSorter(imported(root)).prepare()
    except CycleError as circle:
        yield " -> ".join(circle.args[1])


def modules_belong(root: Path) -> Iterator[str]:
    """Every module of a part belongs to a chapter."""
    place = opened(root)
    for module, file in modules(root).items():
        ours = room(module) in {*GROUND, *ABOVE}
        if file.name != "__init__.py" and not ours and module not in place:
            yield module


def functions_fit(root: Path) -> Iterator[str]:
    """No function has more than 60 lines besides its docstring."""
    for file in files(root, ".py"):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                said = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
                if node.end_lineno - node.lineno + 1 - said > FUNCTION:
                    yield f"{named(root, file)}: {node.name}"
    for file in files(root, ".js"):
        for name, lines in javascript_functions(source(file)):
            if lines > FUNCTION:
                yield f"{named(root, file)}: {name}"


def modules_fit(root: Path) -> Iterator[str]:
    """No module, script or style sheet has more than 350 lines; tests are read one at a time."""
    for file in files(root, ".py", ".js", ".css", folders=("dtlib", "book", "benchmarks")):
        if source(file).count("\n") > MODULE:
            yield named(root, file)


def folders_fit(root: Path) -> Iterator[str]:
    """No folder has more than 24 modules, scripts and style sheets."""
    for folder, count in Counter(f.parent for f in files(root, ".py", ".js", ".css")).items():
        if count > FOLDER:
            yield named(root, folder)


def names_are_one(root: Path) -> Iterator[str]:
    """A public name is one thing, whichever face shows it."""
    homes = defaultdict(set)
    for shown in faces(root).values():
        for name, module in shown.items():
            homes[name].add(faces(root).get(module, {}).get(name, module))
    yield from (name for name, found in homes.items() if len(found) > 1)


def modules_are_not_functions(root: Path) -> Iterator[str]:
    """No module bears the name of something that its package's face shows."""
    for package, shown in faces(root).items():
        yield from (f"{package}.{name}" for name in shown if f"{package}.{name}" in modules(root))


def no_global_switch(root: Path) -> Iterator[str]:
    """No `global`, and no list, dict or set of a module that the library's functions change."""
    boxes, changed = set(), set()
    for module, file in modules(root).items():
        homes = {}
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Global):
                yield from (f"{module}: global {name}" for name in node.names)
            if isinstance(node, ast.ImportFrom):
                homes |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        for node in tree(file).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and _is_box(node.value):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    boxes.add(f"{module}.{ast.unparse(target)}")
        for function in ast.walk(tree(file)):
            if isinstance(function, ast.FunctionDef):
                changed |= {homes.get(n, f"{module}.{n}") for n in _changed_in(function)}
    yield from boxes & changed


def _is_box(value: ast.expr | None) -> bool:
    made = isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in BOXES
    return made or isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp)


def _changed_in(function: ast.FunctionDef) -> Iterator[str]:
    """The names, not the function's own, whose contents it changes."""
    nodes = list(ast.walk(function))
    own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    for node in nodes:
        change = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        change = change or (isinstance(node, ast.Attribute) and node.attr in CHANGES)
        if change and isinstance(node.value, ast.Name) and node.value.id not in own:
            yield node.value.id


def errors_have_one_base(root: Path) -> Iterator[str]:
    """An error of the library is a DtlibError, whichever of Python's it is besides."""
    for module, file in modules(root).items():
        for node in ast.walk(tree(file)):
            bases = [ast.unparse(base) for base in getattr(node, "bases", [])]
            foreign = {*bases} & PYTHON_ERRORS and "DtlibError" not in bases
            if foreign and node.name != "DtlibError":
                yield f"{module}: {node.name}"


def no_clones(root: Path) -> Iterator[str]:
    """No ten lines of code stand twice, letter for letter; imports and docstrings do not count."""
    seen: dict[tuple[str, ...], str] = {}
    for file in files(root, ".py", ".js", folders=("dtlib", "tests", "book", "benchmarks")):
        lines = _code(file)
        for start in range(len(lines) - CLONE + 1):
            window = tuple(lines[start : start + CLONE])
            other = seen.setdefault(window, f"{named(root, file)}:{start}")
            if other != f"{named(root, file)}:{start}":
                yield " ~ ".join(sorted({other.rpartition(":")[0], named(root, file)}))


def _code(file: Path) -> list[str]:
    """The lines that say something: no blanks, comments, imports, docstrings or lone brackets."""
    skipped = set()
    if file.suffix == ".py":
        for node in ast.walk(tree(file)):
            said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if said or isinstance(node, ast.Import | ast.ImportFrom):
                skipped |= set(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(source(file).splitlines(), 1)
    kept = [line.strip() for number, line in lines if number not in skipped]
    return [
        s for s in kept if any(c.isalnum() for c in s) and not s.startswith(("#", "//", "import"))
    ]


def equal_formulas(formulas: dict[str, Formula]) -> Iterator[str]:
    """Formulas of one unit with one expression, whatever the parameters are called, in any order.

    A parameter is renamed to one of its own unit. What has two parameters or fewer is no law: a
    number of messages or a quotient of two things may be written wherever it is meant.
    """
    alike = defaultdict(list)
    for name, formula in formulas.items():
        expression = sympy.sympify(formula.expression())
        if len(expression.free_symbols) > 2:
            alike[formula.unit, _shape(expression)].append((name, expression))
    for same in alike.values():
        for (one, mine), (other, theirs) in combinations(same, 2):
            if _equal_renamed(mine, theirs):
                yield " = ".join(sorted((one, other)))


def _shape(expression) -> str:
    """The expression's tree in an order of its own, for every symbol its unit."""
    if expression.is_Symbol:
        return f"[{NOTATION[expression.name].unit}]"
    if not expression.args:
        return str(expression)
    return f"{expression.func.__name__}({', '.join(sorted(map(_shape, expression.args)))})"


def _equal_renamed(one, other) -> bool:
    mine, theirs = (sorted(e.free_symbols, key=str) for e in (one, other))
    renamings = (dict(zip(mine, order, strict=True)) for order in permutations(theirs))
    return any(
        one.xreplace(renamed) == other
        for renamed in renamings
        if all(_shape(a) == _shape(b) for a, b in renamed.items())
    )


TREE_RULES = (
    imports_run_down,
    no_circles,
    modules_belong,
    functions_fit,
    modules_fit,
    folders_fit,
    names_are_one,
    modules_are_not_functions,
    no_global_switch,
    errors_have_one_base,
    no_clones,
)
