"""The exercises of chapter 26, Failures and checkpoints, in the order of its page."""

import math
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from typing import Any

from dtlib.composition import failure_shares, fleet_mtbf, lagging_overhead
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import items, number
from dtlib.exercises.judges.disks import loses_nothing
from dtlib.exercises.judges.shares import pieces, plan, plan_law, same_pieces
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.disk import MANIFEST
from dtlib.foundations import failure_multiplier, failure_overhead, optimal_interval, young_interval

# fmt: off
_PARTS = {"GPU": (4096, 25e3), "host": (512, 8e3), "switch": (32, 100e3)}
_HOURS, _SHARES = fleet_mtbf(_PARTS), failure_shares(_PARTS)

rates_of_a_fleet = Numbers(
    "ex-rates-of-a-fleet",
    About("The rates of a fleet", "compute", 1, 8, "add rates of unlike parts", ("x26.1",)),
    [
        Asked("between", _HOURS, slips={
              (25e3 + 8e3 + 100e3) / 3 / 4640: "lives do not average; rates add",
              25e3 / 4096: "that is the GPUs alone",
              1 / _HOURS: "that is failures in an hour"}),
        Asked("hosts", _SHARES["host"], slips={
              512 / 4640: "that is their share of the parts, not of the failures",
              _SHARES["GPU"]: "that is the share of the GPUs"}),
        Asked("switches", _SHARES["switch"], slips={
              32 / 4640: "that is their share of the parts, not of the failures"}),
    ],
    "rates add, and the shares of the failures are the shares of the rates", keyed=True,
)

_WRITE, _TWO_HOURS = 30.0, 7200.0
_YOUNG = young_interval(_WRITE, _TWO_HOURS)
_FIRST = failure_overhead(_YOUNG, _WRITE, 0, _TWO_HOURS)
_EXACT = failure_multiplier(optimal_interval(_WRITE, _TWO_HOURS), _WRITE, 0, _TWO_HOURS) - 1

first_order_and_exact = Numbers(
    "ex-first-order-and-exact",
    About("First order, and exact", "derive", 2, 12,
          "tell a first-order overhead from the exact one", ("x26.2", "B.15")),
    [
        Asked("interval", _YOUNG, "s", {
              math.sqrt(_WRITE * _TWO_HOURS): "half an interval is lost, not a whole one: a 2",
              _TWO_HOURS / 2: "write and loss balance, whatever the mean time is"}),
        Asked("first_order", _FIRST, slips={
              _WRITE / _YOUNG: "that is what writing takes; and what a failure loses?",
              _WRITE / _YOUNG + _YOUNG / _TWO_HOURS: "a failure loses half an interval"}),
        Asked("exact", _EXACT, slips={_FIRST: "that is the first order again"}, tolerance=0.004),
        Chosen("written", "equal", {
               "more": "take the slope of the sum of both",
               "less": "take the slope of the sum of both"}),
    ],
    "at the optimum of the first order both halves are equal; exactly it costs a little more",
    keyed=True,
)


def _job(segments, interval, write, lag, restart, gaps, *, waits=True, anew=True, back=True):
    """The time of a job through failures that are given by the times between them."""
    clock, done = 0, 0
    for failure in accumulate(gaps):
        end = clock + (segments - done) * (interval + write)
        if end <= failure:
            return end
        if failure > clock:
            safe = (failure - clock - (lag if waits else 0)) // (interval + write)
            done += max(0, safe) if back else (failure - clock) / (interval + write)
        elif not anew:
            continue
        clock = failure + restart
    return clock + (segments - done) * (interval + write)


def _jobs() -> Iterator[tuple[str, tuple]]:
    yield from {
        "no failure": (3, 100, 10, 50, 20, []),
        "one, long after a save": (3, 100, 10, 50, 20, [190]),
        "one, before the save is safe": (3, 100, 10, 50, 20, [140]),
        "one, before any save": (2, 100, 10, 0, 20, [60]),
        "one within a restart": (2, 100, 10, 20, 40, [150, 30]),
        "many": (6, 50, 5, 30, 25, [70, 20, 130, 95, 300, 12, 12, 64]),
    }.items()


live_with_a_lag = Function(
    "ex-live-with-a-lag",
    About("Live with a lag", "design", 3, 25, "simulate a job through failures", ("C.14",)),
    "my_job(segments, interval, write, lag, restart, gaps)", _job, _jobs,
    lambda given, right, *args: number(given, right, "the time", tolerance=1e-9),
    "saves that are not safe yet are lost, and restarts that fail begin anew",
    {
        "a save helps only when the failure comes at least a lag after it": {"waits": False},
        "a failure within a restart begins the restart anew": {"anew": False},
        "work after the last safe save is done again": partial(_job, back=False),
    },
)

_BLOCK, _COPY, _LAG, _THREE_HOURS = 40.0, 2.5, 30.0, 10800.0
_WAITING, _GOING = young_interval(_BLOCK, _THREE_HOURS), young_interval(_COPY, _THREE_HOURS)
_LAGGING = lagging_overhead(_GOING, _COPY, _LAG, 0, _THREE_HOURS)

