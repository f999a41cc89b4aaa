"""Labs: the handed-out notebook gives nothing away, the solved one runs, nbgrader agrees."""

import ast
import os
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from replayed import graded, replay

from book.__main__ import verify
from book._tools import labs, notebooks
from book._tools.checks import STEPS
from book._tools.layout import ROOT, lab_sources
from book.kernels import named_sockets

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
PLACES = f"{ROOT}{os.pathsep}{Path(__file__).parent}"
SOURCES = lab_sources()
each_lab = pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.stem)


def regions(source, markers) -> list[list[str]]:
    """The lines between each pair of markers of a lab."""
    found = []

    def keep(lines):
        found.append(lines)
        return []

    for cell in labs.convert(source).cells:
        labs.replace_regions(cell.source, markers, keep)
    return found


def secrets(source) -> set[str]:
    """Lines of the solutions and hidden tests that stand nowhere else in the lab."""
    inside = [r for markers in (labs.SOLUTION, labs.HIDDEN) for r in regions(source, markers)]
    lines = {line.strip() for region in inside for line in region}
    public = {
        line.strip()
        for cell in labs.convert(source).cells
        for markers in [labs.SOLUTION]
        for line in labs.replace_regions(
            labs.replace_regions(cell.source, markers, lambda _: []), labs.HIDDEN, lambda _: []
        ).split("\n")
    }
    return {line for line in lines - public if len(line) > 12}


@each_lab
def test_both_notebooks_are_built_from_the_source(source):
    assert labs.problems([source]) == []


@each_lab
def test_the_released_notebook_has_no_solution_no_hidden_test_and_no_output(source):
    text = labs.released_file(source).read_text(encoding="utf-8")
    notebook = nbformat.reads(text, 4)
    everything = "\n".join(cell.source for cell in notebook.cells)
    assert len(secrets(source)) > 20
    assert [line for line in secrets(source) if line in everything] == []
    assert "###" not in [line.strip()[:3] for line in everything.split("\n") if "BEGIN" in line]
    assert not any(cell.get("outputs") for cell in notebook.cells)
    wanted = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("solution")]
    stubs = [c for c in wanted if labs.STUBS[c.cell_type].split("\n")[0] in c.source]
    assert len(stubs) == len(wanted) > 0


def test_the_released_lab_does_not_say_what_was_to_be_predicted():
    text = labs.released_file(next(s for s in SOURCES if s.stem == "all-reduce")).read_text()
    for value in ("6,000,000", "6_000_000", "6000000"):
        assert value not in text


@each_lab
def test_every_cell_of_the_released_notebook_is_python(source):
    for cell in nbformat.read(labs.released_file(source), 4).cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)


@each_lab
def test_a_changed_source_is_noticed(source, tmp_path):
    copy = tmp_path / source.name
    shutil.copy(source, copy)
    for file in (labs.released_file(source), labs.solved_file(source)):
        shutil.copy(file, tmp_path)
    assert labs.problems([copy]) == []
    released = labs.released_file(copy)
    notebook = nbformat.read(released, 4)
    code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    code.outputs = [nbformat.v4.new_output("stream", text="6")]
    nbformat.write(notebook, released)
    assert labs.problems([copy]) == [
        f"{released.name} has been run: it is handed out without outputs"
    ]
    copy.write_text(copy.read_text(encoding="utf-8") + "\nOne more sentence.\n", encoding="utf-8")
    assert len(labs.problems([copy])) == 2
    labs.solved_file(copy).unlink()
    assert f"{labs.solved_file(copy).name} is missing; {labs.REMEDY}" in labs.problems([copy])


@pytest.mark.parametrize(
    "text",
    [
        "### BEGIN SOLUTION\nx = 1",
        "x = 1\n### END SOLUTION",
        "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION",
    ],
)
def test_a_marker_without_its_partner_is_refused(text):
    with pytest.raises(labs.LabError, match="has no partner"):
        labs.replace_regions(text, labs.SOLUTION, lambda lines: lines)


def test_every_solved_notebook_runs_again_with_the_pages(monkeypatch):
    """The step "notebooks" of the checks runs them and compares their outputs, once is enough."""
    verified = []
    monkeypatch.setattr(notebooks, "verify", lambda files: verified.extend(files) or 0)
    assert verify([]) == 0
    assert {labs.solved_file(source) for source in SOURCES} <= set(verified)
    assert ["book", "verify"] in STEPS["notebooks"]


