"""Graders of chapter 19, Where the memory goes."""

import math
import random
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, real, unaided, whole
from dtlib.exercises.verdict import NotYet

GB = 1e9


@grader("ex-state-of-thirteen-billion")
def thirteen_billion(answer: Any) -> str:
    total, *stages = items(answer, "(total, stage 1, stage 2, stage 3)", 4)
    number(
        total, 208 * GB, "the whole model state", "bytes",
        mistakes={
            26 * GB: "that is the file: the weights alone",
            156 * GB: "that is the optimizer's part alone",
            182 * GB: "the gradients are part of the state",
            208: "in bytes, please",
        },
    )  # fmt: skip
    each = {"weights": 26, "gradients": 26, "optimizer": 156}
    cut = (("optimizer",), ("optimizer", "gradients"), tuple(each))
    for stage, (value, parts) in enumerate(zip(stages, cut, strict=True), 1):
        right = sum(size / (8 if name in parts else 1) for name, size in each.items()) * GB
        number(
            value, right, f"a rank in stage {stage}", "bytes", tolerance=0.003,
            mistakes={
                48.25 * GB: "divide both parts again: 14 bytes for each parameter, in eight parts",
                right / GB: "in bytes, please",
                208 / 8 * GB: "this stage does not divide everything",
            } if stage < 3 else {},
        )  # fmt: skip
    return "what is divided shrinks to an eighth, what is not stays"


@grader("ex-three-crossovers")
def three_crossovers(answer: Any) -> str:
    with_dropout, without, share = items(answer, "(with dropout, without dropout, share)", 3)
    number(
        with_dropout, 870.4, "the length with dropout", "tokens", tolerance=0.002,
        mistakes={
            1408: "whose count is 22 and 2? The page derives another one",
            435.2: "34 and 5 are bytes: both, or neither, get a factor",
            1740.8: "34 and 5 are bytes: both, or neither, get a factor",
            217.6: "a head has 128 numbers here",
        },
    )  # fmt: skip
    number(
        without, 2048, "the length without dropout", "tokens",
        mistakes={
            2176: "without dropout the two masks of the stream are gone, too",
            819.2: "without dropout a score is kept once",
        },
    )  # fmt: skip
    number(
        share, 160 / 194, "the share of the scores",
        mistakes={
            160 / 34: "a share of all that the layer keeps, so below 1",
            16000 / 194: "as a share, not in percent",
            64 / 96: "that is the layer without dropout",
            0.485: "that share has a count with 34 for 68",
        },
    )  # fmt: skip
    return "a crossover belongs to a count: the same layer, three numbers"


KEPT = {"tanh(x)": 2, "3 * x": 0, "x.square()": 2, "x / y": 4, "exp(x) * y": 4, "x.mean()": 0}


@grader("ex-what-it-keeps")
def what_it_keeps(answer: Any) -> str:
    if not isinstance(answer, dict) or set(answer) != set(KEPT):
        raise NotYet(f"pass a dict with the keys {', '.join(KEPT)}")
    for name, right in KEPT.items():
        value = real(answer[name], name, "bytes")
        if value != right:
            side = "more than" if value < right else "less than"
            again = " (one storage that two operations keep counts once)" if "exp" in name else ""
            raise NotYet(f"{name}: {side} that. What must its derivative know?{again}")
    return "read off the derivative: an input, an output, both, or nothing"


