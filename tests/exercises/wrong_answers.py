"""The answers that no slip derives, from the files of the folder `wrong`."""

import importlib.util
from pathlib import Path
from types import ModuleType


def imported(file: Path) -> ModuleType:
    """The module of a file that is in no package."""
    spec = importlib.util.spec_from_file_location(f"wrong_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = {
    file.stem: imported(file) for file in sorted(Path(__file__).with_name("wrong").rglob("*.py"))
}


def kept(which: str) -> list:
    """Those of one kind: WRONG, with what each must be told, or RIGHT."""
    return [row for module in MODULES.values() for row in getattr(module, which, [])]