def run(*command, cwd) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": PLACES, "PATH": PATH},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def inputs(notebook_file) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in nbformat.read(notebook_file, 4).cells]


FIRST_OF_PARTS = list({source.parts[-3]: source for source in reversed(SOURCES)}.values())
RUN_BY_NBGRADER = [source for source in SOURCES if source.stem == "all-reduce-autopsy"]
REPLAYED = "\nfrom replayed import grades_from_outputs\n\ngrades_from_outputs(c)\n"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """All labs, an nbgrader course of them, and its marks: each with what can be reached.

    One student has handed in every solved lab, which was run before; another the first of each part
    as it was given out, the third a solved one: nbgrader runs these two. That nothing is passed by
    what a lab hands out, task by task, is tests/exercises; here such a verdict gives no marks.
    """
    folder = tmp_path_factory.mktemp("course")
    labs.write_course(folder, SOURCES)
    run("nbgrader", "generate_assignment", "*", "--create", cwd=folder)
    for student, file, theirs in (
        ("diligent", labs.solved_file, SOURCES),
        ("idle", labs.released_file, FIRST_OF_PARTS),
        ("unseen", labs.solved_file, RUN_BY_NBGRADER),
    ):
        for source in theirs:
            handed_in = folder / "submitted" / student / source.stem / f"{source.stem}.ipynb"
            handed_in.parent.mkdir(parents=True)
            shutil.copy(file(source), handed_in)
    settings = folder / "nbgrader_config.py"
    with named_sockets() as kernels:
        kernel = f"\nc.KernelManager.update({dict(kernels.KernelManager)})\n"
        settings.write_text(settings.read_text() + REPLAYED + kernel)
        run("nbgrader", "autograde", "*", cwd=folder)
    with Gradebook(f"sqlite:///{folder}/gradebook.db", folder.name) as gradebook:
        return folder, {
            (name, who["student"]): (who["score"], who["max_score"])
            for name in (source.stem for source in SOURCES)
            for who in gradebook.submission_dicts(name)
        }


@each_lab
def test_our_released_notebooks_are_what_nbgrader_hands_out(course, source):
    theirs = course[0] / "release" / source.stem / f"{source.stem}.ipynb"
    assert inputs(theirs) == inputs(labs.released_file(source))


@each_lab
def test_nbgrader_gives_solved_notebooks_full_marks(course, source):
    full, most = course[1][source.stem, "diligent"]
    assert full == most > 0


def test_nbgrader_gives_released_notebooks_no_marks(course):
    assert len(FIRST_OF_PARTS) == len({source.parts[-3] for source in SOURCES})
    for source in FIRST_OF_PARTS:
        none, most = course[1][source.stem, "idle"]
        assert none == 0 < most, source.stem


def test_nbgrader_gives_the_same_marks_when_it_runs_a_solved_notebook_itself(course):
    (source,) = RUN_BY_NBGRADER
    full, most = course[1][source.stem, "unseen"]
    assert (full, most) == course[1][source.stem, "diligent"] and full == most > 0


def test_sabotage_only_what_was_run_is_given_its_outputs():
    ran = nbformat.read(labs.solved_file(SOURCES[0]), 4)
    replay(deepcopy(ran), ran)
    for number, cell in enumerate(ran.cells):
        changed = deepcopy(ran)
        changed.cells[number].source += " "
        with pytest.raises(ValueError, match=f"cell {number} is not the one that was run"):
            replay(changed, ran)
        if graded(cell):
            ignored = deepcopy(ran)
            ignored.cells[number].metadata["tags"] = ["nbval-ignore-output"]
            with pytest.raises(ValueError, match=f"cell {number} is graded"):
                replay(deepcopy(ran), ignored)


def test_the_torchrun_form_runs_the_readers_functions_on_every_rank():
    folder = ROOT / "labs/3-collectives/all-reduce"
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    output = run(*command, "torchrun_lab.py", "all-reduce-solved.ipynb", cwd=folder)
    for rank in range(2):
        assert f"[rank {rank}] equal: True, sent 4,000,000 bytes in 2 messages" in output
        assert f"[rank {rank}] dist.all_reduce" in output


def test_the_torchrun_form_says_how_to_start_it():
    script = ROOT / "labs/3-collectives/all-reduce/torchrun_lab.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "torchrun --nproc-per-node 4" in done.stderr
