"""A disk in memory that stops after any operation: what a loader then finds on it.

A file that was written and not yet synced is cut short by the stop. A rename is one operation: it
has happened, or it has not.
"""

from collections.abc import Callable, Iterator

from dtlib.exercises.verdict import NotYet

MANIFEST = "manifest-"


class Stopped(BaseException):
    """The machine has stopped after an operation; no program catches that."""


class Disk:
    """Files by name, each with its data and whether they would survive a stop.

    Arguments: `files`, the data of whole files that are there already; `stops_after`, so many
    operations, then `Stopped` is raised (None: never).
    """

    def __init__(self, files: dict, stops_after: int | None = None):
        self.files = {name: (data, True) for name, data in files.items()}
        self.left = stops_after

    def write(self, name: str, data) -> None:
        """Make a file, or make it anew: it is cut short if the machine stops before `sync`."""
        self._operate()
        self.files[name] = (data, False)

    def sync(self, name: str) -> None:
        """Wait until the file's data are safe."""
        self._operate()
        data, _ = self._file(name)
        self.files[name] = (data, True)

    def rename(self, name: str, new: str) -> None:
        """Give a file another name; a file that had it is gone."""
        self._operate()
        self.files[new] = self._file(name)
        del self.files[name]

    def newest(self) -> tuple[int, list] | None:
        """Step and data of the checkpoint with the newest manifest; None where there is none.

        Raises NotYet where that manifest, or a file that it names, is cut short or missing.
        """
        steps = [int(name.removeprefix(MANIFEST)) for name in self.files if _is_manifest(name)]
        if not steps:
            return None
        step = max(steps)
        names = self._whole(f"{MANIFEST}{step}", "the newest manifest")
        if not isinstance(names, list):
            raise NotYet(f"{MANIFEST}{step} must be a list of names, got {type(names).__name__}")
        return step, [self._whole(name, f"a file that {MANIFEST}{step} names") for name in names]

    def _operate(self) -> None:
        if self.left == 0:
            raise Stopped
        if self.left is not None:
            self.left -= 1

    def _file(self, name: str) -> tuple:
        if name not in self.files:
            raise NotYet(f"there is no file {name!r}")
        return self.files[name]

    def _whole(self, name: str, what: str):
        if name not in self.files:
            raise NotYet(f"{what}, {name!r}, is missing")
        data, safe = self.files[name]
        if not safe:
            raise NotYet(f"{what}, {name!r}, is cut short")
        return data


def disks_of(
    save: Callable, files: dict, *arguments, kind: type = Disk
) -> Iterator[tuple[int, Disk, bool]]:
    """The disk after each number of operations of `save(disk, *arguments)`, until it returns.

    Yields (operations, disk, whether save has returned); `kind` is the class of the disks. Raises
    NotYet after 100 operations.
    """
    for operations in range(101):
        disk = kind(files, stops_after=operations)
        try:
            save(disk, *arguments)
        except Stopped:
            yield operations, disk, False
        else:
            yield operations, disk, True
            return
    raise NotYet("more than 100 operations for a few files")


def _is_manifest(name: str) -> bool:
    return name.startswith(MANIFEST) and name.removeprefix(MANIFEST).isdigit()
