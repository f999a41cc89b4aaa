"""Figures are measured with the library's own face, whatever fonts a machine has."""

import re
from importlib import resources

import pytest
from fontTools.ttLib import TTFont

from dtlib.style import figure, inline_svg, label_curve, look

FOLDER = resources.files("dtlib") / "fonts"
FACES = ("DtlibSans-Regular.ttf", "DtlibSans-Bold.ttf")


def drawing() -> str:
    fig, ax = figure(height=2)
    ax.plot([1, 2], [3, 4])
    ax.set_ylabel("bandwidth β (GB/s)")
    label_curve(ax, 2, 4, "if the network keeps up")
    return inline_svg(fig, "A line rises.")


def test_the_faces_come_with_the_library_under_their_licence():
    assert all((FOLDER / name).is_file() for name in FACES)
    assert "SIL OPEN FONT LICENSE Version 1.1" in (FOLDER / "LICENSE.txt").read_text("utf-8")


@pytest.mark.parametrize("name", FACES)
def test_a_cut_face_does_not_keep_a_reserved_name(name):
    names = {record.nameID: str(record) for record in TTFont(str(FOLDER / name))["name"].names}
    assert all("Plex" not in names[number] for number in (1, 3, 4, 6))


def test_matplotlib_finds_the_faces_by_name_and_weight():
    from matplotlib.font_manager import FontProperties, findfont

    figure()
    for name, weight in zip(FACES, ("normal", "bold"), strict=True):
        face = FontProperties(family=["Dtlib Sans"], weight=weight)
        assert findfont(face, fallback_to_default=False) == str(FOLDER / name)


def test_a_figure_is_the_same_whatever_fonts_the_machine_has(monkeypatch):
    from matplotlib.font_manager import fontManager

    first = drawing()
    brought = [font for font in fontManager.ttflist if font.name in ("Dtlib Sans", "DejaVu Sans")]
    monkeypatch.setattr(fontManager, "ttflist", brought)
    fontManager._findfont_cached.cache_clear()
    assert drawing() == first


def test_another_face_would_be_another_figure(monkeypatch):
    first = drawing()
    monkeypatch.setitem(look.SETTINGS, "font.family", ["DejaVu Sans"])
    assert drawing() != first


def test_a_text_says_how_wide_it_was_measured():
    """The advances of the face, in its own table, are the reference."""
    width = {}
    for words in ("bandwidth β (GB/s)", "if the network keeps up"):
        text = re.search(rf"<text ([^>]*)>{re.escape(words)}<", drawing())[1]
        width[words] = float(re.search(r'textLength="([\d.]+)"', text)[1])
    for (words, measured), name in zip(width.items(), FACES, strict=True):
        font = TTFont(str(FOLDER / name))
        letters, advances = font.getBestCmap(), font["hmtx"]
        units = sum(advances[letters[ord(letter)]][0] for letter in words)
        assert measured == pytest.approx(10 * units / font["head"].unitsPerEm, rel=0.02)


@pytest.mark.parametrize("size, least", [(10, 570), (9, 634), (6, 691)])
def test_the_smallest_letters_say_how_narrow_a_figure_may_be(size, least):
    """At 7.2 inches, 691 px, letters of 10 points are 13.3 px high; eleven are the least."""
    fig, ax = figure()
    ax.plot([1, 2], [3, 4])
    ax.text(1, 3, "small", fontsize=size)
    assert f"--dt-least: {least}px" in inline_svg(fig, "A line.")