@grader("ex-own-meter")
def own_meter(answer: Any) -> str:
    import torch
    from torch import nn

    meter = function(answer, "my_meter(function, x, besides)")
    torch.manual_seed(0)
    norm, linear = nn.LayerNorm(6), nn.Linear(6, 5)
    two = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 2))
    y, wide = (torch.randn(rows, 6, requires_grad=True) for rows in (4, 8))
    cases = [  # name, function, bytes, what a wrong one has done
        ("x.exp()", torch.exp, 96, "the output is what exp needs"),
        ("x.sum()", torch.sum, 0, "a sum keeps nothing"),
        ("x * y", lambda x: x * y, 192, "a product needs both factors: inputs, not outputs"),
        ("x * x", lambda x: x * x, 96, "one storage is saved twice; count it once"),
        ("two views of one tensor", lambda x: x.view(-1) * x.view(-1), 96, "views share bytes"),
        ("a slice", lambda x: x * wide[:4], 288, "a storage is kept whole, however little is used"),
        ("a linear layer", linear, 96, "its weight is there anyway, also as a view of it"),
        ("a layer norm", norm, 128, "its input and two numbers for each row; no weights"),
        ("three layers", two, 208, "tanh's output is the next layer's input: count it once"),
    ]
    for name, run, right, hint in cases:
        besides = list(run.parameters()) if isinstance(run, nn.Module) else []
        x = torch.randn(4, 6, requires_grad=True)
        with unaided("dtlib.memory.meter", "dtlib.memory.account.gpt", write="the hooks"):
            found = real(call(meter, run, x, besides), f"{name}: the bytes", "bytes")
        if found != right:
            raise NotYet(f"{name}: {'too many' if found > right else 'too few'} bytes; {hint}")
    short = torch.randn(4, 6, dtype=torch.bfloat16, requires_grad=True)
    if real(call(meter, torch.exp, short, []), "the bytes", "bytes") != 48:
        raise NotYet("x.exp() in 16 bits: the width of a number is the tensor's, not always 4")
    return "inputs and outputs, each storage once, weights not at all"


def _layer(b, s, h, a, dropout, flash):
    stream = (34 if dropout else 32) * b * s * h
    scores = 4 * a * b * s if flash else (5 if dropout else 2) * a * b * s * s
    return stream + scores


@grader("ex-doubled-bytes")
def doubled_bytes(answer: Any) -> str:
    layer = function(answer, "my_layer_bytes(b, s, h, a, dropout, flash)")
    generator = random.Random(19)
    hints = {
        (True, False): "the published count: is 34 a number of elements, and how many copies of "
        "a score are there?",
        (False, False): "without dropout: which rows of the list were masks, or copies after one?",
        (True, True): "fused attention with dropout: no scores at all; one number of four bytes "
        "for each head and token; the stream's masks stay",
        (False, True): "fused attention without dropout: one number for each head and token",
    }
    for (dropout, flash), hint in hints.items():
        for _ in range(6):
            b, s = generator.randint(1, 9), generator.randint(3, 4000)
            a = generator.randint(1, 64)
            h = a * generator.choice([16, 64, 128])
            with unaided("dtlib.models.work", "dtlib.models.activations",
                         "dtlib.memory.account.layers", write="the count"):  # fmt: skip
                found = real(call(layer, b, s, h, a, dropout, flash), "the bytes", "bytes")
            right = _layer(b, s, h, a, dropout, flash)
            if math.isclose(found, 2 * right, rel_tol=1e-9):
                raise NotYet(f"dropout={dropout}, flash={flash}: every byte is there twice")
            if not math.isclose(found, right, rel_tol=1e-9):
                raise NotYet(f"dropout={dropout}, flash={flash}: {hint}")
    return "four counts of one layer, in bytes"


@grader("ex-share-of-the-weights")
def share_of_the_weights(answer: Any) -> str:
    used, *stages = items(answer, "(of what is used, of stage 0, of stage 1, of stage 2)", 4)
    number(
        used, 14 / 120, "the share of what is used", tolerance=0.005,
        mistakes={
            14 / 80: "120 GB are in use, on whatever they lie",
            2 / 16: "of what is used",
            1400 / 120: "as a share, not in percent",
        },
    )  # fmt: skip
    for stage, (value, right) in enumerate(
        zip(stages, (2 / 16, 2 / (4 + 12 / 8), 2 / (2 + 14 / 8)), strict=True)
    ):
        number(
            value, right, f"the share in stage {stage}", tolerance=0.012,
            mistakes={
                2 / 16: "the whole has become smaller: what does a rank hold in this stage?",
                100 * right: "as a share, not in percent",
            } if stage else {14 / 16: "the weights that multiply have two of the sixteen bytes"},
        )  # fmt: skip
    return "the more of the rest is divided, the larger the weights' share of what stays"


