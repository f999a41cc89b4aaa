"""Graders of chapter 20, Sharding the training state."""

import math
import random
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, real, unaided, whole
from dtlib.exercises.judge import formula as judge_formula
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import Deadlock, RecordedTeam, TransportError, record_team

_GB = "in GB, please"


@grader("ex-thirteen-billion-sharded")
def thirteen_billion_sharded(answer: Any) -> str:
    a, b, c = items(answer, "(gb_a, gb_b, gb_c)", 3)
    number(a, 208, "(a)", "GB", mistakes={
        52: "weights and gradients are not all: Adam keeps 12 more bytes a parameter",
        156: "that is the optimizer alone",
        208e9: _GB,
    })  # fmt: skip
    number(b, 48.75, "(b)", "GB", mistakes={
        71.5: "that is stage 1: stage 2 cuts the gradients too",
        26: "that is stage 3: stage 2 keeps the weights whole",
        48.25: "close to a printed answer that is wrong: add the weights and an eighth of the rest",
        22.75: "the weights are there too, whole",
    })  # fmt: skip
    number(c, 6.5, "(c)", "GB", mistakes={
        31.6875: "that is stage 2: stage 3 cuts the weights too",
        26: "that is on 8 ranks",
    })  # fmt: skip
    return "each term by the number of its parts"


@grader("ex-optimizer-of-192")
def optimizer_of_192(answer: Any) -> str:
    one, two, three, devices = items(answer, "(gb_1, gb_2, gb_3, devices)", 4)
    optimizer_only = "that is the optimizer; weights and gradients are on the device, too"
    number(one, 88, "stage 1", "GB", mistakes={24: optimizer_only, 56: "gradients are whole, too"})
    number(two, 60, "stage 2", "GB", mistakes={
        24: optimizer_only, 28: "the weights are whole",
        56: "an eighth of the gradients is on the device",
    })  # fmt: skip
    number(three, 32, "stage 3", "GB", mistakes={24: optimizer_only})
    found = whole(devices, "(d)")
    if found != 32:
        if found in (16, 12):
            raise NotYet("(d): is the room for everything else left?")
        raise NotYet(f"(d): {'that does not fit' if found < 32 else 'fewer are enough'}")
    return "a part of the optimizer is a part of a part"


@grader("ex-five-percent")
def five_percent(answer: Any) -> str:
    a, b, c = items(answer, "(tokens, sequences_2k, sequences_8k)", 3)
    number(a, 30_000, "(a)", "tokens", tolerance=0.02, mistakes={
        1500: "that is where both take equally long",
        20_000: "stage 3 sends three times 2 bytes a parameter, not two times",
        10_000: "stage 3 gathers twice and scatters once",
        45_000: "forward and backward together are 6 operations for a parameter and token",
        90_000: "forward and backward together are 6 operations for a parameter and token",
        28_500: "5 % of the time of computing, not of the whole step",
    })  # fmt: skip
    for name, value, expected in (("(b)", b, 15), ("(c)", c, 4)):
        found = whole(value, name)
        if found != expected:
            side = "too few" if found < expected else "too many: the least that is enough"
            raise NotYet(f"{name}: {side}; a sequence is not divided")
    return "the same for every model: the parameters cancel"


@grader("ex-sixteen-micro-batches")
def sixteen_micro_batches(answer: Any) -> str:
    names = "abcdef"
    given = items(answer, "(a, b, c, d, e, f)", 6)
    mistakes = {
        "a": {64: "stage 1 keeps whole gradients: it communicates once a step"},
        "b": {
            64: "the weights are gathered once a step: nobody updates them in between",
            32: "the new weights are gathered, too",
            4: "stage 2 has no room for a whole gradient between micro-batches",
            68: "a reduce-scatter is half an all-reduce",
        },
        "c": {
            6: "that is one micro-batch",
            64: "gathered forward and backward, and scattered",
            66: "that is (d): here gradients are reduced in each micro-batch",
        },
        "d": {
            96: "whole gradients are kept, so they are reduced once",
            34: "weights are still gathered twice in each micro-batch",
            64: "once in the end the gradients are reduced",
        },
        "e": {
            66: "kept weights need no second gather",
            64: "whole gradients are kept, so they are reduced once",
            32: "once in the end the gradients are reduced",
            4: "after its backward pass a weight is dropped: the next micro-batch gathers it again",
        },
        "f": {
            34: "weights stay until the last backward pass: the next micro-batch finds them",
            66: "weights stay until the last backward pass: the next micro-batch finds them",
            2: "whole gradients are scattered once, too",
            6: "weights that are kept need no second gather",
        },
    }
    for name, value, expected in zip(names, given, (4, 34, 96, 66, 34, 4), strict=True):
        number(value, expected, f"({name})", "bytes", mistakes=mistakes[name])
    return "a byte count for each way to trade memory for bytes"


