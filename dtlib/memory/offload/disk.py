"""A store in files: tensors wait on a disk, and nothing of them is left behind.

The nouns are those of `dtlib.memory.offload.store`. What lies here is scratch, no checkpoint: it
need not survive the process, so nothing waits until the disk has it for good. It must be whole,
must not be lost when the disk is full, and must be gone when its owner is.
"""

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

import torch

from dtlib.memory.offload.store import Store, StoreError, copy_across, memory_of


class DiskStore(Store):
    """Keeps tensors in files, in a folder of its own inside `folder`, which must exist.

    A file takes its name when it is complete, so no half of a tensor is ever read. The folder is
    removed by `close`, at the end of a ``with`` block also after an error, when the store is no
    longer used, and when the process ends; what a killed process left is removed by the next store
    in the same place. One lane serves both directions unless `duplex` is set.
    Other arguments, attributes and errors: as `Store`; StoreError for a folder that is not there.
    """

    def __init__(self, folder: str | os.PathLike, *, duplex: bool = False, **options):
        parent = Path(folder)
        if not parent.is_dir():
            raise StoreError(f"no folder {str(parent)!r}; create it, on the disk to be used")
        try:
            _remove_abandoned(parent)
            self.folder, lock = _own_folder(parent)
        except OSError as error:
            raise StoreError(f"cannot write into {str(parent)!r}: {error}") from error
        self._remove = weakref.finalize(self, _remove_folder, self.folder, lock)
        self._files: dict[str, Path] = {}
        self._named = 0
        super().__init__(duplex=duplex, **options)

    def _write(self, key: str, tensor: torch.Tensor, ready) -> None:
        if tensor.is_cuda:
            held = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            copy_across(tensor, held, ready)
        else:
            held = tensor.contiguous()
        path = self._files.get(key)
        if path is None:
            self._named += 1
            path = self.folder / f"{self._named:08d}"
        part = path.with_suffix(".part")
        try:
            with open(part, "wb") as file:
                file.write(memory_of(held))
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        self._files[key] = path

    def _read(self, key: str, target: torch.Tensor, ready) -> None:
        held = target
        if target.is_cuda:
            held = torch.empty(target.shape, dtype=target.dtype, pin_memory=True)
        path = self._files[key]
        try:
            with open(path, "rb", buffering=0) as file:
                read = _read_all(file, memory_of(held))
        except OSError as error:
            raise StoreError(f"{key!r} cannot be read from {str(path)!r}: {error}") from error
        if read != target.nbytes:
            raise StoreError(f"{key!r}: {str(path)!r} has {read} of {target.nbytes} bytes")
        if held is not target:
            copy_across(held, target, ready)

    def _failure(self, key: str, tensor: torch.Tensor, error: OSError) -> str:
        try:
            free = f"{shutil.disk_usage(self.folder).free} bytes are free"
        except OSError:
            free = "the folder is gone"
        return (
            f"{key!r}: {tensor.nbytes} bytes could not be written into {str(self.folder)!r} "
            f"({error.strerror}; {free}). They are kept in memory: make room and call flush()"
        )

    def _forget(self, key: str) -> None:
        path = self._files.pop(key, None)
        if path is not None:
            path.unlink(missing_ok=True)

    def _forget_all(self) -> None:
        self._files.clear()
        self._remove()


def _read_all(file, view: memoryview) -> int:
    done = 0
    while done < len(view) and (count := file.readinto(view[done:])):
        done += count
    return done


_PREFIX = "dtlib-store-"


def _own_folder(parent: Path) -> tuple[Path, int]:
    """A new folder, and a lock that lives as long as its owner, who takes it first."""
    handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=".lock", dir=parent)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    folder = Path(name).with_suffix("")
    folder.mkdir()
    return folder, handle


def _remove_folder(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".lock").unlink(missing_ok=True)
    os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders whose owners are no more: their locks can be had."""
    for folder in parent.glob(f"{_PREFIX}*/"):
        try:
            handle = os.open(folder.with_suffix(".lock"), os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
        else:
            _remove_folder(folder, handle)
