"""Variables and formulas of a widget: what moves, what is fixed, how each is written."""

import inspect
import re
from collections.abc import Mapping

from dtlib.explore.controls import Task, control
from dtlib.explore.kit.widget import Widget
from dtlib.explore.mathml import mathml, plain
from dtlib.formulas.formula import Formula
from dtlib.formulas.notation import NOTATION

MOST_CURVES, MOST_SLIDERS = 4, 4


class OfFormulas(Widget):
    """A widget whose numbers are formulas over the variables of a `Setting`.

    Its task may name the variables, and each formula by its label.
    """

    def __init__(self, formulas: Mapping[str, Formula], setting: "Setting", *, title: str,
                 task: Task | None = None, controls: list[dict] | None = None,
                 **data):  # fmt: skip
        self._formulas, self._setting = dict(formulas), setting
        super().__init__(
            title=title,
            controls=controls or setting.variables(),
            task=task,
            fixed=setting.fixed_values(),
            curves=[curve(label, formula) for label, formula in formulas.items()],
            **data,
        )

    def names(self, **state) -> dict:
        values = {k: self._setting.evaluate(f, **state) for k, f in self._formulas.items()}
        return self._setting.fixed | {identifier(label): v for label, v in values.items()}


class Setting:
    """The variables of a widget: what moves, what is fixed, and how each is called."""

    def __init__(self, controls: Mapping, fixed: Mapping[str, float], labels: Mapping[str, str]):
        known = [*controls, *fixed]
        for name in [*known, *labels]:
            if name not in NOTATION:
                raise ValueError(f"{name!r} is not in the notation, so no formula has it")
        twice = [name for name in fixed if name in controls]
        if twice:
            raise ValueError(f"{twice[0]!r} cannot both move and be fixed")
        self.controls = {name: control(given) for name, given in controls.items()}
        self.fixed, self.labels = dict(fixed), dict(labels)

    @property
    def start(self) -> dict[str, float]:
        """The value of every parameter at the start."""
        return {name: c.start for name, c in self.controls.items()} | self.fixed

    def evaluate(self, formula: Formula, **values):
        """The formula at the start, with the values that are given instead."""
        values = self.start | values
        return formula(**{name: values[name] for name in formula.parameters})

    def variables(self) -> list[dict]:
        """What the script needs to know of every control, in order."""
        return [
            {
                "kind": "slider",
                "name": name,
                "label": self.label(name),
                "symbol": mathml(NOTATION[name].latex),
                "plain": plain(NOTATION[name].latex),
                "unit": NOTATION[name].unit,
                "values": list(c.values),
                "index": c.index,
                "scale": c.scale,
            }
            for name, c in self.controls.items()
        ]

    def unit(self, formulas: Mapping[str, Formula], lines: Mapping[str, Formula]) -> str:
        """The one unit of the formulas, once every line has what it needs.

        Raises ValueError for a parameter without a value, a control that moves no line, and
        formulas of several units.
        """
        for label, formula in lines.items():
            if not isinstance(formula, Formula):
                raise ValueError(f"{label!r}: {formula!r} is not a Formula")
            missing = [name for name in formula.parameters if name not in self.start]
            if missing:
                raise ValueError(
                    f"{label!r} needs {missing[0]!r}: give it a slider, or a value in fixed; "
                    f"there are {', '.join(self.start)}"
                )
        used = {name for formula in lines.values() for name in formula.parameters}
        idle = [name for name in self.controls if name not in used]
        if idle:
            raise ValueError(f"{idle[0]!r} moves nothing: no formula has that parameter")
        units = {formula.unit for formula in formulas.values()}
        if len(units) > 1:
            raise ValueError(f"formulas of one axis have one unit; got {', '.join(sorted(units))}")
        return units.pop()

    def fixed_values(self) -> list[list]:
        """Name and value of every parameter that does not move."""
        return [[name, value] for name, value in self.fixed.items()]

    def label(self, name: str) -> str:
        """What the parameter is called: the notation's meaning up to its first comma."""
        return self.labels.get(name) or NOTATION[name].meaning.split(",")[0]


def curve(label: str, formula: Formula) -> dict:
    """What the script needs to know of a formula: how to compute it and how to write it."""
    inner = called_formulas(formula)
    places = {NOTATION[name].latex: name for name in formula.parameters}
    places |= {f.symbol: f.name for f in inner if f.symbol not in places}
    return {
        "label": label,
        "key": identifier(label),
        "name": formula.name,
        "js": formula.js(),
        "symbol": mathml(formula.symbol),
        "body": mathml(formula.latex, places),
        "parts": [[name, name, NOTATION[name].unit] for name in formula.parameters]
        + [[f.name, f.js(), f.unit] for f in inner],
    }


def mark(label: str, formula: Formula) -> dict:
    """A position on the horizontal axis that follows the sliders; a symbol in words is left out."""
    symbol = "" if r"\text" in formula.symbol else plain(formula.symbol)
    return {"label": label, "js": formula.js(), "plain": symbol}


def called_formulas(formula: Formula) -> list[Formula]:
    """The formulas that this one calls with parameters of its own names, and never with others.

    An equation shows other arguments in parentheses, right after the symbol.
    """
    names = inspect.getclosurevars(formula.__wrapped__).globals.values()
    return [
        f
        for f in names
        if isinstance(f, Formula)
        and set(f.parameters) <= set(formula.parameters)
        and not any(f.symbol + opening in formula.latex for opening in ("(", r"\left("))
    ]


def one_variable(name: str, given: Mapping) -> None:
    """Raise ValueError unless an axis has one variable."""
    if len(given) != 1:
        raise ValueError(f"{name}: one variable and its range; got {', '.join(given) or 'none'}")


def check_size(name: str, given: Mapping, most: int) -> None:
    """More than `most` of anything is more than a reader can follow."""
    if len(given) > most:
        raise ValueError(f"{name}: at most {most}; got {len(given)}")


def identifier(label: str) -> str:
    """The name by which a task's condition calls a curve: 'double tree' is double_tree."""
    return re.sub(r"\W", "_", label)
