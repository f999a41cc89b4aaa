"""Cut the book's typefaces down to what the book prints.

The folder `node_modules` holds the packages of `PACKAGES`, all under the Open Font License; a cut
face may not keep a reserved name, so that ours are called Dtlib. fonttools writes woff2 with
brotli, which the book itself does not need: install both where this is run. Run it again when the
page checks name a character that no face has; each run writes the same bytes.
"""

import io
import shutil
from pathlib import Path

from fontTools import subset
from fontTools.pens.boundsPen import BoundsPen
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

from book._tools.layout import ROOT

SITE = ROOT / "book/_static/fonts"
LIBRARY = ROOT / "dtlib/fonts"

PACKAGES = {  # folder: version, and the licence's file
    "@fontsource-variable/source-serif-4": ("5.3.1", "LICENSE"),
    "@ibm/plex-sans-variable": ("0.2.0", "LICENSE.txt"),
    "@ibm/plex-mono": ("2.5.0", "LICENSE.txt"),
    "@fontsource/stix-two-math": ("5.3.0", "LICENSE"),
}
SERIF = "@fontsource-variable/source-serif-4/files/source-serif-4-{}.woff2"
SANS = "@ibm/plex-sans-variable/fonts/complete/ttf/IBM Plex Sans Var-Roman.ttf"
TEXT_SIZE = 18  # the optical size that the serif is drawn for, in px
MONO = "@ibm/plex-mono/fonts/complete/woff2/IBMPlexMono-Regular.woff2"
STIX = "@fontsource/stix-two-math/files/stix-two-math-latin-400-normal.woff2"


def _span(*pairs: tuple[int, int]) -> set[int]:
    return {code for first, last in pairs for code in range(first, last + 1)}


ASCII = _span((0x20, 0x7E))
LATIN = _span((0xA0, 0xFF), (0x2010, 0x2026), (0x2039, 0x203A)) | {0x202F, 0x2212, 0x2044, 0x20AC}
NAMES = _span((0x100, 0x17F)) | {0x2113}  # letters of authors' names, and ell
GREEK = _span((0x391, 0x3A9), (0x3B1, 0x3C9)) | {0x3D5, 0x3F5}
SIGNS = {ord(sign) for sign in "⁰⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉₊₋⅓⅔←↑→↓↔↦⇄⇐⇒√∞∂∑∏≈≠≤≥◊○●✓✕"}

# What formulas and symbols need besides: operators, fences, stars, and mathematics' alphabets.
MATHS = (
    ASCII
    | GREEK
    | SIGNS
    | {ord(sign) for sign in "±·×÷−∓∗∘∙⋅⋯⋮⋱…′″‴ˆ˜¯˙¨‖|∣∥⌈⌉⌊⌋⟨⟩⟵⟶⟹∇∈∉∅∀∃∫≡≪≫∝∼≃≅∪∩⊂⊆⊕⊗⊙⊤⊥∖ℓℝℤℕℂ"}
    | {ord(sign) for sign in "★☆◆■□▶▸◀◂∎ \u2061\u2062\u2063"}
    | _span((0x1D400, 0x1D467), (0x1D6E2, 0x1D71B))
    | {0xA0, 0x203E, 0x210E, 0x1D5B3, 0x1D6A4, 0x1D538, 0x1D53C, 0x1D7D9}
)
MATHS |= _span((0x1D49C, 0x1D4B5)) | {
    0x212C,
    0x2130,
    0x2131,
    0x210B,
    0x2110,
    0x2112,
    0x2133,
    0x211B,
}

# file, source, family, weight axis or the one weight, characters
FACES = [
    ("serif", SERIF.format("latin-opsz-normal"), "Serif", (400, 700), ASCII | LATIN),
    ("serif-italic", SERIF.format("latin-opsz-italic"), "Serif Italic", 400, ASCII | LATIN),
    ("serif-names", SERIF.format("latin-ext-opsz-normal"), "Serif Names", (400, 700), NAMES),
    ("serif-greek", SERIF.format("greek-opsz-normal"), "Serif Greek", (400, 700), GREEK),
    ("sans", SANS, "Sans", (400, 700), ASCII | LATIN | SIGNS),
    ("sans-more", SANS, "Sans More", (400, 700), GREEK | NAMES),
    ("mono", MONO, "Mono", None, ASCII | LATIN | SIGNS),
    ("mono-greek", SANS, "Mono Greek", 400, GREEK),
    ("math", STIX, "Math", None, MATHS),
]
# What matplotlib measures figures with: the same outlines, one file for each weight.
DRAWN = [("DtlibSans-Regular", 400), ("DtlibSans-Bold", 700)]
TABULAR = [
    "kern",
    "mark",
    "mkmk",
    "ccmp",
    "locl",
]  # no ligatures: matplotlib draws letter by letter
FEATURES = {"Serif": [*TABULAR, "liga", "lnum", "tnum"], "Math": ["kern", "ssty", "dtls", "math"]}


