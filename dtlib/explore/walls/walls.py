"""Walls: models as points over parameters and tokens, and the limits that a machine sets."""

from collections.abc import Mapping, Sequence

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.controls import choice
from dtlib.explore.kit.setting import OfFormulas, Setting, check_size
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


class Walls(OfFormulas):
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
        self._gpus = [{"peak": gpu.peak("bf16"), "memory": gpu.hbm_bytes} for gpu in gpus.values()]
        self._links = [_FREE, beta]
        fixed = {**self._gpus[0], "beta": _FREE, "batch_tokens": batch_tokens,
                 "deadline": deadline, "tokens_per_param": tokens_per_param}  # fmt: skip
        sizes, counts = zip(*models.values(), strict=True) if models else ((), ())
        setting = Setting(
            {"params": _with(params, sizes), "tokens": _with(tokens, counts), "P": P, "mfu": mfu},
            fixed,
            {"params": "parameters", "tokens": "training tokens", "P": "GPUs",
             "mfu": "share of the peak rate"},
        )  # fmt: skip
        *plane, share = setting.variables()
        links = {0: "costs nothing", 1: f"at {format_quantity(beta, 'B/s')}"}
        super().__init__(
            {"state": adam_state_bytes, "time": exchanging_training_time},
            setting,
            title=title,
            task=task,
            controls=[
                *plane,
                share | {"unit": "%"},
                choice("gpu", "GPU", dict(enumerate(gpus)), 0),
                choice("link", "adding up gradients", links, 0),
            ],
            gpus=self._gpus,
            links=self._links,
            lines={
                "wall": memory_wall_params.js(),
                "devices": least_devices.js(),
                "late": exchanging_affordable_tokens.js(),
                "alone": affordable_tokens.js(),
            },
            models=[[name, size, count] for name, (size, count) in models.items()],
        )

    def names(self, *, gpu: int, link: int, **state) -> dict:
        machine = {**self._gpus[gpu], "beta": self._links[link]}
        return super().names(**state, **machine) | machine


def _with(control: Control, more: Sequence[float]) -> Control:
    """The same control with some values more."""
    return Control(tuple(sorted({*control.values, *more})), control.start, control.scale)
