"""The exercises of chapter 19, Where the memory goes, in the order of its page."""

import random
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import call, function, items, number, real, whole
from dtlib.exercises.verdict import NotYet
from dtlib.later import torch

# fmt: off
GB = 1e9
_UNIT, _SHARE = "in bytes, please", "as a share, not in percent"
_NOT_ALL = "this stage does not divide everything"

thirteen_billion = Numbers(
    "ex-state-of-thirteen-billion",
    About("Thirteen billion", "compute", 1, 8,
          "add up a model's state, divided and not", ("x19.1",)),
    [
        Asked("the whole model state", 208 * GB, "bytes", {208: _UNIT,
              26 * GB: "that is the file: the weights alone",
              156 * GB: "that is the optimizer's part alone",
              182 * GB: "the gradients are part of the state"}),
        Asked("a rank in stage 1", 71.5 * GB, "bytes", {26 * GB: _NOT_ALL, 71.5: _UNIT}, 3e-3),
        Asked("a rank in stage 2", 48.75 * GB, "bytes", {26 * GB: _NOT_ALL, 48.75: _UNIT,
              48.25 * GB: "divide both parts again: 14 bytes a parameter, in eight parts"}, 3e-3),
        Asked("a rank in stage 3", 26 * GB, "bytes", {26: _UNIT}, 3e-3),
    ],
    "what is divided shrinks to an eighth, what is not stays",
)

_BOTH = "34 and 5 are bytes: both, or neither, get a factor"

three_crossovers = Numbers(
    "ex-three-crossovers",
    About("Three crossovers", "compute", 1, 10,
          "tie a crossover to the count that it comes from", ("x19.2", "x19.5")),
    [
        Asked("the length with dropout", 870.4, "tokens", {
              1408: "whose count is 22 and 2? The page derives another one",
              435.2: _BOTH, 1740.8: _BOTH, 217.6: "a head has 128 numbers here"}, 2e-3),
        Asked("the length without dropout", 2048, "tokens", {
              2176: "without dropout the two masks of the stream are gone, too",
              819.2: "without dropout a score is kept once"}),
        Asked("the share of the scores", 160 / 194, slips={
              160 / 34: "a share of all that the layer keeps, so below 1",
              16000 / 194: _SHARE, 64 / 96: "that is the layer without dropout",
              0.485: "that share has a count with 34 for 68"}),
    ],
    "a crossover belongs to a count: the same layer, three numbers",
)

KEPT = {"tanh(x)": 2, "3 * x": 0, "x.square()": 2, "x / y": 4, "exp(x) * y": 4, "x.mean()": 0}


def _kept_law(answer: Any) -> None:
    if not isinstance(answer, dict) or set(answer) != set(KEPT):
        raise NotYet(f"pass a dict with the keys {', '.join(KEPT)}")
    for name, right in KEPT.items():
        value = real(answer[name], name, "bytes")
        if value != right:
            side = "more than" if value < right else "less than"
            again = " (one storage that two operations keep counts once)" if "exp" in name else ""
            raise NotYet(f"{name}: {side} that. What must its derivative know?{again}")


what_it_keeps = Made(
    "ex-what-it-keeps",
    About("What it keeps", "compute", 1, 8, "read off a derivative what must be kept for it"),
    _kept_law, lambda: KEPT,
    "read off the derivative: an input, an output, both, or nothing",
    {
        "exp(x) * y: less than": lambda: KEPT | {"exp(x) * y": 6},
        "x / y: more than": lambda: KEPT | {"x / y": 2},
        "3 * x: less than": lambda: KEPT | {"3 * x": 2},
    },
)

share_of_the_weights = Numbers(
    "ex-share-of-the-weights",
    About("The share of the weights", "compute", 1, 8,
          "say of what a share is a share", ("x19.6",)),
    [
        Asked("the share of what is used", 14 / 120, "", {2 / 16: "of what is used",
              14 / 80: "120 GB are in use, on whatever they lie", 1400 / 120: _SHARE}, 5e-3),
        Asked("the share undivided", 2 / 16, "", {
              14 / 16: "the weights that multiply have two of the sixteen bytes"}, 0.012),
        *(Asked(f"the share in stage {stage}", 2 / held, "", {
                2 / 16: "the whole has become smaller: what does a rank hold in this stage?",
                200 / held: _SHARE}, 0.012)
          for stage, held in ((1, 4 + 12 / 8), (2, 2 + 14 / 8))),
    ],
    "the more of the rest is divided, the larger the weights' share of what stays",
)

