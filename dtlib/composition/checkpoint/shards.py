"""The file of one rank: the bytes of its parts, one after the other, each with a checksum.

The nouns:

- **Part**: a box of a tensor with its numbers, as a rank has it in memory.
- **Entry**: what the manifest knows of a part: its name, box, dtype, place in the file, checksum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

import torch

from dtlib.composition.checkpoint.boxes import Box, sizes, volume
from dtlib.errors import DtlibError
from dtlib.formulas.require import require


class CheckpointError(DtlibError, ValueError):
    """What is wrong with a checkpoint, or why it cannot be this run's."""


@dataclass(frozen=True)
class Part:
    """A box of a tensor of this `name` and whole `shape`, whose numbers are in `tensor`.

    Raises ValueError for a tensor of another shape than the box, and for a box outside.
    """

    name: str
    shape: tuple[int, ...]
    box: Box
    tensor: torch.Tensor

    def __post_init__(self):
        found, due = tuple(self.tensor.shape), sizes(self.box)
        require(found == due, self.name, "the shape of its part", found, f"{due}, as its box")
        inside = len(self.box) == len(self.shape) and all(
            0 <= start <= stop <= size
            for (start, stop), size in zip(self.box, self.shape, strict=True)
        )
        require(inside, self.name, "the box", self.box, f"within {tuple(self.shape)}")


@dataclass(frozen=True)
class Entry:
    """Where a part lies: `offset` and `length` in bytes of the file, and the `crc` of these."""

    name: str
    shape: tuple[int, ...]
    box: Box
    dtype: str
    file: str
    offset: int
    length: int
    crc: int

    def as_json(self) -> dict:
        """For the manifest."""
        return asdict(self)

    @classmethod
    def of_json(cls, said: dict) -> "Entry":
        """What a manifest says."""
        box = tuple(tuple(stretch) for stretch in said["box"])
        return cls(**said | {"shape": tuple(said["shape"]), "box": box})

    def __str__(self) -> str:
        end = self.offset + self.length
        return f"{self.file}, bytes {self.offset} to {end - 1}, {self.name}"


def dtype_name(tensor: torch.Tensor) -> str:
    """As a manifest has it.

    >>> dtype_name(torch.zeros(2))
    'float32'
    """
    return str(tensor.dtype).removeprefix("torch.")


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor, without a copy where it lies in one piece in the host's memory."""
    flat = tensor.detach().contiguous().cpu().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else memoryview(b"")


def blocks_of(file: str, parts: Sequence[Part], entries: list[Entry]) -> Iterator[memoryview]:
    """The parts' bytes, one after the other; `entries` gets what the manifest says of each."""
    offset = 0
    for part in parts:
        data = bytes_of(part.tensor)
        place = (part.name, tuple(part.shape), part.box, dtype_name(part.tensor), file)
        entries.append(Entry(*place, offset, len(data), crc32(data)))
        offset += len(data)
        yield data


def read_entry(folder: Path, entry: Entry) -> torch.Tensor:
    """The numbers of an entry.

    Raises CheckpointError for a file that is missing or too short, and for bytes that are not those
    that were written, with the file, the place in it and the tensor.
    """
    try:
        with (folder / entry.file).open("rb") as file:
            file.seek(entry.offset)
            data = bytearray(file.read(entry.length))
    except FileNotFoundError:
        raise CheckpointError(f"{entry}: the file is missing") from None
    return numbers_of(entry, torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0))


def numbers_of(entry: Entry, data: torch.Tensor) -> torch.Tensor:
    """The bytes of an entry, a flat tensor of uint8, as numbers. Raises as `read_entry` does."""
    dtype = getattr(torch, entry.dtype)
    if entry.length != volume(entry.box) * dtype.itemsize:
        raise CheckpointError(f"{entry}: {entry.length} bytes are no box {entry.box} of {dtype}")
    if len(data) < entry.length:
        raise CheckpointError(f"{entry}: the file ends after {entry.offset + len(data)} bytes")
    if crc32(bytes_of(data)) != entry.crc:
        raise CheckpointError(f"{entry}: a byte has changed since it was written")
    if not len(data):
        return torch.empty(sizes(entry.box), dtype=dtype)
    aligned = data if data.storage_offset() == 0 else data.clone()
    return aligned.view(dtype).view(sizes(entry.box))
