"""Every module of the library is in one pack, and what a page opens stays within the budget."""

import json
from collections import Counter
from functools import cache

import pytest
from opened_rooms import opened

from book._engine import contents
from book._engine.build import FOLDER
from book._engine.carried import left_out
from book._engine.rooms import COMMON, divided, rooms
from book._tools.layout import ROOT, notebook_sources, select
from dtlib.contents import chapter, chapters

BUDGET = 4_800_000  # bytes that all of a page may fetch; each chapter with exercises adds some


@pytest.fixture(scope="module")
def files():
    return contents.dtlib()


def not_in_one(files, packs) -> dict[str, int]:
    """The files that do not have their content in one pack, each with how many have it."""
    counted = Counter(path for held in packs.values() for path, text in held.items() if text)
    return {path: counted[path] for path in files if counted[path] != 1}


def test_every_file_has_its_content_in_one_pack(files):
    packs = divided(files)
    assert len(packs) > 12 and not_in_one(files, packs) == {}
    first, other = [path for path in packs["memory"] if path.endswith("cost.py")][:2]
    packs["labs"][first] = packs["memory"].pop(other)
    assert not_in_one(files, packs) == {first: 2, other: 0}


def test_every_module_is_in_a_pack_or_left_out_with_a_reason(files):
    package = ROOT / "dtlib"
    outside = left_out(package)
    inside = [path.removeprefix("/book/") for path in files if path.endswith(".py")]
    inside = {path[:-3].replace("/", ".").removesuffix(".__init__") for path in inside}
    named = {file.relative_to(ROOT).with_suffix("") for file in package.rglob("*.py")}
    modules = {".".join(file.parts).removesuffix(".__init__") for file in named}
    assert inside - {"integers", "runner"} == modules - outside.keys()
    assert outside["dtlib.models.gpt"] == "it imports torch" and all(outside.values())


def test_the_common_pack_names_every_file_and_holds_no_room_but_its_face(files):
    common = divided(files)[COMMON]
    assert common.keys() == files.keys()
    folders = tuple(folder for room in rooms().values() for folder in room)
    faces = {path for path, text in common.items() if text and path.startswith(folders)}
    assert faces == {f"{folder}__init__.py" for folder in folders} & files.keys()


def test_packs_are_the_same_whenever_they_are_made(files):
    again = dict(reversed(files.items()))
    assert divided(again) == divided(files) and list(divided(again)) == list(divided(files))


# What a page fetches


@cache
def sizes() -> dict[str, int]:
    """Of the built site, by the name of the pack; "" is what comes with the first click."""
    folder = ROOT / "_build/html" / FOLDER
    listed = json.loads((folder / "engine.json").read_text(encoding="utf-8"))
    scripts = [*(folder / listed["worker"]).parent.glob("*.js"), folder / "engine.json"]
    first = sum(file.stat().st_size for file in scripts)
    first += sum(one["size"] for one in listed["packs"])
    return {one["file"].rpartition("-")[0]: one["size"] for one in listed["rooms"]} | {"": first}


def fetched(packs: set[str]) -> int:
    return sum(sizes()[one] for one in {"", *packs})


def at_most(part: str) -> set[str]:
    """What a page of a part may open: all but the labs and the exercises of other parts."""
    others = {name for name in rooms() if name.endswith("-exercises")} - {f"{part}-exercises"}
    return sizes().keys() - {"labs", *others}


def page(name: str):
    (source,) = select([name], notebook_sources())
    return source


@pytest.mark.site
@pytest.mark.parametrize("part", dict.fromkeys(one.room for one in chapters()))
def test_all_that_a_page_of_a_part_fetches_is_at_most_four_and_a_half_megabytes(part):
    assert fetched(set()) < fetched(at_most(part)) <= BUDGET


@pytest.mark.site
@pytest.mark.parametrize("number", ["6", "14", "26"])
def test_a_chapter_opens_no_labs_and_no_exercises_of_other_parts(number):
    """Chapter 6 opens the most: it estimates with the library of later parts."""
    part = chapter(number).room
    assert {"exercises", f"{part}-exercises"} < opened(page(number)) <= at_most(part)


@pytest.mark.site
def test_the_page_that_counts_all_exercises_opens_all_of_them_and_stays_within_the_budget():
    """The twin: what the test above allows is not all that a page can open."""
    packs = opened(page("instructors"))
    assert fetched(packs) <= BUDGET
    assert not any(packs <= at_most(one.room) for one in chapters())