@grader("ex-seventy-billion")
def seventy_billion(answer: Any) -> str:
    totals, counts = items(answer, "(three totals, three counts)", 2)
    names = ("Adam", "momentum", "plain SGD")
    for name, value, right in zip(
        names, items(totals, "the totals", 3), (1120, 840, 560), strict=True
    ):
        number(
            value, right * GB, f"the state with {name}", "bytes",
            mistakes={
                right: "in bytes, please",
                right * GB - 280 * GB: "the master copy of 4 bytes stays: the weights have 16 bits",
            },
        )  # fmt: skip
    for name, value, right in zip(names, items(counts, "the counts", 3), (14, 11, 7), strict=True):
        found = whole(value, f"the GPUs with {name}")
        if found < right:
            raise NotYet(f"{name}: {found} GPUs do not have so many bytes together")
        if found > right:
            raise NotYet(f"{name}: fewer would do, for the model state alone")
    return "a sum does not shrink when it is divided; what each holds does"


@grader("ex-reserved")
def reserved(answer: Any) -> str:
    unused, surcharge, of_moving = items(answer, "(unused, surcharge, of what moves)", 3)
    number(
        unused, 0.15, "the share that is not in use", tolerance=0.005,
        mistakes={15 / 85: "of what is reserved", 0.85: "the rest of it", 15: "as a share"},
    )  # fmt: skip
    number(
        surcharge, 15 / 85, "the surcharge", tolerance=0.005,
        mistakes={0.15: "on what is in use, not of what is reserved", 100 / 85: "without the 1"},
    )  # fmt: skip
    number(
        of_moving, 15 / 25, "the share of what comes and goes", tolerance=0.005,
        mistakes={15 / 60: "the state is what stays", 15 / 85: "60 of the 85 GB stay in place"},
    )  # fmt: skip
    return "three shares of the same 15 GB: of what they are says which"


@grader("ex-own-peak")
def own_peak(answer: Any) -> str:
    peak = function(answer, "my_peak(lives)")
    generator = random.Random(7)
    tests = [
        ([(5, 0, 2), (6, 2, 4), (1, 7, 9)], "one life begins when another is gone"),
        ([(3, 0, 4), (3, 1, 3), (2, 2, 5), (2, 3, 5)], "the four lives of the page"),
        ([(1, 0, 9), (4, 3, 4), (2, 3, 8)], "a life that lasts one moment"),
        ([(7, 2, 3)], "a single life"),
    ]
    for _ in range(30):
        lives = []
        for _ in range(generator.randint(1, 9)):
            born = generator.randint(0, 20)
            lives.append((generator.randint(1, 50), born, born + generator.randint(1, 12)))
        tests.append((lives, f"{len(lives)} random lives"))
    for lives, what in tests:
        alive = {t: sum(n for n, b, d in lives if b <= t < d) for t in range(40)}
        right = max(alive.values())
        with unaided("dtlib.memory.live", write="the sum"):
            found = items(call(peak, list(lives)), f"{what}: the result", 2)
        value, moment = real(found[0], f"{what}: the peak"), whole(found[1], f"{what}: the moment")
        if value != right:
            touching = max(sum(n for n, b, d in lives if b <= t <= d) for t in range(40))
            if value == touching:
                raise NotYet(f"{what}: at the moment when it dies a life is gone already")
            if value == sum(n for n, _, _ in lives):
                raise NotYet(f"{what}: that is the sum of all; not all live at one time")
            side = "too large" if value > right else "too small"
            raise NotYet(f"{what}: the peak is {side}")
        if alive.get(moment) != right:
            raise NotYet(f"{what}: the peak is right, but it is not at that moment")
        if moment != min(t for t in alive if alive[t] == right):
            raise NotYet(f"{what}: the peak is there earlier, too; the first moment is asked for")
    return "the largest sum of what lives at one time, and when"


