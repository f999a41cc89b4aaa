"""The lab 'Eight ranks, three axes'."""

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.labs.three_axes import left_out, programs
from dtlib.exercises.labs.three_axes.laws import block_law, groups_law, stage_law, step_law

# fmt: off
groups = Made(
    "ex-axes-groups",
    About("Groups along any axes", "design", 2, 15,
          "say from a rank with whom it shares what"),
    groups_law,
    lambda: (programs.coordinates, programs.groups_of),
    "coordinates and groups of 7 meshes, along every set of axes",
    {
        "the last axis runs fastest": lambda: (
            lambda rank, sizes: programs.coordinates(rank, sizes, last=False), programs.groups_of),
        "differ there, and in nothing else": lambda: (programs.coordinates,
            lambda sizes, axes: programs.groups_of(sizes, set(sizes) - set(axes))),
        "a dict of other coordinates": lambda: (
            lambda rank, sizes: dict.fromkeys(sizes, rank), programs.groups_of),
        "every rank is in exactly one": lambda: (programs.coordinates,
            lambda sizes, axes: programs.groups_of(sizes, axes)[:1]),
        "ascending order": lambda: (programs.coordinates,
            lambda sizes, axes: [group[::-1] for group in programs.groups_of(sizes, axes)]),
        "a list of lists": lambda: (programs.coordinates, lambda sizes, axes: [0]),
    },
)

block = OnRanks(
    "ex-axes-block",
    About("A block with a key head for all", "design", 2, 20,
          "tell which gradients of a divided block are shares", needs="torch"),
    "block(tp, x, w, head_dim)",
    programs.block,
    block_law,
    "output, dX and every gradient of one process; those of keys and values as sums of shares",
    {
        "is f before the norm, or behind it": {"place": "before"},
        "it is sent for every micro-batch": {"keys": programs.f},
        "rank 0: dX": {"f": lambda tp, x: x},
        "the output": {"g": lambda tp, x: x},
        "rank 0: dX differs": {"g": lambda tp, x: programs.f(tp, programs.g(tp, x))},
        "no graph behind it": lambda *args: programs.block(*args).detach(),
    },
)

stages = OnRanks(
    "ex-axes-stages",
    About("Stages and micro-batches", "design", 2, 20,
          "add up the gradients of micro-batches through a pipeline", needs="torch"),
    "run_stage(comm, before, behind, work, m, shape)",
    programs.run_stage,
    stage_law,
    "the gradients of one process, to the bit, on 2 and 3 stages with 1, 2 and 4 micro-batches",
    {
        "exactly m times": {"mean": False},
        "in one order": lambda comm, before, behind, *rest: programs.run_stage(
            comm, before, behind, *rest, turned=behind is None),
        "differs from that of one process": {"back": lambda dx: dx * 0},
        "the loss it returns": lambda *args: programs.run_stage(*args) and None,
        "one message for each": lambda comm, *rest: (
            programs.run_stage(comm, *rest), comm.sent.append(0))[0],
    },
    sizes=(2, 3),
)

step = OnRanks(
    "ex-axes-step",
    About("The whole step", "design", 3, 30,
          "add each gradient along the axes that need it, and no other", needs="torch"),
    "step(comm, sizes, weights, tokens, targets, m)",
    programs.step,
    step_law,
    "every gradient on every rank is its part of that of one process, within 1e-12, on 5 meshes",
    {
        "added along dp": {"axes_of": lambda name:
            [axis for axis in programs.axes_of(name) if axis != "dp"]},
        "added along pp": {"axes_of": lambda name:
            [axis for axis in programs.axes_of(name) if axis != "pp"]},
        "added along tp": {"axes_of": lambda name:
            [axis for axis in programs.axes_of(name) if axis != "tp"]},
        "exactly two times": {"mean": False},
        "norm.weight is wrong: exactly two times": {"axes_of": lambda name:
            ("dp", "tp") if "norm" in name else programs.axes_of(name)},
        "differs from that of one process": {"rows": "all the same"},
        "a dict with the names": lambda *args: [*programs.step(*args)],
        "all-reduce": {"axes_of": lambda name: ("dp", "tp", "pp")},
    },
    sizes=(2, 8),
)

finder = Made(
    "ex-axes-missing",
    About("The missing axis", "repair", 3, 20,
          "find a forgotten sum by comparing copies, without a reference", needs="torch"),
    left_out.finder_law,
    lambda: (programs.missing, left_out.LEFT_OUT),
    "each sum of each weight was left out once, and found; and nothing where nothing was",
    {
        "nothing is left out, and the test names": lambda: (
            lambda runs, sizes: programs.missing(runs, sizes, cut=()), left_out.LEFT_OUT),
        "weight 'key' is left out, and the test finds nothing": lambda: (
            lambda runs, sizes: programs.missing(runs, sizes, axes=("dp", "pp")),
            left_out.LEFT_OUT),
        "weight 'embedding' is left out, and the test finds nothing": lambda: (
            lambda runs, sizes: programs.missing(runs, sizes, axes=("dp", "tp")),
            left_out.LEFT_OUT),
        "what does it say of the given program": lambda: (programs.missing, None),
        "names another axis": lambda: (
            lambda runs, sizes: (programs.missing(runs, sizes) or (None,))[0] and (
                programs.missing(runs, sizes)[0], "dp"), left_out.LEFT_OUT),
        "a pair (name": lambda: (
            lambda runs, sizes: (programs.missing(runs, sizes) or (None,))[0],
            left_out.LEFT_OUT),
    },
)
