"""Walls: models as points over parameters and tokens, and the limits that a machine sets."""

from collections.abc import Mapping, Sequence

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.setting import Setting, check_size, curve, task_spec
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity
from dtlib.foundations.walls import (
    affordable_tokens,
    exchanging_affordable_tokens,
    exchanging_training_time,
    least_devices,
    memory_wall_params,
)
from dtlib.machines.hardware import GPU
from dtlib.models.work import adam_state_bytes

MOST_GPUS, MOST_MODELS = 4, 8
_FREE = 1e300  # bytes/s: a network that costs nothing, in a script whose numbers must be finite


class Walls(Widget):
    """The plane of parameters and tokens with two walls, and a model that the reader drags over it.

    Left of the memory wall the training state fits; below the time wall the run ends in time. The
    third wall appears when the exchange of gradients is counted: the time wall stops following
    the number of GPUs.
    Arguments: `params`, `tokens`, `P` and `mfu`, controls with their ranges and start; `gpus`, up
    to four of the catalog's, by the name that the reader sees, the first one chosen; `deadline` in
    seconds; `tokens_per_param`, drawn as a line; `batch_tokens` of a step and `beta`, bytes/s of
    one GPU, for the exchange of gradients; `models`, up to eight, name: (parameters, tokens);
    `task`, over `params`, `tokens`, `P`, `mfu`, `peak`, `memory`, `beta`, `deadline`, `state`
    (bytes) and `time` (seconds). The widget starts with a network that costs nothing, whose `beta`
    is 1e300. Raises ValueError for too many GPUs or models, and for a model outside of the plane.
    """

    _esm = script("quantities.js", "page.js", "formulas.js", "walls.js")
    _css = script("widget.css", "plot.css", "walls.css")

    def __init__(
        self,
        *,
        params: Control,
        tokens: Control,
        P: Control,
        mfu: Control,
        gpus: Mapping[str, GPU],
        deadline: float,
        tokens_per_param: float,
        batch_tokens: float,
        beta: float,
        models: Mapping[str, Sequence[float]],
        title: str,
        task: Task | None = None,
    ):
        check_size("gpus", gpus, MOST_GPUS)
        check_size("models", models, MOST_MODELS)
        for name, (size, count) in models.items():
            inside = params.values[0] <= size <= params.values[-1]
            if not (inside and tokens.values[0] <= count <= tokens.values[-1]):
                raise ValueError(f"model {name!r}: ({size:g}, {count:g}) is outside of the plane")
        choices = [[name, gpu.peak("bf16"), gpu.hbm_bytes] for name, gpu in gpus.items()]
        fixed = {"peak": choices[0][1], "memory": choices[0][2], "beta": _FREE}
        fixed |= {"batch_tokens": batch_tokens, "deadline": deadline}
        fixed |= {"tokens_per_param": tokens_per_param}
        controls = {"params": params, "tokens": tokens, "P": P, "mfu": mfu}
        setting = Setting(controls, fixed, {"P": "GPUs", "mfu": "share of the peak rate"})
        rows = {"state": adam_state_bytes, "time": exchanging_training_time}
        variables = setting.variables()
        spec = {
            "title": title,
            "x": variables[0],
            "vertical": variables[1],
            "sliders": [variables[2], {**variables[3], "unit": "%"}],
            "fixed": setting.fixed_values(),
            "curves": [curve(label, formula) for label, formula in rows.items()],
            "gpus": choices,
            "links": [["costs nothing", _FREE], [f"at {format_quantity(beta, 'B/s')}", beta]],
            "lines": {
                "wall": memory_wall_params.js(),
                "devices": least_devices.js(),
                "tokens": exchanging_affordable_tokens.js(),
                "alone": affordable_tokens.js(),
            },
            "models": [[name, size, count] for name, (size, count) in models.items()],
            "task": task_spec(task, setting, rows),
        }
        self._setting = setting
        super().__init__(spec=spec)

    def _figure(self) -> str:
        import html

        import numpy as np
        from matplotlib.ticker import FuncFormatter, NullLocator

        from dtlib.style import BACKWARD, FORWARD, INK, figure, inline_svg, label_curve

        spec, setting = self.spec, self._setting
        x, y = spec["x"]["values"], spec["vertical"]["values"]
        fig, ax = figure(height=3.8)
        across = np.geomspace(x[0], x[-1], 60)
        wall = setting.evaluate(memory_wall_params)
        ax.axvline(wall, color=FORWARD)
        label_curve(ax, wall, y[0] * 2, "memory is full", FORWARD)
        late = setting.evaluate(affordable_tokens, params=across)
        ax.plot(across, late, color=BACKWARD, linestyle="--")
        end = format_quantity(setting.start["deadline"], "s")
        label_curve(ax, across[12], late[12], f"after {end}", BACKWARD, dx=8, dy=6)
        ratio = setting.start["tokens_per_param"]
        ax.plot(across, ratio * across, ":", color=INK, linewidth=1)
        label_curve(ax, across[6], ratio * across[6], f"{ratio:g} per parameter", dx=4, dy=-12)
        for name, size, count in spec["models"]:
            ax.plot(size, count, "o", color=INK)
            label_curve(ax, size, count, name, INK)
        point = setting.start["params"], setting.start["tokens"]
        ax.plot(*point, "s", color=FORWARD, markersize=8)
        ax.set(xscale="log", yscale="log", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
            axis.set_minor_locator(NullLocator())
        ax.set_xlabel("parameters")
        ax.set_ylabel("training tokens")
        alt = f"Published models over parameters and tokens, with the two walls: {self._state()}"
        said = html.escape(f"{as_sentence(spec['title'])} {self._state()}")
        return inline_svg(fig, alt=alt) + f"\n<figcaption>{said}</figcaption>"

    def _state(self) -> str:
        start, gpu = self._setting.start, self.spec["gpus"][0][0]
        days = format_quantity(start["deadline"], "s")
        return f"Drawn for {format_quantity(start['P'])} {gpu} and {days}."


def _short(value: float) -> str:
    """A count as the field writes it: 5B parameters, 1.4T tokens."""
    name, size = next((n, s) for n, s in (("T", 1e12), ("B", 1e9), ("M", 1e6)) if value >= s)
    return f"{format_quantity(value / size)}{name}"
