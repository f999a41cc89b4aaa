"""What the tests of checkpoints share: small parts, their loading, and disks that fail."""

import errno

import torch

from dtlib.composition.checkpoint.disk import Disk
from dtlib.composition.checkpoint.reading import check_same, found_manifest, read_parts
from dtlib.composition.checkpoint.shards import Part, read_entry
from dtlib.composition.checkpoint.writing import Ranks

ALONE = Ranks()


def parts(value: float) -> list[Part]:
    """A matrix in two parts of columns, and a number."""
    matrix = torch.arange(12.0).view(3, 4) + value
    return [
        Part("w", (3, 4), ((0, 3), (0, 1)), matrix[:, :1].clone()),
        Part("w", (3, 4), ((0, 3), (1, 4)), matrix[:, 1:].clone()),
        Part("step", (), (), torch.tensor(float(value))),
    ]


def rows() -> list[Part]:
    """The same tensors in other parts, with nothing in them yet."""
    return [
        Part("w", (3, 4), ((0, 2), (0, 4)), torch.zeros(2, 4)),
        Part("w", (3, 4), ((2, 3), (0, 4)), torch.zeros(1, 4)),
        Part("step", (), (), torch.tensor(0.0)),
    ]


def loaded(folder) -> tuple[int, list[torch.Tensor]]:
    """The step and the numbers of the newest checkpoint."""
    here, manifest = found_manifest(folder, ALONE)
    wanted = rows()
    check_same(wanted, manifest.tensors())
    read_parts(here, manifest, wanted, ALONE)
    return manifest.step, [part.tensor for part in wanted]


def is_that_of(found, step: int, value: float) -> bool:
    whole = torch.arange(12.0).view(3, 4) + value
    numbers = torch.cat([found[1][0], found[1][1]])
    return found[0] == step and torch.equal(numbers, whole) and float(found[1][2]) == value


def whole(folder) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint, put together from the boxes of its files."""
    here, manifest = found_manifest(folder, ALONE)
    tensors = {
        name: torch.full(shape, -7, dtype=getattr(torch, dtype))
        for name, (shape, dtype) in manifest.tensors().items()
    }
    for entry in manifest.entries:
        tensors[entry.name][tuple(slice(*stretch) for stretch in entry.box)] = read_entry(
            here, entry
        )
    return tensors


class Stopped(BaseException):
    """The machine has stopped."""


class Stopping(Disk):
    """A disk that stops before an operation, or within a write, or has no room from then on."""

    def __init__(self, left: int, within: bool = False, full: bool = False):
        self.left, self.within, self.full = left, within, full

    def _stops(self) -> bool:
        self.left -= 1
        return self.left < 0

    def write(self, path, blocks):
        if self._stops():
            data = b"".join(map(bytes, blocks))
            if self.full or self.within:
                path.write_bytes(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device") if self.full else Stopped
        super().write(path, blocks)

    def _do(self, operation, *paths):
        if self._stops() and not self.full:
            raise Stopped
        operation(*paths)

    def make_folder(self, folder):
        self._do(super().make_folder, folder)

    def rename(self, path, new):
        self._do(super().rename, path, new)

    def remove(self, path):
        self._do(super().remove, path)
