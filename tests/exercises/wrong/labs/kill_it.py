"""Answers of the lab 'Kill it' that no slip derives: (exercise, answer, complaint); right ones."""

from zlib import adler32

import torch

from dtlib.exercises.labs.kill_it import elastic, parts, saving, states

STATE, DISK, RESHARD = "ex-kill-state", "ex-kill-disk", "ex-kill-reshard"
SURVIVORS, REAL = "ex-kill-survivors", "ex-kill-real"


def shallow(run):
    """A dict of its own with the run's tensors in it."""
    return dict(states.state_of(run, copied=False))


def only_some_random_numbers(run):
    """Draws from the generator to remember where it was."""
    state = states.state_of(run)
    torch.rand(1)
    return state


def in_place(run, state):
    """Right, too: fills the run's own tensors and keeps none of the state's."""
    for average, kept in zip(run.average, state["average"], strict=True):
        average.copy_(kept)
    states.restore(run, {name: part for name, part in state.items() if name != "average"})


def late_sync(disk, step, data):
    """Syncs everything at the end, when the manifest already has its name."""
    names = [f"part-{number}-of-{step}" for number in range(len(data))]
    saving.save(disk, step, data, sync=False, prune="never")
    for name in [*names, f"manifest-{step}"]:
        disk.sync(name)
    saving._prune(disk, 2)


def pruning_before_syncing(disk, step, data):
    """Lets old ones go before the new one is safe."""
    names = [f"part-{number}-of-{step}" for number in range(len(data))]
    saving.save(disk, step, data, sync=False)
    for name in [*names, f"manifest-{step}"]:
        disk.sync(name)


def keeping_one(disk, step, data):
    saving.save(disk, step, data, prune="never")
    saving._prune(disk, 1)


def two_pointers(n, P, Q):
    """Right, too: walks along both cuts at once."""
    L, M = parts.length(n, P), parts.length(n, Q)
    found, place = [[] for _ in range(Q)], 0
    while place < n:
        stop = min(n, (place // L + 1) * L, (place // M + 1) * M)
        p = place // L
        found[place // M].append((p, place - p * L, stop - p * L))
        place = stop
    return found


def interleaved(batch, size, rank):
    """Right, too: which rows a rank has is its own affair."""
    return range(rank, batch, size)


def with_the_last_weights_of_others(comm, read, n, P, gradient, batch, steps):
    """Gathers once, and never again."""
    w, m = (
        parts.reshard(lambda *place, what=what: read(what, *place), n, P, comm.size, comm.rank)
        for what in ("weights", "momentum")
    )
    whole = comm.all_gather(w)
    rows = parts.share(batch, comm.size, comm.rank)
    for _ in range(steps):
        g = whole.new_zeros(len(whole))
        if rows:
            g[:n] = len(rows) / batch * gradient(whole[:n], rows)
        m = 0.9 * m + comm.reduce_scatter(g)
        w = w - 0.1 * m
    return w


def unwritten(folder, until, watch):
    raise NotImplementedError


def giving_two_up(program, n):
    """Gives up two ranks for one."""
    return elastic.supervise(program, n, fewer=2)


WRONG = [
    (STATE, (states.state_of,), "must have 2 items"),
    (STATE, states.own(state_of=shallow), "it is the run's own memory"),
    (STATE, states.own(state_of=only_some_random_numbers), "the random numbers of dropout"),
    (STATE, states.leaving_out("model", "optimizer"), "the weights, the momentum"),
    (STATE, states.own(restore=lambda run, state: None), "the weights, the averaged weights"),
    (DISK, saving.pair(write=pruning_before_syncing), "newest finds nothing"),
    (DISK, saving.pair(write=keeping_one), "newest finds nothing"),
    (DISK, (lambda disk, step, data: None, lambda disk: None), "step 8 is saved, and nothing"),
    (DISK, saving.pair(read=lambda disk: (8, [])), "on an empty disk"),
    (DISK, (lambda disk, step, data: disk.sync("a"), lambda disk: None), "there is no file 'a'"),
    (RESHARD, (lambda n, P, Q: [[]] * P, parts.reshard), "must have 2 items"),
    (RESHARD, (lambda n, P, Q: [[]] * Q, parts.reshard), "reads other numbers"),
    (RESHARD, (parts.pieces, lambda read, n, P, Q, q: [0.0] * 4), "is of list"),
    (RESHARD, (parts.pieces, lambda read, n, P, Q, q: read(0, 0, 9)), "no such piece of 3 parts"),
    (RESHARD, (parts.pieces, lambda read, n, P, Q, q: read(2, 0, 3)), "some of that is padding"),
    (SURVIVORS, with_the_last_weights_of_others, "the rows count otherwise"),
    (SURVIVORS, lambda comm, read, n, P, gradient, batch, steps: read("w", 0, 0, 1),
     "there are 'weights' and 'momentum'"),
    (REAL, elastic.pair(giving_two_up), "2 ranks went on, and more than that were left"),
    (REAL, (unwritten, elastic.pair()[1]), "there is nothing here yet"),
    (REAL, (lambda folder, until, watch: None, elastic.pair()[1]), "calls watch"),
]  # fmt: skip
RIGHT = [
    (STATE, states.own(state_of=states.remaining_rows)),
    (STATE, states.own(restore=in_place)),
    (DISK, (saving.one_file, saving.newest_file)),
    (DISK, saving.kind(check=adler32)),
    (DISK, saving.pair(write=late_sync)),
    (RESHARD, (two_pointers, parts.reshard)),
    (SURVIVORS, lambda *args: parts.survivor(*args, rows_of=interleaved)),
]
