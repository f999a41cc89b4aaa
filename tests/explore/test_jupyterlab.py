"""In a real JupyterLab a widget keeps its keys: they move what has the focus, and no cell.

JupyterLab takes `d d`, `b` and the arrows for itself wherever an output has the focus.
"""

import json
import os
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from page import PATIENCE

pytest.importorskip("jupyterlab")

TOKEN = "only-on-this-machine"
WIDGETS = """
from dtlib.collectives import Switch, ring_all_reduce
from dtlib.explore import Stepper, bet
from IPython.display import display

question = bet("7.1", "How long?", unit="ms", anchor=30.0)
stepper = Stepper(ring_all_reduce(4), n=1e6, topology=Switch(4, 1e-6, 1e9), title="Round by round")
"""
MARKED = WIDGETS + "display(question, stepper)"
# Before a widget is made: JupyterLab draws it as soon as it hears of it.
UNMARKED = (
    """
from dtlib.explore.bets.betting import Bet
from dtlib.explore import Stepper

for kind in (Bet, Stepper):
    assert "data-lm-suppress-shortcuts" in kind._esm
    kind._esm = kind._esm.replace("data-lm-suppress-shortcuts", "data-nothing")
"""
    + MARKED
)
# A bet's line, and a mark of a figure: what it is and says, the key that changes it, and what then.
CONTROLS = {
    "slider": ("slider", "Your bet, ms", "ArrowDown", "aria-valuetext"),
    "mark": ("button", "follow rank 0", "Enter", "aria-pressed"),
}
CELLS = "window.jupyterapp.shell.currentWidget.content.model.cells.length"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab with settings, kernels and notebooks of its own."""
    home = tmp_path_factory.mktemp("lab")
    notebooks = home / "notebooks"
    notebooks.mkdir()
    for name, source in (("marked", MARKED), ("unmarked", UNMARKED)):
        cells = [nbformat.v4.new_code_cell(source)]
        cells += [nbformat.v4.new_code_cell(f"{number}") for number in range(4)]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
        nbformat.write(notebook, notebooks / f"{name}.ipynb")
    own = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "IPYTHONDIR": "ipython"}
    own |= {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}
    own |= {"JUPYTER_RUNTIME_DIR": "runtime"}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.root_dir={notebooks}", f"--IdentityProvider.token={TOKEN}"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--LabApp.news_url=None"]
    command += ["--LabApp.expose_app_in_browser=True"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    environment = os.environ | {name: str(home / folder) for name, folder in own.items()}
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home)
    try:
        yield _address(server, home)
    finally:
        family = [*psutil.Process(server.pid).children(recursive=True), server]
        for process in family:
            process.kill()
        server.wait()


def _address(server, home) -> str:
    """Where the server says that it is, as soon as it says so."""
    deadline = time.monotonic() + PATIENCE / 1000
    while server.poll() is None and time.monotonic() < deadline:
        for file in (home / "runtime").glob("jpserver-*.json"):
            try:
                return json.loads(file.read_text())["url"]
            except ValueError:
                pass  # it is being written
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{(home / 'log').read_text()}")


@pytest.fixture
def notebook(browser, lab):
    """Open a notebook of the server in JupyterLab, and run it."""
    contexts = []

    def notebook(name: str):
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 1100}))
        tab = contexts[-1].new_page()
        tab.goto(f"{lab}lab/tree/{name}.ipynb?reset&token={TOKEN}")
        tab.wait_for_function(
            "window.jupyterapp?.shell.currentWidget?.sessionContext?.isReady && "
            "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel"
        )
        tab.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        tab.wait_for_selector(".dt-kind-bet .dt-drawing")
        tab.wait_for_selector(".dt-kind-stepper .dt-drawing")
        return tab

    yield notebook
    for context in contexts:
        context.close()


def control(tab, name: str):
    """A control of the widgets, with the focus on it, after a click into the notebook."""
    role, words, *_ = CONTROLS[name]
    found = tab.get_by_role(role, name=words)
    found.evaluate("node => node.scrollIntoView({ block: 'center' })")
    tab.locator(".dt-title", has_text="Round by round").click()
    found.focus()
    return found


def changed(tab, found, press: str, what: str) -> None:
    """Press a key, and wait until the control says something else."""
    from playwright.sync_api import expect

    before = found.get_attribute(what)
    tab.keyboard.press(press)
    expect(found).not_to_have_attribute(what, before)


@pytest.mark.parametrize("name", CONTROLS)
def test_keys_on_a_control_move_it_and_delete_insert_and_leave_no_cell(notebook, name):
    tab = notebook("marked")
    cells = tab.evaluate(CELLS)
    found = control(tab, name)
    *_, press, what = CONTROLS[name]
    changed(tab, found, press, what)
    for key in "ddba":
        tab.keyboard.press(key)
    # Keys are heeded in their order: when this one has had its effect, so have those before.
    changed(tab, found, press, what)
    assert found.evaluate("node => node === document.activeElement")
    assert tab.evaluate(CELLS) == cells


def test_sabotage_without_the_mark_the_same_keys_delete_a_cell(notebook):
    tab = notebook("unmarked")
    cells = tab.evaluate(CELLS)
    control(tab, "slider")
    tab.keyboard.press("d")
    tab.keyboard.press("d")
    tab.wait_for_function(f"{CELLS} < {cells}")
