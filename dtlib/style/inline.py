"""A figure of matplotlib as an `<svg>` element that follows the page around it, in few bytes."""

import hashlib
import html
import io
import re
from functools import partial
from itertools import pairwise
from math import hypot

from dtlib.style.look import INK, PALETTE, SETTINGS, plain_powers

PAGE, PHONE = "dt-plot dt-at-page", "dt-plot dt-at-phone"
LEAST_TEXT = 11  # px: a figure would rather be scrolled than show smaller letters
PIXEL = 96 / 72  # px of a page in a point
EXACT = {"style", "transform", "viewBox", "stroke-dasharray"}  # where a tenth is not fine enough


def inline_svg(fig, alt: str, kind: str = PAGE) -> str:
    """The figure as an `<svg>` element to place inside HTML; `alt` is what it says to a reader
    who does not see it, `kind` the class of the element."""
    text = _compact(_as_wide_as_measured(_follow_the_page(_own_ids(_written(fig)))))
    width, height = map(float, re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', text).groups())
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", text)]
    least = min(width * LEAST_TEXT / min(sizes, default=LEAST_TEXT), width * PIXEL)
    hidden = "display: none; " if kind == PHONE else ""
    head = (
        f'<svg class="{kind}" role="img" aria-label="{html.escape(alt)}" '
        f'style="{hidden}max-width: 100%; width: {width / 72:.4g}in; height: auto; '
        f"--dt-least: {least:.0f}px; overflow: visible; stroke-linejoin: round; "
        f'fill: currentColor" viewBox="0 0 {width:g} {height:g}" xmlns="http://www.w3.org/2000/svg">'
    )
    return re.sub(r"<svg[^>]*>", head, text, count=1)


def _written(fig) -> str:
    """What matplotlib writes, without what says when, by whom and for whom."""
    plain_powers(fig)
    file = io.StringIO()
    fig.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Type": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", text, flags=re.S)


def _compact(svg: str) -> str:
    """The same picture: tenths of a point, no groups without attributes, no empty elements."""
    svg = re.sub(r' ([\w-]+)="([^"]*)"', _short_attribute, svg)
    svg = re.sub(r"\s*\n\s*", "", svg)
    svg = re.sub(r'<path [^>]*style="fill: none"/>', "", svg)
    svg = _styled_once(svg.replace("xlink:href", "href"))
    groups = []

    def kept(match) -> str:
        if match[0].startswith("<g"):
            groups.append(match[0] != "<g>")
            return match[0] * groups[-1]
        return match[0] * groups.pop()

    svg = re.sub(r"<g\b[^>]*>|</g>", kept, svg)
    svg = re.sub(r"<(g|defs)\b[^>]*></\1>", "", svg)
    return re.sub("(?<!^)<(?=path|use|text|g|defs|clipPath)", "\n<", svg)


def _styled_once(svg: str) -> str:
    """A mark that is used many times in one style has it itself."""
    looks = {}
    for mark, style in re.findall(r'<use href="#([^"]*)"[^>]* style="([^"]*)"/>', svg):
        looks.setdefault(mark, set()).add(style)
    for mark, styles in looks.items():
        if len(styles) == 1:
            svg = re.sub(f'(<use href="#{mark}"[^>]*) style="[^"]*"', r"\1", svg)
            own = rf'(<path id="{mark}" d="[^"]*")(?: style="([^"]*)")?'
            svg = re.sub(own, partial(_under, styles.pop()), svg)
    return svg


def _under(style: str, match) -> str:
    """A mark whose own style stands over the one with which it is used."""
    parts = f"{style}; {match[2] or ''}".split("; ")
    both = dict(part.split(": ", 1) for part in parts if part)
    return f'{match[1]} style="{"; ".join(map(": ".join, both.items()))}"'


