"""The exercises of chapter 17, Sequence Parallelism, in the order of its page."""

import math
import random
from collections.abc import Iterator

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import items, real, whole
from dtlib.exercises.judges.arrays import same_array
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
GB, ms = 10**9, 1e-3

_SCORES, _TENSOR = 2 * 32 * 2**36, 2 * 2**15 * 4096

never_there = Numbers(
    "ex-never-there",
    About("The matrix that is never there", "compute", 1, 6,
          "count scores and buffers of a shared sequence", ("x17.1",)),
    [
        Asked("(a)", _SCORES, "bytes", {_SCORES / 32: "every head has scores of its own",
              _SCORES / 2: "a number has two bytes", _SCORES / 8: "all of them, not one rank's"}),
        Asked("(b)", _SCORES / 64, "bytes", {
              _SCORES / 8: "in one step a rank sees the keys of one rank only",
              _SCORES / 64 / 32: "every head has scores of its own"}),
        Asked("(c)", 4 * _TENSOR, "bytes", {2 * _TENSOR: "that is one pair; another one arrives",
              8 * _TENSOR: "a number has two bytes, and there are four tensors",
              4 * 8 * _TENSOR: "a rank has an eighth of the tokens"}),
    ],
    "terabytes that nobody keeps, a gigabyte that is kept",
)

_SHARE = 2**20 // 16 * 8192 * 2

ring_or_ulysses = Numbers(
    "ex-ring-or-ulysses",
    About("Ring or Ulysses", "compute", 1, 8,
          "count what two ways of sharing a sequence send", ("x17.2",)),
    [
        Asked("(a)", 30 * _SHARE, "bytes", {32 * _SHARE: "step 0 needs no hop",
              15 * _SHARE: "keys and values",
              15 * 1.5 * _SHARE: "keys and values, and bytes, not numbers"}),
        Asked("(b)", 4 * _SHARE * 15 / 16, "bytes", {
              3 * _SHARE * 15 / 16: "the result must come back too",
              4 * _SHARE: "a rank keeps what is for itself",
              4 * 16 * _SHARE * 15 / 16: "a rank sends its own share only"}),
        Asked("(c)", 16 / 9, slips={8: "that is without grouped heads",
              1: "Ulysses' queries and results are as large as before",
              9 / 16: "the ring's volume over Ulysses', not the other way round"}),
    ],
    "both volumes, and what grouped heads do to their ratio",
)

_FIRST = "step 0 uses the rank's own keys: there is no first transfer to wait for"
_BESIDE = "they run side by side"

eight_steps_seven_hops = Numbers(
    "ex-eight-steps-seven-hops",
    About("Eight steps, seven hops", "compute", 1, 6,
          "time steps and hops, side by side and in turns", ("x17.3",)),
    [
        Asked("(a)", 80 * ms, "s", {82 * ms: _FIRST, 94 * ms: _BESIDE}),
        Asked("(b)", 94 * ms, "s", {96 * ms: "after the last step nothing has to be sent",
              80 * ms: "they run in turns"}),
        Asked("(c)", 108 * ms, "s", {112 * ms: "the last step has no hop beside it",
              122 * ms: _FIRST, 178 * ms: _BESIDE,
              80 * ms: "of a step and the hop beside it the longer one counts"}),
    ],
    "seven hops beside eight steps",
)

_MEAN = "that is the mean over the ranks: in which step does nobody have a whole block?"

who_waits = Numbers(
    "ex-who-waits",
    About("Who waits", "compute", 1, 8,
          "tell work that is saved from time that is saved", ("x17.4",)),
    [
        Asked("(a)", 7.5, slips={8: "a rank's own block is skipped by nobody",
              15: "that is rank 0 alone"}),
        Asked("(b)", 15.5, slips={8.5: _MEAN, 8: _MEAN,
              16: "the first step is a triangle for everybody"}),
        Asked("(c)", 8, slips={7.5: "half a block in each step, the first one too",
              16: "that is no mask"}),
    ],
    "the work of the mean and the time of the slowest",
)

