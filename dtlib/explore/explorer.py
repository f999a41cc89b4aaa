"""Explorer: formulas as curves that the reader moves, with the numbers filled in below."""

import html
import inspect
import re
from collections.abc import Mapping

import numpy as np

from dtlib.explore.controls import Control, Task, control
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.mathml import mathml, plain
from dtlib.explore.widget import Widget, script
from dtlib.formulas.formula import Formula
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.units import format_quantity

MOST_CURVES, MOST_SLIDERS = 4, 4
_QUANTITIES = {
    "s": "time",
    "B": "bytes",
    "B/s": "bandwidth",
    "FLOP": "work",
    "FLOP/s": "arithmetic rate",
    "": "value",
}


class Explorer(Widget):
    """Curves of formulas over one variable, with sliders for the others, a probe and a task.

    Arguments: `formulas`, one Formula or a mapping from label to Formula, all of one unit;
    `x`, the variable of the horizontal axis and its range, ``{"n": between(1 * KB, 1 * GB,
    start=1 * MB)}``; `sliders`, up to four more in the same way; `fixed`, values of parameters
    that do not move; `marks`, labels and formulas for positions on the horizontal axis that move
    with the sliders; `guides`, labels and formulas of thin comparison lines; `task`, a `Task`
    over the names of the parameters and the curves; `labels`, names for parameters where the
    notation's meaning does not read well; `y_label`, `y_scale` ("log" or "linear") and
    `y_range` for the vertical axis.
    Raises ValueError for a parameter that nothing gives, a slider that moves nothing, units that
    differ, and a task that is met at the start or not met by its solution.
    """

    _esm = script("quantities.js", "page.js", "formulas.js", "explorer.js")
    _css = script("widget.css", "plot.css")

    def __init__(
        self,
        formulas: Formula | Mapping[str, Formula],
        x: Mapping[str, Control],
        sliders: Mapping[str, Control],
        *,
        title: str,
        fixed: Mapping[str, float] | None = None,
        task: Task | None = None,
        marks: Mapping[str, Formula] | None = None,
        guides: Mapping[str, Formula] | None = None,
        labels: Mapping[str, str] | None = None,
        y_label: str | None = None,
        y_scale: str = "log",
        y_range: tuple[float, float] | None = None,
    ):
        if isinstance(formulas, Formula):
            formulas = {formulas.name.replace("_", " "): formulas}
        if len(x) != 1:
            raise ValueError(f"x: one variable and its range; got {', '.join(x) or 'none'}")
        setting = Setting({**x, **sliders}, fixed or {}, labels or {})
        lines = {**formulas, **(guides or {}), **(marks or {})}
        check_formulas(formulas, setting, lines)
        check_size("sliders", sliders, MOST_SLIDERS)
        check_size("formulas", formulas, MOST_CURVES)
        if y_scale not in ("log", "linear"):
            raise ValueError(f"y_scale {y_scale!r}; allowed are 'log', 'linear'")
        unit = next(iter(formulas.values())).unit
        variables = setting.variables()
        spec = {
            "title": title,
            "x": variables[0],
            "sliders": variables[1:],
            "fixed": setting.fixed_values(),
            "curves": [curve(label, f) for label, f in formulas.items()],
            "guides": [{"label": k, "js": f.js()} for k, f in (guides or {}).items()],
            "marks": [mark(label, f) for label, f in (marks or {}).items()],
            "y": {
                "label": y_label or _QUANTITIES.get(unit, "value"),
                "unit": unit,
                "scale": y_scale,
                "range": list(y_range or _range(formulas, setting, y_scale)),
            },
            "task": task_spec(task, setting, formulas),
        }
        self._formulas, self._setting = dict(formulas), setting
        self._guides, self._marks = dict(guides or {}), dict(marks or {})
        super().__init__(spec=spec)

    def _figure(self) -> str:
        from dtlib.style import DASHES, INK, PALETTE, figure, inline_svg, label_curve, quantity_axis

        x, y = self.spec["x"], self.spec["y"]
        fig, ax = figure(height=3.4)
        grid = np.array(self._setting.controls[x["name"]].values, dtype=float)
        looks = zip(self._formulas.items(), PALETTE.values(), DASHES, strict=False)
        for (label, formula), color, dash in looks:
            heights = self._over_x(formula, grid)
            ax.plot(grid, heights, color=color, linestyle=dash)
            label_curve(ax, grid[-1], np.clip(heights[-1], *y["range"]), label, color)
        for label, formula in self._guides.items():
            heights = self._over_x(formula, grid)
            ax.plot(grid, heights, color=INK, linewidth=0.8, linestyle=":")
            label_curve(ax, grid[-1], np.clip(heights[-1], *y["range"]), label)
        for label, formula in self._marks.items():
            at = self._setting.evaluate(formula)
            if grid[0] <= at <= grid[-1]:
                ax.axvline(at, color=INK, linewidth=0.8, linestyle="--")
                label_curve(ax, at, y["range"][1], label, dy=4)
        ax.set_xscale("linear" if x["scale"] == "linear" else "log")
        ax.set_yscale(y["scale"])
        ax.set_ylim(*y["range"])
        ax.grid(True, axis="y")
        quantity_axis(ax.xaxis, x["unit"], x["label"])
        quantity_axis(ax.yaxis, y["unit"], y["label"])
        return inline_svg(fig, alt=self._alt()) + caption(self.spec, self._setting)

    def _over_x(self, formula: Formula, grid: np.ndarray) -> np.ndarray:
        """The formula's values along the horizontal axis, at the start."""
        values = self._setting.evaluate(formula, **{self.spec["x"]["name"]: grid})
        return np.broadcast_to(np.asarray(values, dtype=float), grid.shape)

    def _alt(self) -> str:
        x, y = self.spec["x"], self.spec["y"]
        start = self._setting.controls[x["name"]].start
        values = [
            f"{label} {format_quantity(self._setting.evaluate(formula), y['unit'])}"
            for label, formula in self._formulas.items()
        ]
        where = f"{x['label']} {format_quantity(start, x['unit'])}"
        return f"{y['label']} against {x['label']}. At {where}: {', '.join(values)}."


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


