"""The house keeps its rules, and each rule sees what breaks it.

What `allowed.toml` excuses must still be there: the list may only shrink.
"""

import sys
import tomllib
from pathlib import Path

import pytest
import sympy
from house_rules import TREE_RULES, equal_formulas
from script_functions import javascript_functions

from dtlib.contents import ROOT
from dtlib.formulas.formula import formulas

ALLOWED = tomllib.loads(Path(__file__).with_name("allowed.toml").read_text(encoding="utf-8"))

LONG = "\n".join(f"    x = {n}" for n in range(61))
TEN = "\n".join(f"call({n})" for n in range(10))
FACE = "if TYPE_CHECKING:\n    from dtlib.{} import {}\n"
SOUND = {
    "dtlib/__init__.py": "",
    "dtlib/contents.toml": """
        [[part]]
        folder = "1-one-part"
        [[part.chapter]]
        modules = ["one_part/early.py", "layout.py"]
        [[part.chapter]]
        modules = ["one_part/late.py", "one_part/more"]
        [[part]]
        folder = "2-two"
        [[part.chapter]]
        modules = ["two/last.py"]
    """,
    "dtlib/layout.py": "",
    "dtlib/one_part/__init__.py": FACE.format("one_part.late", "shown"),
    "dtlib/one_part/early.py": f"from dtlib import layout\ndef f():\n    '''\n{LONG}\n    '''\n",
    "dtlib/one_part/late.py": "from dtlib.one_part.early import f\ndef shown(): pass\n",
    "dtlib/one_part/more/deep.py": "LIST = []\ndef g():\n    LIST = [1]\n    LIST.append(2)\n",
    "dtlib/two/__init__.py": FACE.format("one_part.late", "shown"),
    "dtlib/two/last.py": f"from dtlib.one_part import shown\n{TEN.replace('call', 'say')}\n",
    "dtlib/explore/seats.js": f"if (x) {{\n{LONG}\n}}\n",
    "tests/test_ten.py": f"{TEN}\n",
}
SWITCH = "from dtlib.one_part.more.deep import LIST\ndef h():\n    LIST.append(1)\n"
BROKEN = [
    ("imports_run_down", "dtlib/layout.py", "def f():\n    from dtlib.two import last"),
    ("imports_run_down", "dtlib/layout.py", "from dtlib.two import shown"),
    ("imports_run_down", "dtlib/one_part/early.py", "import dtlib.one_part.more.deep"),
    ("imports_run_down", "dtlib/one_part/late.py", "from dtlib.two.last import x"),
    ("no_circles", "dtlib/one_part/early.py", "def f():\n    from dtlib.one_part import late"),
    ("modules_belong", "dtlib/two/lost.py", ""),
    ("functions_fit", "tests/test_it.py", f"class A:\n  async def f():\n{LONG}"),
    ("functions_fit", "dtlib/explore/seats.js", f"const f = (x) => {{\n{LONG}\n}};"),
    ("modules_fit", "dtlib/explore/seats.css", "a {}\n" * 351),
    ("folders_fit", "labs", "24 and one"),
    ("names_are_one", "dtlib/two/__init__.py", FACE.format("two.last", "shown")),
    ("modules_are_not_functions", "dtlib/two/__init__.py", FACE.format("two.last", "last")),
    ("no_global_switch", "dtlib/two/last.py", "n = 0\ndef f():\n    global n\n"),
    ("no_global_switch", "dtlib/two/last.py", "MADE = dict()\ndef f():\n    MADE['a'] = 1\n"),
    ("no_global_switch", "dtlib/two/last.py", SWITCH),
    ("errors_have_one_base", "dtlib/two/last.py", "class OddError(ValueError): ..."),
    ("no_clones", "dtlib/two/last.py", f"import x\n# other words\n\n{TEN}\n"),
]
RULES = {rule.__name__: rule for rule in TREE_RULES}


@pytest.mark.parametrize("name", RULES)
def test_the_house_keeps_its_rules(name):
    assert set(RULES[name](ROOT)) == set(ALLOWED.get(name, {}))


def test_no_two_formulas_are_equal():
    ours = {  # and none that an example defines
        name: one
        for name, one in formulas().items()
        if one.__module__.startswith("dtlib.")
        and getattr(sys.modules[one.__module__], name, None) is one
    }
    assert set(equal_formulas(ours)) == set(ALLOWED.get("equal_formulas", {}))


def test_only_rules_have_exceptions_each_with_its_reason():
    assert ALLOWED.keys() <= RULES.keys() | {"equal_formulas"}
    assert all(reason for rule in ALLOWED.values() for reason in rule.values())


def house(root: Path, **changed: str) -> Path:
    for name, text in (SOUND | changed).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("name", RULES)
def test_a_sound_house_passes(name, tmp_path):
    assert not set(RULES[name](house(tmp_path)))


@pytest.mark.parametrize(("name", "file", "text"), BROKEN)
def test_each_rule_sees_what_breaks_it(name, file, text, tmp_path):
    many = {f"labs/{n}.py": f"{n}" for n in range(25)}
    broken = house(tmp_path, **(many if file == "labs" else {file: text}))
    (found,) = set(RULES[name](broken))
    assert file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") in found.replace(
        "/", "."
    ) or found in ("shown", "dtlib.one_part.more.deep.LIST")


class Written:
    def __init__(self, unit: str, expression: str):
        self.unit, self.written = unit, expression

    def expression(self):
        return sympy.sympify(self.written, {"beta": sympy.Symbol("beta")})


def test_equal_formulas_are_seen_through_other_names():
    latency = Written("s", "alpha + n / beta")
    alike = {"one": latency, "two": Written("s", "step + bytes / read_rate")}
    assert set(equal_formulas(alike)) == {"one = two"}
    for other in (Written("s", "alpha + beta / n"), Written("B", "alpha + n / beta")):
        assert not set(equal_formulas({"one": latency, "other": other}))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("function f(a = '}') {\n  return `${a} }`;\n}", [("f", 3)]),
        ("const g = async ({ a }) => {\n  if (a) {\n  }\n};", [("g", 4)]),
        ("({ m(x) {\n  return /[}/]{2}/.test(x); // }\n} })", [("m", 3)]),
        ("f((x) => {\n  const h = (y) => ({ y });\n}, function () { /* { */ })",
         [("", 2 + 1), ("", 1)]),
        ("export default { render };\nclass A {\n  get b() {\n    return `a${`{${1}`}`;\n  }\n}",
         [("b", 3)]),
    ],
)  # fmt: skip
def test_the_functions_of_a_script_are_measured(source, found):
    assert list(javascript_functions(source)) == found


@pytest.mark.parametrize("source", ["function f() {", "}", "const a = `${`;"])
def test_braces_that_do_not_match_are_refused(source):
    with pytest.raises(ValueError, match="brace"):
        list(javascript_functions(source))