@grader("ex-what-stage-two-sends")
def what_stage_two_sends(answer: Any) -> str:
    def right(params, P, m):
        return (m + 1) * (P - 1) / P * 2 * params

    def printed(params, P, m):
        return m * 2 * (P - 1) / P * 2 * params

    def forgets_gather(params, P, m):
        return m * (P - 1) / P * 2 * params

    def gathers_always(params, P, m):
        return (2 * m + 1) * (P - 1) / P * 2 * params

    cases = [
        {"params": n, "P": P, "m": m}
        for n, P, m in ((7e9, 8, 1), (7e9, 8, 16), (1e6, 2, 3), (64, 1, 5), (13e9, 1024, 2))
    ]
    cases.remove({"params": 64, "P": 1, "m": 5})
    with unaided("dtlib.memory.zero.cost", write="the bytes"):
        judge_formula(
            answer,
            right,
            "stage_two_bytes(params, P, m)",
            cases,
            wrong=[
                (printed, "right for one micro-batch and too much for more: what is done once?"),
                (forgets_gather, "every rank needs the new weights of the others"),
                (gathers_always, "a reduce-scatter is half of an all-reduce"),
            ],
        )
    alone = real(call(answer, 64, 1, 5), "the bytes of one rank")
    if alone:
        raise NotYet("one rank alone sends nothing")
    return "a scatter for each micro-batch, and one gather"


@grader("ex-only-the-large-layers")
def only_the_large_layers(answer: Any) -> str:
    held, sent, forgotten = items(answer, "(gb_held, gb_sent, gb_forgotten)", 3)
    number(held, 1.5 + 2 + 14 / 64, "(a)", "GB", mistakes={
        16 * 7 / 64: "the small layers' weights are whole",
        1.5 + 16: "only the weights of the small layers are whole",
        1.5 + 4 + 12 / 64: "the small layers' gradients are cut",
    })  # fmt: skip
    number(sent, 63 / 64 * 40, "(b)", "GB", tolerance=0.004, mistakes={
        63 / 64 * 38: "the small layers' new weights reach the other ranks, too",
        63 / 64 * 42: "the small layers are gathered once, not twice",
        40: "a rank keeps its own part: it sends 63 of 64",
        38: "the small layers' new weights reach the other ranks, too",
    })  # fmt: skip
    number(forgotten, 63 / 64 * 2, "(c)", "GB", tolerance=0.004, mistakes={
        2: "a rank keeps its own part: it sends 63 of 64",
    })  # fmt: skip
    return "three journeys for large layers, two for small ones"


@grader("ex-who-has-the-same")
def who_has_the_same(answer: Any) -> str:
    hints = {
        "a": (8, "the ranks of one replica have different slices; what of the other replicas?"),
        "b": (8, "who works on the same samples, and who on others?"),
        "c": (64, "a norm is not divided by tensor parallelism, and stage 1 cuts no weights"),
        "d": (1, "stage 1 deals the moments of a slice out over its replicas"),
        "e": (1, "the ranks that had the same input now have a part of it each"),
    }
    _judge_dict(answer, hints, whole)
    return "copies of state across replicas, copies of activations within one"


