"""What belongs to one `launch` inside a rank: names, torch's global settings, process groups."""

import ast
from typing import Any, NamedTuple

from dtlib.runtime.frames import remember_source
from dtlib.runtime.process_group import process_groups


class TorchSettings(NamedTuple):
    """Settings of torch that a cell may change, and that hold for the whole process."""

    random_state: Any
    default_dtype: Any
    gradients: bool

    @classmethod
    def current(cls) -> "TorchSettings":
        import torch

        dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
        return cls(torch.get_rng_state(), dtype, gradients)

    def restore(self) -> None:
        import torch

        torch.set_rng_state(self.random_state)
        torch.set_default_dtype(self.default_dtype)
        torch.set_grad_enabled(self.gradients)


class Session:
    """Names for cells, and what the cells have changed or made."""

    def __init__(self, device: Any, settings: TorchSettings) -> None:
        self.names = fresh_names(device)
        self.settings = settings
        self.groups: list[Any] = []

    def close(self) -> None:
        """Forget the names, and leave the process groups that were made here: they hold sockets."""
        import torch.distributed as dist

        self.names.clear()
        for group in self.groups:
            if group in process_groups():
                dist.destroy_process_group(group)


def fresh_names(device: Any) -> dict[str, Any]:
    """What every cell on a rank finds."""
    import torch
    import torch.distributed as dist

    return {
        "__name__": "__main__",
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "dist": dist,
        "torch": torch,
        "group": dist.group.WORLD,
        "device": device,
    }


def run_cell(name: str, source: str, names: dict[str, Any]) -> Any:
    """Run a cell in `names`; the value is that of its last line, if that is an expression.

    >>> run_cell("<cell>", "x = 20; x + 1", {})
    21
    """
    remember_source(name, source)
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), names)
