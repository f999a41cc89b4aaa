"""The plan, the files and what is generated from both agree."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from book._tools.generated import planned_page, readme_table, toc_chapters
from book._tools.layout import ROOT, pages
from book._tools.names_by_room import ROOMS, names_page
from book._tools.parts import doors
from book._tools.parts.pages import part_pages
from book._tools.quick_reference import quick_reference_page
from dtlib.__main__ import book_map, main, volume
from dtlib.contents import chapter, chapters, parts
from dtlib.lazy import shown_by

SOURCE_ITEMS = {f"{kind}.{number}" for kind in "ABC" for number in range(1, 21)}


def test_there_are_forty_chapters_in_eight_parts():
    expected = [str(n) for n in range(1, 38)]
    for extra, before in (("3a", "3"), ("13a", "13"), ("31a", "31")):
        expected.insert(expected.index(before) + 1, extra)
    assert [chapter.number for chapter in chapters()] == expected
    assert [part.number for part in parts()] == list(range(1, 9))


def test_every_item_of_the_source_is_covered_by_one_chapter():
    covered = [item for chapter in chapters() for item in chapter.covers]
    assert len(covered) == len(set(covered))
    assert set(covered) == SOURCE_ITEMS


def test_a_chapter_needs_only_earlier_ones():
    numbers = [chapter.number for chapter in chapters()]
    for position, chapter_ in enumerate(chapters()):
        assert set(chapter_.needs) <= set(numbers[:position]), chapter_.number


def test_every_chapter_has_its_one_line():
    assert all(part.question.endswith("?") for part in parts())
    for entry in (*parts(), *chapters()):
        assert entry.promise.endswith((".", "?")) and len(entry.promise) <= 125, entry.title
    assert len({chapter.slug for chapter in chapters()}) == 40


def test_every_file_of_a_chapter_is_one_of_the_plan():
    planned = {f"{chapter.page}.md" for chapter in chapters()}
    files = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("chapters/*/*.md")}
    assert files <= planned


def test_what_a_written_chapter_announces_is_there():
    for written in (entry for entry in chapters() if entry.is_written()):
        assert written.minutes and written.hardware and written.because, written.number
        for module in written.modules:
            assert (ROOT / "dtlib" / module).exists(), module
        for place in written.tests:
            assert (ROOT / place).exists(), place
        for lab in written.labs:
            assert (ROOT / "labs" / lab).exists(), lab


def test_a_written_chapter_has_the_title_of_the_plan():
    for written in (entry for entry in chapters() if entry.is_written()):
        text = (ROOT / f"{written.page}.md").read_text()
        assert f"# {written.title}" in text.splitlines(), written.page


def test_the_table_of_contents_lists_every_page_once():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    listed = [toc["root"], *listed]
    assert len(listed) == len(set(listed))
    assert {p.relative_to(ROOT).with_suffix("").as_posix() for p in pages()} <= set(listed)


def test_every_chapter_is_written_or_planned_on_the_page_of_its_part(tmp_path):
    labels = re.compile(r"^\((ch-\w+)\)=$", re.MULTILINE)
    pages = part_pages(tmp_path).values()
    found = [label for page in pages for label in labels.findall(page)]
    assert found == [c.label for c in chapters()]
    assert all(f"(#{label})" in planned_page(tmp_path) for label in found)
    listed = re.findall(r"- file: (.+)", toc_chapters(tmp_path))
    assert listed == [part.page for part in parts()]


def test_a_chapter_that_comes_leaves_the_planned_page(tmp_path):
    ring = chapter("12")
    file = tmp_path / f"{ring.page}.md"
    file.parent.mkdir(parents=True)
    file.touch()
    page = part_pages(tmp_path)[tmp_path / "book/part-3-collectives.md"]
    assert "(ch-12)=" not in page and "(ch-13)=" in page and f"(/{ring.page}.md)" in page
    assert "(#ch-12)" not in planned_page(tmp_path) and "(#ch-13)" in planned_page(tmp_path)
    assert f"- file: {ring.page}" in toc_chapters(tmp_path)
    assert f"({ring.page}.md)" in readme_table(tmp_path)
    assert "✓  12  Ring and tree algorithms" in book_map(tmp_path)


def test_the_quick_reference_has_the_numbered_formulas_of_every_chapter(tmp_path):
    page = tmp_path / f"{chapter('4').page}.md"
    page.parent.mkdir(parents=True)
    page.write_text("$$ T $$ (eq-message-time)\n\n$$ x $$ (eq-of-the-text)\n")
    text = quick_reference_page(tmp_path)
    assert "{eq}`eq-message-time` <a" in text and "\n`message_time`, in s. Holds when" in text
    assert 'data-words="T n alpha beta"' in text
    assert r"$$ T = \alpha + \frac{n}{\beta} $$" in text
    assert text.count("{eq}") == 1
    page.write_text("nothing numbered\n")
    assert "{eq}" not in quick_reference_page(tmp_path)


def test_every_public_name_stands_once_on_the_page_of_names():
    text, rooms = names_page(), [f"dtlib.{room}" for room in ROOMS]
    entries = re.findall(r"^- ((?:`\w+`(?:, )?)+)", text, re.MULTILINE)
    named = re.findall(r"\w+", " ".join(entries))
    public = [name for room in rooms for names in shown_by(room).values() for name in names]
    assert sorted(named) == sorted(public)
    assert "**`dtlib/collectives/check.py`**, {ref}`ch-11`" in text
    assert "\n- `message_time`: Time from the start of a send until" in text
    files = (ROOT / "dtlib").rglob("__init__.py")
    faces = [file.parent for file in files if "face(" in file.read_text()]
    assert {f.relative_to(ROOT).as_posix().replace("/", ".") for f in faces} == {*rooms, "dtlib"}


def test_an_unknown_chapter_is_an_error_that_lists_the_known():
    with pytest.raises(KeyError, match="13a"):
        chapter("38")


def test_the_command_prints_the_map_and_refuses_the_rest(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.count("\n") > 60
    assert main(["map"]) == 2
    assert "doctor" in capsys.readouterr().err
    for asked in ("--help", "-h"):
        assert main([asked]) == 0
        said = capsys.readouterr()
        assert "doctor" in said.out and said.err == ""


def test_the_map_survives_a_reader_that_has_had_enough():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "dtlib"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=ROOT)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_without_the_checkout_the_map_is_of_the_code(tmp_path):
    (tmp_path / "dtlib").symlink_to(ROOT / "dtlib")
    text = book_map(tmp_path)
    assert "✓ dtlib/collectives/schedule.py" in text and "chapters/" not in text


def test_the_lesson_is_short_enough_to_read():
    """As many lines for each chapter, however many chapters there are."""
    lesson, rest = volume()
    assert lesson < 1_650 * sum(entry.is_written() for entry in chapters())
    assert lesson + rest == sum(
        len(file.read_text().splitlines()) for file in (ROOT / "dtlib").rglob("*.py")
    )


def test_every_chapter_ends_with_its_door():
    assert doors.problems() == []


DOOR = """:::{admonition} What you can now do
:class: door

