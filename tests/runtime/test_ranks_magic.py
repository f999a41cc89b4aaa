"""`%%ranks` in a notebook that is executed twice, in two kernels: the same outputs both times."""

import asyncio
import os
import re

import nbformat
import psutil
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from processes import come_to_rest

from book.kernels import named_sockets
from dtlib.runtime.magic import _parse

CELLS = {
    "load": "%load_ext dtlib",
    "sum": "%%ranks 4\nx = torch.ones(2) * rank\ndist.all_reduce(x)\nprint('hello')\nx",
    "again": "%%ranks\nx[0].item() + rank",
    "scale": "scale, shift = 10, 1",
    "push": "%%ranks 2 --push scale,shift\nscale * rank + shift",
    "error": "%%ranks 4\nif rank == 1: raise ValueError('oops')\ndist.barrier()",
    "after": "%%ranks 4\nx[0].item()",
    "debug": "%%ranks 4 --debug\ndist.all_reduce(torch.ones(2 + rank // 2))",
    "syntax": "%%ranks 4\nx = = 3",
    "magic": "%%ranks 4\nx = 1\n%matplotlib inline",
    "shell": "%%ranks 4\n!ls",
    "usage": "%%ranks four\nx",
    "none": "%%ranks 0\nx",
    "unknown": "%%ranks 4 --push nothing\nx",
    "lock": "import threading\nlock = threading.Lock()",
    "push a lock": "%%ranks 4 --push lock\nlock",
    "function": "from dtlib import launch\n\ndef invert():\n    import torch.distributed as dist\n"
    "    return 1 / dist.get_rank()\n\nwith launch(2) as two:\n    two.run(invert)",
    "hang": "%%ranks 4 --timeout 2\nif rank == 1: dist.barrier()",
    "still": "%%ranks 4\nx[0].item() + rank",
    "end": "%%ranks 4\ndist.get_world_size()",
}
NUMBERS = {name: number for number, name in enumerate(CELLS, start=1)}


def shown(cell):
    """What a reader sees below a cell, without colours, in however many pieces it comes."""
    texts = []
    for output in cell.outputs:
        assert output.output_type in ("stream", "error")
        is_printed = output.output_type == "stream"
        texts.append(output.text if is_printed else "\n".join(output.traceback) + "\n")
    return re.sub(r"\x1b\[[0-9;]*m", "", "".join(texts)).rstrip("\n")


# The second kernel runs in a pod, whose environment speaks of a rank: no notebook is one.
POD = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


async def execute(**environment):
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with named_sockets() as config:
        client = NotebookClient(
            notebook, config=config, timeout=1800, allow_errors=True, kernel_name="python3"
        )
        await client.async_execute(env={**os.environ, **environment})
    return {name: shown(cell) for name, cell in zip(CELLS, notebook.cells, strict=True)}


async def execute_twice():
    return await asyncio.gather(execute(), execute(**POD))


@pytest.fixture(scope="module")
def executions():
    return asyncio.run(execute_twice())


@pytest.fixture(scope="module")
def page(executions):
    return executions[0]


def by_rank(*values):
    return "\n".join(f"[rank {rank}] {value}" for rank, value in enumerate(values))


def test_a_notebook_that_is_executed_twice_shows_the_same(executions):
    first, second = executions
    assert first == second


def test_a_cell_shows_what_the_ranks_print_and_then_their_values(page):
    assert page["sum"] == by_rank(*["hello"] * 4) + "\n" + by_rank(*["tensor([6., 6.])"] * 4)


def test_the_names_of_a_cell_stay_for_the_next_with_or_without_the_number(page):
    assert page["again"] == by_rank(6.0, 7.0, 8.0, 9.0)


def test_push_copies_names_of_the_notebook(page):
    assert page["push"] == by_rank(1, 11)


def test_an_error_shows_the_rank_and_its_line_and_no_more(page):
    assert page["error"].splitlines() == [
        "RankError: rank 1 failed: ValueError: oops",
        f"  <ranks cell {NUMBERS['error']}>, line 1, in <module>",
        "    if rank == 1: raise ValueError('oops')",
    ]
    assert page["after"] == by_rank(*[6.0] * 4)


def test_an_error_in_a_function_of_a_cell_names_the_cell(page):
    assert page["function"].splitlines() == [
        "RankError: rank 0 failed: ZeroDivisionError: division by zero",
        f"  Cell In[{NUMBERS['function']}], line 5, in invert",
        "    return 1 / dist.get_rank()",
    ]


def test_debug_compares_the_calls(page):
    assert "CollectiveMismatch: the ranks disagree" in page["debug"]
    assert "\n  ranks 2, 3 call all_reduce(tensor=float32[3], op=SUM)\n" in page["debug"]


def test_a_hang_shows_its_line_and_the_next_cell_runs(page):
    text = page["hang"]
    assert text.startswith("RankTimeout: no answer from rank 1 within 2 s (ranks 0, 2, 3 had fin")
    assert "    if rank == 1: dist.barrier()\n" in text
    assert "free again and keep what their cells had defined" in text
    assert page["still"] == by_rank(6.0, 7.0, 8.0, 9.0)
    assert page["end"] == by_rank(4, 4, 4, 4)


INTERRUPTED = """
from dtlib import launch

with launch(2) as two:
    print("hanging", flush=True)
    two.cell("if rank: dist.barrier()")
"""


def test_the_stop_button_shows_where_the_ranks_were_and_no_more():
    manager, client = start_new_kernel()
    try:
        client.execute(INTERRUPTED)
        while (message := client.get_iopub_msg(timeout=600))["msg_type"] != "error":
            if "hanging" in message["content"].get("text", ""):
                assert come_to_rest(psutil.Process(manager.provisioner.pid))
                manager.interrupt_kernel()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert message["content"]["traceback"] == [
        "RanksInterrupted: interrupted (rank 0 had finished)\n"
        "rank 1 was at\n"
        "  <ranks cell 1>, line 1, in <module>\n"
        "    if rank: dist.barrier()\n"
        "  torch/distributed/distributed_c10d.py, in barrier\n"
        "The ranks are free again and keep what their cells had defined, except process groups."
    ]


def test_a_cell_that_cannot_run_is_refused_in_few_words(page):
    number = NUMBERS["syntax"]
    assert page["syntax"].startswith(f'RanksError: \n  File "<ranks cell {number}>", line 1\n')
    assert page["syntax"].endswith("SyntaxError: invalid syntax")
    command = "is a command of the notebook, and ranks run Python only"
    assert page["magic"].startswith(f"RanksError: line 2: %matplotlib inline {command}")
    assert page["shell"].startswith(f"RanksError: line 1: !ls {command}")
    assert page["usage"].startswith("RanksError: 'four' is not understood; write %%ranks [n]")
    assert page["none"] == "RanksError: n must be a positive integer, got 0"
    assert page["unknown"] == "RanksError: --push nothing: the notebook has no such name"
    assert page["push a lock"].startswith("RanksError: the value of 'lock' cannot be sent")


def test_the_extension_says_what_ranks_there_are(page):
    assert page["load"] == "4 ranks over gloo on the CPU, starting; no GPU"


@pytest.mark.parametrize("name", ["scale", "lock"])
def test_other_cells_show_nothing(page, name):
    assert page[name] == ""


@pytest.mark.parametrize(
    "line", ["four", "--timeout", "--timeout soon", "--push", "4 --bug", "2.5", "2 3"]
)
def test_a_line_that_is_not_understood_is_answered_with_the_usage(line):
    with pytest.raises(ValueError, match=r"is not understood; write %%ranks \[n\]"):
        _parse(line)
