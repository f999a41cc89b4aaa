"""Which library carries the messages: NCCL where every rank has a GPU of its own, else gloo."""

from pathlib import Path
from typing import Any

_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


def visible_gpus() -> int:
    """The number of GPUs; torch, slow to import, is asked only where there is a GPU driver."""
    if not any(Path(driver).exists() for driver in _GPU_DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()


def choose_backend(ranks_here: int, backend: str | None = None) -> str:
    """Choose "nccl" or "gloo" for so many ranks on this machine.

    Args:
        ranks_here: number of ranks on this machine.
        backend: the caller's own choice (None: NCCL if there are enough GPUs).

    Returns:
        "nccl" or "gloo".

    Raises:
        ValueError: the backend is unknown, or NCCL lacks GPUs.

    >>> choose_backend(4, "gloo")
    'gloo'
    """
    if backend not in (None, "gloo", "nccl"):
        raise ValueError(f"backend must be 'gloo', 'nccl' or None, got {backend!r}")
    if backend == "gloo":
        return "gloo"
    gpus = visible_gpus()
    if backend == "nccl" and gpus < ranks_here:
        raise ValueError(f"backend 'nccl' needs a GPU for each of {ranks_here} ranks, found {gpus}")
    return "nccl" if gpus >= ranks_here else "gloo"


def take_device(backend: str, local_rank: int) -> Any:
    """Make this process use its own GPU, if the backend is NCCL; returns the torch device."""
    import torch

    if backend == "gloo":
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def torch_backend(backend: str) -> str:
    """The name for `init_process_group`: beside NCCL, gloo still carries the CPU tensors."""
    return "cpu:gloo,cuda:nccl" if backend == "nccl" else "gloo"


def device() -> Any:
    """The device of this rank: its GPU under NCCL, else the CPU.

    A function that runs on ranks creates its tensors there, so that the same text uses NCCL where
    there are GPUs: `torch.ones(4, device=device())`.
    """
    import torch
    import torch.distributed as dist

    on_gpu = dist.is_initialized() and "nccl" in dist.get_backend_config()
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
