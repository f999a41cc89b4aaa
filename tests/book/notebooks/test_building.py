"""Text notebooks become the same executed notebooks every time, and a stale one is noticed."""

import shutil

import nbformat
import pytest

from book._tools import notebooks
from book._tools.layout import ROOT, select
from book._tools.notebooks import NotebookError, convert, settle
from book.notebooks.build import BuiltBefore, build_one, notebook_of, problems

HEADER = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n\n"
TOY = """# Toy

```{code-cell} ipython3
:tags: [live]

import time
print(time.time())
```

```{code-cell} ipython3
:tags: [raises-exception]

raise ValueError("rank 3, chunk 1: lacks ranks [0]")
```

:::{solution-start} ex-toy
:::

```{code-cell} ipython3
1 + 1
```

:::{solution-end}
:::

```{code-cell} ipython3
import os
os.environ["PYTHONHASHSEED"], os.environ["TZ"]
```

```{code-cell} ipython3
import anywidget, traitlets

class Dial(anywidget.AnyWidget):
    _esm = "export default { render() {} }"
    turns = traitlets.Int(3).tag(sync=True)
    def __repr__(self):
        return "Dial"

Dial()
```
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A toy source, built twice."""
    source = tmp_path_factory.mktemp("toy") / "01-toy.md"
    source.write_text(HEADER + TOY)
    first = build_one(source)
    text = source.with_suffix(".ipynb").read_bytes()
    second = build_one(source)
    assert first.changed and not second.changed
    assert source.with_suffix(".ipynb").read_bytes() == text
    return nbformat.reads(text.decode(), 4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_it_is_a_valid_notebook_of_python_3(toy):
    nbformat.validate(toy)
    assert toy.metadata.kernelspec.name == "python3"
    assert "version" not in toy.metadata.language_info


def test_a_live_cell_is_stored_without_output(toy):
    live = code(toy)[0]
    assert live.outputs == [] and live.execution_count is None
    assert "nbval-ignore-output" in live.metadata.tags


def test_an_expected_error_is_stored_without_the_frames_above_it(toy):
    (error,) = code(toy)[1].outputs
    assert error.ename == "ValueError"
    assert len(error.traceback) == 1
    assert error.traceback[0].endswith("rank 3, chunk 1: lacks ranks [0]")


def test_solutions_are_folded_and_nothing_else(toy):
    folded = [cell.metadata.get("cellView") == "form" for cell in code(toy)]
    assert folded == [False, False, True, False, False]


def test_execution_has_the_same_environment_everywhere(toy):
    assert code(toy)[3].outputs[0].data["text/plain"] == "('0', 'UTC')"


def test_the_state_of_widgets_is_kept_under_settled_names(toy):
    state = toy.metadata.widgets[notebooks.WIDGETS].state
    shown = code(toy)[4].outputs[0].data["application/vnd.jupyter.widget-view+json"]
    assert state[shown.model_id].state.turns == 3


def test_ids_of_cells_move_with_their_text(tmp_path):
    source = tmp_path / "02-toy.md"
    source.write_text(HEADER + TOY)
    before = [cell.id for cell in convert(source).cells]
    source.write_text(HEADER + TOY.replace("# Toy\n", "# Toy\n\n```{code-cell} ipython3\n0\n```\n"))
    after = [cell.id for cell in convert(source).cells]
    assert len(set(after)) == len(after)
    assert set(before) < set(after)


@pytest.mark.parametrize("edit", ["# Other title", "```{code-cell} ipython3\n2\n```"])
def test_check_notices_an_edited_source(tmp_path, edit):
    source = tmp_path / "03-toy.md"
    source.write_text(HEADER + "# Toy\n")
    assert problems([source]) == ["03-toy.ipynb is missing; run: make notebooks"]
    nbformat.write(notebook_of(source), source.with_suffix(".ipynb"))
    assert problems([source]) == []
    source.write_text(HEADER + edit)
    assert problems([source])[0].startswith("03-toy.ipynb was not built from this 03-toy.md")


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("import sys; print('x', file=sys.stderr)", "wrote to stderr"),
        ("import dtlib; dtlib.__file__", "a path of this machine"),
        ("1 / 0", "a cell failed"),
    ],
)
def test_a_notebook_that_cannot_be_stored_is_refused(tmp_path, cell, complaint):
    source = tmp_path / "04-toy.md"
    source.write_text(f"{HEADER}# Toy\n\n```{{code-cell}} ipython3\n{cell}\n```\n")
    with pytest.raises(NotebookError, match=complaint):
        build_one(source)
    assert not source.with_suffix(".ipynb").exists()


def notebook_of_widgets(identities):
    """A notebook that shows widgets, each with a layout of its own, and one that is never shown."""
    view = "application/vnd.jupyter.widget-view+json"
    outputs = [nbformat.v4.new_output("display_data", {view: {"model_id": i}}) for i in identities]
    cells = [
        nbformat.v4.new_code_cell("", outputs=[output], id=str(number))
        for number, output in enumerate(outputs)
    ]
    state = {"f" * 32: {"state": {"never": "shown"}}}
    for number, identity in enumerate(identities):
        layout = identity[::-1]
        state[identity] = {"state": {"number": number, "layout": f"IPY_MODEL_{layout}"}}
        state[layout] = {"state": {"layout_of": number}}
    metadata = {"dtlib": {"source": "0"}, "widgets": {notebooks.WIDGETS: {"state": state}}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def test_ids_of_widgets_do_not_depend_on_the_random_ones():
    random_ids = [[f"{digit}{n:030x}0" for n in range(1, 6)] for digit in "ab"]
    one, other = (settle(notebook_of_widgets(ids), "toy") for ids in random_ids)
    assert one == other
    state = one.metadata.widgets[notebooks.WIDGETS].state
    assert len(state) == 10
    for number, cell in enumerate(one.cells):
        (shown,) = cell.outputs[0].data.values()
        model = state[shown.model_id].state
        assert model.number == number
        assert state[model.layout.removeprefix("IPY_MODEL_")].state.layout_of == number


def test_names_and_numbers_select_sources():
    sources = [ROOT / "chapters/x/04-alpha.md", ROOT / "chapters/x/13a-shape.md"]
    assert select(["4"], sources) == select(["04-alpha"], sources) == sources[:1]
    assert select(["13a", "04"], sources) == sources[::-1]
    with pytest.raises(SystemExit, match="12"):
        select(["12"], sources)


def test_what_was_built_before_is_known_until_an_input_changes(tmp_path):
    for folder in ("dtlib", "book/measurements"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "dtlib/cost.py").write_text("two = 2\n")
    source = tmp_path / "01-toy.md"
    source.write_text("text")
    source.with_suffix(".ipynb").write_text("{}")
    before = BuiltBefore(tmp_path)
    assert source not in before
    before.add(source)
    assert source in BuiltBefore(tmp_path)
    (tmp_path / "dtlib/cost.py").write_text("two = 3\n")
    assert source not in BuiltBefore(tmp_path)
    shutil.rmtree(tmp_path / ".cache")
