"""Files that are replaced whole: a full disk or a kill leaves the old text, not half a one."""

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a text beside the file, make sure that it is on the disk, then put it in its place.

    Raises OSError where the text cannot be written; the file is then as it was, and nothing is left
    beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
