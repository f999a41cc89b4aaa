"""The lab 'Kill it'."""

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.judges import shares
from dtlib.exercises.labs.kill_it import elastic, parts, saving, states
from dtlib.exercises.labs.kill_it.disk_laws import disk_law
from dtlib.exercises.labs.kill_it.elastic_laws import elastic_law
from dtlib.exercises.labs.kill_it.part_laws import reshard_law, survivor_law
from dtlib.exercises.labs.kill_it.state_laws import state_law

# fmt: off
state = Made(
    "ex-kill-state",
    About("What belongs to the state", "design", 2, 15,
          "name all that the next step depends on, and take a copy of it", needs="torch"),
    state_law,
    lambda: (states.state_of, states.restore),
    "20 steps, and k, a stop and the rest, have the same bits, from a file, and twice from one",
    {
        "(the weights": lambda: states.leaving_out("model"),
        "(the momentum": lambda: states.leaving_out("optimizer"),
        "(the schedule's place": lambda: states.leaving_out("schedule"),
        "(the averaged weights": lambda: states.leaving_out("average"),
        "(the order of the rows": lambda: states.leaving_out("order"),
        "(the cursor": lambda: states.leaving_out("cursor"),
        "(the shuffler": lambda: states.leaving_out("shuffler"),
        "(the random numbers of dropout": lambda: states.leaving_out("random"),
        "(the order of the rows, the cursor": lambda: states.leaving_out("order", "cursor"),
        "it is the run's own memory, no copy": lambda: states.own(
            state_of=lambda run: states.state_of(run, copied=False)),
        "a second resume from one state": lambda: states.own(
            restore=lambda run, state: states.restore(run, state, copied=False)),
        "state_of has changed the run: the random": lambda: states.own(state_of=states.reseeding),
        "for it has a SGD": lambda: states.own(state_of=states.whole_objects),
        "raises KeyError: 'model'": lambda: states.own(restore=lambda run, state: run.model
            .load_state_dict({}["model"])),
        "must have 2 items": lambda: (states.state_of,),
    },
)

commit = Made(
    "ex-kill-disk",
    About("Stopped anywhere, and a byte flips", "design", 3, 25,
          "commit a checkpoint in one operation, and know whether it is what was written"),
    disk_law,
    lambda: (saving.save, saving.newest),
    "stopped after every operation, and with any byte of any file changed, a whole one is found",
    {
        "step 8 is saved, and the machine stops, half of what was not synced is left":
            lambda: saving.kind(sync=False),
        "a bit of byte": lambda: saving.pair(read=saving.unchecked),
        "are swapped": lambda: saving.kind(check=sum),
        "that nobody has saved as that step": lambda: saving.kind(sealed=False),
        "newest raises ValueError": lambda: saving.pair(read=saving.strict),
        "newest finds nothing, and there is a whole": lambda: saving.kind(prune="before"),
        "the disk fills up": lambda: saving.kind(prune="never"),
        "stops after operation 1: newest finds nothing": lambda: saving.kind(fresh=False),
        "there is a newer one, and it is whole": lambda: saving.pair(read=saving.as_texts),
        "that of step 8": lambda: saving.pair(read=saving.oldest),
        "with bytes that nobody": lambda: saving.pair(read=saving.only_the_last),
        "on an empty disk: newest raises": lambda: saving.pair(read=lambda disk: max([])),
        "a str where a pair": lambda: saving.pair(read=lambda disk: "8" if disk.names() else None),
        "disk.write takes a name and bytes, got str and list": lambda: saving.pair(
            write=lambda disk, step, parts: disk.write("a", parts)),
    },
)

reshard = Made(
    "ex-kill-reshard",
    About("Cut anew, with padding", "design", 2, 15,
          "cut parts of a padded flat tensor anew by intersecting intervals", needs="torch"),
    reshard_law,
    lambda: (parts.pieces, parts.reshard),
    "from P parts to Q every number is read once, and padding never",
    {
        "positions count from the part's own start": lambda: (shares.pieces, parts.reshard),
        "some of that is padding": lambda: (parts.with_padding, parts.reshard),
        "reads other numbers than it must hold": lambda: (parts.rounded_down, parts.reshard),
        "several are one, end to end": lambda: (parts.one_by_one, parts.reshard),
        "that is nothing": lambda: (parts.with_nothing, parts.reshard),
        "in another order": lambda: (parts.backwards, parts.reshard),
        "some numbers are read 2 times": lambda: (parts.pieces, parts.reading_all),
        "all are flat and of one length": lambda: (parts.pieces, lambda read, n, P, Q, q:
            parts.reshard(read, n, P, Q, q, fill=False)),
        "holds other numbers than it must": lambda: (parts.pieces, parts.filling_inside),
        "a piece is (old part, start, stop)": lambda: (lambda n, P, Q: [[(0, n)]] * Q,
                                                       parts.reshard),
        "there is no such old part": lambda: (lambda n, P, Q: [[(P, 0, 1)]] * Q, parts.reshard),
    },
)

survivors = OnRanks(
    "ex-kill-survivors",
    About("Go on with the rest", "design", 2, 15,
          "resume sharded state on another number of ranks, with the same mean of the batch",
          needs="torch"),
    "survivor(comm, read, n, P, gradient, batch, steps)",
    parts.survivor,
    survivor_law,
    "on fewer ranks, one and more the weights are those of one process, and each row counts alike",
    {
        "the rows count otherwise": {"weight": lambda rows, batch, size: 1 / size},
        "the momentum began at zero": lambda comm, read, *rest: parts.survivor(
            comm, lambda what, *place: read(what, *place) * (what == "weights"), *rest),
        "of the momentum 10 of the numbers are never read": {"momenta": False},
        "rows belong to no rank": {"rows_of": parts.all_but_the_rest},
        "the slowest of them decides": {"rows_of": parts.rest_to_the_last},
        "on one rank": {"rows_of": parts.everything, "weight": lambda rows, batch, size: 1 / size},
        "a mean over no rows is none": {"skips": False},
        "of the weights some numbers are read": {"each": parts.reading_all},
        "once in each of the 3 steps": lambda comm, read, n, P, gradient, batch, steps:
            parts.survivor(comm, read, n, P, gradient, batch, steps - 1),
        "flat and whole": lambda *args: parts.survivor(*args)[:-1],
    },
    sizes=(4, 2),
)

kill = Made(
    "ex-kill-real",
    About("Kill one of four", "design", 3, 20,
          "let a run of real processes lose one, and come back smaller with the same losses",
          needs="torch"),
    elastic_law,
    lambda: (elastic.go_on, elastic.supervise),
    "one of four processes was killed, three went on, and the losses are the undisturbed run's",
    {
        "third step there is a newer checkpoint": lambda: elastic.pair(load=False),
        "other weights, or other rows?": lambda: elastic.pair(place=False),
        "undisturbed run: other weights": lambda: elastic.pair(early=True),
        "the update before it was another one": lambda: elastic.pair(moments=False),
        "four ranks went on": lambda: elastic.pair(elastic.starting_with_as_many),
        "raises RankDied": lambda: elastic.pair(elastic.giving_up),
        "returns the number of ranks that reached": lambda: elastic.pair(
            elastic.saying_how_many_there_were),
    },
)