@grader("ex-looking-ahead")
def looking_ahead(answer: Any) -> str:
    function(answer, "pass_time(gathers, computes, sizes, room)")
    draw = random.Random(20)

    def times(n):
        return [draw.choice((1, 2, 3, 5, 8, 13)) / draw.choice((1, 2, 4)) for _ in range(n)]

    cases = [([16] * 9, [10] * 9, [1] * 9, room) for room in (1, 2, 3, 9)]
    cases += [([3.0], [4.0], [5], 5), ([1.0, 9.0], [2.0, 3.0], [2, 7], 7)]
    for n in (2, 3, 7, 12):
        for _ in range(10):
            sizes = [draw.randint(1, 6) for _ in range(n)]
            room = max(sizes) + draw.choice((0, 1, 3, 8))
            cases.append((times(n), times(n), sizes, room))
    for gathers, computes, sizes, room in cases:
        where = f"{len(gathers)} layer{'s' * (len(gathers) > 1)} of sizes {sizes}, room {room}"
        arguments = (list(gathers), list(computes), list(sizes), room)
        given = real(call(answer, *arguments), f"{where}: the time", "s")
        expected = _pass_time(gathers, computes, sizes, room)
        if math.isclose(given, expected, rel_tol=1e-9):
            continue
        slips = [
            ({"room": 0}, "a gather may begin while earlier layers compute, if there is room"),
            ({"room": math.inf}, "there is no room for all that"),
            ({"own": 0}, "the layer that is gathered needs room itself"),
            ({"serial": False}, "the network does one gather at a time"),
        ]
        for change, hint in slips:
            other = _pass_time(gathers, computes, sizes, **{"room": room} | change)
            if math.isclose(given, other, rel_tol=1e-9):
                raise NotYet(f"{where}: {hint}")
        raise NotYet(f"{where}: your pass ends too {'late' if given > expected else 'early'}")
    return f"{len(cases)} passes of one to twelve layers, large and small"


def _pass_time(gathers, computes, sizes, room, own=1, serial=True):
    gathered, done = [], []
    for i, (gather, compute) in enumerate(zip(gathers, computes, strict=True)):
        first, taken = i, own * sizes[i]
        while first > 0 and taken + sizes[first - 1] <= room:
            first -= 1
            taken += sizes[first]
        start = gathered[-1] if serial and gathered else 0
        if first:
            start = max(start, done[first - 1])
        gathered.append(start + gather)
        done.append(max(gathered[-1], done[-1] if done else 0) + compute)
    return done[-1]


@grader("ex-norm-of-all-parts")
def norm_of_all_parts(answer: Any) -> str:
    import numpy as np

    function(answer, "clip(g, most, add)")
    draw = np.random.default_rng(20)
    cases = []
    for P, n, scale, most in ((1, 5, 1, 1.0), (2, 4, 3, 1.0), (3, 7, 1e-3, 1.0), (4, 6, 9, 0.3)):
        cases.append((list(scale * draw.normal(size=(P, n))), most))
    cases.append(([np.array([3.0, 0.0]), np.array([0.0, 4.0])], 5.0))
    cases.append(([np.zeros(3), np.zeros(3)], 1.0))
    for bad in (np.inf, -np.inf, np.nan):
        parts = list(draw.normal(size=(3, 4)))
        parts[1][2] = bad
        cases.append((parts, 1.0))
    for parts, most in cases:
        where = f"{len(parts)} rank{'s' * (len(parts) > 1)}"
        results = _each_rank(answer, parts, most, where)
        flat = np.concatenate(parts)
        if not np.isfinite(flat).all():
            for rank, result in enumerate(results):
                if result is not None:
                    own = "its own part is fine, but " if np.isfinite(parts[rank]).all() else ""
                    raise NotYet(
                        f"{where}: rank {rank} must skip the step: {own}the whole is not finite"
                    )
            continue
        if any(result is None for result in results):
            raise NotYet(f"{where}: a finite gradient is not to be skipped")
        norm = np.linalg.norm(flat)
        for rank, (part, result) in enumerate(zip(parts, results, strict=True)):
            found = np.asarray(result, dtype=float)
            if found.shape != part.shape:
                raise NotYet(f"{where}: rank {rank} returns shape {found.shape}, not {part.shape}")
            if np.allclose(found, part * min(1.0, most / norm if norm else 1.0), rtol=1e-4):
                continue
            own = np.linalg.norm(part)
            if np.allclose(found, part * min(1.0, most / own if own else 1.0), rtol=1e-4):
                raise NotYet(f"{where}: rank {rank} clips by the norm of its own part")
            if norm <= most:
                raise NotYet(f"{where}: the norm is below the bound; the gradient stays as it is")
            raise NotYet(f"{where}: rank {rank} has another part than the clipped whole's")
    return "one number added, and every rank decides alike"


