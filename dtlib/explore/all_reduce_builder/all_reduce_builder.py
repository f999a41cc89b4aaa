"""AllReduceBuilder: the reader sends chunks between ranks, and finds algorithms and bounds."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import ClassVar, NamedTuple

from dtlib.collectives import check
from dtlib.collectives.builders import algorithms
from dtlib.collectives.cost import bounds, ring_and_tree
from dtlib.collectives.cost.simulated import schedule_time
from dtlib.collectives.schedule import Schedule, Send
from dtlib.collectives.topology import Switch
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.formulas.formula import Formula
from dtlib.formulas.units import KB, MB, format_quantity

SIZES = tuple(unit * ten for unit in (KB, MB) for ten in (10, 100, 1000))
MODES = {0: "one rank", 1: "all, in a ring", 2: "all, in pairs"}


class Known(NamedTuple):
    """An algorithm that has a name, and its time."""

    label: str
    build: Callable[[int], Schedule]
    time: Formula


KNOWN = (
    Known("flat", algorithms.flat_all_reduce, ring_and_tree.flat_all_reduce_time),
    Known("tree", algorithms.tree_all_reduce, ring_and_tree.tree_all_reduce_time),
    Known("ring", algorithms.ring_all_reduce, ring_and_tree.ring_all_reduce_time),
    Known("doubling", algorithms.recursive_doubling_all_reduce,
          ring_and_tree.recursive_doubling_all_reduce_time),
    Known("halving", algorithms.halving_doubling_all_reduce,
          ring_and_tree.halving_doubling_all_reduce_time),
)  # fmt: skip


@dataclass(frozen=True)
class Level:
    """What is asked on `P` ranks, what helps, what was found, which algorithms it opens; how many
    buffers may pass the busiest port, and in how many latencies, at most."""

    name: str
    P: int
    text: str
    hint: str
    found: str
    opens: tuple[int, ...]
    buffers: float | None = None
    latencies: float | None = None

    def is_reached(self, finished: bool, buffers: float, latencies: float) -> bool:
        """Whether an all-reduce of this cost is what is asked."""
        limits = ((buffers, self.buffers), (latencies, self.latencies))
        return finished and all(cost <= most + 1e-9 for cost, most in limits if most is not None)


def fewest_buffers(P: int) -> float:
    """What no busiest port can do without, in buffers."""
    return bounds.all_reduce_lower_bound_bytes(n=1, P=P)


def latencies(time: Formula, P: int) -> float:
    """The latencies in a time."""
    return time(n=0, P=P, alpha=1, beta=1)


def _both(P: int) -> dict[str, float]:
    halving = latencies(ring_and_tree.halving_doubling_all_reduce_time, P)
    return {"P": P, "buffers": fewest_buffers(P), "latencies": halving}


FOUR, EIGHT = fewest_buffers(4), fewest_buffers(8)
FEWEST = latencies(bounds.all_reduce_lower_bound_time, 4)
RING = {P: latencies(ring_and_tree.ring_all_reduce_time, P) for P in (4, 8, 1024)}
HALVING = {P: _both(P)["latencies"] for P in (4, 8, 1024)}
LEVELS = (
    Level(
        "Finish", 4,
        "Rank 0 has a, rank 1 has b, and so on, each cut into four chunks. Bring abcd into every "
        "chunk of every rank: drag chunks, or a whole rank by its name, to another rank.",
        "The plain way: everything to rank 0, and the sums back from there. Must one rank be the "
        "boss, though?",
        "Everybody has everything.",
        (0, 1),
    ),
    Level(
        "Few bytes", 4,
        f"The busiest port must pass at least 2(P − 1)/P = {format_quantity(FOUR)} buffers, in any "
        "all-reduce. Reach that; rounds do not matter.",
        "Let everybody do as you do, in a ring. Never send two chunks where one will do: from rank "
        "0 to 1, what comes of it from 1 to 2, and on to 3. Three rounds collect, three hand out.",
        "Nobody was idle, and nobody was the boss.",
        (2,), FOUR,
    ),
    Level(
        "Few rounds", 4,
        "A message costs a latency, however short. What a rank has heard of at most doubles in a "
        f"round, so log₂ 4 = {format_quantity(FEWEST)} latencies are the least. Reach that; bytes "
        "do not matter.",
        "Send whole ranks, in pairs: 0 and 1 exchange everything, 2 and 3 too. Who has what now?",
        "One letter, two, four: for that every message carried everything.",
        (3,), None, FEWEST,
    ),
    Level(
        "Both", text=
        f"The ring took {format_quantity(RING[4])} latencies, the pairs {format_quantity(FEWEST)} "
        f"buffers. Now {format_quantity(FOUR)} buffers in at most {format_quantity(HALVING[4])} "
        "latencies. Chunks that are neighbours go as one message: tap several, then drag them.",
        hint="Rank r is to be responsible for chunk r. Let 0 and 2 be partners: send your partner "
        "the half on its side, chunks 2 and 3. Then a nearer partner, and half as much. Then all "
        "of it backwards.",
        found=f"Halve what you are responsible for, then double it back. The corner itself, "
        f"{format_quantity(FOUR)} buffers in {format_quantity(FEWEST)} latencies, nobody reaches: "
        "with so few, every message must carry everything.",
        opens=(4,), **_both(4),
    ),
    Level(
        "Eight ranks", text=
        f"Does it scale? {format_quantity(EIGHT, digits=3)} buffers in at most "
        f"{format_quantity(HALVING[8])} latencies. A ring would take {format_quantity(RING[8])}.",
        hint="As on four: begin with the farthest partners, 0 and 4, and the half on their side.",
        found=f"On 1,024 ranks it would be {format_quantity(HALVING[1024])} latencies, and a "
        f"ring's {format_quantity(RING[1024], digits=4)}. What you did is one sentence: exchange "
        "the half that your partner is responsible for.",
        opens=(0, 1, 2, 3, 4), **_both(8),
    ),
)  # fmt: skip
TASK = Task(
    LEVELS[0].text, "reached == 1",
    {"rounds": [[[[r, 0, c] for c in range(4)] for r in (1, 2, 3)],
                [[[0, r, c] for c in range(4)] for r in (1, 2, 3)]], "done": 2},
    LEVELS[0].found,
)  # fmt: skip


class AllReduceBuilder(Widget):
    """Ranks, their chunks and what is in each; the reader sends, and runs the round.

    Arguments: `alpha` and `beta`, latency in s and bandwidth in bytes/s of the switch that times
    the rounds; `key`, under which the browser keeps the levels that were solved. Its tasks are
    those of `LEVELS`.
    """

    borrows: ClassVar = ("stepper",)
    printed: ClassVar = {"rounds": [[[[1, 0, c] for c in range(4)], [[2, 3, 1]]]]}

    def __init__(
        self, *, title: str, alpha: float, beta: float, key: str = "all-reduce", task: Task = TASK
    ):
        self._switch = {"alpha": alpha, "beta": beta}
        super().__init__(
            title=title,
            controls=[
                choice("level", "Level", {i: level.name for i, level in enumerate(LEVELS)}, 0),
                choice("mode", "A drag is for", MODES, 0),
                slider("n", "buffer of each rank", SIZES, MB, unit="B"),
            ],
            task=task,
            key=f"scene-{key}",
            start={"rounds": [], "done": 0, "plan": None, "picked": None, "held": None,
                   "note": None, "wrong": None, "solved": []},
            levels=[asdict(level) for level in LEVELS],
            known=[_exported(known) for known in KNOWN],
            bound=bounds.all_reduce_lower_bound_time.js(),
            fewest=bounds.all_reduce_lower_bound_bytes.js(),
            switch=self._switch,
        )  # fmt: skip

    def names(self, *, level: int = 0, n: float = MB, rounds: Iterable = (), done: int = 0, **_):
        """The names of a task, by what the library says of the rounds that were run."""
        asked = LEVELS[level]
        schedule = built_schedule(asked.P, list(rounds)[:done])
        *_, last = check.states(schedule)
        costs = {
            "buffers": schedule_time(schedule, 1, Switch(asked.P, alpha=0, beta=1)),
            "latencies": schedule_time(schedule, 0, Switch(asked.P, alpha=1, beta=1)),
        }
        reached = asked.is_reached(bool((last == 1).all()), **costs)
        seconds = schedule_time(schedule, n, Switch(asked.P, **self._switch))
        return costs | {"reached": int(reached), "seconds": seconds}


def built_schedule(P: int, rounds: Iterable) -> Schedule:
    """The schedule of rounds of drags of sends (src, dst, chunk), as `model.js` writes it.

    A sum that has all that its receiver holds takes its place, any other is added; neighbouring
    chunks between the same two ranks are one message.

    >>> print(built_schedule(2, [[[(0, 1, 0), (0, 1, 1)]], [[(1, 0, 0), (1, 0, 1)]]]))
    mine: 2 ranks, 2 chunks, 2 rounds, 2 messages
    round 0: 0→1 adds chunks 0..1
    round 1: 1→0 keeps chunks 0..1
    """
    schedule = Schedule(P, P, [], "mine")
    for drags in rounds:
        *_, held = check.states(schedule)
        sends = [tuple(send) for drag in drags for send in drag]
        schedule = schedule >> Schedule(P, P, [_messages(held, sends)])
    return schedule.named("mine")


def _messages(held, sends: Iterable[tuple[int, int, int]]) -> list[Send]:
    def added(send):
        src, dst, chunk = send
        return bool((held[dst, chunk] > held[src, chunk]).any())

    merged: list[Send] = []
    for send in sorted(sends, key=lambda send: (*send[:2], added(send), send[2])):
        src, dst, chunk = send
        last = merged[-1] if merged else None
        if last and (last.src, last.dst, last.reduce, last.chunk + last.count) == (
            src, dst, added(send), chunk,
        ):  # fmt: skip
            merged[-1] = last._replace(count=last.count + 1)
        else:
            merged.append(Send(src, dst, chunk, added(send)))
    return merged


def _exported(known: Known) -> dict:
    """What the script needs to know of an algorithm: its sends on every level's ranks."""
    ranks = {level.P for level in LEVELS}
    rounds = {str(P): [_sends(round, P // known.build(P).chunks) for round in known.build(P)]
              for P in ranks}  # fmt: skip
    return {"label": known.label, "js": known.time.js(), "rounds": rounds}


def _sends(round: Iterable[Send], parts: int) -> list[list[int]]:
    """A round's sends, one chunk each, of chunks that are cut into so many parts."""
    return [
        [int(send.src), int(send.dst), int(send.chunk) * parts + i]
        for send in round
        for i in range(int(send.count) * parts)
    ]
