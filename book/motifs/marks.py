"""What a motif is made of: bars, dots, lines and areas in the book's colours, without a letter.

Marks that look alike become one path, in the order in which their looks first came.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

WIDTH, HEIGHT = 720, 120
NOTHING = 0.01  # too short to be seen, and yet a line
COLOURS = {  # where there is no style sheet
    "forward": "#0072B2",
    "backward": "#D55E00",
    "communication": "#CC79A7",
    "fourth": "#009E73",
    "soft": "#5b6067",
    "rule": "#c4beae",
    "ink": "#1d2127",
    "paper": "#fdfcf9",
}

Point = tuple[float, float]


class Look(NamedTuple):
    """A colour, how strong it is, and the width of the stroke; 0 is a filled shape."""

    colour: str
    strength: float = 1
    stroke: float = 0


@dataclass
class Motif:
    """A drawing on 720 x 120: for every look the pieces of its path.

    A piece is a letter, M, L, Q (a control point, an end) or Z, and its points.

    >>> motif = Motif()
    >>> motif.bar(0, 0, 10, 5, "forward")
    >>> print(motif.svg("").partition(">")[2])
    <path fill="var(--dt-forward)" d="M0 0H10V5H0Z"/></svg>
    """

    paths: dict[Look, list[tuple[str, Sequence[Point]]]] = field(default_factory=dict)

    def bar(self, x: float, y: float, width: float, height: float, colour: str,
            strength: float = 1) -> None:  # fmt: skip
        """A rectangle, filled."""
        right, low = x + width, y + height
        corners = [(x, y), (right, y), (right, low), (x, low)]
        self.area(corners, colour, strength)

    def area(self, points: Sequence[Point], colour: str, strength: float = 1) -> None:
        """A filled polygon."""
        self._add(Look(colour, strength), [("M", points[:1]), ("L", points[1:]), ("Z", [])])

    def line(self, points: Sequence[Point], colour: str, stroke: float = 2,
             strength: float = 1) -> None:  # fmt: skip
        """A line through some points."""
        self._add(Look(colour, strength, stroke), [("M", points[:1]), ("L", points[1:])])

    def arc(self, start: Point, top: Point, stop: Point, colour: str, stroke: float = 1.5) -> None:
        """A curve from `start` to `stop` that is drawn towards `top`."""
        self._add(Look(colour, 1, stroke), [("M", [start]), ("Q", [top, stop])])

    def dot(self, x: float, y: float, size: float, colour: str, strength: float = 1) -> None:
        """A disc of this diameter: a line of hardly any length with round ends."""
        self._add(Look(colour, strength, size), [("M", [(x, y)]), ("L", [(x + NOTHING, y)])])

    def svg(self, name: str) -> str:
        """The drawing as an element of a page; without a name it is decoration."""
        said = f'role="img" aria-label="{name}"' if name else 'aria-hidden="true"'
        paths = "".join(_path(look, pieces) for look, pieces in self.paths.items())
        return (
            f'<svg class="motif" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" {said} fill="none" stroke-linecap="round" '
            f'stroke-linejoin="round">{paths}</svg>'
        )

    def _add(self, look: Look, pieces: Iterable[tuple[str, Sequence[Point]]]) -> None:
        self.paths.setdefault(look, []).extend(pieces)


def scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    """Numbers from `low` to `high` onto places from `start` to `stop`, evenly."""
    return lambda value: start + (value - low) / (high - low) * (stop - start)


def log_scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    """Numbers from `low` to `high` onto places from `start` to `stop`, by their logarithms."""
    even = scale(log(low), log(high), start, stop)
    return lambda value: even(log(value))


def powers(low: float, high: float, count: int = 49) -> list[float]:
    """Numbers from `low` to `high` in equal ratios."""
    return [low * (high / low) ** (i / (count - 1)) for i in range(count)]


def _path(look: Look, pieces: Iterable[tuple[str, Sequence[Point]]]) -> str:
    data, here = [], None
    for letter, points in pieces:
        if letter == "L":
            for point in points:
                data.append(_step(here, point))
                here = point
            continue
        data.append(letter + " ".join(f"{_short(x)} {_short(y)}" for x, y in points))
        here = points[-1] if points else here
    kind = "stroke" if look.stroke else "fill"
    faint = f' opacity="{look.strength:g}"' if look.strength != 1 else ""
    width = f' stroke-width="{look.stroke:g}"' if look.stroke else ""
    return f'<path {kind}="var(--dt-{look.colour})"{faint}{width} d="{"".join(data)}"/>'


def _step(here: Point, point: Point) -> str:
    """The shortest way to write a straight line; one of no length is a dot and must be written."""
    (x0, y0), (x, y) = ((_short(a), _short(b)) for a, b in (here, point))
    if y == y0:
        return f"H{x}"
    return f"V{y}" if x == x0 else f"L{x} {y}"


def _short(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".").replace("-0", "0" if value > -0.05 else "-0")