- add what many machines hold;
- say what no schedule can beat.

**What remains.** Every port was alike. {ref}`ch-13a` has ports that are not.
:::
"""


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("## Exercises\n", "has 0 doors"),
        (f"{DOOR}\n## In the wild\n\n## Exercises\n", "elsewhere"),
        (f"{DOOR}\n## Exercises\n".replace("- say", "- a\n- b\n- say"), "says 4 things"),
        (f"{DOOR}\n## Exercises\n".replace("ch-13a", "ch-12"), "'What remains.'"),
        (f"{DOOR}\n## Exercises\n".replace("**What remains.**", ""), "'What remains.'"),
    ],
)
def test_sabotage_a_door_that_leads_nowhere_is_noticed(page, said):
    assert doors.fault(f"{DOOR}\n## Exercises\n", "12") == ""
    assert said in doors.fault(page, "12")


def test_a_part_says_what_its_reader_can_do_afterwards(tmp_path):
    ring = tmp_path / f"{chapter('12').page}.md"
    ring.parent.mkdir(parents=True)
    ring.write_text(f"{DOOR}\n## Exercises\n\n:label: ex-one\n")
    page = part_pages(tmp_path)[tmp_path / "book/part-3-collectives.md"]
    assert "- add what many machines hold ({ref}`ch-12`)" in page and "1 exercise" in page
