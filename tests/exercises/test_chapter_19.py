"""Every check of chapter 19: the solution passes; the stub and wrong answers fail and say why."""

import torch
from exercise_cases import Case, EveryExercise

from dtlib.exercises.chapter_19 import KEPT
from dtlib.memory import saved_tensor_bytes

GB = 1e9
LAYER = 2048 * (16 * 4096 + 4 * 32 + 8 * 11008)
BORDER = 2048 * 4096 * 2
STAGE = 12 * 2048 * 12288 * (34 + 5 * 96 * 2048 / 12288)


def layer_bytes(b, s, h, a, dropout, flash):
    stream = (34 if dropout else 32) * b * s * h
    return stream + (4 * a * b * s if flash else (5 if dropout else 2) * a * b * s * s)


def doubled(b, s, h, a, dropout, flash):
    return 2 * layer_bytes(b, s, h, a, dropout, flash)


def published_only(b, s, h, a, dropout, flash):
    return 34 * b * s * h + 5 * a * b * s * s


def fewer(b, s, h, a, dropout, flash):
    return 22 * b * s * h + 2 * a * b * s * s


def flash_forgets(b, s, h, a, dropout, flash):
    return (34 if dropout else 32) * b * s * h if flash else layer_bytes(b, s, h, a, dropout, 0)


def borrowed(b, s, h, a, dropout, flash):
    from dtlib.models.work import layer_activation_bytes

    layer_activation_bytes(s, b, h, a)
    return layer_bytes(b, s, h, a, dropout, flash)


def peak_of(lives):
    changes = sorted([(born, n) for n, born, _ in lives] + [(dies, -n) for n, _, dies in lives])
    alive, best, when = 0, 0, 0
    for moment, change in changes:
        alive += change
        if alive > best:
            best, when = alive, moment
    return best, when


def brute_peak(lives):
    last = max(dies for _, _, dies in lives)
    sums = [sum(n for n, b, d in lives if b <= t < d) for t in range(last)]
    return max(sums), sums.index(max(sums))


def touching_peak(lives):
    last = max(dies for _, _, dies in lives)
    sums = [sum(n for n, b, d in lives if b <= t <= d) for t in range(last + 1)]
    return max(sums), sums.index(max(sums))


def sum_of_all(lives):
    return sum(n for n, _, _ in lives), 0


def last_moment(lives):
    best, _ = brute_peak(lives)
    last = max(dies for _, _, dies in lives)
    sums = [sum(n for n, b, d in lives if b <= t < d) for t in range(last)]
    return best, max(t for t, total in enumerate(sums) if total == best)


def borrowed_peak(lives):
    from dtlib.memory import Life, LiveSet

    last = max(dies for _, _, dies in lives)
    live = LiveSet([Life("", "", *life) for life in lives], [""] * last)
    return live.peak_bytes, live.fullest


def peaks(w, a):
    return max(w + max(a, w), 4 * w), 3 * w + max(a, w), 4 * w + a


def address(tensor):
    return tensor.untyped_storage().data_ptr()


def storage_bytes(tensor):
    return tensor.untyped_storage().nbytes()


