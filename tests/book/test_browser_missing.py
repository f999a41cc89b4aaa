"""Without Chromium, and without the right to install it, one line says so; the rest runs."""

import subprocess

import pytest

from book._tools import browser, checks


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine with these programs only; each of them does what its script says."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browser.os, "geteuid", lambda: 1000)

    def programs(**scripts):
        for name, script in scripts.items():
            file = tmp_path / name.replace("_", "-")
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o755)
        return tmp_path

    return programs


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ({}, "this system has no apt-get"),
        ({"apt_get": "exit 0"}, "that takes root or sudo"),
        ({"apt_get": "", "sudo": "echo 'sudo: a password is required' >&2; exit 1"}, "a password"),
    ],
)
def test_what_is_missing_is_one_line_with_the_way_to_get_it(bare, capfd, programs, reason):
    bare(**programs)
    assert browser.provide() == 0
    said, errors = capfd.readouterr()
    line = said.strip().splitlines()[-1]
    assert line.startswith("Chromium is missing (") and reason in line
    assert "apt-get install chromium" in line and errors == ""


def test_who_may_install_it_does(bare, capfd):
    folder = bare(apt_get='/bin/echo "$@" >> "$0.log"', sudo='shift; "$@"')
    assert browser.provide() == 0
    asked = (folder / "apt-get.log").read_text().splitlines()
    assert asked == ["-qq update", "-qq install -y --no-install-recommends chromium"]
    assert "missing" not in capfd.readouterr().out


def test_where_it_is_there_nothing_is_done(bare, capfd):
    bare(google_chrome="", apt_get="exit 1")
    assert browser.find_chromium().endswith("google-chrome")
    assert browser.provide() == 0 and capfd.readouterr().out == ""


FINE, BAD = ["platform"], ["no_such_module"]


def run(monkeypatch, capfd, **steps):
    monkeypatch.setattr(checks, "STEPS", steps)
    return checks.run_all([]), capfd.readouterr().out


def test_pages_that_nobody_looked_at_are_no_success(bare, monkeypatch, capfd):
    bare()
    status, said = run(monkeypatch, capfd, pages=[BAD], style=[FINE])
    assert status == 3 and "all checks passed" not in said
    assert "\npages: not run, Chromium is missing: " in said
    assert "== style" in said and "== pages" not in said


def test_a_failure_beside_them_is_a_failure(bare, monkeypatch, capfd):
    bare()
    status, said = run(monkeypatch, capfd, pages=[BAD], style=[BAD])
    assert status == 1 and said.endswith("FAILED: style\n")
    assert "pages: not run" in said


def test_with_chromium_they_are_looked_at(bare, monkeypatch, capfd):
    bare(chromium="")
    status, said = run(monkeypatch, capfd, pages=[FINE])
    assert status == 0 and said.endswith("all checks passed\n")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    folder = tmp_path / "read-only"
    folder.mkdir()
    (folder / "Makefile").write_text((checks.ROOT / "Makefile").read_text())
    # For root every folder can be written to, so that the test says no in its place.
    said = subprocess.run(
        ["make", "-n", "-C", str(folder), "book", "SHELL=/bin/false"],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 2
    assert "this folder cannot be written to" in said.stderr