_QKV = 4096 * 4096 * 2

tiles_inside = Numbers(
    "ex-tiles-inside",
    About("Tiles inside the ring", "compute", 1, 6,
          "compare a score matrix with what is held instead", ("x17.7",)),
    [
        Asked("(a)", 2**35, "bytes", {2**34: "a number has two bytes",
              2**35 / 1024: "the whole matrix"}),
        Asked("(b)", 1024, slips={32: "both sides of the block are shorter"}),
        Asked("(c)", 3 * _QKV, "bytes", {4 * _QKV: "three tensors: the result is not asked for",
              _QKV: "that is one"}),
    ],
    "what is never held, and what is",
)

_State = tuple[float, float, float]
_NOTHING: _State = (-math.inf, 0.0, 0.0)


def _merge(a: _State, b: _State) -> _State:
    (ma, sa, oa), (mb, sb, ob) = a, b
    m = max(ma, mb)
    if m == -math.inf:
        return _NOTHING
    wa, wb = math.exp(ma - m), math.exp(mb - m)
    return m, wa * sa + wb * sb, wa * oa + wb * ob


def _state_of(keys: list[tuple[float, float]]) -> _State:
    m = max(score for score, _ in keys)
    weights = [math.exp(score - m) for score, _ in keys]
    return m, sum(weights), sum(w * value for w, (_, value) in zip(weights, keys, strict=True))


def _states() -> Iterator[tuple[str, tuple[_State, _State]]]:
    draw = random.Random(17)

    def state(scale: float) -> _State:
        count = draw.randint(1, 4)
        return _state_of([(scale * draw.gauss(0, 1), draw.uniform(-3, 3)) for _ in range(count)])

    sizes = {"equal": 0.0, "ordinary": 1.0, "some tens apart": 10.0, "large": 1e4}
    for where, scale in sizes.items():
        for _ in range(20):
            yield f"scores, {where}", (state(scale), state(scale))
    some = state(1.0)
    yield "no key on the left", (_NOTHING, some)
    yield "no key on the right", (some, _NOTHING)
    yield "no key on either side", (_NOTHING, _NOTHING)


def _same_state(given: _State, right: _State, *args: _State) -> None:
    if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != 3:
        raise NotYet("return a state, a tuple (m, s, o)")
    m, s, o = given
    if any(isinstance(part, float) and math.isnan(part) for part in given):
        raise NotYet("nan; what is -inf minus -inf?")
    if right == _NOTHING:
        if tuple(given) != _NOTHING:
            raise NotYet("the result has still seen no key, and must be the identity")
        return
    s, o = real(s, "s"), real(o, "o")
    if not math.isclose(real(m, "m"), right[0], rel_tol=1e-12, abs_tol=1e-12):
        raise NotYet("m is not the larger of the two maxima")
    if not math.isclose(s, right[1], rel_tol=1e-11):
        side = "large" if s > right[1] else "small"
        raise NotYet(f"s is too {side}: in which unit is each of the two sums counted?")
    if not math.isclose(o, right[2], rel_tol=1e-9, abs_tol=1e-9):
        raise NotYet("s is right and o is not; it has the same unit as s")


repair_the_merge = Function(
    "ex-repair-the-merge",
    About("Repair the merge", "repair", 2, 15,
          "add softmax sums that are counted in different units", ("x17.6",)),
    "my_merge(a, b)", _merge, _states, _same_state,
    "for equal, ordinary and large scores, and where there is no key at all",
    {"as on the page: the two sums are counted in different units":
        lambda a, b: (max(a[0], b[0]), a[1] + b[1], a[2] + b[2])},
)


