"""The lab 'Bucketed DDP from hooks'."""

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.labs.ddp_from_hooks import wrappers as ours
from dtlib.exercises.labs.ddp_from_hooks.laws import (
    accumulating_law,
    buckets_law,
    each_law,
    factor_law,
    flat_law,
    overlapped_law,
    robust_law,
)
from dtlib.foundations import TransformerSpec

# fmt: off
SPEC = TransformerSpec("lab", layers=2, hidden=64, heads=4, vocab=256, norm="rms", bias=False)
_BYTES = 4 * SPEC.params()
_CALLS = 3 + 8 * SPEC.layers


def _sent(name, steps):
    return Asked(name, 1.5 * _BYTES * steps, "bytes", {
        _BYTES * steps: "a rank sends more than it holds: count the phases of the ring",
        0.75 * _BYTES * steps: "that is one phase of a ring, and there are two",
        1.5 * _BYTES / 4 * steps: "bytes, please: how large is a float32?",
        1.5 * _BYTES * 4 / steps: "how many of the four backward passes communicate?",
        6 * _BYTES * steps: "that is all ranks together, or how many of the four passes?"},
        tolerance=1e-6)


predict = Numbers(
    "ex-ddp-predict",
    About("Predict calls and bytes", "compute", 1, 6,
          "count the all-reduces and the bytes of a step before running it"),
    [
        Asked("naive_calls", _CALLS, slips={SPEC.params(): "tensors",
              _CALLS - 1: "count the tables at both ends and the last norm"}),
        Asked("flat_calls", 1),
        _sent("sent_bytes", 1),
        _sent("sent_bytes_without_no_sync", 4),
    ],
    "calls and bytes of one rank; the real ranks will be held to them",
    keyed=True,
)

naive = OnRanks(
    "ex-ddp-naive",
    About("One all-reduce for each gradient", "design", 1, 8, "average gradients over replicas",
          needs="torch"),
    "average_each(module, comm)",
    ours.average_each,
    each_law,
    "on 2 to 4 replicas every gradient is that of the whole batch, one all-reduce for each",
    {
        "a sum is no mean": {"divide": False},
        "P = 2: the ranks hold different gradients of 0.weight": {"some": slice(1, None)},
        "the ranks hold different gradients": lambda module, comm: None,
        "never waits for its all-reduce 1": ours.average_each_without_waiting,
        "right, but in 1 all-reduce where 6": ours.average_flat,
        "right, but in 12": lambda *args: (ours.average_each(*args), ours.average_each(*args)),
    },
    sizes=(2, 3, 4),
)

flat = OnRanks(
    "ex-ddp-flat",
    About("One all-reduce for all", "design", 1, 8, "pack many small messages into one",
          needs="torch"),
    "average_flat(module, comm)",
    ours.average_flat,
    flat_law,
    "the same gradients, in one all-reduce",
    {
        "right, but in 6 all-reduces where 1 would do: put the gradients": ours.average_each,
        "P times too large": {"divide": False},
        "different gradients": {"copy_back": False},
        "another size than the gradients": {"padding": 3},
    },
    sizes=(2, 3, 4),
)

buckets = Made(
    "ex-ddp-buckets",
    About("Fill the buckets", "design", 2, 12,
          "cut a list of gradients where they become ready together", needs="torch"),
    buckets_law,
    lambda: ours.make_buckets,
    "from the last parameter to the first, filled to the cap and not beyond",
    {
        "begins with the parameter whose gradient is last": lambda: ours.forward_buckets,
        "holds more than the cap": lambda: ours.overfull_buckets,
        "had room in the one before": lambda: ours.counted_buckets,
        "more than the cap": lambda: lambda parameters, cap: [list(parameters)[::-1]],
        "in one bucket": lambda: lambda *args: ours.make_buckets(*args)[:-1],
        "a bucket is empty": lambda: lambda *args: [*ours.make_buckets(*args), []],
        "int where a list": lambda: lambda parameters, cap: 1,
    },
)

hooks = OnRanks(
    "ex-ddp-hooks",
    About("Start while backward runs", "design", 3, 25,
          "overlap communication with the backward pass by hooks and handles", needs="torch"),
    "Overlapped(module, comm, bucket_bytes)",
    ours.Overlapped,
    overlapped_law,
    "every bucket is on its way while backward still runs, and each step starts afresh",
    {
        "P = 2: the gradient of 0.weight is P times too large": ours.Summing,
        "waits inside the backward pass": ours.WaitingInHooks,
        "start after the backward pass": ours.AllAtTheEnd,
        "buckets start together": ours.WhenAllAreThere,
        "0.weight is read before wait": ours.Impatient,
        "changes the buffer of all-reduce 1 in flight": ours.DividingInFlight,
        "second step: the ranks hold different": ours.OneStepOnly,
        "buckets, or of other sizes": ours.BucketPerParameter,
        "rank 0 raised": ours.librarys,
    },
    sizes=(2, 3, 4),
)

no_sync = OnRanks(
    "ex-ddp-no-sync",
    About("Accumulate in silence", "repair", 2, 10, "communicate once for several micro-batches",
          needs="torch"),
    "Accumulating(module, comm, bucket_bytes)",
    ours.Accumulating,
    accumulating_law,
    "three micro-batches, one average, and the bytes of one step",
    {
        "no attribute 'no_sync'": ours.Overlapped,
        "starts inside no_sync: that average is paid for twice": ours.AlwaysSyncing,
        "never waits for its all-reduce 1": ours.NeverQuiet,
        "the ranks hold different gradients": ours.QuietForEver,
    },
    sizes=(2, 3),
)

loss_factor = OnRanks(
    "ex-ddp-loss-factor",
    About("Every token weighs the same", "derive", 2, 10,
          "weight unequal ranks so that their average is the mean over tokens", needs="torch"),
    "loss_factor(comm, tokens)",
    ours.loss_factor,
    factor_law,
    "each token weighs the same, on whichever rank it is, and a rank may have none",
    {
        "P times too small": {"rule": lambda P, N, own: 1 / N},
        "the weight of a rank's mean": {"rule": lambda P, N, own: own / N},
        "but this loss is a sum": {"rule": lambda P, N, own: P * own / N},
        "averages the ranks' means": lambda comm, tokens: 1 / tokens,
        "over ranks, not over tokens": lambda comm, tokens: 1.0,
    },
    sizes=(2, 3, 4),
)

robust = OnRanks(
    "ex-ddp-robust",
    About("What breaks it", "repair", 3, 20,
          "keep ranks in the same order, whatever their graphs do", needs="torch"),
    "Robust(module, comm, bucket_bytes)",
    ours.Robust,
    robust_law,
    "frozen, idle and tied parameters, and ranks that disagree about the order",
    {
        "a parameter frozen after it is wrapped: the ranks hold different": ours.Accumulating,
        "all ranks must reduce the same in the same order": ours.FlushingOutOfOrder,
        "frozen after it is wrapped: the ranks hold": ours.InOrderWithoutFlush,
        "a tied parameter: right, but 6 all-reduces for 4 buckets": ours.TiedTwice,
        "start after the backward pass": ours.AllAtTheEnd,
    },
    sizes=(2, 3, 4),
)
