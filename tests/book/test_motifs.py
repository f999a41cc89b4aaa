"""Motifs: one for each chapter, small, without letters, and drawn from the chapter's own object."""

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from book.motifs import collectives, motifs, parallelism
from book.motifs.cards import SIZE, card
from book.motifs.marks import HEIGHT, WIDTH, Motif
from dtlib.collectives import halving_doubling_all_reduce, ring_all_reduce
from dtlib.contents import chapters
from dtlib.parallelism.pipeline.builders import gpipe, one_f_one_b

WRITTEN = [chapter.number for chapter in chapters() if chapter.is_written()]


def pieces(motif: Motif, letter: str) -> int:
    return sum(piece == letter for path in motif.paths.values() for piece, _ in path)


@pytest.mark.parametrize("number", WRITTEN)
def test_every_chapter_has_a_small_motif_without_letters(number):
    svg = motifs()[number].svg("")
    assert len(svg) <= 4096
    assert {element.tag for element in ElementTree.fromstring(svg).iter()} == {"svg", "path"}
    assert 'aria-hidden="true"' in svg and f'viewBox="0 0 {WIDTH} {HEIGHT}"' in svg


@pytest.mark.parametrize("number", WRITTEN)
def test_a_motif_stays_on_its_canvas(number):
    for look, path in motifs()[number].paths.items():
        margin = look.stroke / 2 - 0.5
        for x, y in (point for _, points in path for point in points):
            assert margin <= x <= WIDTH - margin and margin <= y <= HEIGHT - margin


def test_the_ring_draws_every_message_and_the_grid_every_action():
    sends = sum(len(messages) for messages in ring_all_reduce(8))
    dots = 8 * (len(ring_all_reduce(8)) + 1)
    assert pieces(motifs()["12"], "M") == sends + dots
    actions = sum(len(row) for row in one_f_one_b(4, 10).rows)
    assert pieces(motifs()["16"], "Z") == actions


def test_sabotage_another_schedule_is_another_drawing(monkeypatch):
    monkeypatch.setattr(collectives, "ring_all_reduce", halving_doubling_all_reduce)
    assert collectives.ring() != motifs()["12"]
    monkeypatch.setattr(parallelism, "one_f_one_b", gpipe)
    assert parallelism.one_forward_one_backward() != motifs()["16"]


def test_a_named_motif_says_its_name():
    assert 'role="img" aria-label="A ring"' in motifs()["12"].svg("A ring")


def test_motifs_do_without_torch():
    asked = "import sys; from book.motifs import motifs; motifs(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_a_card_is_the_same_picture_every_time():
    first, second = (card("Chapter 12", "Ring", "The book", motifs()["12"]) for _ in range(2))
    assert first == second and first[1:4] == b"PNG"
    assert (int.from_bytes(first[16:20]), int.from_bytes(first[20:24])) == SIZE
    assert card("Chapter 12", "Ring", "The book", motifs()["16"]) != first