def meter(function, x, besides, size=storage_bytes, key=address, without=True):
    there = {address(tensor) for tensor in besides} if without else set()
    kept, alive = {}, []

    def pack(tensor):
        alive.append(tensor)
        if address(tensor) not in there:
            kept[key(tensor) if key else len(alive)] = size(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(x)
    del result
    return sum(kept.values())


def twice(function, x, besides):
    return meter(function, x, besides, key=None)


def with_weights(function, x, besides):
    return meter(function, x, besides, without=False)


def parts_of_storages(function, x, besides):
    return meter(function, x, besides, size=lambda tensor: tensor.nbytes)


def four_bytes(function, x, besides):
    return meter(function, x, besides, size=lambda t: 4 * (storage_bytes(t) // t.element_size()))


def outputs(function, x, besides):
    return function(x).nbytes


def library_meter(function, x, besides):
    return saved_tensor_bytes(function, x, besides=besides)


def answers_by_heart(function, x, besides):
    return 96 if x.dtype == torch.float32 else 48


CASES = {
    "ex-state-of-thirteen-billion": Case(
        (208 * GB, 71.5 * GB, 48.75 * GB, 26 * GB),
        [
            ((208 * GB, 71.5 * GB, 48.25 * GB, 26 * GB), "divide both parts again"),
            ((26 * GB, 71.5 * GB, 48.75 * GB, 26 * GB), "that is the file"),
            ((208, 71.5, 48.75, 26), "in bytes"),
            ((208 * GB, 26 * GB, 48.75 * GB, 26 * GB), "does not divide everything"),
        ],
        secret=[208 * GB, 71.5 * GB, 48.75 * GB],
    ),
    "ex-three-crossovers": Case(
        (870.4, 2048, 160 / 194),
        [
            ((1408, 2048, 160 / 194), "whose count"),
            ((870.4, 2176, 160 / 194), "two masks"),
            ((870.4, 2048, 0.485), "34 for 68"),
        ],
        secret=[870.4, 2048, 0.8247],
    ),
    "ex-what-it-keeps": Case(
        dict(KEPT),
        [
            (KEPT | {"exp(x) * y": 6}, "less than that"),
            (KEPT | {"x / y": 2}, "more than that"),
            (KEPT | {"3 * x": 2}, "3 \\* x: less"),
            ({"tanh(x)": 2}, "pass a dict"),
        ],
    ),
    "ex-own-meter": Case(
        meter,
        [
            (outputs, "too many|too few"),
            (twice, "saved twice"),
            (with_weights, "weight is there anyway"),
            (parts_of_storages, "kept whole"),
            (four_bytes, "width of a number"),
            (library_meter, "write the hooks yourself"),
            (answers_by_heart, "a sum keeps nothing"),
        ],
    ),
    "ex-doubled-bytes": Case(
        layer_bytes,
        [
            (doubled, "every byte is there twice"),
            (published_only, "without dropout"),
            (fewer, "the published count"),
            (flash_forgets, "for each head and token"),
            (borrowed, "library's own"),
        ],
    ),
    "ex-share-of-the-weights": Case(
        (14 / 120, 1 / 8, 2 / 5.5, 2 / 3.75),
        [
            ((14 / 80, 1 / 8, 2 / 5.5, 2 / 3.75), "120 GB are in use"),
            ((14 / 120, 1 / 8, 1 / 8, 2 / 3.75), "become smaller"),
        ],
        secret=[14 / 120, 2 / 5.5, 2 / 3.75],
    ),
    "ex-seventy-billion": Case(
        ((1120 * GB, 840 * GB, 560 * GB), (14, 11, 7)),
        [
            (((1120 * GB, 840 * GB, 560 * GB), (2, 11, 7)), "do not have so many"),
            (((1120 * GB, 840 * GB, 560 * GB), (14, 11, 8)), "fewer would do"),
            (((1120 * GB, 560 * GB, 560 * GB), (14, 11, 7)), "master copy"),
        ],
        secret=[1120 * GB, 840 * GB, 560 * GB, 14],
    ),
    "ex-reserved": Case(
        (0.15, 15 / 85, 0.6),
        [
            ((15 / 85, 15 / 85, 0.6), "of what is reserved"),
            ((0.15, 0.15, 0.6), "on what is in use"),
            ((0.15, 15 / 85, 0.25), "the state is what stays"),
        ],
        secret=[0.15, 15 / 85, 0.6],
    ),
    "ex-own-peak": Case(
        peak_of,
        [
            (touching_peak, "gone already"),
            (sum_of_all, "not all live"),
            (last_moment, "earlier, too"),
            (borrowed_peak, "library's own"),
        ],
        also_right=[brute_peak],
    ),
    "ex-two-steps": Case(
        peaks,
        [
            (lambda w, a: (w + max(a, w), *peaks(w, a)[1:]), "the update is a moment"),
            (lambda w, a: (3 * w + max(a, w), *peaks(w, a)[1:]), "made by its update"),
            (lambda w, a: (peaks(w, a)[0], 4 * w + a, 4 * w + a), "never there whole"),
            (lambda w, a: (*peaks(w, a)[:2], 3 * w + max(a, w)), "from the first moment"),
        ],
    ),
    "ex-sequences-in-forty": Case(
        (8 * BORDER + 4 * LAYER, 18),
        [
            ((8 * LAYER + 4 * LAYER, 6), "not a whole layer"),
            ((8 * BORDER + 4 * LAYER + 10 * 2048 * 32000, 12), "gone by then"),
            ((8 * BORDER + 4 * LAYER, 19), "do not fit"),
            ((8 * BORDER + 4 * LAYER, 12), "one more would"),
        ],
        also_right=[(7 * BORDER + 4 * LAYER, 18)],
        secret=[8 * BORDER + 4 * LAYER, 18],
    ),
    "ex-in-flight": Case(
        (32 * STAGE, 32 * STAGE, 32 * STAGE, 8 * STAGE, 11.5 * STAGE),
        [
            ((8 * STAGE, 32 * STAGE, 32 * STAGE, 8 * STAGE, 11.5 * STAGE), "have not come back"),
            ((32 * STAGE, 32 * 32 * STAGE, 32 * STAGE, 8 * STAGE, 11.5 * STAGE), "is smaller"),
            ((32 * STAGE, 32 * STAGE, 32 * STAGE, STAGE, 11.5 * STAGE), "one sequence"),
            ((32 * STAGE, 32 * STAGE, 32 * STAGE, 8 * STAGE, 16 * STAGE), "six layers each"),
        ],
        secret=[32 * STAGE, 8 * STAGE, 11.5 * STAGE],
    ),
}


def test_the_listed_bytes_are_those_of_the_meter():
    x, y = (torch.ones(4, 8, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    functions = {
        "tanh(x)": torch.tanh, "3 * x": lambda x: 3 * x, "x.square()": torch.square,
        "x / y": lambda x: x / y, "exp(x) * y": lambda x: x.exp() * y, "x.mean()": torch.mean,
    }  # fmt: skip
    assert {name: saved_tensor_bytes(f, x) / x.numel() for name, f in functions.items()} == KEPT


class TestEveryExercise(EveryExercise):
    cases = CASES