def check_formulas(formulas: Mapping[str, Formula], setting: Setting, lines: Mapping) -> None:
    """Every parameter has a value, every control moves a line, and all curves share a unit."""
    given = setting.start
    for label, formula in lines.items():
        if not isinstance(formula, Formula):
            raise ValueError(f"{label!r}: {formula!r} is not a Formula")
        missing = [name for name in formula.parameters if name not in given]
        if missing:
            raise ValueError(
                f"{label!r} needs {missing[0]!r}: give it a slider, or a value in fixed; "
                f"there are {', '.join(given)}"
            )
    used = {name for formula in lines.values() for name in formula.parameters}
    idle = [name for name in setting.controls if name not in used]
    if idle:
        raise ValueError(f"{idle[0]!r} moves nothing: no formula has that parameter")
    units = {formula.unit for formula in formulas.values()}
    if len(units) > 1:
        raise ValueError(f"formulas of one axis have one unit; got {', '.join(sorted(units))}")


def check_size(name: str, given: Mapping, most: int) -> None:
    """More than `most` of anything is more than a reader can follow."""
    if len(given) > most:
        raise ValueError(f"{name}: at most {most}; got {len(given)}")


def task_spec(task: Task | None, setting: Setting, formulas: Mapping[str, Formula]) -> dict | None:
    """The task for the script. Raises ValueError when it is met at the start, or never."""
    if task is None:
        return None

    def names(**values) -> dict[str, float]:
        results = {identifier(k): setting.evaluate(f, **values) for k, f in formulas.items()}
        return setting.start | values | results

    for name, value in task.solution.items():
        if value not in setting.controls.get(name, control([value, value])).values:
            raise ValueError(f"solution: {name} cannot take the value {value!r}")
    return task.checked(names)


def caption(spec: dict, setting: Setting) -> str:
    """The static figure's caption: the title, and the state that is drawn."""
    values = [
        f"{plain(NOTATION[name].latex)} = {format_quantity(value, NOTATION[name].unit)}"
        for name, value in setting.start.items()
        if name != spec["x"]["name"] and name != spec.get("vertical", {}).get("name")
    ]
    state = f" Drawn for {', '.join(values)}." if values else ""
    return f"\n<figcaption>{html.escape(as_sentence(spec['title']) + state)}</figcaption>"


def identifier(label: str) -> str:
    """The name by which a task's condition calls a curve: 'double tree' is double_tree."""
    return re.sub(r"\W", "_", label)


def _range(formulas: Mapping, setting: Setting, scale: str) -> tuple[float, float]:
    """A little more than all curves at the start; a linear axis begins at 0."""
    name = next(iter(setting.controls))
    grid = np.array(setting.controls[name].values, dtype=float)
    values = [np.ravel(setting.evaluate(f, **{name: grid})) for f in formulas.values()]
    every = np.concatenate([v.astype(float) for v in values])
    every = every[np.isfinite(every) & (every > 0)]
    if scale == "linear":
        return 0.0, float(every.max()) * 1.08
    return float(every.min()) / 1.5, float(every.max()) * 1.5