_FEW = "so many GPUs do not have so many bytes together"
_TOTALS = [Asked(f"the state with {name}", state * GB, "bytes", {state: _UNIT,
                 (state - 280) * GB: "the master copy of 4 bytes stays: the weights have 16 bits"})
           for name, state in (("Adam", 1120), ("momentum", 840), ("plain SGD", 560))]
_GPUS = [Asked(f"the GPUs with {name}", count, "", {
               2: _FEW, count - 1: _FEW, count + 1: "fewer would do, for the model state alone"})
         for name, count in (("Adam", 14), ("momentum", 11), ("plain SGD", 7))]


def _states_law(answer: Any) -> None:
    totals, counts = items(answer, "(three totals, three counts)", 2)
    given = items(totals, "the totals", 3) + items(counts, "the counts", 3)
    for asked, value in zip(_TOTALS + _GPUS, given, strict=True):
        asked.judge(value)


seventy_billion = Made(
    "ex-seventy-billion",
    About("Seventy billion, three optimizers", "compute", 1, 10,
          "tell a total from what each rank holds", ("x19.7",)),
    _states_law, lambda: ((1120 * GB, 840 * GB, 560 * GB), (14, 11, 7)),
    "a sum does not shrink when it is divided; what each holds does",
    {
        "do not have so many": lambda: ((1120 * GB, 840 * GB, 560 * GB), (2, 11, 7)),
        "fewer would do": lambda: ((1120 * GB, 840 * GB, 560 * GB), (14, 11, 8)),
        "master copy": lambda: ((1120 * GB, 560 * GB, 560 * GB), (14, 11, 7)),
    },
)

reserved = Numbers(
    "ex-reserved",
    About("Reserved and in use", "compute", 1, 6,
          "tell what is reserved from what is in use", ("x19.8",)),
    [
        Asked("the share that is not in use", 0.15, "", {
              15 / 85: "of what is reserved", 0.85: "the rest of it", 15: "as a share"}, 5e-3),
        Asked("the surcharge", 15 / 85, "", {100 / 85: "without the 1",
              0.15: "on what is in use, not of what is reserved"}, 5e-3),
        Asked("the share of what comes and goes", 15 / 25, "", {
              15 / 60: "the state is what stays", 15 / 85: "60 of the 85 GB stay in place"}, 5e-3),
    ],
    "three shares of the same 15 GB: of what they are says which",
)


def _layer(b, s, h, a, dropout, flash, *, masked=False, scored=False, each=4):
    dropout, flash = dropout or masked, flash and not scored
    stream = (34 if dropout else 32) * b * s * h
    return stream + (each * a * b * s if flash else (5 if dropout else 2) * a * b * s * s)


def _layers() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(19)
    for dropout, flash, _ in product((True, False), (False, True), range(6)):
        b, s, a = draw.randint(1, 9), draw.randint(3, 4000), draw.randint(1, 64)
        h = a * draw.choice([16, 64, 128])
        yield f"dropout={dropout}, flash={flash}", (b, s, h, a, dropout, flash)


doubled_bytes = Function(
    "ex-doubled-bytes",
    About("Doubled bytes", "repair", 2, 15, "find bytes that were taken for elements"),
    "my_layer_bytes(b, s, h, a, dropout, flash)", _layer, _layers, same_number,
    "four counts of one layer, in bytes",
    {
        "every byte is there twice": lambda *layer: 2 * _layer(*layer),
        "as on the page: the published count is in bytes, and has more copies of a score":
            lambda b, s, h, a, *kind: 2 * (34 * b * s * h + a * b * s * s),
        "without dropout the masks are gone, and what is there because of one": {"masked": True},
        "flash keeps no score": {"scored": True},
        "flash keeps four bytes for each head and token": lambda *layer: _layer(*layer, each=0),
    },
)


def _peak(lives: list, *, touching: bool = False, first: bool = True) -> tuple[int, int]:
    """Summed up at every moment."""
    last = max(dies for _, _, dies in lives)
    sums = [sum(n for n, b, d in lives if b <= t < d + touching) for t in range(last + 1)]
    moments = [t for t, alive in enumerate(sums) if alive == max(sums)]
    return max(sums), moments[0 if first else -1]


