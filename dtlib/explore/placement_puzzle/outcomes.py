"""What comes of each choice in the puzzle: types or their refusal, and bytes, by the library."""

import re
from collections.abc import Iterator
from itertools import product

from dtlib.composition.block import FIRST, PLACES, SECOND, BlockProgram, SentLine
from dtlib.composition.types import SENT, PlacementError, Typed, Types
from dtlib.mesh import Mesh, Placement, Replicate, Shard

AXIS = "tp"


def _line(name: str, **dims: int) -> tuple[SentLine, ...]:
    return (SentLine(name, AXIS, **dims),)


# Name of a choice: its words, the placement that is given, the line that is sent.
STREAMS = {
    "replicated": ("whole", Replicate(), ()),
    "copied": ("copied", Replicate(), _line("copy_to_ranks")),
    "tokens": ("tokens", Shard(0), ()),
    "gathered": ("gathered", Shard(0), _line("all_gather")),
    "hidden": ("width", Shard(1), ()),
}
WEIGHTS = {
    "whole": ("whole", Replicate(), ()),
    "copied": ("copied", Replicate(), _line("copy_to_ranks")),
    "rows": ("rows", Shard(0), ()),
    "columns": ("columns", Shard(1), ()),
    "gathered": ("gathered", Shard(0), _line("all_gather")),
}
BETWEEN = {
    "nothing": ("nothing", None, ()),
    "added": ("added", None, _line("all_reduce")),
    "scattered": ("scattered", None, _line("reduce_scatter", dim=1)),
    "gathered": ("gathered", None, _line("all_gather", dim=1)),
    "turned": ("turned", None, _line("turn", dim=0, to=1)),
}
CHOICES = {"x": STREAMS, "w1": WEIGHTS, "z": BETWEEN, "w2": WEIGHTS}


def states() -> Iterator[dict[str, str]]:
    """Every choice of the four, in the order of their controls."""
    for names in product(*CHOICES.values()):
        yield dict(zip(CHOICES, names, strict=True))


class Seen(Types):
    """Types that know by which name a reader knows a value, and where each was last."""

    def __init__(self, axes):
        super().__init__(axes)
        self.names, self.last = {}, {}

    def value(self, name: str, **placements: Placement) -> Typed:
        self.last[name] = super().value(name, **placements)
        return self.last[name]

    def _keep(self, line: str, placements) -> Typed:
        made = super()._keep(line, placements)
        what, _, of = self.read(line).partition(" of ")
        made_by = {FIRST: "z", SECOND: "y", "gelu": f"gelu({of})"}
        self.names[made.name] = name = of if what in SENT else made_by.get(what, what)
        self.last[name] = made
        return made

    def read(self, text: str) -> str:
        """A message with z and gelu(z) in place of the numbers of lines."""
        return re.sub(r"\(\d+\)", lambda found: self.names[found[0]], text)


def block(mesh: Mesh, sizes: dict, state: dict[str, str], element_bytes: float) -> BlockProgram:
    """The program of a state; y is brought back to x's placement by one line, if there is one."""
    given = {name: {AXIS: CHOICES[name][state[name]][1]} for name in ("x", "w1", "w2")}
    sent = {name: CHOICES[name][state[name]][2] for name in CHOICES}
    program = BlockProgram(mesh, sizes, given, sent, element_bytes)
    try:
        lines = program.priced.lines
    except PlacementError:
        return program
    back = _back(lines[-1][1][AXIS], given["x"][AXIS])
    return BlockProgram(mesh, sizes, given, {**sent, "y": back}, element_bytes)


def _back(now: Placement, wanted: Placement) -> tuple[SentLine, ...]:
    """The line that brings y from one placement to another; none leads on from copies."""
    name = next((name for name, ends in SENT.items() if ends == (type(now), type(wanted))), None)
    if now == wanted or name is None:
        return ()
    cut = now if isinstance(now, Shard) else wanted
    dim = cut.dim if isinstance(cut, Shard) else 0
    return _line(name, dim=dim, **({"to": wanted.dim} if name == "turn" else {}))


def outcome(mesh: Mesh, sizes: dict, state: dict[str, str], element_bytes: float) -> dict:
    """What the page shows of a state: why it is refused, or what it costs, and how values lie."""
    program = block(mesh, sizes, state, element_bytes)
    do, why = Seen(mesh.axes), ""
    try:
        program.step(do, *(do.value(name, **placed) for name, placed in program.given.items()))
        program.check()
    except PlacementError as error:
        why = do.read(str(error))
    forward, backward = (0.0, 0.0) if why else program.sent_bytes
    return {
        "why": why,
        "lines": [] if why else _sent(program),
        "forward": forward,
        "backward": backward,
        "work": 0.0 if why else program.work_share,
        "held": program.weight_bytes,
        "divided": sum(isinstance(program.given[one][AXIS], Shard) for one in ("w1", "w2")),
        "lies": [_words(do.last[one][AXIS]) if one in do.last else "?" for one in PLACES],
    }


def _sent(program: BlockProgram) -> list[list]:
    """For each place where something is sent: its one line, and bytes forward and backward."""
    prices = iter(program.priced.prices.values())
    return [
        [place, program.sent[place][0].name, *next(prices).sent_bytes(program.element_bytes)]
        for place in PLACES
        if program.sent.get(place)
    ]


def _words(placed: Placement) -> str:
    if isinstance(placed, Shard):
        return ("rows", "columns")[placed.dim]
    return "whole" if placed == Replicate() else str(placed)