def _each_rank(answer, parts, most, where):
    """The results of all ranks. A first round learns what each adds; a second gives the sum."""
    sums = []
    for g in parts:
        given = []
        _run_clip(answer, g, most, lambda x, given=given: given.append(float(x)) or 1.0)
        if len(given) != 1:
            raise NotYet(f"{where}: call add once; it was called {len(given)} times")
        sums.append(given[0])
    total = sum(sums)
    return [_run_clip(answer, g, most, lambda x: total) for g in parts]


def _run_clip(answer, g, most, add):
    import numpy as np

    try:
        with np.errstate(all="ignore"):
            result = answer(g.copy(), most, add)
    except NotImplementedError:
        raise NotYet("there is nothing here yet: the function raises NotImplementedError") from None
    except NotYet:
        raise
    except Exception as error:
        raise NotYet(f"clip raises {type(error).__name__}: {error}") from None
    return result


class _Vectors:
    """A rank's collectives for numpy vectors, on a recorded team."""

    def __init__(self, team: RecordedTeam):
        self.rank, self.size, self._team = team.rank, team.size, team

    def reduce_scatter(self, x):
        """This rank's part of the sum of all ranks' vectors."""
        x = _vector("reduce_scatter", x)
        if len(x) % self.size:
            raise NotYet(f"reduce_scatter: {len(x)} numbers cannot be cut into {self.size} parts")
        return self._team.reduce_scatter(x).numpy()

    def all_gather(self, part):
        """All ranks' parts, end to end."""
        return self._team.all_gather(_vector("all_gather", part)).numpy()


def _vector(operation: str, values):
    import numpy as np
    import torch

    x = np.array(values, dtype=float)
    if x.ndim != 1:
        raise NotYet(f"{operation} takes a vector, not an array of shape {x.shape}")
    return torch.from_numpy(x)


