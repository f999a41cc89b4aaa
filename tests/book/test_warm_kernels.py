"""A warm kernel does what a cold one does, and goes when it should."""

import os
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from book._tools.layout import ROOT
from book._tools.notebooks import ENVIRONMENT
from book._tools.warm_kernels import warm_kernels

CELLS = [
    "import os, sys; os.getcwd(), os.environ['TOLD'], os.environ['PYTHONHASHSEED']",
    "[name for name in sys.modules if name.split('.')[0] == 'book']",
    "sys.path[1:]",
    "hash('ranks')",
    "import matplotlib; matplotlib.get_backend()",
    "from dtlib import launch\n"
    "with launch(2) as ranks:\n"
    "    told = ranks.run(lambda: (__import__('torch').get_num_threads(), os.environ['TOLD']))\n"
    "told",
    "1 / 0",
]


@pytest.fixture(scope="module")
def cold():
    return {**os.environ, **ENVIRONMENT, "TOLD": "by the starter"}


@pytest.fixture(scope="module")
def warm(cold):
    with warm_kernels({**cold, "TOLD": "by the server"}) as environment:
        yield {**environment, "TOLD": "by the starter"}


def outputs(environment, folder, cells=CELLS) -> list:
    """What a kernel shows for some cells, all but the paths in the frames of an error."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        client = NotebookClient(
            notebook,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute()
    return [cell.outputs for cell in notebook.cells]


def test_a_warm_kernel_shows_what_a_cold_one_shows(cold, warm, tmp_path):
    expected, seen = outputs(cold, tmp_path), outputs(warm, tmp_path)
    for cell, one, other in zip(CELLS, expected, seen, strict=True):
        assert one == other, cell
    assert str(tmp_path) in str(seen[0]) and "ZeroDivisionError" in str(seen[-1])


def test_sabotage_a_warm_kernel_is_one(cold, warm, tmp_path):
    cells = ["import sys; 'torch' in sys.modules"]
    assert outputs(cold, tmp_path, cells) != outputs(warm, tmp_path, cells)


def test_two_kernels_share_neither_names_nor_random_numbers(warm, tmp_path):
    cells = ["import random, numpy; random.random(), numpy.random.rand()", "'shared' in globals()"]
    first = outputs(warm, tmp_path, [*cells, "shared = 1"])
    second = outputs(warm, tmp_path, cells)
    assert first[0] != second[0]
    assert first[1] == second[1] and "False" in str(second[1])


@pytest.fixture
def kernel(warm, monkeypatch):
    """A manager and a client of one kernel, and the number of its process."""
    for name, value in warm.items():
        monkeypatch.setenv(name, value)
    manager, client = start_new_kernel(600, kernel_name="python3")
    process = int(shown(client, "__import__('os').getpid()"))
    yield manager, client, process
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def shown(client, code: str) -> str:
    seen = []

    def keep(message):
        if message["msg_type"] == "execute_result":
            seen.append(message["content"]["data"]["text/plain"])
        if message["msg_type"] == "error":
            seen.append(message["content"]["ename"])

    client.execute_interactive(code, timeout=600, output_hook=keep)
    return seen[0]


def ends(process: int) -> bool:
    """Whether a process ends by itself, in minutes if need be; who adopts it may never ask."""
    for _ in range(6000):
        try:
            if psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


def test_the_stop_button_reaches_a_warm_kernel(kernel):
    manager, client, _ = kernel
    code = "import time; print('here'); time.sleep(600)"
    seen = []

    def stop(message):
        seen.append(message["content"].get("ename"))
        if message["msg_type"] == "stream":
            manager.interrupt_kernel()

    client.execute_interactive(code, timeout=600, output_hook=stop)
    assert "KeyboardInterrupt" in seen
    assert shown(client, "1 + 1") == "2"


@pytest.mark.parametrize("how", ["asked", "killed"])
def test_a_kernel_ends_when_it_is_asked_to_and_when_its_starter_is_killed(kernel, how):
    manager, _, process = kernel
    manager.shutdown_kernel(now=how == "killed")
    assert ends(process)


KILLED = """
import os, signal
from book._tools.warm_kernels import warm_kernels
from jupyter_client.manager import start_new_kernel

with warm_kernels(dict(os.environ)) as environment:
    os.environ.update(environment)
    manager, client = start_new_kernel(600, kernel_name="python3")
    client.execute_interactive("import os; print(os.getpid(), os.getppid())", timeout=600)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_server_and_kernel_end_with_a_process_that_is_killed(cold):
    done = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=ROOT, env=cold, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == -signal.SIGKILL
    kernel, server = map(int, done.stdout.splitlines()[-1].split())
    assert ends(server) and ends(kernel)