def _deals() -> Iterator[tuple[str, tuple]]:
    pieces = np.arange(16).reshape(8, 2)
    deals = {
        "contiguous": np.arange(16).reshape(4, 4),
        "zigzag": np.concatenate([pieces[:4], pieces[:3:-1]], axis=1),
        "striped": np.arange(16).reshape(4, 4).T.copy(),
        "shuffled": np.random.default_rng(17).permutation(16).reshape(4, 4),
    }
    for name, table in deals.items():
        for r, queries in enumerate(table):
            for c, keys in enumerate(table):
                yield f"{name}, queries of rank {r}, keys of rank {c}", (queries, keys)
    yield "blocks of other sizes", (deals["shuffled"][0][:2], pieces[3])


def _same_mask(given, right, queries, keys) -> None:
    def pair(i, j, seen):
        sees = "must not see" if seen else "should see"
        return f"the query at {queries[i]} {sees} the key at {keys[j]}"

    same_array(given, right, "the table", place=pair)


def _seen(queries, keys):
    return queries[:, None] >= keys[None, :]


def _by_offset(queries, keys):
    return np.full((len(queries), len(keys)), keys[0] == 0)


repair_the_mask = Function(
    "ex-repair-the-mask",
    About("Repair the mask", "repair", 2, 12, "make a causal mask from global positions"),
    "my_seen(q_positions, k_positions)", _seen, _deals, _same_mask,
    "every pair of four layouts, one of them shuffled",
    {"as on the page: a block is neither past nor future, a pair is": _by_offset,
     "a token sees itself": lambda queries, keys: queries[:, None] > keys[None, :]},
)


def _bring_home(held: list, axis: int = 0) -> list:
    P, heads = len(held), held[0].shape[0]
    cut = held[0].shape[1] // P
    shares = [np.concatenate([x[:, r * cut : (r + 1) * cut] for x in held], axis) for r in range(P)]
    return [share.reshape(P * heads, cut, -1) for share in shares]


def _held() -> Iterator[tuple[str, tuple]]:
    for P, heads, cut, width in ((2, 1, 3, 2), (2, 2, 3, 2), (4, 2, 2, 3), (3, 4, 5, 1)):
        shape = (P, heads, cut * P, width)
        yield f"P = {P}, {heads} heads a rank", ([*np.arange(math.prod(shape)).reshape(shape)],)