save_without_waiting = Numbers(
    "ex-save-without-waiting",
    About("Save without waiting", "compute", 1, 10, "price a lag beside a write", ("x26.3",)),
    [
        Asked("blocking_interval", _WAITING, "s", {
              young_interval(_LAG, _THREE_HOURS): "that is the interval of a write of 30 s",
              _GOING: "that is the interval of the copy"}),
        Asked("blocking", failure_overhead(_WAITING, _BLOCK, 0, _THREE_HOURS), slips={
              _BLOCK / _WAITING: "that is what writing takes; and what a failure loses?"}),
        Asked("interval", _GOING, "s", {
              _WAITING: "only what stops the job counts",
              young_interval(_LAG, _THREE_HOURS): "the lag has no say in the interval"}),
        Asked("lagging", _LAGGING, slips={
              _LAGGING - _LAG / _THREE_HOURS: "a failure loses the lag as well",
              _LAGGING - _GOING / 2 / _THREE_HOURS: "and half an interval",
              _COPY / _GOING: "that is what copying takes; and what a failure loses?"}),
    ],
    "a copy in memory is made often and costs little, and the lag is lost at each failure",
    keyed=True,
)

five_minutes = Formula(
    "ex-five-minutes",
    About("Five minutes at most", "derive", 2, 12, "turn a bound on lost work into a bandwidth"),
    "bandwidth(state, bound, k)", lambda state, bound, k: (k + 1) * state / bound,
    lambda: (("", case) for case in ((8e12, 300, 1), (1e12, 60, 1), (8e12, 300, 3), (5e9, 7, 2))),
    same_number,
    "k on their way and the one that is due: the bound holds k + 1 intervals",
    {
        "the worst failure comes just before a checkpoint has arrived: what is the last one that "
        "is safe then, and how old is it?": lambda state, bound, k: state / bound,
        "k on their way take k intervals each; the worst failure loses one more":
            lambda state, bound, k: k * state / bound,
        "for one at a time that is right; with k on their way, each takes k intervals":
            lambda state, bound, k: 2 * state / bound,
    },
)

most_gpus = Formula(
    "ex-most-gpus",
    About("However fast you save", "derive", 2, 12, "find the size that a restart allows"),
    "most(life, restart, share)",
    lambda life, restart, share: life / restart * -math.log(share),
    lambda: (("", case) for case in ((1.8e8, 600, 0.9), (1.8e8, 60, 0.9), (5e7, 300, 0.5))),
    same_number,
    "writes cost nothing in the limit, and restarts a factor of exp(P R / life)",
    {
        "that is the first order: restarts fail, too":
            lambda life, restart, share: life / restart * (1 / share - 1),
        "the share that is lost, to first order; which share of the time is work, exactly?":
            lambda life, restart, share: life / restart * (1 - share),
        "the logarithm has the other sign":
            lambda life, restart, share: life / restart * math.log(share),
    },
)


cut_again = Function(
    "ex-cut-again",
    About("Cut again", "design", 2, 20, "find which pieces a new layout reads", ("x26.4",)),
    "my_pieces(n, p, q)", pieces,
    lambda: ((f"{n} elements, {p} parts to {q}", (n, p, q))
             for n, p, q in ((16, 8, 4), (16, 4, 8), (12, 4, 3), (13, 4, 3), (7, 5, 2), (3, 2, 5))),
    same_pieces,
    "each new part from the old ones that it overlaps, uneven and empty parts too",
    {
        "parts are cut as torch.chunk cuts: equal ones, rounded up, then shorter": {"even": True},
        "start and stop count in the whole tensor": {"own": True},
        "where nothing overlaps nothing is read": {"empty": True},
    },
)

_OLD = {"a-10": "weights of step 10", "b-10": "moments of step 10", "manifest-10": ["a-10", "b-10"]}
_NEW = ["weights of step 20", "moments of step 20"]


def _save(disk, step, shards, *, synced=True, last=True, aside=True, fresh=True):
    names = [f"{letter}-{step if fresh else 10}" for letter in "ab"]
    manifest = f"{MANIFEST}{step}"

    def put(name, data):
        disk.write(name, data)
        if synced:
            disk.sync(name)

    def commit():
        put("next" if aside else manifest, names)
        if aside:
            disk.rename("next", manifest)

    if not last:
        commit()
    for name, data in zip(names, shards, strict=True):
        put(name, data)
    if last:
        commit()


manifest_last = Made(
    "ex-manifest-last",
    About("The manifest last", "design", 3, 25, "save so that a stop at any moment loses nothing"),
    lambda answer: loses_nothing(answer, _OLD, _NEW), lambda: _save,
    "wherever the machine stops, the newest checkpoint is whole",
    {
        "is missing": lambda: partial(_save, last=False),
        "is cut short": lambda: partial(_save, synced=False),
        "the newest manifest, 'manifest-20', is cut short": lambda: partial(_save, aside=False),
        "a file that manifest-10 names": lambda: partial(_save, fresh=False),
        "that of step 10": lambda: lambda disk, step, shards: None,
    },
)