@grader("ex-two-steps")
def two_steps(answer: Any) -> str:
    peaks = function(answer, "my_peaks(w, a)")
    for w, a in ((1.0, 0.5), (1.0, 2.0), (1.0, 5.0), (3.0, 1.0), (2.0, 7.0), (10.0, 0.1)):
        right = (max(w + max(a, w), 4 * w), 3 * w + max(a, w), 4 * w + a)
        wrong = (
            (w + max(a, w), "the update is a moment of the step, too: what has it just made?"),
            (max(2 * w + a, 4 * w), "gradients grow while activations shrink: never both whole"),
            (3 * w + max(a, w), "in the first step the moments are made by its update"),
            (4 * w + a, "freed gradients and activations are never there whole together"),
        )
        found = items(call(peaks, w, a), "(first, second, second if gradients stay)", 3)
        for name, value, expected in zip(
            ("first step", "second step", "second step, gradients kept"), found, right, strict=True
        ):
            value = real(value, name)
            if math.isclose(value, expected, rel_tol=1e-9):
                continue
            for other, hint in wrong:
                if math.isclose(value, other, rel_tol=1e-9):
                    kept = "kept gradients are there from the first moment of the second step"
                    raise NotYet(f"{name}, w = {w:g}, a = {a:g}: "
                                 f"{kept if 'kept' in name else hint}")  # fmt: skip
            side = "large" if value > expected else "small"
            raise NotYet(f"{name}, w = {w:g}, a = {a:g}: too {side}")
    return "which moments compete, and what each of them holds"


@grader("ex-sequences-in-forty")
def sequences_in_forty(answer: Any) -> str:
    each, count = items(answer, "(bytes of one sequence, sequences)", 2)
    stream, layer = 2048 * 4096 * 2, 2048 * (16 * 4096 + 4 * 32 + 8 * 11008)
    number(
        each, 8 * stream + 4 * layer, "bytes of one sequence", "bytes", tolerance=0.015,
        mistakes={
            32 * layer: "only every fourth layer's input is kept",
            8 * layer + 4 * layer: "what is kept at a border is the stream, not a whole layer",
            8 * stream + layer: "a segment has four layers, and all of it is there at once",
            8 * stream + 4 * layer + 10 * 2048 * 32000: "the logits are gone by then: at which "
            "moment is most alive?",
        },
    )  # fmt: skip
    found = whole(count, "sequences")
    room = 40e9 - 14e9 - 2 * 2 * 7e9 / 32
    if found * (7 * stream + 4 * layer) > room:
        raise NotYet(f"{found} sequences do not fit beside the state and two gathered layers")
    if (found + 1) * (8 * stream + 4 * layer) <= room:
        raise NotYet(f"{found} sequences fit, but one more would, too")
    return "state, gathered layers, borders, one segment: and no more"


@grader("ex-in-flight")
def in_flight(answer: Any) -> str:
    values = items(answer, "five numbers of bytes", 5)
    one = 12 * 2048 * 12288 * (34 + 5 * 96 * 2048 / 12288)
    cases = (
        ("GPipe, 8 micro-batches", 32 * one),
        ("GPipe, 32 micro-batches", 32 * one),
        ("1F1B, 8 micro-batches", 32 * one),
        ("1F1B, 32 micro-batches", 8 * one),
        ("interleaved, 32 micro-batches", 8 * one * (1 + 7 / 16)),
    )
    for (name, right), value in zip(cases, values, strict=True):
        number(
            value, right, name, "bytes",
            mistakes={
                8 * 32 * one: "a micro-batch is smaller when there are more of them",
                32 * 32 * one: "a micro-batch is smaller when there are more of them",
                one: "that is one sequence; how many are under way?",
                right / 12: "a stage has twelve layers",
                16 * one: "two stages on a rank have six layers each",
            } if not math.isclose(right, 32 * one, rel_tol=1e-9) else {
                8 * one: "with all the sequences of the batch: how many have not come back?",
                one: "that is one sequence; how many are under way?",
                8 * 32 * one: "a micro-batch is smaller when there are more of them",
                32 * 32 * one: "a micro-batch is smaller when there are more of them",
                right / 12: "a stage has twelve layers",
            },
        )  # fmt: skip
    return "sequences under way, whatever the number of pieces"
