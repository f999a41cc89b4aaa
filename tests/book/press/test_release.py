"""An edition names one version, and its files have the checksums that lie beside them."""

import shutil
import subprocess

import pytest

from book._press.release import SUMS, checksums, problems, write
from book._tools.layout import ROOT
from book._tools.listings.library import library_wheel
from dtlib import __version__


def test_every_file_names_the_same_version():
    assert list(problems()) == []
    assert f"-{__version__}-" in library_wheel().name


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("CITATION.cff", f"version: {__version__}", "version: 9.9.9"),
        ("CHANGELOG.md", f"## {__version__}", "## 9.9.9"),
    ],
)
def test_another_version_is_found(tmp_path, file, before, after):
    for name in ("CITATION.cff", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace(before, after, 1) if name == file else text)
    (problem,) = problems(tmp_path)
    assert problem.startswith(file) and "9.9.9" in problem


def test_the_checksums_are_those_that_the_usual_tool_checks(tmp_path):
    (tmp_path / "a.whl").write_bytes(b"wheel")
    (tmp_path / "b.pdf").write_bytes(b"paper")
    (tmp_path / SUMS).write_text(checksums(tmp_path))
    command = [shutil.which("sha256sum") or "gsha256sum", "--check", "--quiet", SUMS]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    (tmp_path / "b.pdf").write_bytes(b"other")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1


def test_without_a_site_there_is_no_release(tmp_path):
    with pytest.raises(SystemExit, match="there is no built site"):
        list(write(tmp_path, tmp_path / "release"))
