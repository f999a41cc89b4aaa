"""The labs on the site: what the page says of each, and the zip that can be taken along."""

import io
import subprocess
import sys
from zipfile import ZipFile

import pytest

from book._tools.layout import ROOT, lab_sources
from book._tools.listings.lab_archive import archive, requirements
from book._tools.listings.lab_list import Lab, LabPageError, labs, labs_page
from dtlib.contents import chapter


def test_every_lab_is_on_the_page_once_with_its_zip():
    page = labs_page()
    assert sorted(lab.source for lab in labs()) == lab_sources()
    for lab in labs():
        assert page.count(f"(lab-{lab.name})=") == page.count(f"/{lab.name}.zip") == 1


def test_points_are_those_that_nbgrader_gives():
    one = next(lab for lab in labs() if lab.name == "all-reduce")
    assert one.points == 20 and "20 points" in one.facts()["takes"]
    assert one.files == ["all_reduce.sbatch", "torchrun_lab.py"]


def test_a_lab_that_does_not_say_what_it_takes_is_refused(tmp_path):
    source = tmp_path / "silent.md"
    source.write_text("# Lab: Silent\n")
    source.with_name("README.md").write_text("# Silent\n")
    with pytest.raises(LabPageError, match="lab silent lacks"):
        Lab(source, chapter("12")).facts()


@pytest.mark.parametrize("source", lab_sources(), ids=lambda source: source.stem)
def test_a_zip_holds_the_lab_and_is_the_same_each_time(source):
    made = archive(source)
    assert made == archive(source)
    with ZipFile(io.BytesIO(made)) as held:
        names = set(held.namelist())
    beside = {f"{source.stem}/{f.name}" for f in source.parent.iterdir() if f.is_file()}
    assert beside | {f"{source.stem}/START.md"} <= names


def test_the_library_in_a_zip_runs_without_this_repository(tmp_path):
    source = lab_sources()[0]
    with ZipFile(io.BytesIO(archive(source))) as held:
        held.extractall(tmp_path)
    folder = tmp_path / source.stem
    wanted = requirements(ROOT, "X").replace("./X[ranks]", "")
    (library,) = folder.glob("dtlib-*.whl")
    assert (folder / "requirements.txt").read_text() == f"./{library.name}[ranks]{wanted}"
    with ZipFile(library) as held:
        held.extractall(tmp_path / library.stem)
    run = "import dtlib; from dtlib.exercises import check; print(dtlib.__file__)"
    said = subprocess.run(
        [sys.executable, "-P", "-c", run],
        cwd=folder,
        env={"PYTHONPATH": str(tmp_path / library.stem)},
        capture_output=True,
        text=True,
    )
    assert said.stdout.startswith(str(tmp_path)), said.stderr