def _lives() -> Iterator[tuple[str, tuple]]:
    yield "one life begins when another is gone", ([(5, 0, 2), (6, 2, 4), (1, 7, 9)],)
    yield "the four lives of the page", ([(3, 0, 4), (3, 1, 3), (2, 2, 5), (2, 3, 5)],)
    yield "a life that lasts one moment", ([(1, 0, 9), (4, 3, 4), (2, 3, 8)],)
    draw = random.Random(7)
    for _ in range(30):
        born = [draw.randint(0, 20) for _ in range(draw.randint(1, 9))]
        lives = [(draw.randint(1, 50), b, b + draw.randint(1, 12)) for b in born]
        yield f"{len(lives)} random lives", (lives,)


def _same_peak(given: Any, right: tuple[int, int], lives: list) -> None:
    peak, moment = items(given, "the result", 2)
    peak, moment = real(peak, "the peak"), whole(moment, "the moment")
    if peak != right[0]:
        if peak == sum(n for n, _, _ in lives):
            raise NotYet("that is the sum of all; not all live at one time")
        raise NotYet(f"the peak is too {'large' if peak > right[0] else 'small'}")
    if moment != right[1]:
        raise NotYet("the peak is right, but that is not the first moment at which it is reached")


own_peak = Function(
    "ex-own-peak",
    About("The fullest moment", "design", 2, 15,
          "find the largest sum of what lives at one time"),
    "my_peak(lives)", _peak, _lives, _same_peak,
    "the largest sum of what lives at one time, and when",
    {
        "at the moment when it dies a life is gone already": {"touching": True},
        "the peak is there earlier, too; the first moment is asked for": {"first": False},
    },
)

_STAGE = 12 * 2048 * 12288 * (34 + 5 * 96 * 2048 / 12288)  # of one sequence
_PIECES = "a micro-batch is smaller when there are more of them"
_BACK = {8: "with all the sequences of the batch: how many have not come back?"}
_SIX = {16: "two stages on a rank have six layers each"}

in_flight = Numbers(
    "ex-in-flight",
    About("In flight", "compute", 2, 15, "count what a pipeline's first rank keeps", ("C.5",)),
    [Asked(name, n * _STAGE, "bytes", {count * _STAGE: hint for count, hint in {
           8 * 32: _PIECES, 32 * 32: _PIECES, n / 12: "a stage has twelve layers",
           1: "that is one sequence; how many are under way?", **slips}.items()})
     for name, n, slips in (
         ("GPipe, 8 micro-batches", 32, _BACK), ("GPipe, 32 micro-batches", 32, _BACK),
         ("1F1B, 8 micro-batches", 32, _BACK), ("1F1B, 32 micro-batches", 8, _SIX),
         ("interleaved, 32 micro-batches", 8 * (1 + 7 / 16), _SIX))],
    "sequences under way, whatever the number of pieces",
)

_BORDER, _WHOLE = 2048 * 4096 * 2, 2048 * (16 * 4096 + 4 * 32 + 8 * 11008)

sequences_in_forty = Numbers(
    "ex-sequences-in-forty",
    About("Sequences in forty gigabytes", "design", 2, 20,
          "plan a batch by the fullest moment", ("x19.3",)),
    [
        Asked("bytes of one sequence", 8 * _BORDER + 4 * _WHOLE, "bytes", {
              32 * _WHOLE: "only every fourth layer's input is kept",
              12 * _WHOLE: "what is kept at a border is the stream, not a whole layer",
              8 * _BORDER + _WHOLE: "a segment has four layers, and all of it is there at once",
              8 * _BORDER + 4 * _WHOLE + 10 * 2048 * 32000:
                  "the logits are gone by then: at which moment is most alive?"}, 0.015),
        Asked("sequences", 18, slips={
              12: "these fit, but one more would, too; the logits are gone by then",
              17: "these fit, but one more would, too",
              19: "so many do not fit beside the state and two gathered layers"}),
    ],
    "state, gathered layers, borders, one segment: and no more",
)


def _peaks(w: float, a: float) -> tuple[float, float, float]:
    return max(w + max(a, w), 4 * w), 3 * w + max(a, w), 4 * w + a


