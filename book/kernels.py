"""Kernels that speak over sockets with a name, not a number.

A port is chosen, let go, and then bound by the kernel: whatever starts meanwhile may take it, and
the kernel dies. A name in a folder of one's own is nobody else's.

As a pytest plugin (``-p book.kernels``) this holds for the kernels of nbval.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from traitlets.config import Config

SHORT = "/tmp"  # a socket's path has at most 103 bytes


@contextmanager
def named_sockets() -> Iterator[Config]:
    """Settings for the kernels of one process, as nbclient takes them; the sockets go at the end.

    >>> with named_sockets() as config:
    ...     config.KernelManager.transport, len(config.KernelManager.ip) < 30
    ('ipc', True)
    """
    with tempfile.TemporaryDirectory(prefix="kernel-", dir=SHORT) as folder:
        yield Config(KernelManager={"transport": "ipc", "ip": f"{folder}/k"})


def pytest_configure(config: pytest.Config) -> None:
    from nbval import kernel

    sockets, before = named_sockets(), kernel.KernelManager
    config.add_cleanup(lambda: sockets.__exit__(None, None, None))
    config.add_cleanup(lambda: setattr(kernel, "KernelManager", before))
    kernel.KernelManager = partial(before, config=sockets.__enter__())