def _same_shares(given, right, held) -> None:
    def place(h, t, _, entry):
        head, token = divmod(int(entry) // held[0].shape[2], held[0].shape[1])
        return f"in row {h}, at token {t}, stands a number of head {head}, token {token}"

    for r, share in enumerate(items(given, "the result", len(held))):
        same_array(share, right[r], f"rank {r}", place=place)


heads_come_home = Function(
    "ex-heads-come-home",
    About("Heads come home", "repair", 2, 15,
          "write the inverse of an all-to-all between tokens and heads"),
    "bring_home(held)", _bring_home, _held, _same_shares,
    "on 2, 3 and 4 ranks every head has its own numbers, in order",
    {"as on the page: it is heads that are put together, not tokens": {"axis": 1}},
)

_MOVED, _HOP = 4 * 2**15 * 8192 * 2 * 7 / 8, 2 * 2**18 * 1024 * 2
_STEP = 4 * 2.0**36 * 1024 / 989e12

two_million_tokens = Numbers(
    "ex-two-million-tokens",
    About("Two million tokens", "design", 2, 15,
          "combine Ulysses inside nodes with a ring between them", ("x17.5",)),
    [
        Asked("tokens", 2**15, slips={2**18: "all 64 share the sequence"}),
        Asked("all_to_all_bytes", _MOVED, "bytes", {
              _MOVED * 3 / 4: "the result must come back too",
              _MOVED * 8 / 7: "a GPU keeps what is for itself"}),
        Asked("hop_bytes", _HOP, "bytes", {
              _HOP * 8: "inside its node the GPU has an eighth of the heads",
              _HOP / 2: "keys and values"}),
        Asked("step_seconds", _STEP, "s", {
              _STEP / 2: "scores and weighted values: both cost arithmetic",
              _STEP / 8: "how many tokens do its queries have after the all-to-all?",
              _STEP * 8: "inside its node the GPU has an eighth of the heads"}),
        Asked("hop_seconds", _HOP / (50 * GB), "s", {7 * _HOP / (50 * GB): "one hop",
              _HOP * 8 / (50 * GB): "one GPU has its own port"}),
    ],
    "a hop hides many times over",
    keyed=True,
)


def _hops(seq: int, P: int, w: int) -> int:
    """Counted pair by pair."""
    n = seq // P
    pairs = ((q // n, k // n) for q in range(seq) for k in range(max(0, q - w + 1), q + 1))
    return max(q - k for q, k in pairs)


def _windows() -> Iterator[tuple[str, tuple[int, int, int]]]:
    for P, n in ((1, 4), (2, 4), (4, 4), (8, 3), (4, 1)):
        for w in (1, 2, n, n + 1, n + 2, 2 * n, 2 * n + 1, 2 * n + 2, P * n, P * n + 5):
            yield "", (P * n, P, w)


def _same_hops(given, right, seq, P, w) -> None:
    given = whole(given, "the number of hops")
    if right < P <= given:
        raise NotYet("after P - 1 hops everybody has met everybody")
    if given < right:
        raise NotYet("too few hops: the first query of a share looks back w - 1")
    if given > right:
        raise NotYet("too many hops: the keys of the last one are seen by nobody")


sliding_window = Function(
    "ex-sliding-window",
    About("A window makes the ring short", "design", 3, 20,
          "find how far keys must travel under another mask"),
    "hops(seq, P, w)", _hops, _windows, _same_hops,
    "counted pair by pair for 50 windows",
    {
        "too many hops: a token looks back w - 1": lambda seq, P, w: min(P - 1, -(-w * P // seq)),
        "everybody has met everybody after P - 1": lambda seq, P, w: -(-(w - 1) * P // seq),
    },
)


def _block_gradients(q, k, v, g, log_sum, c, *, local=False, lowered=True, scaled=True):
    scale = 1 / math.sqrt(q.shape[1])
    p = np.exp(scale * q @ k.T - log_sum[:, None])
    if local:
        p = p / p.sum(1, keepdims=True)
    dscores = (scale if scaled else 1) * p * (g @ v.T - lowered * c[:, None])
    return dscores @ k, dscores.T @ q, p.T @ g


def _blocks() -> Iterator[tuple[str, tuple]]:
    rng = np.random.default_rng(17)
    for queries, keys, d in ((3, 5, 4), (4, 4, 4), (1, 2, 9), (6, 1, 2)):
        q, g = rng.normal(size=(2, queries, d))
        k, v = rng.normal(size=(2, keys + 3, d))  # three keys lie in another block
        weights = np.exp(q @ k.T / math.sqrt(d))
        total = weights.sum(1)
        c = (g * (weights @ v / total[:, None])).sum(1)
        where = f"{queries} queries, {keys} keys, d = {d}"
        yield where, (q, k[:keys], v[:keys], g, np.log(total), c)


def _same_gradients(given, right, *args) -> None:
    found = zip(("dq", "dk", "dv"), items(given, "(dq, dk, dv)", 3), right, strict=True)
    for name, got, expected in reversed([*found]):
        same_array(got, expected, name, 1e-9)


gradients_of_a_block = Function(
    "ex-gradients-of-a-block",
    About("The gradients of a block", "derive", 3, 40,
          "derive the backward pass of attention block by block"),
    "my_block_gradients(q, k, v, g, log_sum, c)", _block_gradients, _blocks, _same_gradients,
    "dq, dk and dv of blocks that see a part of the keys",
    {
        "these weights add up to 1 in this block; use log_sum, which has seen all": {"local": True},
        "raising one weight lowers all others: what is c for?": {"lowered": False},
        "dq and dk lack the factor that the scores have, 1 / sqrt(d)": {"scaled": False},
    },
)
