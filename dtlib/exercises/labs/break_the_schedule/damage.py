"""Damaged schedules, and what their ranks hold, in letters."""

from dtlib.collectives.schedule import Schedule, Send


def patients() -> dict[str, Schedule]:
    """Three all-reduces on four ranks and two chunks, each with one thing wrong.

    >>> print(patients()["swapped"])
    swapped: 4 ranks, 2 chunks, 4 rounds, 12 messages
    round 0: 3→1 adds chunk 0, 2→0 adds chunk 0, 1→3 adds chunk 1, 0→2 adds chunk 1
    round 1: 0→1 adds chunk 0, 3→2 adds chunk 1
    round 2: 1→3 keeps chunk 0, 2→0 keeps chunk 1
    round 3: 1→3 keeps chunk 0, 0→2 keeps chunk 0, 3→1 keeps chunk 1, 2→0 keeps chunk 1
    """
    pairs = [Send(1, 0, 0, True), Send(3, 2, 0, True), Send(0, 1, 1, True), Send(2, 3, 1, True)]
    across = [Send(2, 0, 0, True), Send(1, 3, 1, True)]
    back = [Send(0, 2, 0), Send(3, 1, 1)]
    last = [Send(0, 1, 0), Send(2, 3, 0), Send(1, 0, 1), Send(3, 2, 1)]
    rounds = {
        "redundant": [pairs, across, [*back, Send(0, 3, 0)], last],
        "early": [[*pairs, across[0]], across[1:], back, last],
        "swapped": [pairs, across, [Send(0, 1, 0), Send(3, 2, 1)], last],
    }
    ranks = {"redundant": [0, 1, 2, 3], "early": [2, 0, 3, 1], "swapped": [1, 3, 0, 2]}
    return {name: Schedule(4, 2, rounds[name], name).relabelled(ranks[name]) for name in rounds}


def without(schedule: Schedule, t: int, send: Send) -> Schedule:
    """The schedule after its ``send`` of round ``t`` got lost; every other send stays.

    >>> from dtlib.collectives import tree_all_reduce
    >>> print(without(tree_all_reduce(2), 1, Send(0, 1, 0)))
    tree all-reduce with a lost send: 2 ranks, 1 chunk, 1 round, 1 message
    round 0: 1→0 adds chunk 0
    """
    rounds = [list(round) for round in schedule]
    if send not in rounds[t]:
        raise ValueError(f"round {t} of the {schedule.name} has no send {send}")
    rounds[t].remove(send)
    return Schedule(schedule.P, schedule.chunks, rounds, f"{schedule.name} with a lost send")


def letters(counts) -> str:
    """Contributions to one chunk as letters: rank 0 is a, and who counts twice stands twice.

    >>> letters([1, 0, 2])
    'acc'
    """
    return "".join(chr(ord("a") + r) * int(count) for r, count in enumerate(counts)) or "-"