def _same_peaks(given: Any, right: tuple, w: float, a: float) -> None:
    names = "first step", "second step", "second step, gradients kept"
    values = items(given, "(first, second, second if gradients stay)", 3)
    for name, value, expected in zip(names, values, right, strict=True):
        number(value, expected, name, tolerance=1e-9)


two_steps = Function(
    "ex-two-steps",
    About("Two steps on paper", "derive", 3, 25, "derive the peaks of two steps from their lives"),
    "my_peaks(w, a)", _peaks,
    lambda: (("", size) for size in ((1, 0.5), (1, 2), (1, 5), (3, 1), (2, 7), (10, 0.1))),
    _same_peaks,
    "which moments compete, and what each of them holds",
    {
        "the update is a moment of the first step, too: what has it just made?":
            lambda w, a: (w + max(a, w), *_peaks(w, a)[1:]),
        "in the first step the moments are made by its update":
            lambda w, a: (3 * w + max(a, w), *_peaks(w, a)[1:]),
        "gradients grow while activations shrink: never both whole":
            lambda w, a: (max(2 * w + a, 4 * w), *_peaks(w, a)[1:]),
        "freed gradients and activations are never there whole together":
            lambda w, a: (_peaks(w, a)[0], 4 * w + a, 4 * w + a),
        "kept gradients are there from the first moment of the second step":
            lambda w, a: (*_peaks(w, a)[:2], 3 * w + max(a, w)),
    },
)


def _meter(function, x, besides, *, size=lambda t: t.untyped_storage().nbytes(), once=True):
    there = {tensor.untyped_storage().data_ptr() for tensor in besides}
    kept = {}

    def pack(tensor):
        address = tensor.untyped_storage().data_ptr()
        if address not in there:
            kept[address if once else len(kept)] = size(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(x)
    del result  # until here every storage keeps its address
    return sum(kept.values())


def _metered() -> Iterator[tuple]:
    nn = torch.nn
    torch.manual_seed(0)
    y, wide = (torch.randn(rows, 6, requires_grad=True) for rows in (4, 8))
    yield "x.exp()", torch.exp, 96, "the output is what exp needs"
    yield "x.sum()", torch.sum, 0, "a sum keeps nothing"
    yield "x * y", lambda x: x * y, 192, "a product needs both factors: inputs, not outputs"
    yield "x * x", lambda x: x * x, 96, "one storage is saved twice; count it once"
    yield "two views", lambda x: x.view(-1) * x.view(-1), 96, "views share bytes"
    yield "a slice", lambda x: x * wide[:4], 288, "a storage is kept whole, however little is used"
    yield "a linear layer", nn.Linear(6, 5), 96, "its weight is there anyway, also as a view of it"
    yield "a layer norm", nn.LayerNorm(6), 128, "its input and two numbers for each row; no weights"
    layers = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 2))
    yield "three layers", layers, 208, "tanh's output is the next layer's input: count it once"
    width = "in 16 bits: the width of a number is the tensor's, not always 4"
    yield "x.exp()", lambda x: x.bfloat16().exp(), 48, width


def _meter_law(answer: Any) -> None:
    meter = function(answer, "my_meter(function, x, besides)")
    for name, run, right, hint in _metered():
        besides = [*run.parameters()] if isinstance(run, torch.nn.Module) else []
        x = torch.randn(4, 6, requires_grad=True)
        found = real(call(meter, run, x, besides), f"{name}: the bytes", "bytes")
        if found != right:
            raise NotYet(f"{name}: {'too many' if found > right else 'too few'} bytes; {hint}")


own_meter = Made(
    "ex-own-meter",
    About("A meter of your own", "design", 3, 30, "measure what autograd keeps", ("x19.4",),
          needs="torch"),
    _meter_law, lambda: _meter, "inputs and outputs, each storage once, weights not at all",
    {
        "saved twice": lambda: partial(_meter, once=False),
        "weight is there anyway": lambda: lambda function, x, besides: _meter(function, x, []),
        "kept whole": lambda: partial(_meter, size=lambda tensor: tensor.nbytes),
        "width of a number": lambda: partial(
            _meter, size=lambda t: 4 * t.untyped_storage().nbytes() // t.element_size()),
        "a sum keeps nothing": lambda: lambda function, x, besides: 96,
    },
)
