"""Files that are replaced whole: a full disk or a kill leaves the old one, not half a new one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file for bytes beside `path`, which takes its place when all of it is on the disk.

    Raises OSError where it cannot be written; after this and any other error `path` is as it was,
    and nothing is left beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write a text in UTF-8 into a `whole_file`; raises as that does."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))
