"""Kernels of the book's tools listen on no port, which another process could have taken."""

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from book.kernels import named_sockets

CHOSEN = """import psutil
from ipykernel.kernelapp import IPKernelApp

app, mine = IPKernelApp.instance(), psutil.Process().net_connections("inet")
chosen = {app.shell_port, app.iopub_port, app.stdin_port, app.hb_port, app.control_port}
sorted(chosen & {one.laddr.port for one in mine if one.status == "LISTEN"})"""


def ports_of_a_kernel(config: Config) -> list[int]:
    """The ports that were chosen for a kernel with these settings, and on which it listens."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CHOSEN)])
    NotebookClient(notebook, config=config, timeout=1800, kernel_name="python3").execute()
    return eval(notebook.cells[0].outputs[0]["data"]["text/plain"])


def test_a_kernel_listens_on_no_port():
    with named_sockets() as config:
        assert ports_of_a_kernel(config) == []


def test_sabotage_any_other_kernel_does():
    assert ports_of_a_kernel(Config())


def test_two_processes_have_names_of_their_own():
    with named_sockets() as one, named_sockets() as other:
        assert one.KernelManager.ip != other.KernelManager.ip
