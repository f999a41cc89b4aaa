"""A disk of bytes that stops after any operation, cuts what was not synced, and forgets bits."""

from collections.abc import Iterator

from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.disk import Disk


class ByteDisk(Disk):
    """Files of bytes by name, with the few calls that a writer of checkpoints needs.

    `write`, `sync`, `rename` and `remove` are operations, after each of which the machine may stop;
    `names` and `read` look.

    >>> disk = ByteDisk({})
    >>> disk.write("a", b"1234")
    >>> disk.after_stop("half").read("a")
    b'12'
    """

    def write(self, name: str, data: bytes) -> None:
        """Make a file, or make it anew: it may be cut short if the machine stops before `sync`."""
        if not isinstance(name, str) or not isinstance(data, bytes | bytearray):
            kinds = f"{type(name).__name__} and {type(data).__name__}"
            raise NotYet(f"disk.write takes a name and bytes, got {kinds}")
        super().write(name, bytes(data))

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._operate()
        self._file(name)
        del self.files[name]

    def names(self) -> list[str]:
        """The names of all files."""
        return sorted(self.files)

    def read(self, name: str) -> bytes:
        """The bytes of a file. Raises FileNotFoundError where there is none."""
        if name not in self.files:
            raise FileNotFoundError(f"there is no file {name!r}")
        return self.files[name][0]

    def __repr__(self) -> str:
        return f"disk of {len(self.files)} files"

    def after_stop(self, left: str) -> "ByteDisk":
        """What the next process finds: of files that were not synced all, half or nothing."""
        share = {"all": 1.0, "half": 0.5, "nothing": 0.0}[left]
        return ByteDisk(
            {
                name: data if safe else data[: int(share * len(data))]
                for name, (data, safe) in self.files.items()
            }
        )

    def damaged(self, name: str, data: bytes | None) -> "ByteDisk":
        """The same disk, but for one file: it has other bytes, or (None) is gone."""
        files = {other: held for other, (held, _) in self.files.items() if other != name}
        return ByteDisk(files if data is None else files | {name: data})


def damages(data: bytes, every: bool) -> Iterator[tuple[str, bytes | None]]:
    """What can become of a file, each with its words: every byte, or some, and the whole."""
    places = range(len(data)) if every else sorted({0, len(data) // 2, len(data) - 1} - {-1})
    for place in places if data else ():
        for bit in (1, 128):
            flipped = bytes([data[place] ^ bit])
            yield f"a bit of byte {place} is flipped", data[:place] + flipped + data[place + 1 :]
    for place in places[:-1]:
        if data[place] != data[place + 1]:
            pair = data[place : place + 2][::-1]
            yield (
                f"bytes {place} and {place + 1} are swapped",
                data[:place] + pair + data[place + 2 :],
            )
    if data:
        yield "half of it is left", data[: len(data) // 2]
    yield "it is gone", None