def cut(source: Path, family: str, weight, characters: set[int]) -> TTFont:
    """The face of `source` with these characters, at a weight or a range of weights."""
    font = TTFont(source, recalcTimestamp=False)
    if "fvar" in font:
        pinned = {axis.axisTag: None for axis in font["fvar"].axes}
        limits = pinned | {"wght": weight} | ({"opsz": TEXT_SIZE} if "opsz" in pinned else {})
        whole = io.BytesIO()
        instancer.instantiateVariableFont(font, limits).save(whole)
        font = TTFont(whole, recalcTimestamp=False)
    options = subset.Options()
    options.hinting = False
    options.layout_features = FEATURES.get(family.split()[0], TABULAR)
    options.notdef_outline = True
    options.name_IDs = [0, 1, 2, 3, 4, 6, 13, 14]
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters)
    cutter.subset(font)
    return font


def rename(font: TTFont, family: str, style: str = "Regular") -> None:
    names = {1: family, 2: style, 3: f"{family} {style}", 4: f"{family} {style}"}
    names[6] = f"{family}-{style}".replace(" ", "")
    table = font["name"]
    table.names = [record for record in table.names if record.nameID in (0, 13, 14)]
    if style == "Bold":
        font["head"].macStyle |= 1
        font["OS/2"].fsSelection = font["OS/2"].fsSelection & ~(1 << 6) | 1 << 5
    for number, text in names.items():
        table.setName(text, number, 3, 1, 0x409)


def one_width(font: TTFont, width: int) -> None:
    """Every letter in the middle of the same advance, for the alphabet that a mono face lacks."""
    for tag in {"GPOS", "GSUB", "GDEF"} & set(font.keys()):
        del font[tag]
    glyphs, table = font.getGlyphSet(), font["glyf"]
    for name in font.getGlyphOrder():
        bounds = BoundsPen(glyphs)
        glyphs[name].draw(bounds)
        if bounds.bounds is None:
            font["hmtx"][name] = (width, 0)
            continue
        left, _, right, _ = bounds.bounds
        glyph, start = table[name], round((width - (right - left)) / 2)
        if glyph.isComposite():
            glyph.components[0].x += start - round(left)
        else:
            glyph.coordinates.translate((start - round(left), 0))
        glyph.recalcBounds(table)
        font["hmtx"][name] = (width, start)


def cut_all(modules: Path) -> None:
    """Write every face of the site and of the figures, from the folder of the packages.

    Raises SystemExit where that is no folder.
    """
    if not modules.is_dir():
        raise SystemExit("name the folder that npm installed the packages of PACKAGES into")
    SITE.mkdir(parents=True, exist_ok=True)
    LIBRARY.mkdir(parents=True, exist_ok=True)
    for name, source, family, weight, characters in FACES:
        font = cut(modules / source, family, weight, characters)
        if name == "mono-greek":
            one_width(font, 600)
        rename(font, f"Dtlib {family}")
        font.flavor = "woff2"
        font.save(SITE / f"{name}.woff2")
        print(f"{name:18} {(SITE / f'{name}.woff2').stat().st_size:7,} bytes")
    for name, weight in DRAWN:
        font = cut(modules / SANS, "Sans", weight, ASCII | LATIN | GREEK | SIGNS)
        rename(font, "Dtlib Sans", name.split("-")[1])
        font.save(LIBRARY / f"{name}.ttf")
        print(f"{name:18} {(LIBRARY / f'{name}.ttf').stat().st_size:7,} bytes")
    for package, (_, licence) in PACKAGES.items():
        target = SITE / f"LICENSE-{package.split('/')[1].removesuffix('-variable')}.txt"
        shutil.copyfile(modules / package / licence, target)
    shutil.copyfile(SITE / "LICENSE-plex-sans.txt", LIBRARY / "LICENSE.txt")