@grader("ex-one-step-of-stage-two")
def one_step_of_stage_two(answer: Any) -> str:
    import numpy as np

    function(answer, "step(weights, gradient, velocity, comm)")
    draw = np.random.default_rng(21)
    for P, n in ((1, 5), (2, 4), (2, 5), (3, 7), (4, 2), (4, 13)):
        where = f"{P} rank{'s' * (P > 1)}, {n} weights"
        weights, part = draw.normal(size=n), -(-n // P)
        velocities = [np.zeros(part) for _ in range(P)]
        mine = [weights.copy() for _ in range(P)]
        plain, v = weights.copy(), np.zeros(n)
        for _ in range(3):
            gradients = draw.normal(size=(P, n))
            v = 0.9 * v + gradients.mean(axis=0)
            plain = plain - 0.1 * v
            results, calls = _run_ranks(answer, mine, gradients, velocities, where)
            for rank, result in enumerate(results):
                new, velocity = items(result, f"{where}: (weights, velocity)", 2)
                new, velocity = np.asarray(new, float), np.asarray(velocity, float)
                if new.shape != (n,):
                    raise NotYet(f"{where}: rank {rank} returns weights of shape {new.shape}")
                if velocity.shape != (part,):
                    raise NotYet(
                        f"{where}: rank {rank} keeps a velocity of shape {velocity.shape}; "
                        "it owns one part"
                    )
                mine[rank], velocities[rank] = new, velocity
            _judge_calls(calls, P, n, where)
            if any(not np.allclose(mine[0], other, rtol=1e-12) for other in mine):
                raise NotYet(f"{where}: the ranks end with different weights")
            if not np.allclose(mine[0], plain, rtol=1e-9, atol=1e-12):
                raise NotYet(f"{where}: {_why(mine[0], plain, weights, gradients, n, P)}")
    return "three steps on one to four ranks, of lengths that divide and that do not"


def _run_ranks(answer, weights, gradients, velocities, where):
    """Every rank's result, and the calls of rank 0."""

    def program(team):
        own = [values[team.rank].copy() for values in (weights, gradients, velocities)]
        return call(answer, *own, _Vectors(team), passing=(TransportError,)), team.calls

    try:
        found = record_team(program, len(weights))
    except Deadlock:
        raise NotYet(f"{where}: some ranks wait in a collective that others never call") from None
    except NotYet as wrong:
        before, raises, error = wrong.reason.partition(") raises ")
        # inputs are long vectors: only what went wrong is said
        raise NotYet(f"{where}: {f'raises {error}' if raises else before}") from None
    return [result for result, _ in found], found[0][1]


def _judge_calls(calls, P, n, where):
    part = -(-n // P)
    names = [call.operation.replace("-", "_") for call in calls]
    if names != ["reduce_scatter", "all_gather"]:
        wanted = "one reduce_scatter of gradients, then one all_gather of weights"
        raise NotYet(f"{where}: a step needs {wanted}; it calls {', '.join(names) or 'neither'}")
    scattered, gathered = (call.numbers for call in calls)
    if scattered != P * part:
        raise NotYet(f"{where}: {scattered} numbers are scattered; fill up to the next multiple")
    if gathered != part:
        raise NotYet(f"{where}: each rank hands out {gathered} numbers, and owns another count")


def _why(found, plain, weights, gradients, n, P):
    import numpy as np

    moved, right = found - weights, plain - weights
    if np.allclose(moved, P * right, rtol=1e-6) and P > 1:
        return "the update is too large by the number of ranks: the mean, not the sum"
    return "the weights are not those of one process after the update"


@grader("ex-where-may-one-cut")
def where_may_one_cut(answer: Any) -> str:
    number_ = "with one number"
    hints = {
        "a": ("anywhere", "weight decay uses the number's own weight"),
        "b": (number_, "what does a rank need from the others, if it has its own part?"),
        "c": ("matrices", "does the nearest orthogonal matrix of half a matrix know the rest?"),
        "d": ("anywhere", "a sign is that of one number"),
        "e": ("rows", "which numbers does a norm of a row need?"),
        "f": ("matrices", "there is one norm for each matrix, not one for all"),
        "g": ("anywhere", "here every number is clipped by itself"),
    }
    allowed = ("anywhere", "rows", "matrices", number_)

    def word(value, what):
        if value not in allowed:
            raise NotYet(f"{what} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
        return value

    _judge_dict(answer, hints, word)
    return "an update may be cut where it does not look"


def _judge_dict(answer: Any, hints: dict, read) -> None:
    """Each letter's answer, read by `read`; the first wrong one gets its hint."""
    names = ", ".join(hints)
    if not isinstance(answer, dict) or set(answer) != set(hints):
        raise NotYet(f"pass a dict with {names}; got {answer!r}"[:200])
    wrong = [name for name, (right, _) in hints.items() if read(answer[name], f"({name})") != right]
    if wrong:
        more = f" ({len(wrong) - 1} more to come)" if len(wrong) > 1 else ""
        raise NotYet(f"({wrong[0]}): {hints[wrong[0]][1]}{more}")


@grader("ex-a-node-or-all")
def a_node_or_all(answer: Any) -> str:
    names = "(gb_full, gb_hybrid, seconds_full, seconds_hybrid)"
    full, hybrid, slow, fast = items(answer, names, 4)
    number(full, 1.25, "(a)", "GB", mistakes={40: "that is one node: 256 ranks share the state"})
    number(hybrid, 40, "(b)", "GB", mistakes={
        1.25: "that is full sharding: here each node has a whole copy",
        320: "that is the whole copy of a node; how many ranks share it?",
    })  # fmt: skip
    weights = 40e9
    once = 31 / 32 * weights / 8 / 50e9
    number(slow, 12 * once, "(c)", "s", tolerance=0.004, mistakes={
        3 * once: "four micro-batches, each of which gathers and scatters",
        96 * once: "a node's eight ports share what enters and leaves it",
        9 * once: "gathers in every micro-batch, and scatters too",
        8 * once: "two gathers and one scatter in each micro-batch",
        12 / 31 * 32 * once: "a node has its own thirty-second already",
    })  # fmt: skip
    number(fast, 2 * once, "(d)", "s", tolerance=0.004, mistakes={
        8 * once: "the sum across nodes is put off to the last micro-batch",
        16 * once: "a rank adds up its own part only",
        once: "an all-reduce is a scatter and a gather",
        2 / 31 * 32 * once: "a node has its own thirty-second already",
    })  # fmt: skip
    return "bytes between nodes bought with memory within them"