def _restored(base, deltas, *, last=True):
    found = list(base)
    for delta in deltas[-1:] if last else deltas:
        found = [x + d for x, d in zip(found, delta, strict=True)]
    return found


def _same_state(given: Any, right: list, *args: Any) -> None:
    state = items(given, "the state", len(right))
    for place, (x, due) in enumerate(zip(state, right, strict=True)):
        if x != due:
            raise NotYet(f"weight {place} is not that of the last save")


deltas_of_a_base = Function(
    "ex-deltas-of-a-base",
    About("Deltas of a base", "repair", 1, 8, "say what a difference is a difference to"),
    "my_restored(base, deltas)", _restored,
    lambda: ((f"{len(deltas)} deltas", (base, deltas)) for base, deltas in (
        ([5, 1], []), ([5, 1], [[1, 0]]), ([5, 1], [[1, 0], [1, 2]]),
        ([0, 8, 3], [[1, 1, 1], [2, 0, -1], [2, 5, -3]]))),
    _same_state,
    "each delta is the distance from the base, so the last one says all",
    {"each delta holds all since the base; what is added twice then?": {"last": False}},
)

compress_or_not = Numbers(
    "ex-compress-or-not",
    About("Compress, or not", "compute", 2, 12, "find where compressing pays", ("x26.5",)),
    [
        Asked("sequential", 2.4e9, "bytes/s", {
              1.6e9: "compressing by r leaves a share 1/r to write: how much time does that save?",
              4e9: "that is where both run at once",
              10e9: "there the storage is faster than what comes out of the compressor"}),
        Asked("pipelined", 4e9, "bytes/s", {
              2.4e9: "the stages run at once: the slower one counts, not the sum",
              10e9: "is the compressor done as soon as the storage is?"}),
        Chosen("at_10", "plain", {
               "compressed": "what does the compressor let through in a second?"}),
    ],
    "below these, compressing saves time; at 10 GB/s the compressor is what one waits for",
    keyed=True,
)


shares_of_the_rest = Function(
    "ex-shares-of-the-rest",
    About("Shares of the rest", "repair", 2, 15,
          "keep the global batch on fewer ranks", ("x26.6",)),
    "my_plan(batch, ranks)", plan,
    lambda: ((f"{batch} rows on {ranks} ranks", (batch, ranks))
             for batch, ranks in ((8, 4), (8, 3), (2048, 64), (2048, 48), (5, 5))),
    plan_law,
    "the same rows in each step, and each rank's mean counts as its rows do",
    {
        "the global batch has changed": partial(plan, even=True),
        "a mean of means counts the rows of small shares more": partial(plan, equal=True),
    },
)

_REPLICAS, _STEP, _RESTART = 64, 10.0, 600.0
_BEST = optimal_interval(30, 54 * 86400 / 419)
_STOPPED = _RESTART + _BEST / 2
_ONE_AWAY = _STEP / 2 + _RESTART / _REPLICAS

stop_or_quorum = Numbers(
    "ex-stop-or-quorum",
    About("Stop, or vote", "compute", 2, 12, "price a failure under a restart and under a quorum"),
    [
        Asked("stop", _STOPPED, "s", {
              _RESTART: "and the work since the last save?",
              _RESTART + _BEST: "a failure comes in the middle of an interval, on average"}),
        Asked("quorum", _ONE_AWAY, "s", {
              _STEP / 2 + _RESTART: "one of 64 replicas is away, not all",
              _RESTART / _REPLICAS: "and the step that was cut short?",
              _STEP + _RESTART / _REPLICAS: "a failure comes in the middle of a step, on average"}),
    ],
    "a restart is paid for by all, a healing by one replica", keyed=True,
)


def _chances(nodes, lost, *, either=True, closed=True, swapped=False):
    sets, left = math.comb(nodes, lost), nodes - lost
    pairs = math.comb(nodes // 2, lost) * (2**lost if either else 1)
    ring = math.comb(left, lost) * nodes / left if closed else math.comb(left + 1, lost)
    found = pairs / sets, ring / sets
    return found[::-1] if swapped else found


def _same_chances(given: Any, right: tuple, *args: Any) -> None:
    names = "two by two", "around a ring"
    for name, mine, due in zip(names, items(given, "the chances", 2), right, strict=True):
        number(mine, due, f"the chance with buddies {name}", tolerance=1e-9)


pairs_or_a_ring = Function(
    "ex-pairs-or-a-ring",
    About("Pairs, or a ring", "derive", 3, 20, "compare placements of copies by what they survive"),
    "my_chances(nodes, lost)", _chances,
    lambda: ((f"{lost} of {nodes} nodes", (nodes, lost))
             for nodes, lost in ((8, 1), (8, 2), (8, 3), (6, 3), (20, 4), (12_500, 5))),
    _same_chances,
    "a ring has as many bad pairs as nodes, and buddies two by two half as many",
    {
        "of a pair either node may be the lost one": {"either": False},
        "in a ring the last node's buddy is the first": {"closed": False},
        "first buddies two by two, then the ring": {"swapped": True},
    },
)