def _short_attribute(match) -> str:
    name, value = match.groups()
    places = 2 if name in EXACT else 1
    value = re.sub(r"\s+", " ", value).strip()
    value = re.sub(
        r"-?\d+\.\d+", lambda n: f"{float(n[0]):.{places}f}".rstrip("0").rstrip("."), value
    )
    value = re.sub(r"-0(?![\d.])", "0", value)
    if name == "d":
        value = _fewer_points(re.sub(r" ?([MLCQz]) ?", r"\1", value))
    drop = name == "transform" and value.startswith("rotate(0 ")
    return "" if drop or not value else f' {name}="{value}"'


def _fewer_points(path: str) -> str:
    """A path without the points that lie on the straight line between their neighbours."""
    return re.sub(r"M[^MCQz]*", lambda line: _straightened(line[0]), path)


def _straightened(line: str) -> str:
    points = [tuple(map(float, point.split())) for point in line[1:].split("L")]
    kept, skipped = points[:1], []
    for point, following in pairwise(points[1:]):
        skipped.append(point)
        if not all(_between(kept[-1], one, following) for one in skipped):
            kept.append(point)
            skipped.clear()
    kept += points[1:][-1:]
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in kept)


def _between(start, point, stop) -> bool:
    """Whether a point lies on the way from start to stop, to half a tenth."""
    along, aside = stop[0] - start[0], stop[1] - start[1]
    right, down = point[0] - start[0], point[1] - start[1]
    length = hypot(along, aside)
    if not length:
        return not (right or down)
    apart = abs(along * down - aside * right) / length
    return apart < 0.05 and 0 <= along * right + aside * down <= length**2


def _as_wide_as_measured(svg: str) -> str:
    """Every text takes the width that matplotlib has measured, whatever face a page sets it in.

    On the site that changes nothing; in a notebook, whose page has other faces, nothing is cut off.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    def sized(match) -> str:
        style, words = match["style"], html.unescape(match["words"])
        weight = re.search(r"font-weight: (\w+)", style)
        face = FontProperties(
            family=SETTINGS["font.family"],
            weight=weight[1] if weight else "normal",
            size=float(re.search(r"font-size: ([\d.]+)px", style)[1]),
        )
        width, _, _ = TextToPath().get_text_width_height_descent(words, face, ismath=False)
        length = f'textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs" '
        return match[0].replace("<text ", f"<text {length}", 1)

    return re.sub(r'<text style="(?P<style>[^"]*)"[^>]*>(?P<words>[^<]{2,})</text>', sized, svg)


def _follow_the_page(svg: str) -> str:
    """Ink becomes the page's text colour, the palette its CSS variables, and the font its own."""
    svg = re.sub(INK, "currentColor", svg, flags=re.I)
    svg = re.sub(r"font-family: [^;\"]*(; )?", "", svg)
    svg = re.sub(
        r"font: (bold |\d+ )?([\d.]+px) [^;\"]*",
        lambda m: f"font-size: {m[2]}" + (f"; font-weight: {m[1].strip()}" if m[1] else ""),
        svg,
    )
    svg = re.sub(r"(<t(?:ext|span)[^>]*?); fill: currentColor", r"\1", svg)
    for name, color in PALETTE.items():
        svg = re.sub(
            rf"(<text[^>]*fill: ){color}", rf"\1var(--dt-{name}-text, {color})", svg, flags=re.I
        )
        svg = re.sub(rf"(?<!, ){color}", f"var(--dt-{name}, {color})", svg, flags=re.I)
    return svg


def _own_ids(svg: str) -> str:
    """Drop ids that nothing refers to; number the others behind a hash of the figure."""
    used = list(dict.fromkeys(re.findall(r'(?:url\(#|href="#)([^")]+)', svg)))

    def renumbered(prefix: str) -> str:
        def place(match):
            if match[2] in used:
                return f"{match[1]}{prefix}{used.index(match[2])}{match[3]}"
            return ""

        return re.sub(r'( id="|url\(#|href="#)([^")]+)([")])', place, svg)

    return renumbered("f" + hashlib.sha256(renumbered("").encode()).hexdigest()[:7] + "-")
