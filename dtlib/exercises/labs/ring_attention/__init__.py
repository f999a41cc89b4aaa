"""The lab 'Ring attention'."""

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.labs.ring_attention import programs as ours
from dtlib.exercises.labs.ring_attention.laws import (
    attend_law,
    hop_law,
    merge_law,
    ring_law,
    thrifty_law,
    zigzag_law,
)
from dtlib.later import torch

# fmt: off
_SHARE = 65_536 // 4 * 4096 * 2
_MEAN = "that is the mean over the ranks: in which steps does nobody have a whole block?"

predict = Numbers(
    "ex-lab-ring-predict",
    About("Predict hops and bytes", "compute", 1, 8,
          "count hops, bytes and steps of a ring before running"),
    [
        Asked("hops", 3, slips={4: "in step 0 a rank uses keys of its own"}),
        Asked("sent_bytes", 6 * _SHARE, "bytes", {
              3 * _SHARE: "keys and values", 8 * _SHARE: "in step 0 a rank uses keys of its own",
              9 * _SHARE: "queries stay at home",
              24 * _SHARE: "how many tokens does one rank hold?",
              1.5 * _SHARE: "a hop carries all tokens of one rank",
              12 * _SHARE: "one rank, not two"}, tolerance=1e-6),
        Asked("contiguous", 3.5, slips={4: "the first step is a triangle for everybody",
              2.5: _MEAN, 2: _MEAN, 3: "the first step is not free"}),
        Asked("zigzag", 2, slips={4: "that is no mask", 3.5: "that is contiguous",
              1.5: "the first step counts too"}),
    ],
    "hops, bytes, and two ends; the ranks will be held to them",
    keyed=True,
)


def _with(program, **slip):
    """A function that makes a program with a slip, of as many arguments as the page asks for."""
    return lambda: lambda *args: program(*args, **slip)


merge = Made(
    "ex-lab-ring-merge",
    About("Merge two states", "design", 2, 12,
          "add softmax sums in one unit, with rows that have seen nothing", needs="torch"),
    merge_law,
    lambda: ours.merge,
    "right, for large scores and for rows that have seen no key on one side or on both",
    {
        "s of a row is wrong: in which unit": _with(ours.merge, unit="none"),
        "o of a row is wrong: it is counted": _with(ours.merge, o="added"),
        "s of a row": lambda: ours.overflowing_merge,
        "changes one of the states": lambda: ours.merge_in_place,
        "seen no key is not finite": _with(ours.merge, unit="bare"),
        "s or o is detached": lambda: lambda a, b: tuple(x.detach() for x in ours.merge(a, b)),
        "m is a float, not a tensor": lambda: lambda a, b: (1.0, 2.0, 3.0),
        "must have 3 items": lambda: lambda a, b: torch.zeros(2),
    },
)

attend = Made(
    "ex-lab-ring-attend",
    About("A block with a mask", "design", 2, 15,
          "compute the state of a block from global positions", needs="torch"),
    attend_law,
    lambda: ours.attend,
    "past, future, diagonal and shuffled blocks; no nan, forwards or backwards",
    {
        "1 / sqrt(d)": _with(ours.attend, scale=False),
        "a block with itself: m": _with(ours.attend, mask=False),
        "divide once, at the very end": _with(ours.attend, divide=True),
        "seen no key is not finite": _with(ours.attend, safe=False),
        "the gradient of q that the result":
            lambda: lambda q, k, v, *at: ours.attend(q.detach(), k.detach(), v, *at),
        "result o / s": lambda: ours.attend_with_constant_sum,
        "no gradient can pass":
            lambda: lambda *args: ours.attend(*(x.detach() for x in args)),
        "before": lambda: lambda q, k, v, *at: ours.attend(q, k, v, *map(torch.arange, (4, 5))),
    },
)

hop = OnRanks(
    "ex-lab-ring-hop",
    About("A hop with a way back", "design", 2, 12,
          "write a communication operator with its transpose", needs="torch"),
    "hop(comm, x)",
    ours.hop,
    hop_law,
    "to the right forwards, to the left backwards: each is the other's transpose",
    {
        "neighbour's; whoever got x knows its gradient": {"back": 1},
        "it is its own": {"back": None},
        "no graph behind it": lambda comm, x: ours.moved(comm, x, 1),
        "left-hand neighbour had": lambda comm, x: x * 1,
        "deadlock": lambda comm, x: comm.send(x, (comm.rank + 1) % comm.size),
    },
    sizes=(3, 2, 4),
)

ring = OnRanks(
    "ex-lab-ring-forward",
    About("The ring", "design", 3, 20, "write ring attention whose backward pass needs no code",
          needs="torch"),
    "ring_attention(comm, q, k, v, table)",
    ours.ring,
    ring_law,
    "forwards and backwards on 1 to 4 ranks, contiguous, zigzag and shuffled",
    {
        "P = 1: shuffled: out of rank 0": {"local": True},
        "out of rank": {"values": False},
        "sends more bytes": {"last": True},
        "P = 3: contiguous: out of rank": {"turn": 1},
        "P = 2: contiguous: out of rank 1":
            lambda c, q, k, v, at: ours.result(ours.attend(q, k, v, at[c.rank], at[c.rank])),
        "returns": lambda comm, q, k, v, table: q[:1],
    },
    sizes=(1, 2, 3, 4),
)

zigzag = Made(
    "ex-lab-ring-zigzag",
    About("Everybody has the same to do", "design", 2, 10,
          "deal a sequence so that a causal mask is balanced", needs="torch"),
    zigzag_law,
    lambda: ours.zigzag,
    "half a block for every rank in every step, on 1 to 8 ranks",
    {
        "than half a block": _with(ours.zigzag, turned=False),
        "in step 1 rank": lambda: lambda seq, P: torch.arange(seq).reshape(P, -1),
        "less than half a block": lambda: lambda seq, P: torch.arange(seq).reshape(-1, P).T,
        "exactly one rank": lambda: lambda seq, P: torch.zeros(P, seq // P),
        "the table has shape": lambda: lambda seq, P: torch.arange(seq),
    },
)

thrifty = OnRanks(
    "ex-lab-ring-thrifty",
    About("Skip without a deadlock", "repair", 3, 18,
          "skip what a mask forbids and keep the backward pass in step", needs="torch"),
    "thrifty_ring(comm, q, k, v, table)",
    ours.thrifty,
    thrifty_law,
    "right forwards and backwards, and nothing is computed that a whole quarter forbids",
    {
        "deadlock": {"keep": False},
        "products that the mask forbids": ours.ring,
        "the mask forbids": lambda *args: ours.ring(*args, by=ours.attend_by_broadcast),
    },
)
